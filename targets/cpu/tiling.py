"""How a sparse convolution is cut so that its accumulators stay in registers and its inputs in the first cache, and how
many cycles it computes for (runtime_c/src/kernels/conv_sparse.c, sparse_geometry.c)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from math import ceil, prod, sqrt

from packer.ir import SINGLE, Block
from targets.cpu.cost.conv import Geometry
from targets.cpu.sparse import BYTE_LINES, MOST_LINES, SORTED, UNSORTED, Order, Taps, taps_of

__all__ = ["Engine", "Strips", "Tiling", "cycles", "strips_of", "tiling"]

_MOST = {1: {16: 14, 8: 12, 4: 24}, 4: {16: 6, 8: 3, 4: 6}}  # vectors a filter, by filters together and lanes
_HALF, _HALVES = 8, {1: 16, 4: 6}  # floats of the half vectors of 16 lanes, of which there may be so many
_TAIL, _TAILED = 4, 6  # floats behind whole vectors of 16 lanes, of which there may be so many
_TILE, _TAILED_TILE = 10 * 1024, 12 * 1024  # floats of the inputs of a tile of a flat strip, and of one with tails
_ROW = 64  # floats: shorter rows are not cut for the sake of more rows
_MOST_ROWS, _MOST_SHIFTS = 16, 16
_NARROW = 16  # floats: tiles of longer lines have no more than bytes can tell

# Cycles, fitted to 130 tilings of ResNet-50's layers at 90 % zeros, and to 770 of layers of 3 to 28 pixels a side at 80
# to 95 %, some in blocks besides, where one vector is multiplied a cycle.
_VECTOR, _SHARED = 1.1, 1.03  # of a non-zero, for each vector of accumulators; where four filters share the inputs
_AGAIN = 1.3  # of a row in a tile, for each vector that is added to the sums,
_GROUP = {1: 9.0, 4: 19.0}  # and for each group, by channels of a block: ends of few blocks are not foreseen
_FLAT_VECTOR, _FLAT_ENTRY = {1: 0.98, 4: 0.93}, 0.9  # of an entry of a flat strip: each vector, and to find its line
_FLAT_TAIL = 0.5  # what part of a vector a tail takes as long as
_FLAT_AGAIN, _FLAT_ROW = 3.3, 3.5  # of a row in a tile, likewise: few entries, so that sums hardly stay in the cache
_OVERLAPPED, _SERIAL = 0.4, 0.7  # what part of an entry's latency rows do not hide; of each vector, besides
_REMEMBERED = 2048  # ends of loops, of each layer of a network
_CHEAP = 4.0  # of an entry, where three that are zeros cost less than a branch that is not foreseen
_BEYOND = 0.35  # what part longer an entry takes for each time that a tile of rows is larger than the first cache
_ASTRAY = 0.055  # what part longer an entry takes for each float of a vector that does not begin where vectors do
_PUT = 3.5  # to store each vector of outputs of a strip of rows
_LINE, _COPIED = 5.2, 4.0  # to begin a line, and to copy each vector of it
_GATHERED = 1.8  # to copy each float with a stride of three or more, besides
_RUN = {1: 2.2, 2: 5.0}  # to copy each row of positions of a flat strip that does not follow the one before, by stride,
_NARROW_RUN = 1.5  # or if it is a part of one vector
_SPILLED = (
    1.6  # how many times the first cache a tile may take; not where blocks of channels are read one after another
)


@dataclass(frozen=True, slots=True)
class Engine:
    """What of a core matters here: floats of a vector, vectors multiplied a cycle, cycles until a product can be added
    to, bytes of the first cache."""

    lanes: int
    pace: float
    latency: float
    l1_bytes: int


@dataclass(frozen=True, slots=True)
class _Limits:
    """Floats of a vector and of all accumulators of a filter; of those in half vectors, and of those with a tail."""

    lanes: int
    most: int
    halves: int
    tailed: int


@dataclass(frozen=True, slots=True)
class Tiling:
    """Strips of `rows` rows of outputs (0: taps are spread, and all positions are one row), tiles of `channels`,
    entries that are such blocks, in such an order."""

    rows: int
    channels: int
    block: Block
    order: Order


@dataclass(frozen=True, slots=True)
class Strips:
    """The strips of a plane of outputs: `line` floats of each line of inputs; together `chunks` times accumulators are
    begun, of `vectors` in all, half ones if they are `halved`."""

    line: int
    strips: int
    chunks: int
    vectors: float
    halved: bool = False


@lru_cache(maxsize=1 << 14)
def tiling(g: Geometry, density: float, engine: Engine, block: Block) -> Tiling | None:
    """The tiling of fewest cycles for non-zeros in such blocks: of the whole, and of halves that two cores
    compute, cut by rows or by filters. None if bytes cannot tell the lines of a channel; single ones if they cannot
    tell those of a block of channels."""
    limits = _limits(engine, block)
    best: tuple[float, Tiling] | None = None
    rows_half = replace(g, out=(g.out[0], -(-g.out[1] // 2), g.out[2]))
    filters_half = replace(g, filters=-(-g.filters // 2))
    for rows in (1,) if prod(g.kernel) == 1 else range(min(g.out[1], _MOST_ROWS) + 1):
        taps, spread = taps_of(g.kernel, g.stride, g.dilation, rows), _spread(g, rows)
        if taps.lines >= BYTE_LINES:
            continue
        strips, halves = (_strips(part, taps, limits, max(rows, 1)) for part in (g, rows_half))
        spilled = _SPILLED if spread or block.channels == 1 else 1.0
        lines = BYTE_LINES if spread or strips.line > _NARROW else _most_lines(taps, block.channels)
        for channels in _channels(g, taps, lines, block.channels):
            if spread:
                strips, halves = (_flat(part, limits, channels * taps.lines) for part in (g, rows_half))
            if channels > block.channels and not _fits(
                4 * strips.line * taps.lines, channels, engine.l1_bytes, spilled
            ):
                continue
            cut = Tiling(rows, channels, block, _order(g, taps, density, engine, block, channels, strips))
            of_core = (g, strips), (rows_half, halves), (filters_half, strips)
            one, *two = (_cycles(part, taps, density, engine, cut, own) for part, own in of_core)
            cost = one + 2 * min(two)
            if best is None or cost < best[0]:
                best = cost, cut
    if best is None and block.channels > 1:
        return tiling(g, density, engine, SINGLE)
    return None if best is None else best[1]


@lru_cache(maxsize=1 << 14)
def cycles(g: Geometry, density: float, engine: Engine, cut: Tiling) -> float:
    """How long a convolution, or a part of the one that was tiled, computes."""
    taps = taps_of(g.kernel, g.stride, g.dilation, cut.rows)
    return _cycles(g, taps, density, engine, cut, strips_of(g, engine, cut))


def strips_of(g: Geometry, engine: Engine, cut: Tiling) -> Strips:
    """The strips of a convolution, or of a part of the one that was tiled; of each depth of the outputs, unless all
    positions are one row."""
    limits, taps = _limits(engine, cut.block), taps_of(g.kernel, g.stride, g.dilation, cut.rows)
    if _spread(g, cut.rows):
        return _flat(g, limits, cut.channels * taps.lines)
    return _strips(g, taps, limits, cut.rows)


def _order(
    g: Geometry, taps: Taps, density: float, engine: Engine, block: Block, channels: int, strips: Strips
) -> Order:
    """Sorted if loops end so often that processors do not remember when, and rows then have neighbours of equal counts:
    those of one group, of several with few entries, or of several that are filled up, where entries of zero cost less
    than a branch that is not foreseen. Cores get all filters that are sorted together."""
    ends = g.filters // block.filters * -(-g.channels // channels) * len(taps.shifts)
    if ends < _REMEMBERED or g.filters < 2 * SORTED or (g.groups > 1 and g.filters % SORTED != 0):
        return UNSORTED
    if len(taps.shifts) > 1 and block.size * strips.vectors <= _CHEAP * engine.pace * strips.chunks:
        return Order(True, 4)
    entries = [density * channels / block.channels * taps.group.count(i) for i in range(len(taps.shifts))]
    differ = prod(4 * sqrt(n) for n in entries)  # rows, but few: counts are off by up to two standard deviations
    return Order(True) if len(taps.shifts) == 1 or differ <= 2 * SORTED else UNSORTED


def _limits(engine: Engine, block: Block) -> _Limits:
    most, halves = _MOST[block.filters][engine.lanes] * engine.lanes, _HALVES[block.filters] * _HALF
    return _Limits(engine.lanes, most, halves, _TAILED * 16 if engine.lanes == 16 and block == SINGLE else 0)


def _fits(channel: int, channels: int, l1_bytes: int, spilled: float) -> bool:
    """Whether the first cache holds a tile; somewhat more does no harm unless all channels fall into the same sets."""
    return channel * channels <= l1_bytes * (1.0 if channel % 2048 == 0 else spilled)


def _channels(g: Geometry, taps: Taps, lines: int, deep: int) -> list[int]:
    """Channels of a tile such that it has at most so many lines and counts are bytes, in tiles as even as can be, in
    whole blocks of `deep` channels; a single one too, which any first cache holds."""
    of_group = max(map(taps.group.count, range(len(taps.shifts))))
    most, blocks = min(lines // taps.lines, 255 * deep // of_group) // deep, -(-max(g.channels, 1) // deep)
    if most == 0:
        return []
    fewest = -(-blocks // most)
    tiles = (fewest, fewest + 1, fewest * 3 // 2, fewest * 2, fewest * 3, fewest * 4)
    return sorted({-(-blocks // n) * deep for n in tiles} | ({1} if deep == 1 else set()))


def _most_lines(taps: Taps, deep: int) -> int:
    """Lines of a tile of blocks of `deep` channels that gaps can tell: those of one block if no index reaches from the
    last taps of a group to the first ones in the next block."""
    groups = [[line for line, of in zip(taps.line, taps.group, strict=True) if of == i] for i in set(taps.group)]
    far = max(deep * taps.lines + min(group) - max(group) for group in groups)
    return MOST_LINES if far < BYTE_LINES else max(BYTE_LINES, deep * taps.lines)


def _spread(g: Geometry, rows: int) -> bool:
    """Whether each tap has a line of its own, so that all positions are one row."""
    return rows == 0 or prod(g.kernel) == 1


def _flat(g: Geometry, limits: _Limits, lines: int) -> Strips:
    """All positions as one row, of which a tile has so many lines."""
    lanes, positions = limits.lanes, prod(g.out)
    wanted, whole = min(max(_TILE // lines, lanes), limits.most), positions // lanes
    if whole > 0 and 0 < positions % lanes <= _TAIL and positions <= min(limits.tailed + _TAIL, _TAILED_TILE // lines):
        return Strips(whole * lanes + _TAIL, 1, 1, whole + _FLAT_TAIL)
    half = lanes == 16 and wanted <= limits.halves and positions % lanes != 0
    unit = _HALF if half else lanes
    units = -(-positions // unit)
    strips = -(-units // (wanted // unit))
    return Strips(-(-units // strips) * unit, strips, strips, units * unit / lanes, half)


def _strips(g: Geometry, taps: Taps, limits: _Limits, rows: int) -> Strips:
    """Strips of rows, each a segment of the columns; of as many rows at a time as fit the registers."""
    height, width = g.out[1:]
    lanes, most, reach = limits.lanes, limits.most, taps.shifts[0]
    behind = reach if _shifted(taps) else 0
    phases = {k * g.dilation[2] % g.stride[2] for k in range(g.kernel[2])}
    before = [max(0, -(-(g.pad[2] - phase) // g.stride[2])) for phase in phases]
    zeros = [min(width + reach, (g.inside[2] - 1 + g.pad[2] - phase) // g.stride[2] + 1) for phase in phases]
    line = max(width, *zeros, width + reach - min(before))
    segments, limit = 1, max(most // rows, min(most, _ROW))
    if _up(min(line, width + behind), lanes) > limit:
        segments = -(-width // max(1, _up(limit - lanes + 1, lanes) - behind))
        line = -(-width // segments) + reach
    whole, half = _up(line, lanes), _up(line, _HALF)
    narrow = lanes == 16 and rows > 1 and half < whole and half * rows <= limits.halves
    line = half if narrow else whole
    chunk = max(1, min(rows, most // line))
    chunk = -(-rows // -(-rows // chunk))
    chunks, vectors, unit = 0, 0.0, _HALF if lanes == 16 else lanes
    for own in [rows] * (height // rows) + [height % rows]:
        pieces = -(-own // chunk)
        chunks += pieces
        vectors += (max(0, own - pieces) * line + pieces * min(line, _up(-(-width // segments) + behind, unit))) / lanes
    return Strips(line, -(-height // rows) * segments, chunks * segments, vectors * segments, line % lanes != 0)


def _cycles(g: Geometry, taps: Taps, density: float, engine: Engine, cut: Tiling, strips: Strips) -> float:
    block = cut.block
    rows = g.filters // block.filters * -(-g.channels // cut.channels)  # of all tiles
    entries = density * g.filters * g.channels * prod(g.kernel) / block.filters
    entries += rows * len(taps.shifts) * block.channels * (cut.order.multiple - 1) / 2
    stored = strips.vectors * block.filters
    vectors = stored / (min(engine.pace, 1.0) if strips.halved else engine.pace)  # two halves start a cycle, at most
    spread = _spread(g, cut.rows)
    if spread:
        each = _FLAT_VECTOR[block.filters] * vectors + _FLAT_ENTRY * strips.chunks
        found = entries * max(each, _OVERLAPPED * engine.latency * strips.chunks)
        found += rows * (_FLAT_AGAIN * stored + _FLAT_ROW * strips.chunks)
    else:
        beyond = 4 * strips.line * taps.lines * min(cut.channels, g.channels) / engine.l1_bytes - 1
        vector = (_VECTOR if block.filters == 1 else _SHARED) * _astray(taps, engine, strips)
        vector *= 1 + _BEYOND * max(beyond, 0.0)
        serial = _OVERLAPPED * engine.latency * strips.chunks + _SERIAL * vectors / block.filters
        found = entries * max(vector * vectors, serial)
        found += rows * (_AGAIN * stored + _GROUP[block.channels] * len(taps.shifts) * strips.chunks)
        found += g.filters * g.out[1] * -(-g.out[2] // engine.lanes) * _PUT
    copied = _COPIED / engine.lanes + (_GATHERED if g.stride[2] > 2 else 0)  # of a float
    apart = spread and (cut.rows == 0 or prod(g.stride) > 1)
    narrow = g.stride[2] == 2 and g.out[2] * 2 <= engine.lanes == 16
    run = _NARROW_RUN if narrow else _RUN[min(g.stride[2], 2)]
    runs = run * prod(g.out[:2]) if apart else 0.0
    found += g.channels * taps.lines * (strips.strips * (_LINE + copied * strips.line) + runs)
    return g.images * g.groups * (1 if spread else g.out[0]) * found


def _astray(taps: Taps, engine: Engine, strips: Strips) -> float:
    """How many times longer an entry takes as vectors of some groups begin anywhere."""
    if len(taps.shifts) == 1 or _shifted(taps):
        return 1.0
    unit = engine.lanes if strips.line % engine.lanes == 0 else _HALF
    return 1 + _ASTRAY * unit * sum(shift % unit != 0 for shift in taps.shifts) / len(taps.shifts)


def _shifted(taps: Taps) -> bool:
    """Whether accumulators are shifted from group to group, which are one column apart."""
    return 1 < len(taps.shifts) <= _MOST_SHIFTS and taps.shifts == tuple(reversed(range(len(taps.shifts))))


def _up(n: int, unit: int) -> int:
    return ceil(n / unit) * unit
