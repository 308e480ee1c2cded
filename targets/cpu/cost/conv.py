"""Convolution with packed weights (runtime_c/src/kernels/conv.c, conv_plan.c)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import prod

from packer.ir.ops import Conv, IntegerConv, QuantizedConv
from targets.base import Form, Layout, Work
from targets.cpu.cost.at import At
from targets.cpu.cost.dense import dense_seconds
from targets.cpu.cost.move import transpose_cycles
from targets.cpu.cost.operands import stored
from targets.cpu.cost.pointwise import activation_cycles
from targets.cpu.cost.window import inside, seen
from targets.cpu.precision import LINES, stored_type

__all__ = ["Geometry", "bands_of", "conv_seconds", "geometry"]

_BAND = 128 * 1024  # floats of the inputs of a band
_LEAST_COLUMNS = 56  # of a band that is part of a row
_TILE_BLOCKS = 4  # output blocks finished at a time in parts or through scratch;
_KEPT = 768 * 1024  # if these have more bytes of weights,
_PASS = 512 * 1024  # no more pass by at a time
_NEAR_PASSES = {8: 256}  # rows of weights of a pass that the first cache keeps, by the floats of a vector
_LEAST_POSITIONS = 12  # that need them again and again
_PART_COLUMNS = 4  # at least of a part
_PARTS = 7  # at most, along a dimension
_LINED = 0.7  # cycles to put an input beside those of other channels
_LINE = 12.0  # cycles to go on to the next line of a band that is gathered
_READ, _WRITTEN = 0.3, 0.4  # what part of moving inputs and outputs does not hide behind computing


@dataclass(frozen=True, slots=True)
class Geometry:
    """A convolution over three spatial dimensions; those it lacks have one element."""

    images: int
    groups: int
    channels: int  # of a group
    filters: int  # of a group
    inside: tuple[int, ...]
    out: tuple[int, ...]
    kernel: tuple[int, ...]
    stride: tuple[int, ...]
    dilation: tuple[int, ...]
    pad: tuple[int, ...]  # at the beginning

    @property
    def padded(self) -> bool:
        """Whether an output reads beyond the input."""
        return any(self.pad) or any(self.read(d, self.out[d]) > self.inside[d] for d in range(3))

    def flat(self) -> tuple[int, ...]:
        """Extents of the output; one row of all positions if those need no rows."""
        if self.kernel == self.stride == (1, 1, 1) and self.inside == self.out and not self.padded:
            return (1, 1, prod(self.out))
        return self.out

    def read(self, d: int, count: int) -> int:
        """Input extent that so many neighbouring outputs reach."""
        return (count - 1) * self.stride[d] + (self.kernel[d] - 1) * self.dilation[d] + 1

    def copied(self, d: int, count: int) -> int:
        """As many of them as taps read."""
        return min(self.read(d, count), count * self.read(d, 1))


def geometry(work: Work) -> Geometry:
    op, x, w, y = work.op, work.inputs[0], work.inputs[1], work.outputs[0]
    assert isinstance(op, Conv | IntegerConv | QuantizedConv)
    assert x is not None
    assert w is not None
    ones, n = (1,) * (5 - x.rank), x.rank - 2
    return Geometry(
        x.shape[0], op.group, w.shape[1], w.shape[0] // op.group, ones + x.shape[2:], ones + y.shape[2:],
        ones + w.shape[2:], ones + op.strides, ones + op.dilations, (0,) * (3 - n) + op.pads[:n],
    )  # fmt: skip


def bands_of(g: Geometry, out: tuple[int, ...]) -> tuple[int, int]:
    """Bands of rows and of columns whose inputs stay in the second cache."""

    def fitting(one: int, more: int) -> int:
        return 1 if one >= _BAND else 1 + (_BAND - one) // max(more, 1)

    line = g.channels * g.kernel[0] * g.read(2, out[2])
    if line * g.read(1, 1) <= _BAND:
        return -(-out[1] // fitting(line * g.read(1, 1), line * g.stride[1])), 1
    column = g.channels * g.kernel[0] * g.read(1, 1)
    return out[1], -(-out[2] // max(fitting(column * g.read(2, 1), column * g.stride[2]), _LEAST_COLUMNS))


@lru_cache(maxsize=1 << 14)
def columns_of(extent: int, out: int, kernel: int, stride: int, dilation: int, pad: int) -> tuple[tuple[int, int], ...]:
    """Parts of a row that are computed without the taps that see padding only: (outputs, taps) (ert_conv_cut)."""
    least = _PART_COLUMNS if kernel <= _PARTS // 2 else max(_PART_COLUMNS, -(-out // _PARTS))
    parts: list[tuple[int, int, int]] = []  # outputs, first tap, end of taps
    for at in range(out):
        begin, end = seen(at * stride - pad, extent, kernel, dilation)
        outputs, before, after = parts[-1] if parts else (0, 0, 0)
        if parts and ((before, after) == (begin, end) or outputs < least or out - at < least):
            parts[-1] = (outputs + 1, min(before, begin), max(after, end))
        else:
            parts.append((1, begin, end))
    return tuple((outputs, after - before) for outputs, before, after in parts)


def conv_seconds(work: Work, form: Form, distances: Sequence[float], at: At) -> float:
    op, g = work.op, geometry(work)
    assert isinstance(op, Conv)
    assert work.inputs[0] is not None
    out, planar_in, planar_out = g.flat(), form.inputs[0] is Layout.PLANAR, form.outputs[0] is Layout.PLANAR
    row_bands, column_bands = bands_of(g, out)
    bands, rows, columns = row_bands * column_bands, out[1] / row_bands, out[2] / column_bands
    repeats = g.images * g.groups * out[0]
    blocks, row = -(-g.filters // 16), stored_type(form.implementation).bytes * 16.0

    # Inputs of bf16 are multiplied in pairs, planar ones those of a line of the kernel, which is one tap.
    pairs, channels, kernel = form.implementation in ("bf16", LINES), g.channels, g.kernel
    if form.implementation == LINES:
        channels, kernel = -(-g.read(2, 1) * g.channels // 2) * 2, (*g.kernel[:2], 1)
    taps = prod(kernel) * channels
    products = (taps / 2, 2 * row, at.bf16 / 2) if pairs else (taps, row, 1.0)

    # Each band goes over all weights: the first one fetches them, the others find them where they fit.
    joined = g.dilation[2] == 1 and (g.channels % 16 == 0 or (g.channels < 16 and planar_in))
    spans = -(-channels // 16) * kernel[0] * kernel[1] * (1 if joined else kernel[2])
    late = activation_cycles(op.activation, 1.0, at)
    # Parts of the output leave out the taps that see padding only.
    deep, high = (inside(g.inside[d], g.out[d], g.kernel[d], g.stride[d], g.dilation[d], g.pad[d])[0] for d in range(2))
    of_rows = deep * high / max(1, prod(g.out[d] * g.kernel[d] for d in range(2)))
    height, width = -(-out[1] // row_bands), -(-out[2] // column_bands)
    parts = [(width, of_rows)]
    if form.implementation != LINES and column_bands == 1 and g.kernel[2] > 1:
        cut = columns_of(g.inside[2], g.out[2], g.kernel[2], g.stride[2], g.dilation[2], g.pad[2])
        parts = [(outputs, of_rows * count / g.kernel[2]) for outputs, count in cut]
    in_parts = high < g.out[1] * g.kernel[1] or len(parts) > 1
    at_a_time = blocks
    together = min(blocks, _TILE_BLOCKS) * taps * row
    passes = -(-together // _PASS) if together > _KEPT and height * width > 1 else 1.0
    rows_near = _NEAR_PASSES.get(at.lanes, taps)
    near = taps > rows_near and height * width >= _LEAST_POSITIONS
    if near:
        passes = -(-taps // rows_near)
    residual = len(work.inputs) > 3 and work.inputs[3] is not None
    through = planar_out or (g.groups > 1 and g.filters % 16 != 0) or (residual and passes > 1)
    if through or late or ((in_parts or passes > 1) and not near):
        at_a_time = min(blocks, _TILE_BLOCKS)
    times = blocks / at_a_time * repeats * rows * columns / (height * width)

    def work_of(distance: float) -> float:
        taps, row, speed = products
        of_pass = at_a_time * taps * row / passes
        total, fetch = 0.0, of_pass  # all weights: what one row does not see, another one does
        for outputs, share in parts:
            each = share * taps / passes, share * spans / passes
            busy = dense_seconds(at, height, outputs, at_a_time, *each, distance, row, speed)
            total += max(busy, at.moved(fetch, distance))
            fetch, distance = 0.0, of_pass
        return passes * total

    total = times * work_of(distances[1])
    if bands > 1:
        total += times * (bands - 1) * work_of(blocks * taps * row)

    moved = at.moved(stored(work.inputs[0], form.inputs[0]), distances[0])
    if g.channels > 0 and (planar_in or pairs or g.padded):
        lines = repeats * bands * g.kernel[0] * g.copied(1, height)
        extent, lanes = g.read(2, width), 16 if not planar_in else min(g.channels, 16)
        groups = -(-g.channels // lanes)
        band = groups * extent * lanes * (2.0 if pairs else 4.0)
        cycles = lines * groups * (_LINE + extent * lanes / 16.0 / at.store)
        if form.implementation == LINES:
            cycles += _LINED * lines * extent * g.channels
        elif planar_in:
            cycles += lines * transpose_cycles(min(extent, g.inside[2]), g.channels)
        total += max(moved, cycles * at.cycle / at.efficiency.move) + lines * band * at.reach(bands * band)[0]
    else:
        total += _READ * moved
    y = stored(work.outputs[0], form.outputs[0])
    total += _WRITTEN * at.moved(y, distances[-1])
    if residual:
        total += _WRITTEN * at.moved(y, distances[3])
    cycles = late * y / 4 / at.lanes / at.efficiency.elementwise
    if through:
        cycles += repeats * bands * rows * transpose_cycles(columns, g.filters) / at.efficiency.move
    return total + cycles * at.cycle
