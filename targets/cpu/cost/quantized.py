"""Convolutions and matrix products of bytes (runtime_c/src/kernels/conv_quantized.c, conv_depthwise_quantized.c,
linear_quantized.c), requantised or not, and their levels (dynamic_levels.c)."""

from __future__ import annotations

from collections.abc import Sequence
from math import gcd, prod

from packer.ir.ops import IntegerConv, QuantizedConv
from targets.base import Form, Layout, Work
from targets.cpu.cost.at import At
from targets.cpu.cost.conv import geometry
from targets.cpu.cost.operands import stored

__all__ = ["conv_quantized_seconds", "linear_quantized_seconds"]

_FINISH, _ADDING = 2.5, 2.5  # cycles to turn a vector of sums into bytes, and to add a residual before
_TAPS = 10.5  # vectors of products that one of four taps of each channel takes, which are put side by side
_INTERLEAVED, _JOINED = 1.0, 0.15  # cycles a byte of planar inputs that are put side by side, of one quad at most
_LINE = 8.0  # cycles to go on to the next line of inputs that are copied, for each block
_STRIP = 512 * 1024  # bytes of the inputs of a strip, where weights become instructions,
_PRODUCT, _LOADED, _PLANES = 1.0, 0.5, 50.0  # cycles of a quad of weights, a load and a group's bytes, for each vector;
_MADE, _PLACED, _GROUP = 1.0, 2.2, 500.0  # to make the instructions of a quad, a load and a group,
_SPLIT, _COPIED, _VALUE = 0.8, 2.0, 5.4  # to copy 16 bytes in a row, or others; bytes of a quad in the bundle
_READ, _WRITTEN = 0.5, 0.5  # what part of moving inputs and outputs does not hide behind computing


def _products(at: At, pixels: float, filters: int, quads: float) -> float:
    """Cycles of so many outputs, each of a sum over quads of products."""
    vectors = pixels * -(-filters // 16) * 16 / at.lanes
    return vectors * (quads * 4 / (at.i8 * at.fma) + _FINISH)


def conv_quantized_seconds(work: Work, form: Form, distances: Sequence[float], at: At) -> float:
    g, x, y, w = geometry(work), work.inputs[0], work.outputs[0], work.inputs[1]
    assert x is not None
    assert w is not None
    if form.implementation == "unrolled":
        return _unrolled_seconds(work, distances, at)
    if isinstance(work.op, IntegerConv | QuantizedConv) and work.op.depthwise(w):
        return _depthwise_seconds(work, form, distances, at)
    op = work.op
    assert isinstance(op, IntegerConv | QuantizedConv)
    channels = g.channels if op.together == 1 else min(g.channels, g.channels // op.together * 2)
    quads = -(-channels // 4) * prod(g.kernel)
    images = g.images * g.groups
    cycles = images * _products(at, prod(g.out), g.filters, quads)
    planar = form.inputs[0] is Layout.PLANAR
    if planar:
        cycles += (_INTERLEAVED if g.channels > 4 else _JOINED) * x.elements
    elif g.padded:
        cycles += x.elements / 32.0 + images * prod(g.inside[:2]) * -(-g.channels // 16) * _LINE
    moved = _READ * at.moved(stored(x, form.inputs[0]), distances[0])
    moved += _WRITTEN * at.moved(stored(y, form.outputs[0]), distances[-1])
    moved += _residual(work, distances, at)
    return max(cycles * at.cycle / at.efficiency.dense, at.moved(w.bytes, distances[1])) + moved


def _unrolled_seconds(work: Work, distances: Sequence[float], at: At) -> float:
    """By instructions made of quads of weights that are not all zero (conv_unrolled_quantized.c)."""
    g, x, y, w = geometry(work), work.inputs[0], work.outputs[0], work.inputs[1]
    assert x is not None
    assert w is not None
    channels, taps, groups = -(-g.channels // 4), prod(g.kernel), -(-g.filters // 16)
    share = work.density if work.block.channels == 4 else 1 - (1 - work.density) ** 4
    values = share * g.filters * channels * taps
    loads = groups * channels * taps * (1 - (1 - share) ** 16)
    phases = [min(k, s // gcd(s, d)) for k, d, s in zip(g.kernel, g.dilation, g.stride, strict=True)]
    reach = [(k - 1) * d // s for k, d, s in zip(g.kernel, g.dilation, g.stride, strict=True)]
    planes, pitch, blocks = g.kernel[0] * phases[1] * phases[2], g.out[2] + reach[2], -(-channels // 4)
    rows = min(max(_STRIP // (planes * blocks * 16 * pitch) - reach[1], 256 // pitch + 1), g.out[1])
    strips = -(-g.out[1] // rows)
    vectors = strips * -(-((-(-g.out[1] // strips) - 1) * pitch + g.out[2]) // 16)
    copied = strips * planes * (-(-g.out[1] // strips) + reach[1]) * pitch * blocks
    each = _PRODUCT * values / at.fma + _LOADED * loads + _PLANES * groups
    made = (_MADE * values + _PLACED * loads + _GROUP * groups) / at.code
    cycles = (
        g.images * g.out[0] * (each * vectors + made * strips + (_SPLIT if g.inside == g.out else _COPIED) * copied)
    )
    moved = _READ * at.moved(x.bytes, distances[0]) + _WRITTEN * at.moved(y.bytes, distances[-1])
    fetched = at.moved(values * _VALUE, distances[1])
    return max(cycles * at.cycle / at.efficiency.unrolled, fetched) + moved + _residual(work, distances, at)


def _residual(work: Work, distances: Sequence[float], at: At) -> float:
    if not isinstance(work.op, QuantizedConv) or len(work.inputs) < 5:
        return 0.0
    y = work.outputs[0]
    return _ADDING * y.elements / at.lanes * at.cycle + _READ * at.moved(y.bytes, distances[4])


def _depthwise_seconds(work: Work, form: Form, distances: Sequence[float], at: At) -> float:
    g, x, y = geometry(work), work.inputs[0], work.outputs[0]
    assert x is not None
    op = work.op
    assert isinstance(op, IntegerConv | QuantizedConv)
    quads = prod(g.kernel[:-1]) * ((g.kernel[-1] - 1) * op.dilations[-1] // 4 + 1)
    vectors = g.images * prod(g.out) * -(-y.shape[1] // 16) * 16 / at.lanes
    cycles = vectors * (quads * _TAPS / (at.i8 * at.fma) + _FINISH)
    cycles += stored(x, form.inputs[0]) / 16.0
    moved = _READ * at.moved(stored(x, form.inputs[0]), distances[0])
    moved += _WRITTEN * at.moved(stored(y, form.outputs[0]), distances[-1])
    return cycles * at.cycle / at.efficiency.dense + moved + _residual(work, distances, at)


def linear_quantized_seconds(work: Work, form: Form, distances: Sequence[float], at: At) -> float:
    x, w, y = work.inputs[0], work.inputs[1], work.outputs[0]
    assert x is not None
    assert w is not None
    depth, columns = w.shape
    rows = y.elements // max(columns, 1)
    cycles = _products(at, rows, columns, -(-depth // 4))
    moved = _READ * at.moved(x.bytes, distances[0]) + _WRITTEN * at.moved(y.bytes, distances[-1])
    return max(cycles * at.cycle / at.efficiency.dense, at.moved(w.bytes, distances[1])) + moved
