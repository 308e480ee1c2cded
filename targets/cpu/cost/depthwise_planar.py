"""Depthwise convolution of planar rows (runtime_c/src/kernels/conv_depthwise_planar.c, simd/f32-depthwise-planar.h,
f32-depthwise-nine.h and f32-depthwise-grid.h)."""

from __future__ import annotations

from collections.abc import Sequence
from math import gcd, prod

from packer.ir.ops import Conv
from targets.base import Form, Work
from targets.cpu.cost.at import At
from targets.cpu.cost.conv import Geometry, geometry
from targets.cpu.cost.operands import operands, overlapped
from targets.cpu.cost.pointwise import activation_cycles
from targets.cpu.cost.window import inside

__all__ = ["depthwise_planar_seconds"]

_CHANNEL = 12.0  # cycles to start a channel
_LINE = 1.0  # cycles to start a line that is copied
_TAP = 1.3  # of a load that may cross cache lines, over one that does not
_STORE = 0.5  # cycles to place a vector of outputs
_NINE_LEAST = 5  # taps from which on 3 by 3 of them are taken for granted
_NINE_CHANNEL = 45.0  # cycles to start a channel of those
_NINE_TILE = (16.0, 25.0)  # cycles to start a tile of rows, by the stride
_GRID_MOST = 14  # rows of a tile of those
_GRID_TILE = 75.0  # cycles to start a tile, a vector wide, with up to
_GRID_TAPS = 7  # rows of taps at once
_GRID_LINE = 0.5  # of a load that multiply-adds do not hide


def depthwise_planar_seconds(work: Work, form: Form, distances: Sequence[float], at: At) -> float:
    op, g, y = work.op, geometry(work), work.outputs[0]
    assert isinstance(op, Conv)
    channels = g.images * y.shape[1] * g.out[0]
    taps = max(work.density, 0.01) * prod(g.kernel)
    rows, of_row = g.out[1], -(-g.out[2] // at.lanes)
    vectors = -(-rows // 2) if at.lanes == 16 and g.out[2] < 8 else rows * of_row
    stored = rows * of_row * (1.0 / at.store + _STORE)
    if _is_nine(g) and taps >= _NINE_LEAST:
        tiles = _tiles(rows, 14 if at.lanes == 16 else 7)
        second = g.stride[1] - 1
        loads = 3.0 * (g.stride[1] * rows + (2 - second) * tiles)  # for taps; those of the second stride are shuffled
        step = max((9.0 * rows + second * loads) / at.fma, _TAP * loads / at.load) + tiles * _NINE_TILE[second]
        pair = at.lanes == 16 and g.inside[2] < 8 * g.stride[1]  # two channels a vector
        cycles = channels * (_NINE_CHANNEL + (0.5 if pair else of_row) * step + stored)
    else:
        phases = [min(k, s // gcd(s, d)) for k, s, d in zip(g.kernel[1:], g.stride[1:], g.dilation[1:], strict=True)]
        every = g.kernel[0] * prod(phases)
        used = every * (1.0 - (1.0 - 1.0 / every) ** taps)  # phases of a channel that some tap reads
        moved = 1.0 if g.stride[2] == 1 else 2.5
        copied = used * rows * (_LINE + of_row * (moved / at.load + 1.0 / at.store))
        if _is_grid(g, at, taps / prod(g.kernel)):
            computed = of_row * _grid_cycles(g, at)
        else:
            computed = vectors * taps * max(1.0 / at.fma, _TAP / at.load)
        cycles = channels * (_CHANNEL + copied + computed + stored)
    busy = cycles * at.cycle / at.efficiency.depthwise
    extra = activation_cycles(op.activation, y.elements / at.lanes, at) * at.cycle / at.efficiency.elementwise
    return overlapped(busy, operands(work, form, distances, at)) + extra


def _tiles(rows: int, most: int) -> int:
    """Of so many rows or half of them at most, and then of two or one (simd/f32-depthwise-nine.h)."""
    found = 0
    for size in (most, 7, 2, 1):
        found += rows // size
        rows %= size
    return found


def _is_nine(g: Geometry) -> bool:
    """3 by 3 taps that the kernel computes without scratch."""
    return (
        g.kernel == (1, 3, 3)
        and g.stride[1] == g.stride[2] <= 2
        and g.dilation[1] == g.dilation[2] == 1
        and g.pad[1] <= 1
        and (g.out[1] - 1) * g.stride[1] - g.pad[1] + 2 <= g.inside[1]
        and g.pad[2] == 1
        and g.out[0] == 1
    )


def _tap_period(g: Geometry) -> int:
    """How many rows of taps lie between the outputs that read lines of the same rows of taps."""
    return g.stride[1] // gcd(g.stride[1], g.dilation[1])


def _is_grid(g: Geometry, at: At, density: float) -> bool:
    """Taps that the kernel multiplies all of, whichever are zero, since most are not."""
    if g.kernel[1] < 4 or _tap_period(g) > 2:
        return False
    reach = (g.kernel[2] - 1) * g.dilation[2] // g.stride[2]
    line = g.out[2] + max(reach - g.pad[2] // g.stride[2], 0)  # padding is shared by neighbouring lines
    pitch = 8 if line <= 8 else -(-line // 16) * 16
    if pitch == 8 if at.lanes == 16 else pitch == -(-g.out[2] // at.lanes) * at.lanes:
        return False
    if pitch != -(-g.out[2] // 16) * 16:
        return density >= 0.4
    return density >= (0.7 if g.kernel[1] >= 7 and _tap_period(g) == 1 else 0.85)


def _grid_cycles(g: Geometry, at: At) -> float:
    """Of a vector of all rows of outputs."""
    period = _tap_period(g)
    apart = g.dilation[1] * period // g.stride[1]
    tiles = apart * -(-g.out[1] // (apart * (_GRID_MOST if at.lanes == 16 else _GRID_MOST // 2)))
    more = g.kernel[1] - period  # lines of a tile that the next one loads again
    lines = min(period * g.out[1] + tiles * more, g.inside[1] + (tiles - 1) * more)
    taps, _ = inside(g.inside[1], g.out[1], g.kernel[1], g.stride[1], g.dilation[1], g.pad[1])
    starts = tiles * g.kernel[0] * -(-g.kernel[1] // _GRID_TAPS) * _GRID_TILE
    return g.kernel[0] * g.kernel[2] * (taps / min(at.fma, at.load) + _GRID_LINE * lines / at.load) + starts
