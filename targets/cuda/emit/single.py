"""Sums in float32: a multiply-add with an immediate for each weight that is not zero."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from packer.ir import DType
from targets.cuda.emit.element import widen
from targets.cuda.emit.ptx import Builder, f32
from targets.cuda.slices import long_weights

__all__ = ["Single"]


class Single:
    """Sums of one pixel, which begin as the bias; operands are float32."""

    pixels: ClassVar[int] = 1
    register: ClassVar[tuple[str, str]] = ("f", "f32")  # of an operand: kind, type of the instruction that moves it

    def __init__(self, builder: Builder, bias: np.ndarray) -> None:
        self._builder = builder
        self._sums = [builder.new("f", "mov.f32", f32(value)) for value in bias]

    @staticmethod
    def constants(weights: np.ndarray) -> np.ndarray:
        """The distinct values for the constant bank."""
        return long_weights(weights)

    @staticmethod
    def operand(b: Builder, dtype: DType, elements: Sequence[str]) -> str:
        """What `multiply` takes for the stored element of each pixel."""
        return widen(b, dtype, elements[0])

    def multiply(self, value: str, weights: np.ndarray) -> None:
        """Add `value` times each weight to its sum, one for one; weights of zero cost nothing."""
        bits = np.ascontiguousarray(weights, np.float32).view(np.uint32)
        for k in np.flatnonzero(weights).tolist():
            self._builder.emit(f"fma.rn.f32 {self._sums[k]}, {value}, 0f{int(bits[k]):08X}, {self._sums[k]}")

    def settle(self) -> None:
        """The end of a chunk: nothing to do."""

    def sums(self) -> list[list[str]]:
        """Registers of float32, for each pixel those of all sums."""
        return [self._sums]
