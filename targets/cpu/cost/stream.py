"""Kernels that pass over their operands once: pointwise functions, folds, windows, and copies."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from packer.ir import TensorType
from packer.ir.ops import Binary, Concat, Pool, Reduce, Resize, Transpose
from targets.base import Form, Layout, Work
from targets.cpu.cost.at import At
from targets.cpu.cost.sizes import activation_cycles, overlapped, rows_cycles, stored, transpose_cycles

__all__ = [
    "concat_seconds",
    "copy_seconds",
    "fold_seconds",
    "lrn_seconds",
    "moved_seconds",
    "pointwise_seconds",
    "pool_seconds",
    "reorder_seconds",
    "resize_seconds",
    "scalar_seconds",
]


def moved_seconds(work: Work, form: Form, distances: Sequence[float], at: At) -> float:
    """Seconds to reach every operand once."""
    total, i = 0.0, 0
    for i, type in enumerate(work.inputs):
        if type is not None:
            total += stored(type, form.inputs[i]) * at.byte(distances[i])
    for k, type in enumerate(work.outputs):
        total += stored(type, form.outputs[k]) * at.byte(distances[len(work.inputs) + k])
    return total


def pointwise_seconds(work: Work, form: Form, distances: Sequence[float], at: At) -> float:
    """Unary, Binary, ScaleShift: by vectors of the output."""
    op, y = work.op, work.outputs[0]
    x = work.inputs[0]
    assert x is not None
    if not (x.dtype.is_float and y.dtype.is_float):
        return scalar_seconds(work, form, distances, at)
    vectors = stored(y, form.outputs[0]) / 4 / at.lanes
    kind = getattr(op, "kind", "")
    cycles = activation_cycles(kind, vectors, at)
    if isinstance(op, Binary):
        cycles = vectors * (2.0 / at.load + 1.0 / at.store)
        if kind in ("pow", "mod", "fmod"):
            cycles += vectors * at.lanes * 30.0
    activation = getattr(op, "activation", None)
    if activation is not None:
        cycles += activation_cycles(activation.kind, vectors, at)
    return overlapped(cycles * at.cycle / at.efficiency.elementwise, moved_seconds(work, form, distances, at))


def scalar_seconds(work: Work, form: Form, distances: Sequence[float], at: At) -> float:
    """Whatever has no model of its own: a few cycles an element of what is larger, inputs or outputs."""
    elements = max(
        max((t.elements for t in work.inputs if t is not None), default=0), max(t.elements for t in work.outputs)
    )
    return overlapped(3.0 * elements * at.cycle / at.efficiency.scalar, moved_seconds(work, form, distances, at))


def concat_seconds(work: Work, form: Form, distances: Sequence[float], at: At) -> float:
    op, y = work.op, work.outputs[0]
    assert isinstance(op, Concat)
    total, cycles = moved_seconds(work, form, distances, at), 0.0
    if form.outputs[0] is Layout.BLOCK16 and op.axis == (1 if y.rank > 1 else 0):
        at_channel, pixels = 0, prod(y.shape[2:]) * y.shape[0]
        for type in work.inputs:
            if type is None:  # a part has nothing of it
                continue
            channels = type.shape[op.axis]
            if at_channel % 16 or (channels % 16 and at_channel + channels != y.shape[op.axis]):
                cycles += 8.0 * pixels * (channels // 16 + 1 + (at_channel % 16 + channels % 16 > 16))
            at_channel += channels
    else:
        outer = prod(y.shape[: op.axis])
        cycles = rows_cycles(outer * len(work.inputs), y.bytes / max(outer * len(work.inputs), 1))
    return overlapped(cycles * at.cycle / at.efficiency.move, total)


def reorder_seconds(type: TensorType, source: Layout, destination: Layout, distance: float | None, at: At) -> float:
    """A change of layout of activations (or of weights that are only known when the program runs)."""
    moved = stored(type, source) + stored(type, destination)
    moved *= at.byte(moved if distance is None else distance)
    shape = type.shape
    planes = shape[0] if len(shape) > 1 else 1
    channels, pixels = (shape[0], 1) if len(shape) == 1 else (shape[1], prod(shape[2:]))
    if destination is Layout.WEIGHT16 or source is Layout.WEIGHT16:
        cycles = 3.0 * type.elements
    else:
        cycles = planes * transpose_cycles(pixels, channels)
    return overlapped(cycles * at.cycle / at.efficiency.move, moved)


def copy_seconds(work: Work, form: Form, distances: Sequence[float], at: At) -> float:
    """Transpose, Slice, Expand, Tile, Reshape: long runs at the speed of memory, short ones and strides by elements."""
    op, x, y = work.op, work.inputs[0], work.outputs[0]
    assert x is not None
    cycles = 0.0
    if isinstance(op, Transpose):
        kept, run = len(op.perm), 1
        while kept > 0 and op.perm[kept - 1] == kept - 1:
            kept -= 1
            run *= x.shape[kept]
        if kept > 0:
            size = x.dtype.bytes
            cycles = y.elements * (0.6 if size == 4 else 1.0) if run == 1 else rows_cycles(y.elements / run, run * size)
    else:
        run = y.shape[-1] if y.shape else 1
        if y.bytes < 4 * x.bytes or run < 16:
            cycles = rows_cycles(y.elements / max(run, 1), run * y.dtype.bytes) / 4
    return overlapped(cycles * at.cycle / at.efficiency.move, moved_seconds(work, form, distances, at))


def pool_seconds(work: Work, form: Form, distances: Sequence[float], at: At) -> float:
    op, x, y = work.op, work.inputs[0], work.outputs[0]
    assert isinstance(op, Pool)
    assert x is not None
    taps = prod(min(k, n) for k, n in zip(op.kernel, x.shape[2:], strict=True))
    if not x.dtype.is_float or len(work.outputs) > 1 or op.kind == "lp":
        cycles = y.elements * (taps * 2.0 + 10.0) / at.efficiency.scalar
    elif form.inputs[0] is Layout.BLOCK16:
        vectors = stored(y, form.outputs[0]) / 4 / at.lanes
        cycles = vectors * (max(taps * max(1.0 / at.load, 1.0), 0.0) + 6.0) / at.efficiency.pool
    else:
        rows = prod(y.shape[:-1])
        height = taps / min(op.kernel[-1], x.shape[-1])
        width, out = x.shape[-1] + 16, y.shape[-1]
        steps = 1.0 if op.strides[-1] == 1 else 2.0 if op.strides[-1] == 2 else 4.0
        cycles = rows * (width / at.lanes * (height + 2) + (out / at.lanes + 1) * op.kernel[-1] * steps + 40.0)
        cycles /= at.efficiency.pool
    return overlapped(cycles * at.cycle, moved_seconds(work, form, distances, at))


def fold_seconds(work: Work, form: Form, distances: Sequence[float], at: At) -> float:
    """Reduce, Softmax, Normalize and their kin: passes over the input, and a start for every output."""
    op, x, y = work.op, work.inputs[0], work.outputs[0]
    assert x is not None
    if not x.dtype.is_float:
        return scalar_seconds(work, form, distances, at)
    vectors = stored(x, form.inputs[0]) / 4 / at.lanes
    name = type(op).__name__
    if name == "Reduce":
        assert isinstance(op, Reduce)
        cycles = vectors * max(1.0, 1.0 / at.load) * 2.0 + y.elements * 2.0
        if op.kind in ("prod", "log_sum_exp"):
            cycles += x.elements * 10.0
        return overlapped(cycles * at.cycle / at.efficiency.reduce, moved_seconds(work, form, distances, at))
    if name == "Softmax":
        cycles = vectors * 16.0 + 60.0
        return overlapped(cycles * at.cycle / at.efficiency.softmax, moved_seconds(work, form, distances, at))
    cycles = vectors * 6.0 + 100.0
    return overlapped(cycles * at.cycle / at.efficiency.reduce, moved_seconds(work, form, distances, at))


def lrn_seconds(work: Work, form: Form, distances: Sequence[float], at: At) -> float:
    op, x = work.op, work.inputs[0]
    assert x is not None
    vectors = stored(x, form.inputs[0]) / 4 / at.lanes
    cycles = vectors * (60.0 + op.size)  # type: ignore[attr-defined]
    return overlapped(cycles * at.cycle / at.efficiency.elementwise, moved_seconds(work, form, distances, at))


def resize_seconds(work: Work, form: Form, distances: Sequence[float], at: At) -> float:
    op, y = work.op, work.outputs[0]
    assert isinstance(op, Resize)
    per_element = {"nearest": 1.0, "linear": 4.0, "cubic": 12.0}[op.mode]
    if form.outputs[0] is Layout.BLOCK16:
        per_element = {"nearest": 3.0, "linear": 12.0, "cubic": 40.0}[op.mode] / at.lanes
    cycles = y.elements * per_element
    return overlapped(cycles * at.cycle / at.efficiency.move, moved_seconds(work, form, distances, at))
