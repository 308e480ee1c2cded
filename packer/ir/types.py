"""Element types and tensor types: the whole type system of the IR."""

from __future__ import annotations

import enum
import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

__all__ = ["SINGLE", "VALUE_TYPES", "Block", "Box", "DType", "TensorType", "extents_of", "whole"]

Box = tuple[tuple[int, int], ...]  # a part of a tensor: begin and end along each dimension


class DType(enum.IntEnum):
    """Element type; the numbers are those of the bundle format and are never re-used."""

    F32 = 1
    U8 = 2
    I8 = 3
    U16 = 4
    I16 = 5
    I32 = 6
    I64 = 7
    U32 = 8
    U64 = 9
    BOOL = 10
    F16 = 11  # of packed weights only, as BF16
    BF16 = 12

    @property
    def numpy(self) -> np.dtype:
        """The numpy dtype with the same element layout; BF16 is carried as its bits."""
        return _NUMPY[self]

    @property
    def bytes(self) -> int:
        """Size of one element in bytes."""
        return self.numpy.itemsize

    @property
    def is_float(self) -> bool:
        return self is DType.F32

    @classmethod
    def of(cls, dtype: np.dtype | type) -> DType:
        """The element type of a numpy dtype; raises KeyError for one the IR does not have."""
        return _FROM_NUMPY[np.dtype(dtype)]


_NUMPY: dict[DType, np.dtype] = {
    DType.F32: np.dtype(np.float32),
    DType.U8: np.dtype(np.uint8),
    DType.I8: np.dtype(np.int8),
    DType.U16: np.dtype(np.uint16),
    DType.I16: np.dtype(np.int16),
    DType.I32: np.dtype(np.int32),
    DType.I64: np.dtype(np.int64),
    DType.U32: np.dtype(np.uint32),
    DType.U64: np.dtype(np.uint64),
    DType.BOOL: np.dtype(np.bool_),
}
_FROM_NUMPY = {value: key for key, value in _NUMPY.items()}
VALUE_TYPES = tuple(_NUMPY)  # what the values of a graph may have
_NUMPY |= {DType.F16: np.dtype(np.float16), DType.BF16: np.dtype(np.uint16)}


@dataclass(frozen=True, slots=True)
class TensorType:
    """Element type and static shape (elements per dimension, row-major order)."""

    dtype: DType
    shape: tuple[int, ...]

    @property
    def rank(self) -> int:
        return len(self.shape)

    @property
    def elements(self) -> int:
        return math.prod(self.shape)

    @property
    def bytes(self) -> int:
        return self.elements * self.dtype.bytes

    def __str__(self) -> str:
        return f"{self.dtype.name.lower()}[{','.join(map(str, self.shape))}]"


class Block(NamedTuple):
    """Neighbouring weights that are zero together or not at all: those of so many filters of a convolution, or columns
    of a matrix, of so many input channels."""

    filters: int
    channels: int

    @property
    def size(self) -> int:
        return self.filters * self.channels

    def __str__(self) -> str:
        return f"{self.filters}x{self.channels}"


SINGLE = Block(1, 1)


def whole(type: TensorType) -> Box:
    """The box that is all of a tensor."""
    return tuple((0, extent) for extent in type.shape)


def extents_of(box: Box) -> tuple[int, ...]:
    """The shape of what lies in a box."""
    return tuple([end - begin for begin, end in box])
