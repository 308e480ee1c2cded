"""Resize: where an output's element comes from, and with which weights, is in tables made when packing."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from packer.ir import DType
from packer.ir.ops import Resize
from targets.cuda.array import Array
from targets.cuda.emit.ptx import Builder, f32
from targets.cuda.generic.access import Constants, Inputs, Walk, address, kernel, load, offsets, operand, store
from targets.cuda.generic.pick import OUTSIDE, inside, pick, steps_to, table_of
from targets.cuda.kernel import Code

__all__ = ["resize"]

_MOST_TAPS = 256  # inputs of an output: all are loaded by straight code


@np.errstate(all="ignore")
def resize(op: Resize, inputs: Inputs, outputs: Sequence[Array], constants: Constants) -> Code | None:
    """Nearest of any element type; linear and cubic of f32, unless antialiasing takes too many inputs."""
    x, y = inputs[0], outputs[0]
    assert x is not None
    pointer = operand(0, inputs, constants)
    if op.mode == "nearest":
        positions = {axis: _nearest(op, axis, x.shape[axis]) for axis in op.resized(x.shape)}
        moving = {axis: p for axis, p in positions.items() if not np.array_equal(p, np.arange(x.shape[axis]))}
        return pick("resize", x, pointer, y, moving, op.extrapolation)
    axes = [_Axis.of(op, axis, x) for axis in op.resized(x.shape)]
    axes = [axis for axis in axes if not axis.is_identity(x)]
    if math.prod(len(axis.weights) for axis in axes) > _MOST_TAPS:
        return None
    if not axes:
        return pick("resize", x, pointer, y, {})
    return _weighted(x, pointer, y, axes, op.extrapolation)


def _nearest(op: Resize, axis: int, extent: int) -> np.ndarray:
    return np.where(op.beyond(axis, extent), OUTSIDE, op.positions(axis, extent))


@dataclass(frozen=True, slots=True, eq=False)
class _Axis:
    """A dimension that is resized: offsets and weights, [taps, out], of the inputs of each of its entries."""

    axis: int
    offsets: np.ndarray
    weights: np.ndarray

    @classmethod
    def of(cls, op: Resize, axis: int, x: Array) -> _Axis:
        """As few taps as there are weights other than zero; what is beyond the input is marked in all of them."""
        matrix = op.matrix(axis, x.shape[axis])
        used = matrix != 0
        taps = max(1, int(used.sum(1).max()))
        positions = np.argsort(~used, axis=1, kind="stable")[:, :taps].T
        weights = np.take_along_axis(matrix, positions.T, 1).T
        positions = np.where(op.beyond(axis, x.shape[axis]), OUTSIDE, positions)
        return cls(axis, table_of(positions, x.strides[axis]), weights.astype(np.float32))

    def is_identity(self, x: Array) -> bool:
        """Whether each entry is that of the input."""
        extent = x.shape[self.axis]
        own = np.arange(extent)[None] * x.strides[self.axis]
        return np.array_equal(self.offsets, own) and bool((self.weights == 1).all())


def _weighted(x: Array, pointer: int | np.ndarray, y: Array, axes: Sequence[_Axis], filler: float) -> Code:
    """A kernel of sums over the taps of all axes, the last one innermost."""
    rank = len(y.shape)
    begins = [0, *np.cumsum([axis.offsets.size for axis in axes])[:-1].tolist()]
    resized = {axis.axis for axis in axes}
    strides = tuple(0 if axis in resized else stride for axis, stride in enumerate(x.strides))
    walk = Walk.over(y.shape, strides, y.strides, *(steps_to(axis.axis, rank) for axis in axes))
    fill = any((axis.offsets < 0).any() for axis in axes)

    def body(b: Builder, index: str) -> None:
        place, end, *entries = offsets(b, walk, index, (x.origin, y.origin, *begins))
        taps, signs = [], []
        for axis, entry in zip(axes, entries, strict=True):
            own = []
            at = address(b, "offsets", entry, DType.I32), address(b, "weights", entry, DType.F32)
            for tap in range(len(axis.weights)):
                step = 4 * tap * axis.weights.shape[1]
                offset = load(b, DType.I32, at[0], step, constant=True)
                if tap == 0:
                    signs.append(offset)
                if fill:
                    offset = b.new("r", "max.s32", offset, 0)
                own.append((offset, load(b, DType.F32, at[1], step, constant=True)))
            taps.append(own)
        value = _sum(b, x, place, taps)
        if fill:
            value = b.new("f", "selp.f32", value, f32(filler), inside(b, signs))
        store(b, y.dtype, address(b, "y", end, y.dtype), value)

    made = kernel("resize", ("x", "offsets", "weights", "y"), walk.elements, body)
    places = np.concatenate([axis.offsets.ravel() for axis in axes])
    weights = np.concatenate([axis.weights.ravel() for axis in axes])
    return Code((made,), (pointer, places, weights))


def _sum(b: Builder, x: Array, place: str, taps: Sequence[Sequence[tuple[str, str]]]) -> str:
    """The weighted sum of x over the taps of each axis."""
    if not taps:
        return load(b, x.dtype, address(b, "x", place, x.dtype), constant=True)
    total = b.new("f", "mov.f32", f32(0))
    for offset, weight in taps[0]:
        value = _sum(b, x, b.new("r", "add.u32", place, offset), taps[1:])
        total = b.new("f", "fma.rn.f32", value, weight, total)
    return total
