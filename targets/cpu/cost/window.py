"""Kernels over windows: pooling, local response normalisation, resizing."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from math import prod

from packer.ir.ops import Lrn, Pool, Resize
from targets.base import Form, Layout, Work
from targets.cpu.cost.at import At
from targets.cpu.cost.operands import operands, overlapped, vectors_of

__all__ = ["inside", "lrn_seconds", "pool_seconds", "resize_seconds", "seen"]

_SLIDING = ((3, 1, 2), (3, 0, 2), (2, 0, 2), (3, 1, 1))  # columns, padding and stride of pools kept in registers


def seen(first: int, extent: int, kernel: int, dilation: int) -> tuple[int, int]:
    """Of the taps of a window that begins at `first`, those that lie in the input: the first one, and the end."""
    end = min(kernel, max(0, -(-(extent - first) // dilation)))
    return min(-(min(first, 0) // dilation), end), end


@lru_cache(maxsize=1 << 14)
def inside(extent: int, out: int, kernel: int, stride: int, dilation: int, pad: int) -> tuple[int, int]:
    """Along one dimension: taps of all outputs that lie in the input, and outputs all of whose taps do."""
    taps = whole = 0
    for first in range(-pad, out * stride - pad, stride):
        begin, end = seen(first, extent, kernel, dilation)
        taps += end - begin
        whole += end - begin == kernel
    return taps, whole


def pool_seconds(work: Work, form: Form, distances: Sequence[float], at: At) -> float:
    op, x, y = work.op, work.inputs[0], work.outputs[0]
    assert isinstance(op, Pool)
    assert x is not None
    spans = [
        inside(x.shape[2 + i], y.shape[2 + i], op.kernel[i], op.strides[i], op.dilations[i], op.pads[i])
        for i in range(len(op.kernel))
    ]
    taps = prod(span[0] for span in spans)
    positions = prod(y.shape[2:])
    average = op.kind == "average"
    blocked = form.inputs[0] is Layout.BLOCK16
    if not x.dtype.is_float and blocked:
        cycles = y.shape[0] * -(-y.shape[1] // 16) * (1.8 * taps + 3.0 * positions) / at.efficiency.pool
    elif not x.dtype.is_float or len(work.outputs) > 1 or op.kind == "lp":
        cycles = y.shape[0] * y.shape[1] * (2.5 * taps + 12.0 * positions) / at.efficiency.scalar
    elif blocked:
        start, tap, chain = (10.0, 0.9, 1.6) if average else (8.0, 1.6, 2.4)  # few windows fit the reorder buffer
        window = max(start + tap * taps / positions, chain * taps / positions)
        calls = positions / y.shape[-1] * (y.shape[-1] - spans[-1][1] + 1)  # one for all outputs within a row
        cycles = vectors_of(y, form.outputs[0], at) * (window / at.fma + 30.0 * calls / positions)
        cycles /= at.efficiency.pool
    else:
        rows, width = y.shape[0] * y.shape[1] * positions // y.shape[-1], -(-x.shape[-1] // at.lanes)
        height = prod(span[0] for span in spans[:-1]) / (positions / y.shape[-1])
        of_row = -(-y.shape[-1] // at.lanes)
        if at.lanes >= 8 and of_row == 1 and x.shape[-1] < 2 * at.lanes and op.kernel[-1] <= 16:  # picked from vectors
            beside = 2 if 2 * y.shape[-1] <= at.lanes and width == 1 else 1
            vectors = y.shape[0] * y.shape[1] * -(-positions // y.shape[-1] // beside)
            cycles = vectors * (6.0 + 1.7 * beside * width * height + 2.2 * op.kernel[-1])
        elif (op.kernel[-1], op.pads[len(op.pads) // 2 - 1], op.strides[-1]) in _SLIDING and of_row > 1:
            cycles = rows * (8.0 + 1.6 * width * height + of_row * (op.kernel[-1] + op.strides[-1]))
        else:
            steps = 1.0 if op.strides[-1] <= 2 else 6.0
            cycles = rows * (8.0 + 2.2 * width * height + 4.0 * op.kernel[-1] * of_row * steps)
        cycles /= at.efficiency.pool
    return overlapped(cycles * at.cycle, operands(work, form, distances, at))


def lrn_seconds(work: Work, form: Form, distances: Sequence[float], at: At) -> float:
    op, y = work.op, work.outputs[0]
    assert isinstance(op, Lrn)
    pixels = y.shape[0] * prod(y.shape[2:])
    vectors = vectors_of(y, form.outputs[0], at)
    power = 53.0  # by a logarithm
    if op.beta == 0.75:  # by inverse square roots, of which vectors of 16 have estimates
        power = 17.0 if at.lanes == 16 else 16.5
    if form.outputs[0] is Layout.BLOCK16:
        cycles = 125.0 * pixels + vectors * (8.0 + power + 1.2 * op.size) / at.fma
    else:
        cycles = 110.0 * y.shape[1] * -(-pixels // 512) + vectors * (power + 0.9 * op.size) / at.fma
    return overlapped(cycles * at.cycle / at.efficiency.elementwise, operands(work, form, distances, at))


def resize_seconds(work: Work, form: Form, distances: Sequence[float], at: At) -> float:
    """Rows of the output; those that repeat the one before are copied."""
    op, x, y = work.op, work.inputs[0], work.outputs[0]
    assert isinstance(op, Resize)
    if form.outputs[0] is Layout.BLOCK16:
        row, vector = {"nearest": (26.0, 4.5), "linear": (120.0, 12.0), "cubic": (200.0, 40.0)}[op.mode]
        vectors = vectors_of(y, form.outputs[0], at)
        cycles = row * vectors * at.lanes / 16 / max(y.shape[-1], 1) + vector * vectors
    else:
        row, element = {"nearest": (20.0, 0.53), "linear": (65.0, 2.45), "cubic": (93.0, 4.3)}[op.mode]
        if op.mode == "nearest" and x is not None and y.shape[-1] == 2 * x.shape[-1]:
            element = 0.26  # by vectors
        cycles = row * prod(y.shape[:-1]) + element * y.elements
    return overlapped(cycles * at.cycle / at.efficiency.scalar, operands(work, form, distances, at))
