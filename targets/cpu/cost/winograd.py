"""Winograd's convolution (runtime_c/src/kernels/conv_winograd.c, simd/f32-winograd.h)."""

from __future__ import annotations

from collections.abc import Sequence

from packer.ir.ops import Conv
from targets.base import Form, Work
from targets.cpu.cost.at import At
from targets.cpu.cost.conv import geometry
from targets.cpu.cost.dense import dense_seconds
from targets.cpu.cost.operands import stored
from targets.cpu.cost.pointwise import activation_cycles
from targets.cpu.precision import stored_type
from targets.cpu.winograd import is_lean, is_rounded, tile_of

__all__ = ["winograd_seconds"]

_BAND = 768 * 1024  # bytes of the transformed inputs and products of a band
_LEAST = {False: 56, True: 112}  # tiles of a band, by whether weights are transformed for it
_UNIT = 2  # blocks of filters of which there are products at a time, where weights are transformed
_SHAPES = {16: (14, 2), 8: (6, 1), 4: (6, 1)}  # (tiles, blocks) of most products, by the floats of a vector
_CHAIN = 32.0  # channels whose products are added up at a time
_ADDED = 0.5  # part of adding up chains that does not hide behind their products
_SHAPE = 12.0  # cycles to start and end a product of some tiles
# Of transforms of activations, where one vector is added a cycle:
_FORWARD = {2: 70.0, 4: 300.0, 6: 520.0}  # cycles to transform the inputs of a tile: a vector of each of its places
_BACK = {2: 50.0, 4: 200.0, 6: 430.0}  # and outputs
_KERNEL = {2: 70.0, 4: 125.0, 6: 230.0}  # and weights of a channel for 16 filters, with their way through the caches
# Of products, which begin in another place for each point of a tile, and for few channels if weights are transformed.
_PACE = {False: 1.03, True: 1.15}
_ROUND = 4.0  # cycles to round a vector of transformed inputs
# Part of the shorter of multiplying and fetching weights that does not hide behind the longer, by whether products are
# of bf16.
_EXPOSED = {False: 0.25, True: 0.1}
_READ, _WRITTEN = 0.3, 0.4  # what part of moving inputs and outputs does not hide behind computing


def winograd_seconds(work: Work, form: Form, distances: Sequence[float], at: At) -> float:
    op, g, tile, lean = work.op, geometry(work), tile_of(form.implementation), is_lean(form.implementation)
    assert isinstance(op, Conv)
    assert work.inputs[0] is not None
    taps, blocks, vectors = (tile + 2) ** 2, -(-g.filters // 16), 16 // at.lanes
    pairs, element = is_rounded(form.implementation), 4.0
    tiles = g.images * -(-g.out[1] // tile) * -(-g.out[2] // tile)
    inside = -(-g.channels // 16)
    if pairs:
        element = 2.0 if at.bf16 > 1 else 4.0
    one = (inside * element / 4 + (_UNIT if lean else blocks)) * 64.0 * taps
    bands = -(-tiles // max(int(_BAND // one) // 14 * 14, _LEAST[lean]))
    band = tiles / bands

    if pairs:
        products = dense_seconds(at, 1, -(-tiles // bands), blocks, g.channels / 2, inside, 0.0, 64.0, at.bf16 / 2)
        busy = bands * taps * products
    else:
        most, wide = _SHAPES[at.lanes]
        shapes = -(-int(-(-tiles // bands)) // most)
        count = band / shapes * vectors * wide
        products = g.channels * max(count / at.fma, wide * vectors / at.load + band / shapes * 0.5, at.latency)
        products += _SHAPE + (1 + _ADDED * g.channels / _CHAIN) * count / at.store
        cycles = _PACE[lean] * bands * taps * shapes * blocks / wide * products
        if lean:
            cycles += bands * blocks * g.channels * vectors * _KERNEL[tile]
        busy = cycles * at.cycle / at.efficiency.winograd
    weights = (9 if lean else taps) * blocks * g.channels * stored_type(form.implementation).bytes * 16.0
    fetch = at.moved(weights, distances[1]) + (bands - 1) * at.moved(weights, weights + band * one)

    kept = at.reach(band * one)[0]  # a byte of transformed inputs and products, written and read
    turn, keep = at.cycle / at.efficiency.winograd / at.fma, taps * 64.0 * 2 * kept / at.efficiency.winograd
    rounding = taps * _ROUND if pairs else 0.0
    forward = tiles * inside * (vectors * (_FORWARD[tile] + rounding) * turn + keep * element / 4)
    back = tiles * blocks * (vectors * _BACK[tile] * turn + keep)
    x, y = stored(work.inputs[0], form.inputs[0]), stored(work.outputs[0], form.outputs[0])
    moved = _READ * at.moved(x, distances[0]) + _WRITTEN * at.moved(y, distances[-1])
    if len(work.inputs) > 3 and work.inputs[3] is not None:
        moved += _WRITTEN * at.moved(y, distances[3])
    late = activation_cycles(op.activation, y / 4 / at.lanes, at) * at.cycle / at.efficiency.elementwise
    multiply = max(busy, fetch) + _EXPOSED[pairs] * min(busy, fetch)
    return g.groups * (multiply + forward + back) + moved + late
