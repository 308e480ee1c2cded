"""Attention: two products whose second matrix is packed, and a softmax between them of scores that stay near."""

from __future__ import annotations

from collections.abc import Sequence

from packer.ir.ops import Attention
from targets.base import Form, Work
from targets.cpu.cost.at import At
from targets.cpu.cost.dense import dense_seconds
from targets.cpu.cost.fold import ROW, VECTOR
from targets.cpu.cost.matrix import COPIED, TURNED
from targets.cpu.cost.operands import operands

__all__ = ["attention_seconds"]

_BAND = 64 * 1024  # floats of the scores of a band (attention.c)
_LEAST = 14  # rows of a band, and what more are a multiple of
_MASK = 2.0  # cycles a vector of the mask


def attention_seconds(work: Work, form: Form, distances: Sequence[float], at: At) -> float:
    op = work.op
    assert isinstance(op, Attention)
    q, k, v, *_ = (None if type is None else type.shape for type in work.inputs)
    assert q is not None
    assert k is not None
    assert v is not None
    rows, depth, keys = q[op.q_axes[-2]], q[op.q_axes[-1]], k[op.k_axes[-2]]
    columns = v[op.v_axes[-1]]
    batches = work.outputs[0].elements // (rows * columns)
    bands = -(-rows // (max(_BAND // keys // _LEAST, 1) * _LEAST))
    band = -(-rows // bands)
    busy = bands * dense_seconds(at, 1, band, -(-keys // 16), depth, 1, depth * keys * 4.0)
    busy += bands * dense_seconds(at, 1, band, -(-columns // 16), keys, 1, columns * keys * 4.0)
    last = len(op.y_axes) - 1
    turned = (TURNED if op.k_axes[-1] == last else COPIED, COPIED if op.v_axes[-1] == last else TURNED)
    pack = (turned[0] * depth + turned[1] * columns) * keys
    softmax = rows * (ROW + VECTOR / at.fma * -(-keys // at.lanes))
    cycles = pack / at.efficiency.move + softmax / at.efficiency.softmax
    if len(work.inputs) > 3:
        cycles += _MASK * rows * keys / at.lanes / at.efficiency.move
    return batches * (busy + cycles * at.cycle) + operands(work, form, distances, at)
