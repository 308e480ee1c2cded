"""Selections: operators that choose entries by value or place, some with a result size that depends on data."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from packer.ir.ops.base import Op
from packer.ir.ops.shape import expect, expect_axes, expect_dtype, expect_shape, operands, with_shape
from packer.ir.types import DType, TensorType

__all__ = ["Compress", "NonMaxSuppression", "NonZero", "TopK", "Trilu"]

_COUNT = TensorType(DType.I64, (1,))


@dataclass(frozen=True, slots=True)
class TopK(Op):
    """The k largest (smallest) entries along axis, ties by lower index. Input: x. Outputs: values, indices i64."""

    k: int
    axis: int
    largest: bool = True
    sorted: bool = True

    def infer(self, inputs: Sequence[TensorType | None]) -> tuple[TensorType, ...]:
        (x,), _ = operands(inputs, 1)
        expect(x.dtype is not DType.BOOL, "numbers", x)
        expect_axes((self.axis,), x.rank)
        extent = x.shape[self.axis]
        expect(0 <= self.k <= extent, f"k within 0..{extent}", self.k)
        y = with_shape(x, (*x.shape[: self.axis], self.k, *x.shape[self.axis + 1 :]))
        return (y, TensorType(DType.I64, y.shape))

    def reference(self, x: np.ndarray) -> tuple[np.ndarray, ...]:
        order = x
        if self.largest:  # sort ascending from the far end, so that a stable sort keeps the lower index first
            order = np.flip(x, self.axis)
        index = np.argsort(order, self.axis, kind="stable")
        if self.largest:
            index = x.shape[self.axis] - 1 - np.flip(index, self.axis)
        index = np.take(index, np.arange(self.k), self.axis).astype(np.int64)
        return np.take_along_axis(x, index, self.axis), index


@dataclass(frozen=True, slots=True)
class NonMaxSuppression(Op):
    """Keep the best boxes of each class that overlap no better one by more than `iou_threshold`.

    Inputs: boxes f32 [B,S,4], scores f32 [B,C,S]. Outputs: selected i64 [B*C*min(S,max_output),3] as rows
    (batch, class, box) by batch, class and falling score (ties by lower box), rows past the count zero; count i64 [1].
    Only scores above `score_threshold` count; -inf: none. Boxes are two opposite corners (y, x, y, x) in any order, or
    (x, y, width, height) around the centre if `center_point_box`; one without area overlaps nothing.
    https://onnx.ai/onnx/operators/onnx__NonMaxSuppression.html
    """

    max_output: int
    iou_threshold: float
    score_threshold: float
    center_point_box: bool = False

    def infer(self, inputs: Sequence[TensorType | None]) -> tuple[TensorType, ...]:
        (boxes, scores), _ = operands(inputs, 2)
        expect_dtype("boxes", boxes, DType.F32)
        expect_dtype("scores", scores, DType.F32)
        expect(boxes.rank == 3 and boxes.shape[2] == 4, "boxes [B,S,4]", boxes)
        expect(scores.rank == 3, "scores [B,C,S]", scores)
        expect_shape("scores", scores, (boxes.shape[0], scores.shape[1], boxes.shape[1]))
        expect(self.max_output >= 0, "max_output of 0 or more", self.max_output)
        rows = scores.shape[0] * scores.shape[1] * min(scores.shape[2], self.max_output)
        return (TensorType(DType.I64, (rows, 3)), _COUNT)

    @np.errstate(all="ignore")
    def reference(self, boxes: np.ndarray, scores: np.ndarray) -> tuple[np.ndarray, ...]:
        rows = [
            (batch, category, box)
            for batch in range(scores.shape[0])
            for category in range(scores.shape[1])
            for box in self._keep(self._corners(boxes[batch]), scores[batch, category])
        ]
        selected = np.zeros((scores.shape[0] * scores.shape[1] * min(scores.shape[2], self.max_output), 3), np.int64)
        selected[: len(rows)] = np.reshape(rows, (len(rows), 3))
        return selected, np.array([len(rows)], np.int64)

    def _corners(self, boxes: np.ndarray) -> np.ndarray:
        """Boxes [S,4] as lower and upper corners [2,S,2]."""
        if self.center_point_box:
            return np.stack([boxes[:, :2] - boxes[:, 2:] / 2, boxes[:, :2] + boxes[:, 2:] / 2])
        return np.stack([np.minimum(boxes[:, :2], boxes[:, 2:]), np.maximum(boxes[:, :2], boxes[:, 2:])])

    def _keep(self, corners: np.ndarray, scores: np.ndarray) -> list[int]:
        """The boxes kept among those of one class, best first."""
        area = np.prod(corners[1] - corners[0], 1)
        order = np.argsort(-scores, kind="stable")
        alive = scores[order] > self.score_threshold
        kept: list[int] = []
        while len(kept) < self.max_output and alive.any():
            best = int(order[np.argmax(alive)])
            kept.append(best)
            overlap = np.minimum(corners[1], corners[1, best]) - np.maximum(corners[0], corners[0, best])
            common = np.where((overlap > 0).all(1), np.prod(overlap, 1), 0)
            union = area + area[best] - common
            solid = (common > 0) & (area > 0) & (area[best] > 0) & (union > 0)
            share = np.divide(common, union, out=np.zeros_like(union), where=solid)
            alive &= ~(solid & (share > self.iou_threshold))[order] & (order != best)
        return kept


@dataclass(frozen=True, slots=True)
class NonZero(Op):
    """Where x is not zero. Outputs: indices i64 [rank, elements], count i64 [1].

    One column an entry, in row-major order; columns past the count are zero.
    """

    def infer(self, inputs: Sequence[TensorType | None]) -> tuple[TensorType, ...]:
        (x,), _ = operands(inputs, 1)
        return (TensorType(DType.I64, (x.rank, x.elements)), _COUNT)

    def reference(self, x: np.ndarray) -> tuple[np.ndarray, ...]:
        found = np.argwhere(x)
        indices = np.zeros((x.ndim, x.size), np.int64)
        indices[:, : len(found)] = found.T
        return indices, np.array([len(found)], np.int64)


@dataclass(frozen=True, slots=True)
class Compress(Op):
    """Keep the slices along axis (axis None: of the flattened input) whose condition is true.

    Inputs: x, condition bool [n], n no more than the extent.
    Outputs: y of the largest possible size, n along axis (entries past the count are zero), count i64 [1].
    """

    axis: int | None

    def infer(self, inputs: Sequence[TensorType | None]) -> tuple[TensorType, ...]:
        (x, condition), _ = operands(inputs, 2)
        expect_dtype("condition", condition, DType.BOOL)
        expect(condition.rank == 1, "condition of rank 1", condition)
        if self.axis is not None:
            expect_axes((self.axis,), x.rank)
        shape = self._flat(x.shape)
        axis = self.axis or 0
        expect(condition.shape[0] <= shape[axis], f"at most {shape[axis]} conditions", condition)
        return (with_shape(x, (*shape[:axis], condition.shape[0], *shape[axis + 1 :])), _COUNT)

    def reference(self, x: np.ndarray, condition: np.ndarray) -> tuple[np.ndarray, ...]:
        axis = self.axis or 0
        x = x.reshape(self._flat(x.shape))
        y = np.zeros((*x.shape[:axis], condition.size, *x.shape[axis + 1 :]), x.dtype)
        found = np.flatnonzero(condition)
        np.moveaxis(y, axis, 0)[: found.size] = np.moveaxis(x, axis, 0)[found]
        return y, np.array([found.size], np.int64)

    def _flat(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        return (math.prod(shape),) if self.axis is None else shape


@dataclass(frozen=True, slots=True)
class Trilu(Op):
    """Keep the upper or lower triangle of the last two dimensions, zero elsewhere; k shifts the diagonal."""

    upper: bool
    k: int = 0

    def infer(self, inputs: Sequence[TensorType | None]) -> tuple[TensorType, ...]:
        (x,), _ = operands(inputs, 1)
        expect(x.rank >= 2, "x of rank 2 or more", x)
        return (x,)

    def reference(self, x: np.ndarray) -> tuple[np.ndarray, ...]:
        diagonal = np.arange(x.shape[-1]) - np.arange(x.shape[-2])[:, None]
        kept = diagonal >= self.k if self.upper else diagonal <= self.k
        return (np.where(kept, x, np.zeros((), x.dtype)),)
