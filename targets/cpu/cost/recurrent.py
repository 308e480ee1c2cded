"""Recurrent layers: products of the inputs, then time steps one by one (runtime_c/src/kernels/recurrent.c)."""

from __future__ import annotations

from collections.abc import Sequence

from packer.ir.ops import Recurrent
from targets.base import Form, Work
from targets.cpu.cost.at import At
from targets.cpu.cost.dense import dense_seconds
from targets.cpu.cost.operands import operands
from targets.cpu.cost.pointwise import function_cycles
from targets.cpu.cost.sparse import slices_seconds

__all__ = ["recurrent_seconds"]

_LINES = 56  # inputs multiplied at a time
_STEP = 60.0  # cycles of a time step of a sequence, besides its vectors
_VECTOR = 6.0  # cycles of what joins the gates, for each 4 floats of a gate
_FUNCTIONS = {"rnn": (1,), "gru": (2, 1), "lstm": (3, 1, 1)}  # how often each is applied


def recurrent_seconds(work: Work, form: Form, distances: Sequence[float], at: At) -> float:
    op, x, w, r = work.op, *work.inputs[:3]
    assert isinstance(op, Recurrent)
    assert x is not None
    assert w is not None
    assert r is not None
    time, batch = (x.shape[1], x.shape[0]) if op.batch_major else x.shape[:2]
    directions, rows, features = w.shape
    band = min(batch, _LINES)
    bands, steps = -(-batch // max(band, 1)), max(1, _LINES // max(band, 1))
    blocks, gates = -(-rows // 16), rows // op.hidden
    drive = dense_seconds(at, 1, min(steps, max(time, 1)) * band, blocks, features, 1, distances[1])
    recur = dense_seconds(at, 1, band, blocks, op.hidden, 1, r.bytes / directions)
    if form.implementation == "sliced":
        lines = min(steps, max(time, 1)) * band  # each slice meets them all one after the other
        near = slices_seconds(at, work.density, features, rows, 0.0)
        drive = slices_seconds(at, work.density, features, rows, distances[1]) + (lines - 1) * near
        recur = band * slices_seconds(at, work.density, op.hidden, rows, work.density * r.bytes / directions)
    counts = zip(op.activations, _FUNCTIONS[op.kind], strict=False)
    cycles = sum(function_cycles(kind, n * op.hidden / at.lanes, at) for kind, n in counts)
    cycles += _STEP + _VECTOR * gates * op.hidden / 4
    each = bands * recur + batch * cycles * at.cycle / at.efficiency.elementwise
    packed = 0.0 if work.constant[1] else (w.elements + r.elements) * at.cycle / at.efficiency.move
    busy = directions * (-(-time // steps) * bands * drive + time * each)
    return busy + packed + 0.1 * operands(work, form, distances, at)
