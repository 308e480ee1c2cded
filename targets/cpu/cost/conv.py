"""Convolutions: packed weights, depthwise, and matrix products over patches."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from packer.ir.ops import Conv
from targets.base import Form, Layout, Work
from targets.cpu.cost.at import At
from targets.cpu.cost.dense import dense_seconds
from targets.cpu.cost.sizes import activation_cycles, rows_cycles, stored, transpose_cycles

__all__ = ["conv_seconds"]

_BAND = 128 * 1024  # floats of the inputs of a band (conv_plan.c)
_LEAST_COLUMNS = 56
_TILE_BLOCKS = 4  # output blocks finished at a time through scratch (conv.c)


def conv_seconds(work: Work, form: Form, distances: Sequence[float], at: At) -> float:
    if form.implementation == "depthwise":
        return _depthwise(work, form, distances, at)
    if form.implementation.startswith("im2col"):
        return _im2col(work, form, distances, at)
    return _packed(work, form, distances, at)


def _spatial(op: Conv, x: tuple[int, ...], w: tuple[int, ...], y: tuple[int, ...]) -> tuple[tuple[int, ...], ...]:
    """Extents of input, output and kernel, strides, dilations, pads at the beginning; always three dimensions."""
    more = (1,) * (5 - len(x))
    kernel, n = w[2:], len(x) - 2
    return (
        more + x[2:], more + y[2:], more + kernel, more + op.strides, more + op.dilations,
        (0,) * (3 - n) + op.pads[:n],
    )  # fmt: skip


def _packed(work: Work, form: Form, distances: Sequence[float], at: At) -> float:
    op = work.op
    assert isinstance(op, Conv)
    assert work.inputs[0] is not None
    assert work.inputs[1] is not None
    x, w, y = work.inputs[0].shape, work.inputs[1].shape, work.outputs[0].shape
    inside, out, kernel, stride, dilation, pad = _spatial(op, x, w, y)
    channels, filters, taps = w[1], w[0] // op.group, prod(kernel) * w[1]
    images, blocks = x[0] * op.group, -(-w[0] // op.group // 16)
    if kernel == stride == (1, 1, 1) and inside == out and pad == (0, 0, 0):
        inside = out = (1, 1, prod(out))
    reach = tuple((k - 1) * d for k, d in zip(kernel, dilation, strict=True))
    planar_in, planar_out = form.inputs[0] is Layout.PLANAR, form.outputs[0] is Layout.PLANAR
    padded = any(pad) or any((o - 1) * s + r >= i for o, s, r, i in zip(out, stride, reach, inside, strict=True))
    gather = channels > 0 and (planar_in or padded)

    def read(d: int, count: int) -> int:
        return (count - 1) * stride[d] + reach[d] + 1

    row = channels * kernel[0] * read(1, 1) * read(2, out[2])
    row_bands, column_bands = out[1], 1
    if row <= _BAND:
        more = channels * kernel[0] * stride[1] * read(2, out[2])
        row_bands = -(-out[1] // (1 + (_BAND - row) // max(more, 1))) if row < _BAND else out[1]
    else:
        one = channels * kernel[0] * read(1, 1)
        fitting = 1 if one * read(2, 1) >= _BAND else 1 + (_BAND - one * read(2, 1)) // max(one * stride[2], 1)
        column_bands = -(-out[2] // max(fitting, _LEAST_COLUMNS))
    bands, rows = row_bands * column_bands, -(-out[1] // row_bands)
    tasks = images * out[0] * bands
    columns = -(-out[2] // column_bands)

    joined = dilation[2] == 1 and (channels % 16 == 0 or (channels < 16 and planar_in))
    spans = -(-channels // 16) * kernel[0] * kernel[1] * (1 if joined else kernel[2])
    through = planar_out or (op.group > 1 and filters % 16 != 0)
    function = op.activation is not None and op.activation.kind not in ("relu", "clip")
    at_a_time = min(blocks, _TILE_BLOCKS) if through or function else blocks

    # Each band goes over all weights: the first one fetches them, the others find them where they fit.
    weights = blocks * taps * 64.0
    total = 0.0
    for distance, times in ((distances[1], 1), (weights, bands - 1)):
        if times > 0:
            per_piece = dense_seconds(at, rows, columns, at_a_time, taps, spans, distance)
            total += times * per_piece * blocks / at_a_time
    total *= tasks / bands * (out[1] / (rows * row_bands)) * (out[2] / (columns * column_bands))

    moved = stored(work.inputs[0], form.inputs[0]) * at.byte(distances[0])
    if gather:
        lanes = 16 if not planar_in else min(channels, 16)
        groups = -(-channels // lanes)
        in_rows, in_columns = read(1, rows), read(2, columns)
        lines = tasks * kernel[0] * in_rows
        band = lines * groups * in_columns * lanes * 4.0
        if planar_in:
            cycles = lines * transpose_cycles(min(in_columns, inside[2]), channels)
        else:
            cycles = rows_cycles(lines * groups, in_columns * 64.0)
        moved = moved + max(band * at.byte(band / tasks), cycles * at.cycle / at.efficiency.move)
    else:
        moved *= 0.3  # read ahead while earlier pixels are computed
    size = stored(work.outputs[0], form.outputs[0])
    moved += size * at.byte(distances[-1]) * (1.0 if through else 0.4)
    if len(work.inputs) > 3:
        moved += size * at.byte(distances[3]) * 0.5
    if through:
        lines = tasks * rows
        moved += lines * transpose_cycles(columns, filters) * at.cycle / at.efficiency.move
    if function:
        assert op.activation is not None
        moved += activation_cycles(op.activation.kind, size / 4 / at.lanes, at) * at.cycle / at.efficiency.elementwise
    return total + moved


def _depthwise(work: Work, form: Form, distances: Sequence[float], at: At) -> float:
    op = work.op
    assert isinstance(op, Conv)
    assert work.inputs[0] is not None
    assert work.inputs[1] is not None
    x, w, y = work.inputs[0].shape, work.inputs[1].shape, work.outputs[0].shape
    inside, out, kernel, stride, dilation, pad = _spatial(op, x, w, y)
    planar_in, planar_out = form.inputs[0] is Layout.PLANAR, form.outputs[0] is Layout.PLANAR
    images, blocks, vectors = x[0], -(-w[0] // 16), 16 // at.lanes
    rows = images * blocks * out[0] * out[1]
    most = 14 if at.lanes == 16 else 6
    over = (out[2] - 1) * stride[2] + (kernel[2] - 1) * dilation[2] + 1 - pad[2] - inside[2]
    border = min(out[2], -(-pad[2] // stride[2]) + max(0, -(-over // stride[2])))
    inner = out[2] - border
    tiles = -(-inner // most)
    taps = prod(kernel)
    per_tile = inner / max(tiles, 1) * vectors
    tap = max((per_tile + vectors) / at.load, per_tile / at.fma, at.latency)
    cycles = tiles * (taps * tap + per_tile / at.store + 15.0 + kernel[1] * 6.0)
    cycles += border * (taps * max(2.0 * vectors / at.load, at.latency) + 25.0)
    busy = rows * cycles * at.cycle / at.efficiency.depthwise
    size_in, size_out = stored(work.inputs[0], form.inputs[0]), stored(work.outputs[0], form.outputs[0])
    moved = size_in * at.byte(distances[0]) + size_out * at.byte(distances[-1])
    if len(work.inputs) > 3:
        moved += size_out * at.byte(distances[3])
    extra = 0.0
    if planar_in:
        extra += transpose_cycles(prod(inside), x[1]) * images
    if planar_out:
        extra += transpose_cycles(prod(out), w[0]) * images
    if op.activation is not None and op.activation.kind not in ("relu", "clip"):
        extra += activation_cycles(op.activation.kind, size_out / 4 / at.lanes, at)
    return max(busy, moved) + 0.3 * min(busy, moved) + extra * at.cycle / at.efficiency.move


def _im2col(work: Work, form: Form, distances: Sequence[float], at: At) -> float:
    return 2 * _packed(work, Form((Layout.PLANAR,) * len(work.inputs), (Layout.PLANAR,)), distances, at)
