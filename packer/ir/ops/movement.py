"""Operators that move data without arithmetic. Any element type."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from packer.ir.ops.base import Dependence, Op, Part
from packer.ir.ops.region import alike, broadcast_box, full_along, pointwise, widened
from packer.ir.ops.shape import (
    broadcast,
    expect,
    expect_choice,
    expect_length,
    expect_same,
    expect_shape,
    operands,
    with_shape,
)
from packer.ir.types import Box, TensorType, extents_of, whole

__all__ = ["Concat", "Expand", "Pad", "Reshape", "Slice", "Tile", "Transpose"]


@dataclass(frozen=True, slots=True)
class Reshape(Op):
    """Same elements in row-major order under another static shape (also Flatten, Squeeze, Unsqueeze)."""

    shape: tuple[int, ...]
    inplace: ClassVar[tuple[int, ...]] = (0,)

    def infer(self, inputs: Sequence[TensorType | None]) -> tuple[TensorType, ...]:
        (x,), _ = operands(inputs, 1)
        expect(min(self.shape, default=0) >= 0, "a static shape", self.shape)
        expect(math.prod(self.shape) == x.elements, f"a shape of {x.elements} elements for {x}", self.shape)
        return (with_shape(x, self.shape),)

    def dependence(self, inputs: Sequence[TensorType | None]) -> tuple[Dependence, ...]:
        (x,), _ = operands(inputs, 1)
        found = [Dependence.POINTWISE if extent == 1 else Dependence.FULL for extent in self.shape]
        for _, (axis, _), whole_group in alike(x.shape, self.shape):
            found[axis] = Dependence.POINTWISE if whole_group else Dependence.REGION
        return tuple(found)

    def grain(self, inputs: Sequence[TensorType | None]) -> tuple[int, ...]:
        (x,), _ = operands(inputs, 1)
        found = [1] * len(self.shape)
        for (_, step), (axis, own), _ in alike(x.shape, self.shape):
            found[axis] = math.lcm(step, own) // own
        return tuple(found)

    def part(self, box: Box, inputs: Sequence[TensorType | None]) -> Part:
        (x,), _ = operands(inputs, 1)
        read = list(whole(x))
        for (axis, step), (result, own), _ in alike(x.shape, self.shape):
            begin, end = box[result]
            read[axis] = (begin * own // step, end * own // step)
        return Part(Reshape(extents_of(box)), (tuple(read),), box)

    def reference(self, x: np.ndarray) -> tuple[np.ndarray, ...]:
        return (x.reshape(self.shape),)


@dataclass(frozen=True, slots=True)
class Transpose(Op):
    """Dimension i of the output is dimension perm[i] of the input."""

    perm: tuple[int, ...]

    def infer(self, inputs: Sequence[TensorType | None]) -> tuple[TensorType, ...]:
        (x,), _ = operands(inputs, 1)
        expect(sorted(self.perm) == list(range(x.rank)), f"a permutation of {x.rank} dimensions", self.perm)
        return (with_shape(x, (x.shape[i] for i in self.perm)),)

    def dependence(self, inputs: Sequence[TensorType | None]) -> tuple[Dependence, ...]:
        return pointwise(len(self.perm))

    def part(self, box: Box, inputs: Sequence[TensorType | None]) -> Part:
        read = [(0, 0)] * len(box)
        for axis, span in zip(self.perm, box, strict=True):
            read[axis] = span
        return Part(self, (tuple(read),), box)

    def reference(self, x: np.ndarray) -> tuple[np.ndarray, ...]:
        return (np.ascontiguousarray(x.transpose(self.perm)).reshape([x.shape[i] for i in self.perm]),)


@dataclass(frozen=True, slots=True)
class Slice(Op):
    """`y[i...] = x[starts + i * steps]` over all dimensions; `sizes` is the output shape.

    Steps may be negative, not zero.
    """

    starts: tuple[int, ...]
    steps: tuple[int, ...]
    sizes: tuple[int, ...]

    def infer(self, inputs: Sequence[TensorType | None]) -> tuple[TensorType, ...]:
        (x,), _ = operands(inputs, 1)
        for what, values in (("starts", self.starts), ("steps", self.steps), ("sizes", self.sizes)):
            expect_length(what, values, x.rank)
        expect(0 not in self.steps, "steps other than 0", self.steps)
        expect(min(self.sizes, default=0) >= 0, "sizes of 0 or more", self.sizes)
        if math.prod(self.sizes):
            for start, step, size, extent in zip(self.starts, self.steps, self.sizes, x.shape, strict=True):
                last = start + (size - 1) * step
                inside = 0 <= start < extent and 0 <= last < extent
                expect(inside, f"a slice within 0..{extent - 1}", f"{start}..{last}")
        return (with_shape(x, self.sizes),)

    def dependence(self, inputs: Sequence[TensorType | None]) -> tuple[Dependence, ...]:
        return tuple(
            Dependence.POINTWISE if (start, step) == (0, 1) else Dependence.REGION
            for start, step in zip(self.starts, self.steps, strict=True)
        )

    def part(self, box: Box, inputs: Sequence[TensorType | None]) -> Part:
        read, starts = [], []
        for (begin, end), start, step in zip(box, self.starts, self.steps, strict=True):
            first, last = start + begin * step, start + (end - 1) * step
            low, high = (first, last) if step > 0 else (last, first)
            read.append((low, high + 1))
            starts.append(first - low)
        return Part(Slice(tuple(starts), self.steps, extents_of(box)), (tuple(read),), box)

    def reference(self, x: np.ndarray) -> tuple[np.ndarray, ...]:
        if not math.prod(self.sizes):
            return (np.empty(self.sizes, x.dtype),)
        key = []
        for start, step, size in zip(self.starts, self.steps, self.sizes, strict=True):
            stop = start + size * step
            key.append(slice(start, None if stop < 0 else stop, step))
        return (np.array(x[tuple(key)]),)


@dataclass(frozen=True, slots=True)
class Concat(Op):
    """Join one or more inputs of one dtype along `axis` (>= 0). Absent ones (a part need not meet all) add nothing."""

    axis: int

    def infer(self, inputs: Sequence[TensorType | None]) -> tuple[TensorType, ...]:
        parts = [t for t in inputs if t is not None]
        expect(len(parts) > 0, "1 input or more", "none")
        first = parts[0]
        expect(0 <= self.axis < first.rank, f"axis within 0..{first.rank - 1}", self.axis)
        before, after = first.shape[: self.axis], first.shape[self.axis + 1 :]
        for i, part in enumerate(parts):
            expect_same(f"input {i}", part, first)
            expect_shape(f"input {i}", part, (*before, *part.shape[self.axis : self.axis + 1], *after))
        return (with_shape(first, (*before, sum(part.shape[self.axis] for part in parts), *after)),)

    def dependence(self, inputs: Sequence[TensorType | None]) -> tuple[Dependence, ...]:
        rank = next(t.rank for t in inputs if t is not None)
        return tuple(Dependence.REGION if axis == self.axis else Dependence.POINTWISE for axis in range(rank))

    def part(self, box: Box, inputs: Sequence[TensorType | None]) -> Part:
        reads: list[Box | None] = []
        before, after, (begin, end) = box[: self.axis], box[self.axis + 1 :], box[self.axis]
        for t in inputs:
            extent = 0 if t is None else t.shape[self.axis]
            low, high = max(0, begin), min(extent, end)
            reads.append((*before, (low, high), *after) if low < high else None)
            begin, end = begin - extent, end - extent
        return Part(self, tuple(reads), box)

    def reference(self, *parts: np.ndarray | None) -> tuple[np.ndarray, ...]:
        return (np.concatenate([x for x in parts if x is not None], self.axis),)


@dataclass(frozen=True, slots=True)
class Expand(Op):
    """Broadcast x to the static `shape` (already the broadcast result, rank >= that of x)."""

    shape: tuple[int, ...]

    def infer(self, inputs: Sequence[TensorType | None]) -> tuple[TensorType, ...]:
        (x,), _ = operands(inputs, 1)
        expect(min(self.shape, default=0) >= 0, "a static shape", self.shape)
        expect(broadcast(x.shape, self.shape) == self.shape, f"a shape that {x} broadcasts to", self.shape)
        return (with_shape(x, self.shape),)

    def dependence(self, inputs: Sequence[TensorType | None]) -> tuple[Dependence, ...]:
        return pointwise(len(self.shape))

    def part(self, box: Box, inputs: Sequence[TensorType | None]) -> Part:
        (x,), _ = operands(inputs, 1)
        return Part(Expand(extents_of(box)), (broadcast_box(box, x.shape),), box)

    def reference(self, x: np.ndarray) -> tuple[np.ndarray, ...]:
        return (np.broadcast_to(x, self.shape).copy(),)


@dataclass(frozen=True, slots=True)
class Tile(Op):
    """Repeat x `repeats[i]` times along dimension i."""

    repeats: tuple[int, ...]

    def infer(self, inputs: Sequence[TensorType | None]) -> tuple[TensorType, ...]:
        (x,), _ = operands(inputs, 1)
        expect_length("repeats", self.repeats, x.rank)
        expect(min(self.repeats, default=0) >= 0, "repeats of 0 or more", self.repeats)
        return (with_shape(x, (n * r for n, r in zip(x.shape, self.repeats, strict=True))),)

    def dependence(self, inputs: Sequence[TensorType | None]) -> tuple[Dependence, ...]:
        return full_along(self._tiled(), len(self.repeats))

    def part(self, box: Box, inputs: Sequence[TensorType | None]) -> Part:
        (x,), _ = operands(inputs, 1)
        return Part(self, (widened(box, x.shape, self._tiled()),), box)

    def _tiled(self) -> tuple[int, ...]:
        return tuple(axis for axis, count in enumerate(self.repeats) if count != 1)

    def reference(self, x: np.ndarray) -> tuple[np.ndarray, ...]:
        return (np.tile(x, self.repeats),)


@dataclass(frozen=True, slots=True)
class Pad(Op):
    """Pad by `pads` (begins of all dimensions, then ends; negative values crop).

    `mode`: "constant", "reflect", "edge", "wrap"; all but "constant" read x as if it were repeated without end, so that
    the output holds its positions from -begin to extent + end - 1.
    Inputs: x, optional scalar value of x's dtype for "constant" (default 0).
    https://onnx.ai/onnx/operators/onnx__Pad.html
    """

    pads: tuple[int, ...]
    mode: str = "constant"

    def infer(self, inputs: Sequence[TensorType | None]) -> tuple[TensorType, ...]:
        (x,), (value,) = operands(inputs, 1, 1)
        expect_choice("mode", self.mode, ("constant", "reflect", "edge", "wrap"))
        expect_length("pads", self.pads, 2 * x.rank)
        if value is not None:
            expect_same("value", value, x)
            expect_shape("value", value, ())
        shape = self._padded(x.shape)
        expect(min(shape, default=0) >= 0, f"pads that crop no more than {x} has", self.pads)
        if self.mode != "constant":
            for extent, padded in zip(x.shape, shape, strict=True):
                expect(extent > 0 or padded == 0, f"a non-empty dimension to pad by '{self.mode}'", x)
        return (with_shape(x, shape),)

    def dependence(self, inputs: Sequence[TensorType | None]) -> tuple[Dependence, ...]:
        (x,), _ = operands(inputs, 1, 1)
        found = []
        for extent, begin, end in zip(x.shape, self._begins(), self._ends(), strict=True):
            if begin == end == 0:
                found.append(Dependence.POINTWISE)
            else:
                found.append(Dependence.REGION if self.mode == "constant" and extent > 0 else Dependence.FULL)
        return tuple(found)

    def part(self, box: Box, inputs: Sequence[TensorType | None]) -> Part:
        """A piece that is padding alone reads the nearest entry and crops it."""
        (x,), _ = operands(inputs, 1, 1)
        read, begins, ends = [], [], []
        for extent, pad, past, (begin, end) in zip(x.shape, self._begins(), self._ends(), box, strict=True):
            low, high = begin - pad, end - pad
            if self.mode == "constant" and extent > 0:
                low = min(max(0, low), extent - 1)
                high = max(min(extent, high), low + 1)
                pad, past = low - begin + pad, end - pad - high
            elif pad or past:
                low, high = 0, extent
            read.append((low, high))
            begins.append(pad)
            ends.append(past)
        reads: tuple[Box | None, ...] = (tuple(read), *(None if t is None else () for t in inputs[1:]))
        return Part(Pad((*begins, *ends), self.mode), reads, box)

    def reference(self, x: np.ndarray, value: np.ndarray | None = None) -> tuple[np.ndarray, ...]:
        if not x.size:
            return (np.full(self._padded(x.shape), 0 if value is None else value, x.dtype),)
        y, inside = x, np.ones((), bool)
        for axis, (begin, end) in enumerate(zip(self._begins(), self._ends(), strict=True)):
            extent = x.shape[axis]
            position = np.arange(-begin, extent + end)
            valid = (position >= 0) & (position < extent)
            inside = inside & valid.reshape([-1 if i == axis else 1 for i in range(x.ndim)])
            if self.mode == "reflect":
                position = position % max(1, 2 * extent - 2)
                position = np.minimum(position, 2 * extent - 2 - position)
            elif self.mode == "wrap":
                position = position % max(1, extent)
            y = np.take(y, position, axis, mode="clip")
        if self.mode != "constant":
            return (y,)
        return (np.where(inside, y, np.zeros((), x.dtype) if value is None else value),)

    def _padded(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        return tuple(n + b + e for n, b, e in zip(shape, self._begins(), self._ends(), strict=True))

    def _begins(self) -> tuple[int, ...]:
        return self.pads[: len(self.pads) // 2]

    def _ends(self) -> tuple[int, ...]:
        return self.pads[len(self.pads) // 2 :]
