"""Direct convolution over planar rows (runtime_c/src/kernels/conv_direct.c, simd/f32-direct.h)."""

from __future__ import annotations

from collections.abc import Sequence
from math import gcd, prod

from packer.ir.ops import Conv
from targets.base import Form, Work
from targets.cpu.cost.at import At
from targets.cpu.cost.conv import bands_of, geometry
from targets.cpu.cost.pointwise import activation_cycles

__all__ = ["direct_seconds"]

_HEIGHTS = {16: (8, 3), 8: (4, 3), 4: (8, 3)}  # (filters, most vectors) of the tiles, by the floats of a vector
_TILE = 25.0  # cycles to start and end a tile
_PACE = 1.04  # of the inner loop, whose loads cross cache lines
_BLOCK = 150.0  # cycles to start a run of filters
_LINE = 25.0  # cycles to go on to the next line of a band
_PASSES = {8: 128}  # taps of a pass, by the floats of a vector; or else all pass by at a time
_POSITIONS = 16, 4096  # so few, or more, have one pass anyway
_FEW_BLOCKS = 4  # of 16 filters, that read inputs of their own positions in place if there are no passes
_WRITTEN = 0.5  # what part of moving outputs does not hide behind computing


def direct_seconds(work: Work, form: Form, distances: Sequence[float], at: At) -> float:
    op, g, x, y = work.op, geometry(work), work.inputs[0], work.outputs[0]
    assert isinstance(op, Conv)
    assert x is not None
    out = g.flat()
    row_bands, column_bands = bands_of(g, out)
    height, width = -(-out[1] // row_bands), -(-out[2] // column_bands)
    repeats = g.images * g.groups * out[0] * row_bands * column_bands
    share = out[1] * out[2] / (row_bands * column_bands * height * width)  # of the largest band, on average

    filters, most = _HEIGHTS[at.lanes]
    vectors, taps = height * -(-width // at.lanes), prod(g.kernel) * g.channels
    tiles = -(-vectors // most)
    count = vectors / tiles
    tap = _PACE * max(filters * count / at.fma, count / at.load + filters * 0.5, at.latency)
    tall = -(-g.filters // filters)  # runs of filters
    positions = height * -(-width // 16) * 16
    of_pass = _PASSES.get(at.lanes, taps) if _POSITIONS[0] < positions <= _POSITIONS[1] else taps
    passes = -(-taps // max(1, of_pass))
    cycles = tall * (passes * _BLOCK + tiles * (taps * tap + passes * (_TILE + filters * count / at.store)))
    busy = repeats * share * cycles * at.cycle / at.efficiency.dense
    weights = -(-g.filters // 16) * taps * 64.0
    fetch = at.moved(weights, distances[1]) + (repeats - 1) * at.moved(weights, weights)

    phases = min(g.kernel[2], g.stride[2] // gcd(g.stride[2], g.dilation[2]))
    line = (-(-(width + (g.kernel[2] - 1) * g.dilation[2] // g.stride[2]) // 16) | 1) * 16
    lines = repeats * g.kernel[0] * g.copied(1, height) * g.channels * phases
    gather = lines * (_LINE + line / at.lanes / at.store + (0.0 if g.stride[2] == 1 else 0.4 * line))
    at_own = g.kernel == g.stride == (1, 1, 1) and out[:2] == (1, 1) and not g.padded
    if at_own and at.lanes not in _PASSES and g.filters <= 16 * _FEW_BLOCKS and out[2] % (16 * column_bands) == 0:
        gather = 0.0
    moved = max(at.moved(x.bytes, distances[0]), gather * at.cycle / at.efficiency.move)
    moved += _WRITTEN * at.moved(y.bytes, distances[-1])
    if len(work.inputs) > 3 and work.inputs[3] is not None:
        moved += _WRITTEN * at.moved(y.bytes, distances[3])
    late = activation_cycles(op.activation, y.elements / at.lanes, at) * at.cycle / at.efficiency.elementwise
    return max(busy, fetch) + moved + late
