"""Kernels that only move elements: copies, transposes, padding, concatenation, changes of layout."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from packer.ir import TensorType
from packer.ir.ops import Concat, Pad, Slice, Transpose
from targets.base import Form, Layout, Work
from targets.cpu.cost.at import At
from targets.cpu.cost.operands import operands, overlapped, stored

__all__ = ["concat_seconds", "copy_seconds", "pad_seconds", "reorder_seconds", "transpose_cycles"]

_QUAD = 0.4  # cycles an element of transposing four by four
_SINGLE = 1.6  # cycles an element of transposing one by one
_RUN = 8.0  # cycles to go on to the next run of a copy


def transpose_cycles(pixels: float, channels: int) -> float:
    """Cycles to turn planes of `pixels` into pixels of `channels` or back: 4 by 4, the rest one by one."""
    whole = pixels // 4 * 4 * (channels // 4 * 4)
    return _QUAD * whole + _SINGLE * (pixels * channels - whole)


def concat_seconds(work: Work, form: Form, distances: Sequence[float], at: At) -> float:
    op, y = work.op, work.outputs[0]
    assert isinstance(op, Concat)
    cycles = 0.0
    if form.outputs[0] is Layout.BLOCK16 and op.axis == (1 if y.rank > 1 else 0):
        first, pixels = 0, y.elements / max(y.shape[op.axis], 1)
        for type in work.inputs:
            if type is None:  # a part has nothing of it
                continue
            channels = type.shape[op.axis]
            if first % 16 or (channels % 16 and first + channels != y.shape[op.axis]):
                merges = channels // 16 + 1 + (first % 16 + channels % 16 > 16)
                cycles += merges * (70.0 + 5.0 * pixels)
            first += channels
    else:
        blocked = form.outputs[0] is Layout.BLOCK16 and op.axis > 1
        shape = (y.shape[0], -(-y.shape[1] // 16), *y.shape[2 : op.axis]) if blocked else y.shape[: op.axis]
        cycles = _RUN * prod(shape) * len(work.inputs)
    return overlapped(cycles * at.cycle / at.efficiency.move, operands(work, form, distances, at))


def reorder_seconds(type: TensorType, source: Layout, destination: Layout, distance: float | None, at: At) -> float:
    """A change of layout of activations, or of weights that are only known when the program runs."""
    bytes = stored(type, source) + stored(type, destination)
    moved = at.moved(bytes, bytes if distance is None else distance)
    shape = type.shape
    planes, channels = (1, shape[0]) if len(shape) == 1 else (shape[0], shape[1])
    pixels = prod(shape[2:])
    if destination is Layout.WEIGHT16:
        cycles = 3.0 * type.elements
    else:
        cycles = planes * transpose_cycles(pixels, channels)
        if destination is Layout.BLOCK16:
            cycles += planes * pixels * 2.0 * (-channels % 16)  # lanes of padding
    return overlapped(cycles * at.cycle / at.efficiency.move, moved)


def copy_seconds(work: Work, form: Form, distances: Sequence[float], at: At) -> float:
    """Transpose, Slice, Expand, Tile, Reshape: long runs at the speed of memory, short ones and strides by elements."""
    op, x, y = work.op, work.inputs[0], work.outputs[0]
    assert x is not None
    if isinstance(op, Transpose):
        cycles = _transpose_cycles(x, op.perm)
    elif isinstance(op, Slice) and op.steps and op.steps[-1] != 1:
        cycles = 2.1 * y.elements
    else:
        run = y.shape[-1] if y.rank else 1
        for size, before in zip(y.shape[-2::-1], x.shape[:0:-1], strict=False):  # whole rows merge into longer runs
            if before != run or size == 0:
                break
            run *= size
        cycles = _RUN * y.elements / max(run, 1)
    return overlapped(cycles * at.cycle / at.efficiency.move, operands(work, form, distances, at))


def _transpose_cycles(x: TensorType, perm: Sequence[int]) -> float:
    """Cycles beyond moving bytes: of runs that stay together, or else of transposing the innermost dimensions."""
    order = [i for i in perm if x.shape[i] != 1]  # dimensions of one element do not matter
    run, kept = 1, sorted(order)
    while order and order[-1] == kept[-1]:
        run *= x.shape[order.pop()]
        kept.pop()
    if not order:
        return 0.0
    if run > 1:
        return _RUN * x.elements / run
    rows, columns = x.shape[kept[-1]], x.shape[order[-1]]
    return transpose_cycles(rows, columns) * x.elements / max(rows * columns, 1)


def pad_seconds(work: Work, form: Form, distances: Sequence[float], at: At) -> float:
    op, y = work.op, work.outputs[0]
    assert isinstance(op, Pad)
    cycles = 48.0 * prod(y.shape[:-1]) + 0.25 * y.elements
    return overlapped(cycles * at.cycle / at.efficiency.scalar, operands(work, form, distances, at))
