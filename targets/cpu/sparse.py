"""Sparse weights as streams of their non-zeros, in the order in which kernels walk them (docs/format.md): pure numpy,
exact bytes."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

import numpy as np

from packer.ir import SINGLE, Block

__all__ = [
    "BLOCK",
    "BYTE_LINES",
    "MATRIX_CHANNELS",
    "MOST_LINES",
    "SORTED",
    "UNSORTED",
    "Order",
    "Stream",
    "Taps",
    "conv_stream",
    "matrix_stream",
    "taps_of",
]

BLOCK = 16  # rows that have one start
BYTE_LINES = 256  # of the channels of a tile: of more indices are gaps
MOST_LINES = 2048
SORTED = 32  # filters whose rows may be sorted
MATRIX_CHANNELS = 4096  # inputs of a tile of a matrix: 16 KB of the first cache
_FAR = 255  # what one index goes forward at most


@dataclass(frozen=True, slots=True, eq=False)
class Stream:
    """The non-zeros of a constant, tile by tile, in a tile row by row (a row gives one output).

    values f32 [entries], indices u8 [entries]; counts: entries of each group of a convolution, u8 [tiles, rows,
    groups], or of each row of a matrix, u16 [tiles, rows]; starts i32 [tiles, rows / 16]: where the entries of rows
    16 b ... begin. Where the non-zeros lie in blocks, an entry is a block: there are four values for each index, and in
    blocks of four filters a row of counts for each four. Where rows of a convolution are sorted by their counts, these
    follow the row's place among those of its 32 filters: u8 [tiles, rows, 1 + groups].
    """

    values: np.ndarray
    indices: np.ndarray
    counts: np.ndarray
    starts: np.ndarray


@dataclass(frozen=True, slots=True)
class Order:
    """Whether the rows of every 32 filters are sorted by their counts, and what these are multiples of, filled up with
    zeros: branches are foreseen where counts repeat themselves."""

    sorted: bool = False
    multiple: int = 1


UNSORTED = Order()


@dataclass(frozen=True, slots=True)
class Taps:
    """Where the taps of a window, first column last, lie in the lines of a channel.

    `lines` of a channel are read for a strip of rows: for each depth tap, for each row phase that is used, for each
    column phase that is used, one after the other. The tap's first line is `line`, its column is `shift` further on;
    taps of equal shift are a group, the largest shift first.
    """

    lines: int
    line: tuple[int, ...]
    group: tuple[int, ...]
    shifts: tuple[int, ...]  # of the groups, descending


def taps_of(kernel: tuple[int, ...], strides: tuple[int, ...], dilations: tuple[int, ...], rows: int) -> Taps:
    """The taps of a window of one to three dimensions, for strips of so many rows of outputs; of none: spread, so that
    each has a line of its own."""
    if rows == 0:
        return Taps(prod(kernel), tuple(range(prod(kernel))), (0,) * prod(kernel), (0,))
    ones = (1,) * (3 - len(kernel))
    depth, height, width = (*ones, *kernel)
    (stride, pace), (dilation, gap) = (*ones, *strides)[1:], (*ones, *dilations)[1:]
    down = [divmod(y * dilation, stride) for y in range(height)]  # lines on, phase
    right = [divmod(x * gap, pace) for x in range(width)]
    columns = sorted({phase for _, phase in right})
    first, lines = {}, 0
    for z in range(depth):
        for phase in sorted({phase for _, phase in down}):
            count = rows + max(on for on, own in down if own == phase)
            for column in columns:
                first[z, phase, column] = lines
                lines += count
    shifts = tuple(sorted({shift for shift, _ in right}, reverse=True))
    line, group = [], []
    for z in range(depth):
        for on, phase in down:
            for shift, column in right:
                line.append(first[z, phase, column] + on)
                group.append(shifts.index(shift))
    return Taps(lines, tuple(line), tuple(group), shifts)


def conv_stream(
    weights: np.ndarray, taps: Taps, channels: int, block: Block = SINGLE, order: Order = UNSORTED, of: int = 1
) -> Stream:
    """Weights [K, C, kernel...] of a convolution `of` so many groups, in tiles of so many channels. An entry's line is
    channel in the tile * lines + line, the first channel's if it is of four; its index is that, or if a tile has more
    than 256 how many lines further on it is than the one before in its group. Gaps of more than 255 are bridged by
    entries of zero."""
    filters, depth = weights.shape[:2]
    tiles, groups = -(-depth // channels), len(taps.shifts)
    members = [sorted((taps.line[t], t) for t in range(len(taps.line)) if taps.group[t] == g) for g in range(groups)]
    most = max(map(len, members))  # taps of a group; groups of fewer are filled up with zeros
    assert channels * taps.lines <= MOST_LINES
    assert channels % block.channels == 0
    assert channels // block.channels * most < 256, "a count is a byte"
    walk = np.full((groups, most), len(taps.line))
    table = np.zeros((groups, channels, most), np.int64)
    for g, own in enumerate(members):
        walk[g, : len(own)] = [tap for _, tap in own]
        lines = [line for line, _ in own] + [own[-1][0]] * (most - len(own))
        table[g] = np.arange(channels)[:, None] * taps.lines + lines
    # A group holds whole columns of taps mostly, so gathering taps is all that reorders within a channel.
    flat = np.zeros((filters, tiles * channels, len(taps.line) + 1), np.float32)
    flat[:, :depth, :-1] = weights.reshape(filters, depth, prod(weights.shape[2:]))
    walked = flat.reshape(filters, tiles, channels, -1).transpose(1, 0, 2, 3)[..., walk]  # [tile, K, c, group, tap]
    rows = filters // block.filters
    blocks = walked.reshape(tiles, rows, block.filters, -1, block.channels, groups, most)
    entries = np.ascontiguousarray(blocks.transpose(0, 1, 5, 3, 6, 2, 4)).reshape(-1, block.size)
    table = table[:, :: block.channels]
    stored = entries.any(1).reshape(tiles, rows, groups, -1)
    if order.multiple > 1:
        missing = -stored.sum(3, keepdims=True) % order.multiple
        channel = np.arange(0, tiles * channels, block.channels).reshape(tiles, 1, 1, -1)
        free = ~stored & (channel.repeat(most, 3) < depth)
        stored |= free & (np.cumsum(free, 3) <= missing)
    gaps = channels * taps.lines > BYTE_LINES
    if gaps:
        _bridge(stored.reshape(-1, groups, stored.shape[3]), table.reshape(groups, -1))
    counts, found = stored.sum(3), np.flatnonzero(stored)
    if order.sorted:
        first = np.arange(rows) // (rows // of) * (rows // of)  # of the row's group
        first += (np.arange(rows) - first) // (SORTED // block.filters) * (SORTED // block.filters)
        keys = [*np.moveaxis(counts, 2, 0)[::-1], *np.broadcast_arrays(first, np.arange(tiles)[:, None])]
        places = np.lexsort([key.reshape(-1) for key in keys])
        at = np.empty_like(places)
        at[places] = np.arange(places.size)
        found = found[np.argsort(at[found // table.size], kind="stable")]
        numbers = (places % rows - first[places % rows]).reshape(tiles, rows, 1)
        counts = counts.reshape(-1, groups)[places].reshape(counts.shape)
    indices = table.reshape(-1)[found % table.size]
    if gaps:
        group = found // (table.size // groups)
        indices = np.where(np.diff(group, prepend=-1) != 0, indices, np.diff(indices, prepend=0))
    starts = _starts(counts.sum(2), BLOCK // block.filters)
    if order.sorted:
        counts = np.concatenate([numbers, counts], 2)
    return Stream(entries[found].reshape(-1), indices.astype(np.uint8), counts.astype(np.uint8), starts)


def _bridge(stored: np.ndarray, lines: np.ndarray) -> None:
    """Marks further places [rows, groups, places] as stored so that an index reaches from each to the next one, whose
    `lines` [groups, places] ascend."""
    assert (np.diff(lines, prepend=0) <= _FAR).all(), "an index reaches the next place"
    for g, own in enumerate(lines):
        while True:
            row, place = np.nonzero(stored[:, g])
            before = np.where(np.diff(row, prepend=-1) != 0, 0, np.roll(own[place], 1))
            far = own[place] - before > _FAR
            if not far.any():
                break
            stored[row[far], g, np.searchsorted(own, before[far] + _FAR, "right") - 1] = True


def matrix_stream(matrix: np.ndarray, block: Block = SINGLE) -> Stream:
    """A matrix [inputs, outputs] in tiles of 4096 inputs; an index tells how many inputs further on the next entry is,
    or how many times as many as an entry has.

    Gaps of more than 255 are bridged by entries of zero."""
    places, rows = matrix.shape[0] // block.channels, matrix.shape[1] // block.filters
    blocks = matrix.reshape(places, block.channels, rows, block.filters)
    values, indices, counts = [], [], []
    for begin in range(0, places, MATRIX_CHANNELS // block.channels):
        tile = blocks[begin : begin + MATRIX_CHANNELS // block.channels]
        at, row = np.divmod(np.flatnonzero(tile.any((1, 3))), rows)
        order = np.argsort(row.astype(np.uint16) if rows <= 1 << 16 else row, kind="stable")
        at, row = at[order], row[order]
        gap = np.diff(at, prepend=0)
        fresh = np.diff(row, prepend=-1) != 0
        gap[fresh] = at[fresh]
        own = tile[at, :, row].reshape(-1, block.size)
        extra = np.maximum(gap - 1, 0) // _FAR
        if extra.any():
            last = np.cumsum(extra + 1) - 1  # where each entry goes behind those that bridge its gap
            length = int(last[-1]) + 1
            filled, steps = np.zeros((length, block.size), np.float32), np.full(length, _FAR)
            filled[last], steps[last] = own, gap - _FAR * extra
            row, own, gap = np.repeat(row, extra + 1), filled, steps
        values.append(own.reshape(-1))
        indices.append(gap.astype(np.uint8))
        counts.append(np.bincount(row, minlength=rows))
    table = np.array(counts, np.int64).reshape(len(counts), rows)
    empty = np.zeros(0, np.float32)
    return Stream(
        np.concatenate([empty, *values]),
        np.concatenate([empty.astype(np.uint8), *indices]),
        table.astype(np.uint16),
        _starts(table, BLOCK // block.filters),
    )


def _starts(counts: np.ndarray, block: int) -> np.ndarray:
    """Where the entries of each block of so many rows begin, given how many [tiles, rows] there are."""
    tiles, rows = counts.shape
    blocks = -(-rows // block)
    padded = np.zeros((tiles, blocks * block), np.int64)
    padded[:, :rows] = counts
    each = padded.reshape(tiles, blocks, block).sum(2)
    found: np.ndarray = (np.cumsum(each) - each.reshape(-1)).reshape(tiles, blocks).astype(np.int32)
    return found
