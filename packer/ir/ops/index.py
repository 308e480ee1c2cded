"""Gathers and scatters: operators that take positions from data.

Negative indices count from the end; one still out of range is clamped at run time.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from packer.ir.ops.base import Dependence, Op, Part
from packer.ir.ops.region import pointwise
from packer.ir.ops.shape import (
    INDEX,
    expect,
    expect_axes,
    expect_choice,
    expect_dtype,
    expect_same,
    expect_shape,
    operands,
    with_shape,
)
from packer.ir.types import Box, DType, TensorType

__all__ = ["Gather", "GatherElements", "GatherND", "OneHot", "ReverseSequence", "ScatterElements", "ScatterND"]

REDUCTIONS = ("none", "add", "mul", "min", "max")
_COMBINE = {"add": np.add, "mul": np.multiply, "min": np.minimum, "max": np.maximum}


@dataclass(frozen=True, slots=True)
class Gather(Op):
    """`numpy.take(x, indices, axis)`. Inputs: x, indices (i32 or i64). An index out of range is clamped at run time."""

    axis: int

    def infer(self, inputs: Sequence[TensorType | None]) -> tuple[TensorType, ...]:
        (x, indices), _ = operands(inputs, 2)
        expect_dtype("indices", indices, *INDEX)
        expect_axes((self.axis,), x.rank)
        _expect_entries(x, (self.axis,), indices.elements)
        return (with_shape(x, (*x.shape[: self.axis], *indices.shape, *x.shape[self.axis + 1 :])),)

    def dependence(self, inputs: Sequence[TensorType | None]) -> tuple[Dependence, ...]:
        (x, indices), _ = operands(inputs, 2)
        return pointwise(x.rank - 1 + indices.rank)

    def part(self, box: Box, inputs: Sequence[TensorType | None]) -> Part:
        (x, indices), _ = operands(inputs, 2)
        after = self.axis + indices.rank
        read = (*box[: self.axis], (0, x.shape[self.axis]), *box[after:])
        return Part(self, (read, box[self.axis : after]), box)

    def reference(self, x: np.ndarray, indices: np.ndarray) -> tuple[np.ndarray, ...]:
        return (np.asarray(np.take(x, _positions(indices, x.shape[self.axis]), self.axis)),)


@dataclass(frozen=True, slots=True)
class GatherElements(Op):
    """`numpy.take_along_axis`; the output has the shape of indices. Inputs: x, indices (i32 or i64).

    Dimensions other than axis may be smaller in indices than in x.
    """

    axis: int

    def infer(self, inputs: Sequence[TensorType | None]) -> tuple[TensorType, ...]:
        (x, indices), _ = operands(inputs, 2)
        _expect_elements(x, indices, self.axis)
        return (with_shape(x, indices.shape),)

    def reference(self, x: np.ndarray, indices: np.ndarray) -> tuple[np.ndarray, ...]:
        return (x[_element_key(x, indices, self.axis)],)


@dataclass(frozen=True, slots=True)
class GatherND(Op):
    """https://onnx.ai/onnx/operators/onnx__GatherND.html Inputs: x, indices i64."""

    batch_dims: int = 0

    def infer(self, inputs: Sequence[TensorType | None]) -> tuple[TensorType, ...]:
        (x, indices), _ = operands(inputs, 2)
        expect_dtype("indices", indices, DType.I64)
        b = self.batch_dims
        expect(x.rank > 0 and indices.rank > 0, "x and indices of rank 1 or more", f"{x} and {indices}")
        expect(0 <= b < indices.rank, f"batch_dims within 0..{indices.rank - 1}", b)
        expect(x.shape[:b] == indices.shape[:b], f"equal first {b} dimensions", f"{x} and {indices}")
        depth = b + indices.shape[-1]
        expect(depth <= x.rank, f"indices of at most {x.rank - b} coordinates", indices)
        _expect_entries(x, range(b, depth), math.prod(indices.shape[:-1]))
        return (with_shape(x, (*indices.shape[:-1], *x.shape[depth:])),)

    def reference(self, x: np.ndarray, indices: np.ndarray) -> tuple[np.ndarray, ...]:
        b = self.batch_dims
        grid = np.indices(indices.shape[:-1], sparse=True)[:b]
        coordinates = _coordinates(indices, x.shape[b:])
        shape = (*indices.shape[:-1], *x.shape[b + len(coordinates) :])
        return (np.broadcast_to(x[(*grid, *coordinates)], shape).copy(),)


