"""Normalisations."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from packer.ir.ops.base import Dependence, Op, Part
from packer.ir.ops.region import full_along
from packer.ir.ops.shape import expect, expect_axes, expect_dtype, expect_shape, operands, with_shape
from packer.ir.types import Box, DType, TensorType, whole

__all__ = ["LpNormalize", "Lrn", "Normalize"]


@dataclass(frozen=True, slots=True)
class Normalize(Op):
    """`y = (x - mean) / sqrt(var + epsilon) * scale + shift` over `axes` (sorted, >= 0), population variance; f32.

    With `rms`: `y = x / sqrt(mean(x^2) + epsilon) * scale + shift`.
    Instance, layer, group and mean-variance normalisation are all this one. Inputs: x, and where `axes` is the last
    dimension alone, scale and shift along it, both optional.
    """

    axes: tuple[int, ...]
    epsilon: float
    rms: bool = False
    inplace: ClassVar[tuple[int, ...]] = (0,)

    def infer(self, inputs: Sequence[TensorType | None]) -> tuple[TensorType, ...]:
        (x,), parameters = operands(inputs, 1, 2)
        expect_dtype("x", x, DType.F32)
        expect_axes(self.axes, x.rank)
        for what, type in zip(("scale", "shift"), parameters, strict=True):
            if type is not None:
                expect(self.axes == (x.rank - 1,), f"with a {what}, the last axis", self.axes)
                expect_dtype(what, type, DType.F32)
                expect_shape(what, type, x.shape[-1:])
        return (x,)

    def dependence(self, inputs: Sequence[TensorType | None]) -> tuple[Dependence, ...]:
        (x,), _ = operands(inputs, 1, 2)
        return full_along(self.axes, x.rank)

    def part(self, box: Box, inputs: Sequence[TensorType | None]) -> Part:
        return Part(self, (box, *(None if type is None else whole(type) for type in inputs[1:])), box)

    @np.errstate(all="ignore")
    def reference(
        self, x: np.ndarray, scale: np.ndarray | None = None, shift: np.ndarray | None = None
    ) -> tuple[np.ndarray, ...]:
        centred = x if self.rms else x - _mean(x, self.axes)
        y = centred / np.sqrt(_mean(np.square(centred), self.axes) + self.epsilon)
        y = y if scale is None else y * scale
        return (np.asarray(y if shift is None else y + shift),)


@dataclass(frozen=True, slots=True)
class LpNormalize(Op):
    """`y = x / norm_p(x)` along `axis`; p is 1 or 2; a zero norm gives 0.

    https://onnx.ai/onnx/operators/onnx__LpNormalization.html
    """

    axis: int
    p: int = 2

    def infer(self, inputs: Sequence[TensorType | None]) -> tuple[TensorType, ...]:
        (x,), _ = operands(inputs, 1)
        expect_dtype("x", x, DType.F32)
        expect_axes((self.axis,), x.rank)
        expect(self.p in (1, 2), "p of 1 or 2", self.p)
        return (x,)

    def dependence(self, inputs: Sequence[TensorType | None]) -> tuple[Dependence, ...]:
        (x,), _ = operands(inputs, 1)
        return full_along((self.axis,), x.rank)

    def part(self, box: Box, inputs: Sequence[TensorType | None]) -> Part:
        return Part(self, (box,), box)

    @np.errstate(all="ignore")
    def reference(self, x: np.ndarray) -> tuple[np.ndarray, ...]:
        if self.p == 1:
            norm = np.sum(np.abs(x), self.axis, keepdims=True)
        else:
            norm = np.sqrt(np.sum(np.square(x), self.axis, keepdims=True))
        return (np.asarray(np.where(norm == 0, 0, x / np.where(norm == 0, 1, norm))),)


@dataclass(frozen=True, slots=True)
class Lrn(Op):
    """Local response normalisation across channels (axis 1): `y = x / (bias + alpha / size * s)^beta`.

    s sums the squares of channels c - floor((size - 1) / 2) to c + ceil((size - 1) / 2).
    A part along the channels reads `halo` more of them before and after its own: neighbours without an output.
    https://onnx.ai/onnx/operators/onnx__LRN.html
    """

    size: int
    alpha: float
    beta: float
    bias: float
    halo: tuple[int, int] = (0, 0)

    def infer(self, inputs: Sequence[TensorType | None]) -> tuple[TensorType, ...]:
        (x,), _ = operands(inputs, 1)
        expect_dtype("x", x, DType.F32)
        expect(x.rank >= 2, "x of rank 2 or more", x)
        expect(self.size >= 1, "a size of 1 or more", self.size)
        channels = x.shape[1] - sum(self.halo)
        expect(min(*self.halo, channels) >= 0, f"a halo within {x.shape[1]} channels", self.halo)
        return (with_shape(x, (x.shape[0], channels, *x.shape[2:])),)

    def dependence(self, inputs: Sequence[TensorType | None]) -> tuple[Dependence, ...]:
        (x,), _ = operands(inputs, 1)
        across = Dependence.REGION if self.size > 1 else Dependence.POINTWISE
        return tuple(across if axis == 1 else Dependence.POINTWISE for axis in range(x.rank))

    def part(self, box: Box, inputs: Sequence[TensorType | None]) -> Part:
        (x,), _ = operands(inputs, 1)
        begin, end = box[1][0] + self.halo[0], box[1][1] + self.halo[0]  # in x
        low = max(0, begin - (self.size - 1) // 2)
        high = min(x.shape[1], end + self.size // 2)
        op = Lrn(self.size, self.alpha, self.beta, self.bias, (begin - low, high - end))
        return Part(op, ((box[0], (low, high), *box[2:]),), box)

    @np.errstate(all="ignore")
    def reference(self, x: np.ndarray) -> tuple[np.ndarray, ...]:
        squares, total = np.square(x), np.zeros_like(x)
        channels, before = x.shape[1], (self.size - 1) // 2
        for shift in range(-min(before, channels), min(self.size - before, channels)):
            total[:, max(0, -shift) : channels - max(0, shift)] += squares[:, max(0, shift) : channels + min(0, shift)]
        y = x / (self.bias + self.alpha / self.size * total) ** self.beta
        return (np.asarray(y[:, self.halo[0] : channels - self.halo[1]]),)


def _mean(x: np.ndarray, axes: tuple[int, ...]) -> np.ndarray:
    """The mean over axes, kept as dimensions of 1; NaN over nothing."""
    count = 1
    for axis in axes:
        count *= x.shape[axis]
    return np.asarray(np.sum(x, axes, keepdims=True) / x.dtype.type(count))
