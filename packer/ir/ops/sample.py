"""Sampling at positions between pixels: RoiAlign, GridSample. f32."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from packer.ir.ops.base import Op
from packer.ir.ops.kernel import cubic_kernel, linear_kernel
from packer.ir.ops.shape import expect, expect_choice, expect_dtype, expect_rank, expect_shape, operands, with_shape
from packer.ir.types import DType, TensorType

__all__ = ["GridSample", "RoiAlign"]


@dataclass(frozen=True, slots=True)
class RoiAlign(Op):
    """Inputs: x [N,C,H,W], rois [R,4], batch_indices i64 [R]. Output [R,C,height,width].

    "max" takes the greatest of the four weighted corners of all samples, as ONNX and onnxruntime do, not of the
    interpolated samples. https://onnx.ai/onnx/operators/onnx__RoiAlign.html
    """

    mode: str  # "avg" or "max"
    height: int
    width: int
    sampling_ratio: int
    spatial_scale: float
    half_pixel: bool

    def infer(self, inputs: Sequence[TensorType | None]) -> tuple[TensorType, ...]:
        (x, rois, batch), _ = operands(inputs, 3)
        expect_choice("mode", self.mode, ("avg", "max"))
        expect_dtype("x", x, DType.F32)
        expect_rank("x", x, 4)
        expect_dtype("rois", rois, DType.F32)
        expect(rois.rank == 2 and rois.shape[1] == 4, "rois [R,4]", rois)
        expect_dtype("batch_indices", batch, DType.I64)
        expect_shape("batch_indices", batch, rois.shape[:1])
        expect(self.height > 0 and self.width > 0, "a height and width of 1 or more", (self.height, self.width))
        expect(0 <= self.sampling_ratio <= 64, "a sampling_ratio of 0 to 64", self.sampling_ratio)
        expect(rois.elements == 0 or min(x.shape[0], *x.shape[2:]) > 0, "a non-empty x", x)
        return (with_shape(x, (rois.shape[0], x.shape[1], self.height, self.width)),)

    @np.errstate(all="ignore")
    def reference(self, x: np.ndarray, rois: np.ndarray, batch: np.ndarray) -> tuple[np.ndarray, ...]:
        y = np.zeros((rois.shape[0], x.shape[1], self.height, self.width), x.dtype)
        for roi, index, out in zip(rois, np.clip(batch, 0, x.shape[0] - 1), y, strict=True):
            image = x[index]
            # [taps 2, bins, samples] along each dimension; (x1, y1, x2, y2) is ONNX's order
            tall, rows = self._samples(roi[1], roi[3], self.height, image.shape[1])
            wide, columns = self._samples(roi[0], roi[2], self.width, image.shape[2])
            if not rows.size or not columns.size:
                continue
            if self.mode == "avg":
                vertical = _spread(tall, rows, image.shape[1])
                horizontal = _spread(wide, columns, image.shape[2])
                out[...] = vertical @ image @ horizontal.T / (rows.shape[2] * columns.shape[2])
                continue
            corners = [
                tall[i][:, :, None, None] * wide[j] * image[:, rows[i][:, :, None, None], columns[j]]
                for i, j in itertools.product(range(2), repeat=2)
            ]
            out[...] = np.max(corners, axis=(0, 3, 5))
        return (y,)

    def _samples(self, begin: np.floating, end: np.floating, bins: int, extent: int) -> tuple[np.ndarray, np.ndarray]:
        """Weights and positions [2, bins, samples] of the two pixels around each sample; outside ones weigh nothing."""
        kind = begin.dtype.type
        offset = kind(0.5 if self.half_pixel else 0.0)
        first, last = (kind(v * kind(self.spatial_scale) - offset) for v in (begin, end))
        length = last - first if self.half_pixel else max(last - first, kind(1))
        size = length / kind(bins)
        count = self.sampling_ratio or max(0, math.ceil(size))
        steps = (np.arange(count, dtype=begin.dtype) + kind(0.5)) * size / kind(max(1, count))
        place = first + np.arange(bins, dtype=begin.dtype)[:, None] * size + steps
        inside = (place >= -1) & (place <= extent)
        place = np.clip(place, 0, extent - 1)
        low = np.floor(place)
        share = place - low
        weights = np.stack([1 - share, share]) * inside
        return weights, np.minimum(np.stack([low, low + 1]).astype(np.int64), extent - 1)


@dataclass(frozen=True, slots=True)
class GridSample(Op):
    """Sample x where grid says. Inputs: x [N,C,spatial], grid [N,out spatial,rank-2], coordinates last dimension first.

    2 or 3 spatial dimensions. "nearest" rounds half to even. https://onnx.ai/onnx/operators/onnx__GridSample.html
    """

    mode: str  # "linear", "nearest", "cubic"
    padding: str  # "zeros", "border", "reflection"
    align_corners: bool = False

    def infer(self, inputs: Sequence[TensorType | None]) -> tuple[TensorType, ...]:
        (x, grid), _ = operands(inputs, 2)
        expect_choice("mode", self.mode, ("linear", "nearest", "cubic"))
        expect_choice("padding", self.padding, ("zeros", "border", "reflection"))
        expect_dtype("x", x, DType.F32)
        expect_dtype("grid", grid, DType.F32)
        expect_rank("x", x, 4, 5)
        expect_rank("grid", grid, x.rank)
        expect_shape("grid", grid, (x.shape[0], *grid.shape[1:-1], x.rank - 2))
        y = with_shape(x, (*x.shape[:2], *grid.shape[1:-1]))
        expect(y.elements == 0 or min(x.shape[2:]) > 0, "a non-empty x", x)
        return (y,)

    @np.errstate(all="ignore")
    def reference(self, x: np.ndarray, grid: np.ndarray) -> tuple[np.ndarray, ...]:
        y = np.zeros((*x.shape[:2], *grid.shape[1:-1]), x.dtype)
        if not y.size:
            return (y,)
        taps = [
            self._taps(np.moveaxis(grid, -1, 0)[::-1][axis], extent, x.dtype) for axis, extent in enumerate(x.shape[2:])
        ]
        batch = np.arange(x.shape[0]).reshape(-1, *(1,) * (x.ndim - 2))
        for corner in itertools.product(*(zip(*axis, strict=True) for axis in taps)):
            weight = math.prod(w for w, _ in corner)
            value = x[(batch, slice(None), *(position for _, position in corner))]
            y += np.moveaxis(value, -1, 1) * np.asarray(weight)[:, None]
        return (y,)

    def _taps(self, grid: np.ndarray, extent: int, dtype: np.dtype) -> tuple[np.ndarray, np.ndarray]:
        """Weights and positions [taps, N, out spatial] of the pixels that make each sample along one dimension."""
        low, high = (0.0, extent - 1.0) if self.align_corners else (-0.5, extent - 0.5)
        place = (grid + 1) / 2 * (extent - 1) if self.align_corners else ((grid + 1) * extent - 1) / 2
        if self.mode == "nearest":
            place = np.rint(place)
        outside = (place < low) | (place > high)
        if self.padding == "border":
            place = np.where(outside, np.clip(place, 0, extent - 1), place)
        elif self.padding == "reflection":
            place = np.where(outside, _reflect(place, low, high), place)
        reach = {"nearest": (0,), "linear": (0, 1), "cubic": (-1, 0, 1, 2)}[self.mode]
        base = np.floor(place)
        shift = np.array(reach, place.dtype).reshape(-1, *(1,) * place.ndim)
        distance = place - base - shift
        if self.mode == "cubic":
            weights = cubic_kernel(distance, -0.75)
        else:
            weights = linear_kernel(distance) if self.mode == "linear" else np.ones_like(distance)
        position = base + shift
        if self.padding == "zeros":
            weights = weights * ((position >= 0) & (position < extent))
        elif self.padding == "reflection":
            position = np.trunc(_reflect(position, low, high))
        position = np.clip(np.nan_to_num(position), 0, extent - 1)
        return weights.astype(dtype), position.astype(np.int64)


def _spread(weights: np.ndarray, positions: np.ndarray, extent: int) -> np.ndarray:
    """The matrix [bins, extent] that sums the weighted samples [2, bins, samples] of each bin."""
    matrix = np.zeros((weights.shape[1], extent), weights.dtype)
    bins = np.broadcast_to(np.arange(weights.shape[1])[:, None], weights.shape)
    np.add.at(matrix, (bins, positions), weights)
    return matrix


def _reflect(place: np.ndarray, low: float, high: float) -> np.ndarray:
    """Fold positions into low..high by mirrors at both ends."""
    length = high - low
    if length <= 0:
        return np.full_like(place, low)
    folded = np.mod(place - low, 2 * length)
    return np.asarray(low + np.minimum(folded, 2 * length - folded), dtype=place.dtype)
