"""Reductions, scans and softmax."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from packer.ir.ops.base import Dependence, Op, Part
from packer.ir.ops.pointwise import saturate
from packer.ir.ops.region import box_before_reduction, full_along, reduction_dependence
from packer.ir.ops.shape import expect, expect_axes, expect_choice, expect_dtype, operands, with_shape, without_axes
from packer.ir.types import VALUE_TYPES, Box, DType, TensorType

__all__ = ["REDUCE_KINDS", "ArgReduce", "CumSum", "Reduce", "Softmax"]

REDUCE_KINDS = ("sum", "mean", "prod", "max", "min", "l1", "l2", "log_sum", "log_sum_exp", "sum_square")
_NUMBERS = tuple(dtype for dtype in VALUE_TYPES if dtype is not DType.BOOL)


@dataclass(frozen=True, slots=True)
class Reduce(Op):
    """Reduce over `axes` (sorted, >= 0); no axes: each entry by itself. Also GlobalAveragePool and GlobalMaxPool.

    f32 all kinds; integers sum, mean (truncating), prod, max, min, l1, l2 (truncating), sum_square, all wrapping but
    mean, which sums in 64 bits; bool max, min.
    Empty reductions give the neutral element (max of f32: -inf, log_sum_exp: -inf, ...), mean NaN or 0 for integers.
    """

    kind: str
    axes: tuple[int, ...]
    keepdims: bool = True

    def infer(self, inputs: Sequence[TensorType | None]) -> tuple[TensorType, ...]:
        (x,), _ = operands(inputs, 1)
        expect_choice("kind", self.kind, REDUCE_KINDS)
        if self.kind in ("log_sum", "log_sum_exp"):
            expect_dtype(self.kind, x, DType.F32)
        elif self.kind not in ("max", "min"):
            expect_dtype(self.kind, x, *_NUMBERS)
        expect_axes(self.axes, x.rank)
        return (with_shape(x, without_axes(x.shape, self.axes, self.keepdims)),)

    def dependence(self, inputs: Sequence[TensorType | None]) -> tuple[Dependence, ...]:
        (x,), _ = operands(inputs, 1)
        return reduction_dependence(x.rank, self.axes, self.keepdims)

    def part(self, box: Box, inputs: Sequence[TensorType | None]) -> Part:
        (x,), _ = operands(inputs, 1)
        return Part(self, (box_before_reduction(box, x.shape, self.axes, self.keepdims),), box)

    @np.errstate(all="ignore")
    def reference(self, x: np.ndarray) -> tuple[np.ndarray, ...]:
        y = np.asarray(self._reduce(x))
        return (saturate(y, x.dtype).reshape(without_axes(x.shape, self.axes, self.keepdims)),)

    def _reduce(self, x: np.ndarray) -> np.ndarray:
        def total(values: np.ndarray) -> np.ndarray:
            return np.asarray(np.sum(values, self.axes, values.dtype, keepdims=True))

        match self.kind:
            case "max" | "min":
                extreme = np.max if self.kind == "max" else np.min
                return np.asarray(extreme(x, self.axes, keepdims=True, initial=_neutral(self.kind, x.dtype)))
            case "prod":
                return np.asarray(np.prod(x, self.axes, x.dtype, keepdims=True))
            case "mean":
                return _mean(x, self.axes)
            case "sum":
                return total(x)
            case "l1":
                return total(np.abs(x))
            case "l2":
                return np.asarray(np.sqrt(total(np.square(x))))
            case "log_sum":
                return np.asarray(np.log(total(x)))
            case "log_sum_exp":
                top = np.max(x, self.axes, keepdims=True, initial=-np.inf)
                top = np.where(np.isfinite(top), top, 0)
                return np.asarray(np.log(total(np.exp(x - top))) + top)
            case _:
                return total(np.square(x))


@dataclass(frozen=True, slots=True)
class ArgReduce(Op):
    """Index (i64) of the largest or smallest entry along `axis`; the first one, or the last if `select_last`."""

    kind: str  # "max" or "min"
    axis: int
    keepdims: bool = True
    select_last: bool = False

    def infer(self, inputs: Sequence[TensorType | None]) -> tuple[TensorType, ...]:
        (x,), _ = operands(inputs, 1)
        expect_choice("kind", self.kind, ("max", "min"))
        expect_dtype("x", x, *_NUMBERS)
        expect_axes((self.axis,), x.rank)
        expect(x.shape[self.axis] > 0, f"entries along axis {self.axis}", x)
        return (TensorType(DType.I64, without_axes(x.shape, (self.axis,), self.keepdims)),)

    def dependence(self, inputs: Sequence[TensorType | None]) -> tuple[Dependence, ...]:
        (x,), _ = operands(inputs, 1)
        return reduction_dependence(x.rank, (self.axis,), self.keepdims)

    def part(self, box: Box, inputs: Sequence[TensorType | None]) -> Part:
        (x,), _ = operands(inputs, 1)
        return Part(self, (box_before_reduction(box, x.shape, (self.axis,), self.keepdims),), box)

    def reference(self, x: np.ndarray) -> tuple[np.ndarray, ...]:
        find = np.argmax if self.kind == "max" else np.argmin
        if self.select_last:
            index = x.shape[self.axis] - 1 - find(np.flip(x, self.axis), self.axis, keepdims=self.keepdims)
        else:
            index = find(x, self.axis, keepdims=self.keepdims)
        return (np.asarray(index, dtype=np.int64),)


@dataclass(frozen=True, slots=True)
class CumSum(Op):
    """Running sum along `axis`; integers wrap. https://onnx.ai/onnx/operators/onnx__CumSum.html"""

    axis: int
    exclusive: bool = False
    reverse: bool = False

    def infer(self, inputs: Sequence[TensorType | None]) -> tuple[TensorType, ...]:
        (x,), _ = operands(inputs, 1)
        expect_dtype("x", x, *_NUMBERS)
        expect_axes((self.axis,), x.rank)
        return (x,)

    def dependence(self, inputs: Sequence[TensorType | None]) -> tuple[Dependence, ...]:
        (x,), _ = operands(inputs, 1)
        return full_along((self.axis,), x.rank)

    def part(self, box: Box, inputs: Sequence[TensorType | None]) -> Part:
        return Part(self, (box,), box)

    @np.errstate(all="ignore")
    def reference(self, x: np.ndarray) -> tuple[np.ndarray, ...]:
        y = np.swapaxes(np.flip(x, self.axis) if self.reverse else x, 0, self.axis)
        if self.exclusive:
            y = np.concatenate([np.zeros_like(y[:1]), y[:-1]])
        y = np.swapaxes(np.cumsum(y, 0, x.dtype), 0, self.axis)
        return (np.ascontiguousarray(np.flip(y, self.axis) if self.reverse else y),)


