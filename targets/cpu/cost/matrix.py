"""Matrix products and recurrent layers."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from packer.ir.ops import MatMul, Recurrent
from targets.base import Form, Work
from targets.cpu.cost.at import At
from targets.cpu.cost.dense import dense_seconds
from targets.cpu.cost.sizes import activation_cycles, overlapped, stored
from targets.cpu.cost.stream import moved_seconds, scalar_seconds

__all__ = ["matmul_seconds", "recurrent_seconds"]

_BAND = 128 * 1024  # floats of the rows of a band (linear.c)
_PACKED = 64 * 1024  # floats of the second matrix packed at a time (gemm.c)


def matmul_seconds(work: Work, form: Form, distances: Sequence[float], at: At) -> float:
    op, a, b, y = work.op, work.inputs[0], work.inputs[1], work.outputs[0]
    assert isinstance(op, MatMul)
    assert a is not None
    assert b is not None
    if not a.dtype.is_float:
        return scalar_seconds(work, form, distances, at)
    depth = a.shape[-1] if a.rank else 1
    columns = b.shape[-1] if b.rank > 1 else 1
    rows = y.elements // max(columns, 1)
    extra = 0.0
    if op.activation is not None and op.activation.kind not in ("relu", "clip"):
        extra = activation_cycles(op.activation.kind, y.elements / at.lanes, at) * at.cycle / at.efficiency.elementwise
    moving = a.bytes * at.byte(distances[0]) + y.bytes * at.byte(distances[-1])
    blocks = -(-columns // 16)
    if work.constant[1] and b.rank == 2:  # linear: packed weights
        bands = -(-rows // max(_BAND // max(depth, 1), 14))
        band = -(-rows // bands)
        busy = dense_seconds(at, 1, band, blocks, depth, 1, distances[1])
        again = dense_seconds(at, 1, band, blocks, depth, 1, blocks * depth * 64.0)
        return busy + (bands - 1) * again + 0.3 * moving + extra
    batches = prod(y.shape[:-2]) if y.rank > 2 else 1
    rows //= max(batches, 1)
    group = max(1, min(blocks, _PACKED // 16 // max(depth, 1)))
    busy = dense_seconds(at, 1, rows, group, depth, 1, 0.0) * (blocks / group) * batches
    pack = batches * depth * columns * (1.0 / 8) * at.cycle / at.efficiency.move
    return busy + pack + stored(b, form.inputs[1]) * at.byte(distances[1]) + 0.3 * moving + extra


def recurrent_seconds(work: Work, form: Form, distances: Sequence[float], at: At) -> float:
    """Rows of weights times one vector a time step: by bytes of the weights."""
    op, x = work.op, work.inputs[0]
    assert isinstance(op, Recurrent)
    assert x is not None
    steps = x.shape[0] * x.shape[1]
    products = steps * sum(t.elements for t in work.inputs[1:3] if t is not None)
    busy = products / 4.0 * at.cycle / at.efficiency.scalar  # vectors of four whatever the core has
    return overlapped(busy, moved_seconds(work, form, distances, at))
