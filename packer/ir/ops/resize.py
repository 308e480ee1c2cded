"""Resize: nearest, linear and cubic, separable over dimensions."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from packer.ir.ops.base import Dependence, Op, Part
from packer.ir.ops.kernel import cubic_kernel, linear_kernel
from packer.ir.ops.region import full_along, widened
from packer.ir.ops.shape import expect, expect_choice, expect_dtype, expect_length, operands, with_shape
from packer.ir.types import Box, DType, TensorType, extents_of

__all__ = ["Resize"]

_COORDINATES = (
    "half_pixel",
    "half_pixel_symmetric",
    "pytorch_half_pixel",
    "align_corners",
    "asymmetric",
    "tf_crop_and_resize",
)
_ROUNDINGS = ("round_prefer_floor", "round_prefer_ceil", "floor", "ceil")


@dataclass(frozen=True, slots=True)
class Resize(Op):
    """ONNX Resize with everything resolved. Input: x, f32 (nearest: any element type).

    `shape` is the output shape, `scales` one factor a dimension.
    `mode`: "nearest", "linear", "cubic". `coordinate`: "half_pixel", "half_pixel_symmetric", "pytorch_half_pixel",
    "align_corners", "asymmetric", "tf_crop_and_resize" (then `roi` holds starts and ends of all dimensions).
    `nearest`: "round_prefer_floor", "round_prefer_ceil", "floor", "ceil". Where ONNX says length_resized, it is
    scale * extent, as in its reference, unless that is `shape` but for rounding.
    https://onnx.ai/onnx/operators/onnx__Resize.html
    """

    shape: tuple[int, ...]
    scales: tuple[float, ...]
    mode: str = "nearest"
    coordinate: str = "half_pixel"
    nearest: str = "round_prefer_floor"
    cubic_a: float = -0.75
    exclude_outside: bool = False
    extrapolation: float = 0.0
    antialias: bool = False
    roi: tuple[float, ...] = ()

    def infer(self, inputs: Sequence[TensorType | None]) -> tuple[TensorType, ...]:
        (x,), _ = operands(inputs, 1)
        expect_choice("mode", self.mode, ("nearest", "linear", "cubic"))
        expect_choice("coordinate", self.coordinate, _COORDINATES)
        expect_choice("nearest", self.nearest, _ROUNDINGS)
        if self.mode != "nearest":
            expect_dtype("x", x, DType.F32)
        expect_length("output extents", self.shape, x.rank)
        expect_length("scales", self.scales, x.rank)
        expect(min(self.scales, default=1) > 0, "scales above 0", self.scales)
        expect_length("roi values", self.roi, 2 * x.rank if self.coordinate == "tf_crop_and_resize" else len(self.roi))
        expect(not (self.antialias and self.mode == "nearest"), "linear or cubic mode to antialias", self.mode)
        filled = all(n > 0 or out == 0 for n, out in zip(x.shape, self.shape, strict=True))
        expect(min(self.shape, default=0) >= 0 and filled, f"a shape that {x} can be resized to", self.shape)
        return (with_shape(x, self.shape),)

    def dependence(self, inputs: Sequence[TensorType | None]) -> tuple[Dependence, ...]:
        (x,), _ = operands(inputs, 1)
        return full_along(self.resized(x.shape), x.rank)

    def part(self, box: Box, inputs: Sequence[TensorType | None]) -> Part:
        (x,), _ = operands(inputs, 1)
        op = replace(self, shape=extents_of(box))
        return Part(op, (widened(box, x.shape, self.resized(x.shape)),), box)

    def resized(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """The axes of an input of `shape` whose outputs are not simply its entries."""
        if self.coordinate == "tf_crop_and_resize":
            return tuple(range(len(shape)))
        return tuple(axis for axis, extent in enumerate(shape) if self.shape[axis] != extent or self.scales[axis] != 1)

    @np.errstate(all="ignore")
    def reference(self, x: np.ndarray) -> tuple[np.ndarray, ...]:
        if not math.prod(self.shape):
            return (np.zeros(self.shape, x.dtype),)
        y, outside = x if self.mode == "nearest" else x.astype(np.float64), np.zeros((), bool)
        for axis in self.resized(x.shape):
            extent = x.shape[axis]
            outside = outside | self.beyond(axis, extent).reshape([-1 if i == axis else 1 for i in range(x.ndim)])
            if self.mode == "nearest":
                y = np.take(y, self.positions(axis, extent), axis)
            else:
                y = np.moveaxis(np.tensordot(y, self.matrix(axis, extent), (axis, 1)), -1, axis)
        filler = np.asarray(self.extrapolation).astype(x.dtype)
        return (np.where(outside, filler, np.ascontiguousarray(y).astype(x.dtype)),)

    def beyond(self, axis: int, extent: int) -> np.ndarray:
        """Which output entries along axis are outside of an input of `extent`, [out]: the extrapolation."""
        if self.coordinate != "tf_crop_and_resize":
            return np.zeros(self.shape[axis], bool)
        place = self._places(axis, extent)
        return np.asarray((place < 0) | (place > extent - 1))

    def positions(self, axis: int, extent: int) -> np.ndarray:
        """The position in the input of the one that each output entry along axis is (nearest), [out]."""
        return np.asarray(np.clip(self._round(self._places(axis, extent)), 0, extent - 1))

    def matrix(self, axis: int, extent: int) -> np.ndarray:
        """The weights of the inputs of each output along axis (linear and cubic), [out, extent]; with antialias the
        kernel is 1 / scale times as wide."""
        place, scale = self._places(axis, extent), min(1.0, self.scales[axis]) if self.antialias else 1.0
        radius = math.ceil((1 if self.mode == "linear" else 2) / scale)
        taps = np.floor(place).astype(np.int64)[:, None] + np.arange(1 - radius, radius + 1)
        distance = (place[:, None] - taps) * scale
        weights = linear_kernel(distance) if self.mode == "linear" else cubic_kernel(distance, self.cubic_a)
        if self.exclude_outside:
            weights = weights * ((taps >= 0) & (taps < extent))
        total = weights.sum(1, keepdims=True)
        weights = np.divide(weights, total, out=np.zeros_like(weights), where=total != 0)
        matrix = np.zeros((place.size, extent))
        np.add.at(matrix, (np.arange(place.size)[:, None], np.clip(taps, 0, extent - 1)), weights)
        return matrix

    def _places(self, axis: int, extent: int) -> np.ndarray:
        """The position in the input of each output entry along axis."""
        out, scale = self.shape[axis], self.scales[axis]
        i, length = np.arange(out, dtype=np.float64), scale * extent
        whole = math.isclose(length, out, rel_tol=1e-6)
        if whole:
            length = out

        def back(place: np.ndarray) -> np.ndarray:
            return place * extent / out if whole else place / scale  # exact where it is whole

        if self.coordinate == "align_corners":
            return i * (extent - 1) / (length - 1) if length != 1 else np.zeros(out)
        if self.coordinate == "asymmetric":
            return back(i)
        if self.coordinate == "tf_crop_and_resize":
            start, end = self.roi[axis], self.roi[axis + len(self.shape)]
            if length == 1:
                return np.full(out, 0.5 * (start + end) * (extent - 1))
            return start * (extent - 1) + i * (end - start) * (extent - 1) / (length - 1)
        if self.coordinate == "pytorch_half_pixel" and length <= 1:
            return np.zeros(out)
        shift = extent / 2 * (1 - out / length) if self.coordinate == "half_pixel_symmetric" else 0.0
        return shift + back(i + 0.5) - 0.5

    def _round(self, place: np.ndarray) -> np.ndarray:
        match self.nearest:
            case "round_prefer_floor":
                place = np.ceil(place - 0.5)
            case "round_prefer_ceil":
                place = np.floor(place + 0.5)
            case "floor":
                place = np.floor(place)
            case _:
                place = np.ceil(place)
        return place.astype(np.int64)
