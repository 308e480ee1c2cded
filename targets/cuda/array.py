"""How values lie in device memory."""

from __future__ import annotations

import math
from dataclasses import dataclass

from packer.ir import DType
from targets.base import row_major

__all__ = ["Array"]


@dataclass(frozen=True, slots=True)
class Array:
    """A value in device memory: the element at an index lies `origin` and the sum of index times stride elements behind
    the pointer that kernels get. What lies between rows and planes is a halo of zeros, which nobody writes.
    """

    dtype: DType
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    origin: int = 0

    @classmethod
    def dense(cls, dtype: DType, shape: tuple[int, ...]) -> Array:
        """Row-major, without a halo."""
        return cls(dtype, shape, row_major(shape))

    @property
    def elements(self) -> int:
        """How many elements the value has."""
        return math.prod(self.shape)

    @property
    def is_dense(self) -> bool:
        """Whether it is row-major without gaps."""
        return self.origin == 0 and all(
            stride == own
            for stride, own, extent in zip(self.strides, row_major(self.shape), self.shape, strict=True)
            if extent > 1
        )
