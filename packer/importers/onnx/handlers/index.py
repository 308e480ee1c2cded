"""Gathers, scatters and selections."""

from __future__ import annotations

import math

import numpy as np

from packer.importers.onnx.builder import Tensor
from packer.importers.onnx.call import Call
from packer.importers.onnx.registry import handler
from packer.ir.ops import (
    Compress,
    Gather,
    GatherElements,
    GatherND,
    NonMaxSuppression,
    NonZero,
    OneHot,
    Op,
    ReverseSequence,
    ScatterElements,
    ScatterND,
    Trilu,
)


@handler("Gather")
def gather(call: Call) -> Tensor:
    x = call.tensor(0)
    return call.emit(Gather(call.axis(call.integer("axis", 0), x.rank)), x, call.tensor(1))


@handler("GatherElements")
def gather_elements(call: Call) -> Tensor:
    x = call.tensor(0)
    return call.emit(GatherElements(call.axis(call.integer("axis", 0), x.rank)), x, call.tensor(1))


@handler("GatherND")
def gather_nd(call: Call) -> Tensor:
    return call.emit(GatherND(call.integer("batch_dims", 0)), call.tensor(0), call.tensor(1))


@handler("Scatter", "ScatterElements")
def scatter_elements(call: Call) -> Tensor:
    x = call.tensor(0)
    op = ScatterElements(call.axis(call.integer("axis", 0), x.rank), call.text("reduction", "none"))
    return call.emit(op, x, call.tensor(1), call.tensor(2))


@handler("ScatterND")
def scatter_nd(call: Call) -> Tensor:
    return call.emit(ScatterND(call.text("reduction", "none")), call.tensor(0), call.tensor(1), call.tensor(2))


@handler("OneHot")
def one_hot(call: Call) -> Tensor:
    indices, values = call.tensor(0), call.tensor(2)
    depth = int(call.scalar(1, "'depth'"))
    axis = call.axis(call.integer("axis", -1), indices.rank + 1)
    return call.emit(OneHot(axis, depth), indices, values)


@handler("Trilu")
def trilu(call: Call) -> Tensor:
    k = int(call.scalar(1, "'k'")) if call.has(1) else 0
    return call.emit(Trilu(bool(call.integer("upper", 1)), k), call.tensor(0))


@handler("ReverseSequence")
def reverse_sequence(call: Call) -> Tensor:
    x, lengths = call.tensor(0), call.tensor(1)
    op = ReverseSequence(
        call.axis(call.integer("batch_axis", 1), x.rank), call.axis(call.integer("time_axis", 0), x.rank)
    )
    return call.emit(op, x, lengths)


def _counted(call: Call, op: Op, inputs: tuple[Tensor, ...], axis: int) -> Tensor:
    """The first result of an operator that tells the real size along `axis` in its second one."""
    found, count = call.emit_many(op, *inputs, outputs=2)
    if found.data is not None and count.data is not None:
        return call.literal(np.take(found.data, np.arange(int(count.data.reshape(-1)[0])), axis))
    call.limit(found, axis, count)
    return found


@handler("NonZero")
def non_zero(call: Call) -> Tensor:
    return _counted(call, NonZero(), (call.tensor(0),), 1)


@handler("Compress")
def compress(call: Call) -> Tensor:
    x, condition = call.tensor(0), call.tensor(1)
    axis = call.axis(call.integer("axis"), x.rank) if "axis" in call.attributes else None
    size = math.prod(x.shape) if axis is None else x.shape[axis]
    if condition.data is not None and condition.data.size <= size:
        kept = call.literal(np.flatnonzero(condition.data))
        return call.emit(Gather(axis or 0), call.reshape(x, (size,)) if axis is None else x, kept)
    return _counted(call, Compress(axis), (x, condition), axis or 0)


@handler("NonMaxSuppression")
def non_max_suppression(call: Call) -> Tensor:
    boxes, scores = call.tensor(0), call.tensor(1)
    most = int(call.scalar(2, "'max_output_boxes_per_class'")) if call.has(2) else 0
    iou = float(call.scalar(3, "'iou_threshold'")) if call.has(3) else 0.0
    score = float(call.scalar(4, "'score_threshold'")) if call.has(4) else -math.inf
    if most <= 0:
        return call.literal(np.zeros((0, 3), np.int64))
    op = NonMaxSuppression(most, iou, score, bool(call.integer("center_point_box", 0)))
    return _counted(call, op, (boxes, scores), 0)
