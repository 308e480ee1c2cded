"""Depthwise convolution (runtime_c/src/kernels/conv_depthwise.c, simd/f32-depthwise.h)."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from packer.ir.ops import Conv
from targets.base import Form, Layout, Work
from targets.cpu.cost.at import At
from targets.cpu.cost.conv import geometry
from targets.cpu.cost.move import transpose_cycles
from targets.cpu.cost.operands import operands, overlapped, stored
from targets.cpu.cost.pointwise import activation_cycles
from targets.cpu.cost.window import inside

__all__ = ["depthwise_seconds"]

_MOST = {16: 14, 8: 6, 4: 6}  # pixels of a tile, by the floats of a vector
_TAPS = 12.0  # cycles of a tile to go on to the next taps: up to three neighbours where they share inputs
_ROW = 43.0  # of a row of outputs


def depthwise_seconds(work: Work, form: Form, distances: Sequence[float], at: At) -> float:
    op, g = work.op, geometry(work)
    assert isinstance(op, Conv)
    assert work.inputs[0] is not None
    vectors = 16 // at.lanes
    blocks = -(-work.outputs[0].shape[1] // 16) * g.images
    spans = [inside(g.inside[d], g.out[d], g.kernel[d], g.stride[d], g.dilation[d], g.pad[d]) for d in range(3)]
    depth = spans[0][0] * spans[1][0]  # rows of taps of all rows of outputs
    tiles, shared = -(-g.out[2] // _MOST[at.lanes]), at.lanes == 16 and g.dilation[2] == 1 and g.stride[2] <= 2
    steps = -(-g.kernel[2] // 3) if shared else g.kernel[2]
    products = spans[2][0] * vectors
    taps = products / at.fma if shared else max(products / at.load * 0.9, products / at.fma)
    cycles = depth * (max(taps, g.kernel[2] * tiles * at.latency) + steps * tiles * _TAPS)
    cycles += g.out[0] * g.out[1] * (_ROW + g.out[2] * vectors / at.load)
    busy = blocks * cycles * at.cycle / at.efficiency.depthwise
    busy += 0.5 * operands(work, form, distances, at)
    extra = activation_cycles(op.activation, 1.0, at) * stored(work.outputs[0], form.outputs[0]) / 4 / at.lanes
    extra /= at.efficiency.elementwise
    for layout, positions in ((form.inputs[0], prod(g.inside)), (form.outputs[0], prod(g.out))):
        if layout is Layout.PLANAR:
            extra += g.images * transpose_cycles(positions, work.outputs[0].shape[1]) / at.efficiency.move
    return overlapped(busy, 0.0) + extra * at.cycle