@dataclass(frozen=True, slots=True)
class ScatterElements(Op):
    """Copy x, then write or combine updates at indices along axis. Inputs: x, indices (i32/i64), updates.

    `reduction`: "none" (the last of equal positions stays), "add", "mul", "min", "max".
    https://onnx.ai/onnx/operators/onnx__ScatterElements.html
    """

    axis: int
    reduction: str = "none"
    inplace: ClassVar[tuple[int, ...]] = (0,)

    def infer(self, inputs: Sequence[TensorType | None]) -> tuple[TensorType, ...]:
        (x, indices, updates), _ = operands(inputs, 3)
        _expect_elements(x, indices, self.axis)
        _expect_updates(x, updates, self.reduction)
        expect_shape("updates", updates, indices.shape)
        return (x,)

    @np.errstate(all="ignore")
    def reference(self, x: np.ndarray, indices: np.ndarray, updates: np.ndarray) -> tuple[np.ndarray, ...]:
        return (_scatter(x, _element_key(x, indices, self.axis), updates, self.reduction),)


@dataclass(frozen=True, slots=True)
class ScatterND(Op):
    """https://onnx.ai/onnx/operators/onnx__ScatterND.html Inputs: x, indices i64, updates. As ScatterElements else."""

    reduction: str = "none"
    inplace: ClassVar[tuple[int, ...]] = (0,)

    def infer(self, inputs: Sequence[TensorType | None]) -> tuple[TensorType, ...]:
        (x, indices, updates), _ = operands(inputs, 3)
        expect_dtype("indices", indices, DType.I64)
        expect(x.rank > 0 and indices.rank > 0, "x and indices of rank 1 or more", f"{x} and {indices}")
        depth = indices.shape[-1]
        expect(depth <= x.rank, f"indices of at most {x.rank} coordinates", indices)
        _expect_entries(x, range(depth), math.prod(indices.shape[:-1]))
        _expect_updates(x, updates, self.reduction)
        expect_shape("updates", updates, (*indices.shape[:-1], *x.shape[depth:]))
        return (x,)

    @np.errstate(all="ignore")
    def reference(self, x: np.ndarray, indices: np.ndarray, updates: np.ndarray) -> tuple[np.ndarray, ...]:
        depth = indices.shape[-1]
        flat = indices.reshape(math.prod(indices.shape[:-1]), depth)
        rows = updates.reshape(flat.shape[0], *x.shape[depth:])
        if not depth:  # every update covers the whole tensor
            flat, rows, target = np.zeros((flat.shape[0], 1), np.int64), rows, x[None]
        else:
            target = x
        return (_scatter(target, _coordinates(flat, target.shape), rows, self.reduction).reshape(x.shape),)


@dataclass(frozen=True, slots=True)
class OneHot(Op):
    """Inputs: indices (any integer or f32), values [2] (off, on). An index outside [-depth, depth-1] gives all off.

    The output has the shape of indices with `depth` inserted at `axis` (0 to rank); f32 indices are truncated.
    """

    axis: int
    depth: int

    def infer(self, inputs: Sequence[TensorType | None]) -> tuple[TensorType, ...]:
        (indices, values), _ = operands(inputs, 2)
        expect(indices.dtype is not DType.BOOL, "indices of an integer type or f32", indices)
        expect_shape("values", values, (2,))
        expect(0 <= self.axis <= indices.rank, f"axis within 0..{indices.rank}", self.axis)
        expect(self.depth >= 0, "a depth of 0 or more", self.depth)
        return (with_shape(values, (*indices.shape[: self.axis], self.depth, *indices.shape[self.axis :])),)

    def reference(self, indices: np.ndarray, values: np.ndarray) -> tuple[np.ndarray, ...]:
        index = np.expand_dims(np.trunc(indices) if indices.dtype.kind == "f" else indices, self.axis)
        levels = np.arange(self.depth).reshape(-1, *(1,) * (indices.ndim - self.axis))
        return (values[((index == levels) | (index == levels - self.depth)).astype(np.int64)],)


