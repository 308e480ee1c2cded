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
_SHORT = (4, 8, 12, 16, 32, 64)  # bytes of runs that are copied by plain moves


def _runs_cycles(runs: float, bytes: float, at: At) -> float:
    """Cycles to copy so many runs of `bytes` in the first cache."""
    return runs * ((1.5 if bytes in _SHORT else 10.0) + bytes / 4 / at.lanes / at.store)


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
            else:
                cycles += _runs_cycles(-(-channels // 16), 64.0 * pixels, at)
            first += channels
    else:
        blocked = form.outputs[0] is Layout.BLOCK16 and op.axis > 1
        rows = prod((y.shape[0], -(-y.shape[1] // 16), *y.shape[2 : op.axis]) if blocked else y.shape[: op.axis])
        for type in work.inputs:
            if type is not None:
                cycles += _runs_cycles(rows, stored(type, form.outputs[0]) / max(rows, 1), at)
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
    """Transpose, Slice, Expand, Tile, Reshape: runs of neighbours, or element by element."""
    op, x, y = work.op, work.inputs[0], work.outputs[0]
    assert x is not None
    if isinstance(op, Transpose):
        cycles = _permute_cycles(x, op.perm, at)
    elif isinstance(op, Slice) and op.steps and op.steps[-1] != 1:
        cycles = (0.6 if op.steps[-1] == 2 and y.dtype.bytes == 4 else 2.1) * y.elements
    else:
        run = _run(x.shape, y.shape)
        cycles = _runs_cycles(y.elements / run, run * y.dtype.bytes, at)
    return overlapped(cycles * at.cycle / at.efficiency.move, operands(work, form, distances, at))


def _run(x: tuple[int, ...], y: tuple[int, ...]) -> int:
    """Elements of the input that stay neighbours when it is sliced, repeated or broadcast to the shape y."""
    run = 1
    for before, after in zip(reversed(x), reversed(y), strict=False):
        run *= after if before == 1 else min(before, after)  # one element is repeated by vectors
        if before != after:
            break
    return max(run, 1)


def _permute_cycles(x: TensorType, perm: Sequence[int], at: At) -> float:
    """Cycles of runs that stay together, or else of transposing matrices, of dimensions that stay neighbours merged."""
    order = [i for i in perm if x.shape[i] != 1]  # dimensions of one element do not matter
    place = {i: n for n, i in enumerate(sorted(order))}
    merged: list[tuple[int, int]] = []  # (place of the last dimension, extent)
    for i in order:
        extent = merged.pop()[1] if merged and merged[-1][0] == place[i] - 1 else 1
        merged.append((place[i], extent * x.shape[i]))
    if len(merged) < 2:
        return 0.0
    innermost, last = max(merged)[1], merged[-1][1]
    if merged[-1] == max(merged):
        return _runs_cycles(x.elements / max(last, 1), last * x.dtype.bytes, at)
    if x.dtype.bytes == 4 and (innermost in (2, 3) or last == 2):  # interleaved by vectors
        return _QUAD * x.elements
    return transpose_cycles(innermost, last) * x.elements / max(innermost * last, 1)


def pad_seconds(work: Work, form: Form, distances: Sequence[float], at: At) -> float:
    op, y = work.op, work.outputs[0]
    assert isinstance(op, Pad)
    cycles = 48.0 * prod(y.shape[:-1]) + 0.25 * y.elements
    return overlapped(cycles * at.cycle / at.efficiency.scalar, operands(work, form, distances, at))