@dataclass(frozen=True, slots=True)
class Softmax(Op):
    """Along `axes`, a run of neighbouring dimensions taken together; f32.

    Opset < 13 normalises over all trailing dimensions.
    `kind`: "softmax", "log_softmax" or "hardmax" (1 at the first maximum, else 0).
    """

    kind: str
    axes: tuple[int, ...]
    inplace: ClassVar[tuple[int, ...]] = (0,)

    def infer(self, inputs: Sequence[TensorType | None]) -> tuple[TensorType, ...]:
        (x,), _ = operands(inputs, 1)
        expect_choice("kind", self.kind, ("softmax", "log_softmax", "hardmax"))
        expect_dtype("x", x, DType.F32)
        expect_axes(self.axes, x.rank)
        neighbours = not self.axes or self.axes[-1] - self.axes[0] + 1 == len(self.axes)
        expect(neighbours, "neighbouring axes", self.axes)
        return (x,)

    def dependence(self, inputs: Sequence[TensorType | None]) -> tuple[Dependence, ...]:
        (x,), _ = operands(inputs, 1)
        return full_along(self.axes, x.rank)

    def part(self, box: Box, inputs: Sequence[TensorType | None]) -> Part:
        return Part(self, (box,), box)

    @np.errstate(all="ignore")
    def reference(self, x: np.ndarray) -> tuple[np.ndarray, ...]:
        if not x.size:
            return (x,)
        begin = self.axes[0] if self.axes else x.ndim
        count = math.prod(x.shape[axis] for axis in self.axes)
        rows = x.reshape(math.prod(x.shape[:begin]), count, -1)
        if self.kind == "hardmax":
            y = (np.arange(count)[:, None] == np.argmax(rows, 1)[:, None]).astype(x.dtype)
        else:
            shifted = rows - np.max(rows, 1, keepdims=True)
            powers = np.exp(shifted)
            total = np.sum(powers, 1, keepdims=True)
            y = powers / total if self.kind == "softmax" else shifted - np.log(total)
        return (y.reshape(x.shape),)


def _neutral(kind: str, dtype: np.dtype) -> float | int | bool:
    """What every entry replaces under "max" or "min"."""
    if dtype.kind == "f":
        return -np.inf if kind == "max" else np.inf
    if dtype.kind == "b":
        return kind == "min"
    limits = np.iinfo(dtype)
    return limits.min if kind == "max" else limits.max


def _mean(x: np.ndarray, axes: tuple[int, ...]) -> np.ndarray:
    count = math.prod(x.shape[axis] for axis in axes)
    if x.dtype.kind == "f":
        return np.asarray(np.sum(x, axes, x.dtype, keepdims=True) / x.dtype.type(count))
    total = np.sum(x, axes, np.int64 if x.dtype.kind == "i" else np.uint64, keepdims=True)
    quotient = np.abs(total) // max(1, count)
    return np.asarray(np.where(total < 0, np.negative(quotient), quotient))
