"""Convolution and matrix product of bytes, requantised to bytes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from packer.ir.ops.base import Dependence, Op, Part
from packer.ir.ops.conv import Conv
from packer.ir.ops.shape import expect, expect_dtype, expect_length, expect_shape, operands, with_shape
from packer.ir.types import Box, DType, TensorType

__all__ = ["MOST_TERMS", "QuantizedConv", "QuantizedMatMul", "expect_together", "whole_groups"]

MOST_TERMS = 1 << 16  # products of an unsigned and a signed byte of which the sum is sure to fit 32 bits


def whole_groups(w: np.ndarray, group: int) -> tuple[np.ndarray, int, int]:
    """Weights [K,C/group,kernel] and groups that compute the same with channels of groups in multiples of 16, one
    group, or one filter for each channel: neighbouring groups together, with weights of zero between them. And how
    many are together."""
    filters, channels = w.shape[0] // group, w.shape[1]
    if group == 1 or (filters, channels) == (1, 1):
        return w, group, 1
    fitting = (m for m in range(1, group) if group % m == 0 and m * filters % 16 == m * channels % 16 == 0)
    together = next(fitting, group)
    wide = np.zeros((group // together, together, filters, together, channels, *w.shape[2:]), w.dtype)
    for i in range(together):
        wide[:, i, :, i] = w.reshape(group // together, together, filters, channels, *w.shape[2:])[:, i]
    return wide.reshape(w.shape[0], together * channels, *w.shape[2:]), group // together, together


def expect_together(together: int, group: int, w: TensorType) -> None:
    """Raise ShapeError unless each group of weights w can be so many smaller ones."""
    divides = together >= 1 and w.shape[0] // group % together == 0 and w.shape[1] % together == 0
    expect(divides, "as many groups together as divide their channels", together)


def _float_like(type: TensorType) -> TensorType:
    return TensorType(DType.F32, type.shape)


def _expect_levels(what: str, zero: int, lo: int, hi: int) -> None:
    expect(0 <= lo <= hi <= 255 and 0 <= zero <= 255, f"{what} of bytes, lo no larger than hi", (zero, lo, hi))


def _requantized(sums: np.ndarray, scale: np.ndarray, zero: int, lo: int, hi: int) -> np.ndarray:
    """`clip(round_half_even(sums * scale) + zero, lo, hi)` less zero, in float32."""
    return np.asarray(
        np.rint(
            np.clip(sums.astype(np.float32) * scale.astype(np.float32), np.float32(lo - zero), np.float32(hi - zero))
        )
    )


@dataclass(frozen=True, slots=True)
class QuantizedConv(Op):
    """Convolution of quantised tensors: `y = clip(round_half_even(scale sums) + y_zero, lo, hi)`, sums being those of
    (x - x_zero) w, in integers, plus the bias. Padding counts as x_zero.

    Inputs: x u8 [N,C,spatial], w i8 [K,C/group,kernel], scale f32 [K] (of x times of w by of y), bias i32 [K], optional
    residual u8 like y. With a residual r the result so far is a middle one, q, and
    `y = clip(round_half_even((q - y_zero) sum_scales[0] + (r - sum_levels[0]) sum_scales[1]) + sum_levels[1],
    sum_levels[2], sum_levels[3])`. With one of `sum_scales` the same, without the residual's term. Everything but
    integers is in float32, each operation rounded. The channels of groups, if there are several, are multiples of 16,
    or there is one filter for each channel; then `mean` divides scales by the taps that do not lie in the padding.
    `together`: each group is so many smaller ones, the weights between which are zero.
    """

    strides: tuple[int, ...]
    pads: tuple[int, ...]
    dilations: tuple[int, ...]
    group: int
    x_zero: int
    y_zero: int
    lo: int = 0
    hi: int = 255
    sum_scales: tuple[float, ...] = ()
    sum_levels: tuple[int, ...] = ()
    mean: bool = False
    together: int = 1
    inplace: ClassVar[tuple[int, ...]] = (4,)

    def infer(self, inputs: Sequence[TensorType | None]) -> tuple[TensorType, ...]:
        (x, w, scale, bias), (residual,) = operands(inputs, 4, 1)
        expect_dtype("x", x, DType.U8)
        expect_dtype("w", w, DType.I8)
        expect_dtype("scale", scale, DType.F32)
        expect_dtype("bias", bias, DType.I32)
        y = with_shape(x, self._conv().infer((_float_like(x), _float_like(w), scale))[0].shape)
        expect_shape("bias", bias, w.shape[:1])
        expect(0 <= self.x_zero <= 255, "x_zero of a byte", self.x_zero)
        expect(math.prod(w.shape[1:]) <= MOST_TERMS, f"at most {MOST_TERMS} products an output", w)
        if self.group > 1 and not self.depthwise(w):
            whole_blocks = w.shape[1] % 16 == 0 and w.shape[0] // self.group % 16 == 0
            expect(whole_blocks, "groups of multiples of 16 channels, or of one", w)
        expect_together(self.together, self.group, w)
        expect(not self.mean or w.shape[1] == 1, "means of one filter for each channel", w)
        _expect_levels("levels", self.y_zero, self.lo, self.hi)
        if residual is not None:
            expect(residual == y, f"a residual of {y}", residual)
            expect_length("sum_scales", self.sum_scales, 2)
        if self.sum_scales:
            expect_length("sum_scales", self.sum_scales, 1 if residual is None else 2)
            expect_length("sum_levels", self.sum_levels, 4)
            _expect_levels("levels of the sum", *self.sum_levels[1:])
        return (y,)

    def depthwise(self, w: TensorType) -> bool:
        """Whether weights w are one filter for each of several channels."""
        return self.group > 1 and w.shape[:2] == (self.group, 1)

    def dependence(self, inputs: Sequence[TensorType | None]) -> tuple[Dependence, ...]:
        (x, w, _, _), _ = operands(inputs, 4, 1)
        return self._conv().dependence((x, w))

    def grain(self, inputs: Sequence[TensorType | None]) -> tuple[int, ...]:
        (x, w, _, _), _ = operands(inputs, 4, 1)
        return self._conv().grain((x, w))

    def part(self, box: Box, inputs: Sequence[TensorType | None]) -> Part:
        (x, w, _, _), _ = operands(inputs, 4, 1)
        own = self._conv().part(box, (x, w))
        assert isinstance(own.op, Conv)
        reads = (*own.reads[:2], (box[1],), (box[1],), box)
        together = self.together if self.group > 1 or box[1] == (0, w.shape[0]) else 1
        op = replace(self, pads=own.op.pads, group=own.op.group, together=together)
        return Part(op, reads[: len(inputs)], box)

    def reference(
        self,
        x: np.ndarray,
        w: np.ndarray,
        scale: np.ndarray,
        bias: np.ndarray,
        residual: np.ndarray | None = None,
    ) -> tuple[np.ndarray, ...]:
        centred = x.astype(np.float64) - self.x_zero  # sums of bytes are exact in float64
        (sums,) = self._conv().reference(centred, w.astype(np.float64))
        along = (-1, *(1,) * (x.ndim - 2))
        sums = sums.astype(np.int64) + bias.reshape(along)
        scale = scale.reshape(along).astype(np.float32)
        if self.mean:
            ones = np.ones((1, 1, *w.shape[2:]), np.float32)
            (taps,) = replace(self._conv(), group=1).reference(np.ones((1, 1, *x.shape[2:]), np.float32), ones)
            scale = scale / np.maximum(taps[0], 1)
        q = _requantized(sums, scale, self.y_zero, self.lo, self.hi)
        return (_finished(self, q, residual),)

    def _conv(self) -> Conv:
        """The same over floats, without anything afterwards."""
        return Conv(self.strides, self.pads, self.dilations, self.group)


def _finished(op: QuantizedConv, q: np.ndarray, residual: np.ndarray | None) -> np.ndarray:
    """The bytes of rounded results q around their zero point, scaled again and with the residual if there is one."""
    if not op.sum_scales:
        return (q + op.y_zero).astype(np.uint8)
    other, zero, lo, hi = op.sum_levels
    total = q * np.float32(op.sum_scales[0])
    if residual is not None:
        total = total + (residual.astype(np.float32) - np.float32(other)) * np.float32(op.sum_scales[1])
    found: np.ndarray = (np.rint(np.clip(total, np.float32(lo - zero), np.float32(hi - zero))) + zero).astype(np.uint8)
    return found


@dataclass(frozen=True, slots=True)
class QuantizedMatMul(Op):
    """Product of a quantised tensor and a matrix: `y = clip(round_half_even(scale sums) + y_zero, lo, hi)`, sums being
    those of (x - x_zero) w, in integers, plus the bias.

    Inputs: x u8 [...,C], w i8 [C,K], scale f32 [K] (of x times of w by of y), bias i32 [K]. Output u8 [...,K].
    """

    x_zero: int
    y_zero: int
    lo: int = 0
    hi: int = 255

    def infer(self, inputs: Sequence[TensorType | None]) -> tuple[TensorType, ...]:
        (x, w, scale, bias), _ = operands(inputs, 4)
        expect_dtype("x", x, DType.U8)
        expect_dtype("w", w, DType.I8)
        expect_dtype("scale", scale, DType.F32)
        expect_dtype("bias", bias, DType.I32)
        expect(x.rank >= 1 and w.rank == 2, "x of rank 1 or more and a matrix", f"{x} and {w}")
        expect(x.shape[-1] == w.shape[0], f"w of {x.shape[-1]} rows", w)
        expect(w.shape[0] <= MOST_TERMS, f"at most {MOST_TERMS} products an output", w)
        expect_shape("scale", scale, w.shape[1:])
        expect_shape("bias", bias, w.shape[1:])
        expect(0 <= self.x_zero <= 255, "x_zero of a byte", self.x_zero)
        _expect_levels("levels", self.y_zero, self.lo, self.hi)
        return (with_shape(x, (*x.shape[:-1], w.shape[1])),)

    def dependence(self, inputs: Sequence[TensorType | None]) -> tuple[Dependence, ...]:
        (x, _, _, _), _ = operands(inputs, 4)
        return (Dependence.POINTWISE,) * x.rank

    def part(self, box: Box, inputs: Sequence[TensorType | None]) -> Part:
        (x, w, _, _), _ = operands(inputs, 4)
        columns = box[-1]
        reads = ((*box[:-1], (0, x.shape[-1])), ((0, w.shape[0]), columns), (columns,), (columns,))
        return Part(self, reads, box)

    def reference(self, x: np.ndarray, w: np.ndarray, scale: np.ndarray, bias: np.ndarray) -> tuple[np.ndarray, ...]:
        sums = np.matmul(x.astype(np.float64) - self.x_zero, w.astype(np.float64))  # exact
        q = _requantized(sums.astype(np.int64) + bias, scale, self.y_zero, self.lo, self.hi)
        return ((q + self.y_zero).astype(np.uint8),)