@dataclass(frozen=True, slots=True)
class ReverseSequence(Op):
    """Reverse the first sequence_lens[b] entries along time_axis of each batch entry. Inputs: x, sequence_lens i64."""

    batch_axis: int
    time_axis: int

    def infer(self, inputs: Sequence[TensorType | None]) -> tuple[TensorType, ...]:
        (x, lengths), _ = operands(inputs, 2)
        expect_axes(sorted((self.batch_axis, self.time_axis)), x.rank)
        expect_dtype("sequence_lens", lengths, DType.I64)
        expect_shape("sequence_lens", lengths, (x.shape[self.batch_axis],))
        return (x,)

    def reference(self, x: np.ndarray, lengths: np.ndarray) -> tuple[np.ndarray, ...]:
        moved = np.moveaxis(x, (self.batch_axis, self.time_axis), (0, 1))
        time = np.arange(moved.shape[1])
        ends = np.clip(lengths, 0, moved.shape[1])[:, None]
        order = np.where(time < ends, ends - 1 - time, time)
        y = moved[np.arange(moved.shape[0])[:, None], order]
        return (np.ascontiguousarray(np.moveaxis(y, (0, 1), (self.batch_axis, self.time_axis))),)


def _expect_entries(x: TensorType, axes: Sequence[int], count: int) -> None:
    """Raise ShapeError if `count` > 0 entries are to be found along axes of x that have none."""
    expect(count == 0 or all(x.shape[axis] > 0 for axis in axes), f"entries along axes {tuple(axes)}", x)


def _expect_elements(x: TensorType, indices: TensorType, axis: int) -> None:
    """Raise ShapeError unless indices can point along axis of x, one by one."""
    expect_dtype("indices", indices, *INDEX)
    expect_axes((axis,), x.rank)
    expect(indices.rank == x.rank, f"indices of rank {x.rank}", indices)
    within = all(i == axis or n <= m for i, (n, m) in enumerate(zip(indices.shape, x.shape, strict=True)))
    expect(within, f"indices within {x} but along axis {axis}", indices)
    _expect_entries(x, (axis,), indices.elements)


def _expect_updates(x: TensorType, updates: TensorType, reduction: str) -> None:
    expect_choice("reduction", reduction, REDUCTIONS)
    expect_same("updates", updates, x)
    expect(reduction == "none" or x.dtype is not DType.BOOL, "numbers to combine", x)


def _positions(indices: np.ndarray, extent: int) -> np.ndarray:
    """Indices from the start, within 0 to extent - 1."""
    wide = indices.astype(np.int64)
    return np.clip(np.where(wide < 0, wide + extent, wide), 0, max(0, extent - 1))


def _coordinates(indices: np.ndarray, shape: Sequence[int]) -> tuple[np.ndarray, ...]:
    """One array of positions for each coordinate in the last dimension of indices."""
    return tuple(_positions(indices[..., i], shape[i]) for i in range(indices.shape[-1]))


def _element_key(x: np.ndarray, indices: np.ndarray, axis: int) -> tuple[np.ndarray, ...]:
    """The numpy key of x for indices that replace the coordinate along axis."""
    key: list[np.ndarray] = list(np.indices(indices.shape, sparse=True))
    key[axis] = _positions(indices, x.shape[axis])
    return tuple(key)


def _scatter(x: np.ndarray, key: tuple[np.ndarray, ...], updates: np.ndarray, reduction: str) -> np.ndarray:
    y = x.copy()
    if reduction == "none":
        y[key] = updates
    else:
        _COMBINE[reduction].at(y, key, updates)
    return y
