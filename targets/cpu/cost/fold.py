"""Kernels that fold runs of elements: reductions, softmax, normalisation."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from packer.ir.ops import Normalize, Reduce, Softmax
from targets.base import Form, Layout, Work
from targets.cpu.cost.at import At
from targets.cpu.cost.operands import operands, overlapped
from targets.cpu.cost.pointwise import scalar_seconds

__all__ = ["ROW", "VECTOR", "normalize_seconds", "reduce_seconds", "softmax_seconds"]

_TILE = 256  # columns folded at a time
_SHORT = 4096  # elements of rows that are folded several at a time
ROW, VECTOR = 45.0, 18.0  # cycles of the softmax of a row, and of each vector of it
_TURNED = 64  # elements of rows that softmax transposes
_EXTREMES = ("max", "min")


def _groups(work: Work, axes: Sequence[int]) -> tuple[float, int, int]:
    """A planar tensor as [outer, folded, inner]."""
    x = work.inputs[0]
    assert x is not None
    inner = prod(x.shape[max(axes) + 1 :]) if axes else 1
    folded = prod(x.shape[i] for i in axes)
    return x.elements / max(folded * inner, 1), folded, inner


def _runs(rows: float, count: int, at: At, row: float, vector: float, part: float) -> float:
    """Cycles of rows of `count` elements: a start, its vectors, and more for a last vector that is not full."""
    return rows * (row + vector * (count // at.lanes) + (part if count % at.lanes else 0.0))


def _columns(outer: float, folded: int, inner: int, at: At, tile: float, vector: float, part: float) -> float:
    """Cycles of `inner` columns abreast, `folded` rows deep."""
    rest = part if inner % at.lanes else 0.0
    return outer * (-(-inner // _TILE) * tile + folded * (inner // at.lanes * vector + rest))


def reduce_seconds(work: Work, form: Form, distances: Sequence[float], at: At) -> float:
    op, x, y = work.op, work.inputs[0], work.outputs[0]
    assert isinstance(op, Reduce)
    assert x is not None
    if not x.dtype.is_float:
        return scalar_seconds(work, form, distances, at)
    vector = max(1.0 / at.load, (1.7 if op.kind in _EXTREMES else 2.0) / at.fma)
    if op.kind in ("prod", "log_sum_exp"):
        cycles = 15.0 * x.elements
    elif form.inputs[0] is Layout.BLOCK16:
        pixels = prod(x.shape[2:])
        runs = 0.0 if op.kind in _EXTREMES else 12.0 * -(-pixels // 128)
        cycles = x.shape[0] * -(-x.shape[1] // 16) * (120.0 + runs + 16 // at.lanes * vector * pixels)
    else:
        outer, folded, inner = _groups(work, op.axes)
        if inner == 1:
            cycles = _runs(outer, folded, at, 6.0 if folded <= _SHORT else 40.0, vector, 5.0)
        else:
            finish = {"l2": 8.0, "log_sum": 20.0, "max": 1.0, "min": 1.0}.get(op.kind, 5.0)
            cycles = _columns(outer, folded, inner, at, 60.0, 1.2 * vector, 7.0) + finish * y.elements
    return overlapped(cycles * at.cycle / at.efficiency.reduce, operands(work, form, distances, at))


def softmax_seconds(work: Work, form: Form, distances: Sequence[float], at: At) -> float:
    """Three passes."""
    op = work.op
    assert isinstance(op, Softmax)
    outer, folded, inner = _groups(work, op.axes)
    if op.kind == "hardmax":
        cycles = 6.0 * outer * folded * inner
    elif inner == 1:
        log = 65.0 if op.kind == "log_softmax" else 0.0
        cycles = _runs(outer, folded, at, ROW + log, VECTOR / at.fma, 25.0)
        if folded <= _TURNED:
            cycles = outer * (5.0 + log / at.lanes + folded * (VECTOR / at.fma / at.lanes + 0.6))
    else:
        cycles = _columns(outer, folded, inner, at, 96.0, 16.4 / at.fma, 29.0)
    return overlapped(cycles * at.cycle / at.efficiency.softmax, operands(work, form, distances, at))


def normalize_seconds(work: Work, form: Form, distances: Sequence[float], at: At) -> float:
    """Sums, squares, and the result; columns are summed in float64."""
    op = work.op
    assert isinstance(op, Normalize)
    outer, folded, inner = _groups(work, op.axes)
    if inner == 1:
        scales = sum(type is not None for type in work.inputs[1:])
        cycles = _runs(outer, folded, at, 70.0, (6.5 + 2.0 * scales) / at.fma, 20.0)
    else:
        cycles = _columns(outer, folded, inner, at, 430.0, 33.0 / at.fma, 26.0) + 11.0 * outer * inner
    return overlapped(cycles * at.cycle / at.efficiency.reduce, operands(work, form, distances, at))
