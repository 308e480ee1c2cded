"""Pooling over spatial windows."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from packer.ir.ops.base import Dependence, Op, Part
from packer.ir.ops.shape import expect, expect_choice, expect_dtype, expect_rank, expect_shape, operands, with_shape
from packer.ir.ops.window import expect_windows, extents, padded, positions, window_boxes, window_dependence
from packer.ir.types import Box, DType, TensorType

__all__ = ["MaxUnpool", "Pool"]


@dataclass(frozen=True, slots=True)
class Pool(Op):
    """Max, average or Lp pooling, 1 to 3 spatial dimensions. Input: x [N,C,spatial].

    Outputs: y; for kind "max" optionally the i64 flat indices (into the whole input tensor; column-major within
    a plane if `column_major`; the first of equals). `pads` as in Conv, already resolved from auto_pad. With `ceil_mode`
    the output extent is rounded up, except that the last window must start inside the input or its begin padding
    (as PyTorch and ONNX). Average: padding counts only if `count_include_pad`, positions beyond the end padding never.
    A window of padding alone gives the lowest value (max; -inf for f32) or 0.
    "max" takes f32, i8, u8; the others f32. https://onnx.ai/onnx/operators/onnx__MaxPool.html
    """

    kind: str  # "max", "average", "lp"
    kernel: tuple[int, ...]
    strides: tuple[int, ...]
    pads: tuple[int, ...]
    dilations: tuple[int, ...]
    ceil_mode: bool = False
    count_include_pad: bool = False
    p: int = 2
    column_major: bool = False

    def infer(self, inputs: Sequence[TensorType | None]) -> tuple[TensorType, ...]:
        (x,), _ = operands(inputs, 1)
        expect_choice("kind", self.kind, ("max", "average", "lp"))
        expect_dtype("x", x, *((DType.F32, DType.I8, DType.U8) if self.kind == "max" else (DType.F32,)))
        expect_rank("x", x, 3, 5)
        expect_windows(x.rank - 2, self.kernel, self.strides, self.pads, self.dilations)
        expect(self.p >= 1, "p of 1 or more", self.p)
        y = with_shape(x, (*x.shape[:2], *self._extents(x.shape[2:])))
        return (y, TensorType(DType.I64, y.shape)) if self.kind == "max" else (y,)

    def dependence(self, inputs: Sequence[TensorType | None]) -> tuple[Dependence, ...]:
        """Of the values; a part's indices would be those of its own input."""
        (x,), _ = operands(inputs, 1)
        spatial = window_dependence(x.shape[2:], self.kernel, self.strides, self.pads, self.dilations)
        return (Dependence.POINTWISE, Dependence.POINTWISE, *spatial)

    def part(self, box: Box, inputs: Sequence[TensorType | None]) -> Part:
        (x,), _ = operands(inputs, 1)
        spatial, pads = window_boxes(box[2:], x.shape[2:], self.kernel, self.strides, self.pads, self.dilations)
        kernel = self.kernel
        if self.kind == "average" and self.count_include_pad and self.ceil_mode:
            kernel, pads = self._counted(box[2:], x.shape[2:], spatial, pads)
        op = Pool(
            self.kind, kernel, self.strides, pads, self.dilations, self.ceil_mode, self.count_include_pad, self.p,
            self.column_major,
        )  # fmt: skip
        return Part(op, ((*box[:2], *spatial),), box)

    def _counted(
        self, box: Box, spatial: Sequence[int], reads: Box, pads: tuple[int, ...]
    ) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Kernel and pads of the windows of `box` where what lies past the end padding is not to count: their padding
        ends where that of the whole does, and so does a single window."""
        kernel, own = list(self.kernel), list(pads)
        for i, extent in enumerate(spatial):
            room = extent + self.pads[i + len(kernel)] - reads[i][1]  # for padding
            if own[i + len(kernel)] > room:
                own[i + len(kernel)] = room
                if box[i][1] - box[i][0] == 1:
                    before = own[i] + reads[i][1] - reads[i][0]
                    kernel[i] = (before + room - 1) // self.dilations[i] + 1
                    own[i + len(kernel)] = (kernel[i] - 1) * self.dilations[i] + 1 - before
        return tuple(kernel), tuple(own)

    @np.errstate(all="ignore")
    def reference(self, x: np.ndarray) -> tuple[np.ndarray, ...]:
        if self.kind == "max":
            return self._max(x)
        spatial, begins, ends = x.shape[2:], self.pads[: len(self.kernel)], self.pads[len(self.kernel) :]
        out = self._extents(spatial)
        if self.kind == "lp":
            return (np.asarray(self._sum(np.abs(x) ** self.p, begins, out) ** (1 / self.p)),)
        if self.count_include_pad:
            sizes = [n + b + e for n, b, e in zip(spatial, begins, ends, strict=True)]
            count = self._sum(np.ones((1, 1, *sizes), x.dtype), (0,) * len(sizes), out)
        else:
            count = self._sum(np.ones((1, 1, *spatial), x.dtype), begins, out)
        return (np.asarray(self._sum(x, begins, out) / np.maximum(count, 1)),)

    def _extents(self, spatial: Sequence[int]) -> tuple[int, ...]:
        return extents(spatial, self.kernel, self.strides, self.pads, self.dilations, self.ceil_mode)

    def _reach(self, out: Sequence[int]) -> tuple[int, ...]:
        """Extents of the padded input that the windows cover."""
        rows = zip(out, self.kernel, self.strides, self.dilations, strict=True)
        return tuple((n - 1) * s + (k - 1) * d + 1 for n, k, s, d in rows)

    def _sum(self, x: np.ndarray, begins: Sequence[int], out: Sequence[int]) -> np.ndarray:
        """The sum of each window of x, which starts at `begins` of the padded input."""
        wide = padded(x, begins, self._reach(out), 0)
        y = np.zeros((*x.shape[:2], *out), x.dtype)
        for _, where in positions(self.kernel, self.strides, self.dilations, out):
            y += wide[where]
        return y

    def _max(self, x: np.ndarray) -> tuple[np.ndarray, ...]:
        spatial = x.shape[2:]
        out = self._extents(spatial)
        lowest = -np.inf if x.dtype.kind == "f" else np.iinfo(x.dtype).min
        begins, reach = self.pads[: len(out)], self._reach(out)
        wide = padded(x, begins, reach, lowest)
        flat = np.arange(math.prod(spatial), dtype=np.int64)
        plane = flat.reshape(spatial[::-1]).T if self.column_major else flat.reshape(spatial)
        index = padded(plane, begins, reach, -1)
        y = np.full((*x.shape[:2], *out), lowest, x.dtype)
        best = np.full(y.shape, -1, np.int64)
        for _, where in positions(self.kernel, self.strides, self.dilations, out):
            value, place = wide[where], index[where]
            better = (place >= 0) & ((value > y) | (best < 0) | (np.isnan(value) & ~np.isnan(y)))
            np.copyto(best, place, where=better)
            np.copyto(y, value, where=better)
        planes = np.arange(math.prod(x.shape[:2]), dtype=np.int64).reshape(*x.shape[:2], *(1,) * len(out))
        return y, planes * math.prod(spatial) + np.maximum(best, 0)


@dataclass(frozen=True, slots=True)
class MaxUnpool(Op):
    """Scatter x to the flat positions in `indices` of a zeroed output of `shape`.

    Inputs: x, indices i64 (into `index_shape`, which lies in the first corner of `shape`; clamped to it).
    https://onnx.ai/onnx/operators/onnx__MaxUnpool.html
    """

    shape: tuple[int, ...]
    index_shape: tuple[int, ...]

    def infer(self, inputs: Sequence[TensorType | None]) -> tuple[TensorType, ...]:
        (x, indices), _ = operands(inputs, 2)
        expect_dtype("indices", indices, DType.I64)
        expect_shape("indices", indices, x.shape)
        fits = len(self.shape) == len(self.index_shape) and all(
            0 <= n <= m for n, m in zip(self.index_shape, self.shape, strict=True)
        )
        expect(fits, f"an index_shape within {self.shape}", self.index_shape)
        expect(x.elements == 0 or math.prod(self.index_shape) > 0, "a non-empty index_shape", self.index_shape)
        return (with_shape(x, self.shape),)

    def reference(self, x: np.ndarray, indices: np.ndarray) -> tuple[np.ndarray, ...]:
        y = np.zeros(self.shape, x.dtype)
        if x.size:
            flat = np.clip(indices, 0, math.prod(self.index_shape) - 1)
            y[np.unravel_index(flat.reshape(-1), self.index_shape)] = x.reshape(-1)
        return (y,)
