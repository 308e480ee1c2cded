"""Pointwise operators on bytes, which passes over quantised networks make."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from packer.ir.ops.base import Dependence, Op, Part
from packer.ir.ops.region import broadcast_box, pointwise
from packer.ir.ops.shape import broadcast, expect, expect_choice, expect_dtype, expect_length, expect_shape, operands
from packer.ir.types import Box, DType, TensorType

__all__ = ["MOST_SCALE", "Lookup", "QuantizedBinary"]

MOST_SCALE = float(1 << 32)  # of one level in others, so that no sum or product overflows


@dataclass(frozen=True, slots=True)
class Lookup(Op):
    """`y = table[x]`: any function of a byte. Inputs: x u8, table u8 [256]."""

    inplace: ClassVar[tuple[int, ...]] = (0,)

    def infer(self, inputs: Sequence[TensorType | None]) -> tuple[TensorType, ...]:
        (x, table), _ = operands(inputs, 2)
        expect_dtype("x", x, DType.U8)
        expect_dtype("table", table, DType.U8)
        expect_shape("table", table, (256,))
        return (x,)

    def dependence(self, inputs: Sequence[TensorType | None]) -> tuple[Dependence, ...]:
        (x, _), _ = operands(inputs, 2)
        return pointwise(x.rank)

    def part(self, box: Box, inputs: Sequence[TensorType | None]) -> Part:
        return Part(self, (box, ((0, 256),)), box)

    def reference(self, x: np.ndarray, table: np.ndarray) -> tuple[np.ndarray, ...]:
        return (np.asarray(table[x]),)


@dataclass(frozen=True, slots=True)
class QuantizedBinary(Op):
    """Sum or product of quantised tensors, with numpy broadcasting: `y = clip(round_half_even(v) + zeros[2], lo, hi)`.
    For `add` v is (a - zeros[0]) scales[0] + (b - zeros[1]) scales[1], for `mul` (a - zeros[0]) (b - zeros[1]) s, s
    being the product of the scales.

    Inputs: a u8, b u8. Everything is in float32, each operation rounded; a scale is one of an input by that of y.
    """

    kind: str
    zeros: tuple[int, ...]
    scales: tuple[float, ...]
    lo: int = 0
    hi: int = 255
    inplace: ClassVar[tuple[int, ...]] = (0, 1)

    def infer(self, inputs: Sequence[TensorType | None]) -> tuple[TensorType, ...]:
        (a, b), _ = operands(inputs, 2)
        expect_choice("kind", self.kind, ("add", "mul"))
        expect_dtype("a", a, DType.U8)
        expect_dtype("b", b, DType.U8)
        expect_length("zeros", self.zeros, 3)
        expect_length("scales", self.scales, 2)
        expect(all(0 <= zero <= 255 for zero in self.zeros), "zero points of bytes", self.zeros)
        expect(0 <= self.lo <= self.hi <= 255, "limits of bytes, lo no larger than hi", (self.lo, self.hi))
        expect(all(abs(scale) <= MOST_SCALE for scale in self.scales), f"scales of at most {MOST_SCALE}", self.scales)
        return (TensorType(DType.U8, broadcast(a.shape, b.shape)),)

    def dependence(self, inputs: Sequence[TensorType | None]) -> tuple[Dependence, ...]:
        (a, b), _ = operands(inputs, 2)
        return pointwise(max(a.rank, b.rank))

    def part(self, box: Box, inputs: Sequence[TensorType | None]) -> Part:
        (a, b), _ = operands(inputs, 2)
        return Part(self, (broadcast_box(box, a.shape), broadcast_box(box, b.shape)), box)

    def reference(self, a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, ...]:
        first, second = (x.astype(np.float32) - np.float32(z) for x, z in zip((a, b), self.zeros, strict=False))
        scales = [np.float32(scale) for scale in self.scales]
        if self.kind == "add":
            value = first * scales[0] + second * scales[1]
        else:
            value = first * second * (scales[0] * scales[1])
        low, high, zero = (np.float32(n) for n in (self.lo - self.zeros[2], self.hi - self.zeros[2], self.zeros[2]))
        return (np.asarray(np.rint(np.clip(value, low, high)) + zero).astype(np.uint8),)
