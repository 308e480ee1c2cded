"""Sparse weights as streams of their non-zeros, in the order in which kernels walk them (docs/format.md): pure numpy,
exact bytes."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

import numpy as np

from packer.ir import SINGLE, Block

__all__ = [
    "BLOCK",
    "MATRIX_CHANNELS",
    "MOST_LINES",
    "WIDE_LINES",
    "Stream",
    "Taps",
    "conv_stream",
    "matrix_stream",
    "taps_of",
]

BLOCK = 16  # rows that have one start
MOST_LINES, WIDE_LINES = 256, 2048  # of the channels of a tile, if indices are bytes, and if they have 16 bits
MATRIX_CHANNELS = 4096  # inputs of a tile of a matrix: 16 KB of the first cache
_FAR = 255  # what one index of a matrix goes forward at most


@dataclass(frozen=True, slots=True, eq=False)
class Stream:
    """The non-zeros of a constant, tile by tile, in a tile row by row (a row gives one output).

    values f32 [entries], indices u8 or u16 [entries]; counts: entries of each group of a convolution, u8 [tiles, rows,
    groups], or of each row of a matrix, u16 [tiles, rows]; starts i32 [tiles, rows / 16]: where the entries of rows
    16 b ... begin. Where the non-zeros lie in blocks, an entry is a block: there are four values for each index, and in
    blocks of four filters a row of counts for each four.
    """

    values: np.ndarray
    indices: np.ndarray
    counts: np.ndarray
    starts: np.ndarray


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
    """The taps of a window of one to three dimensions, for strips of so many rows of outputs."""
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


def conv_stream(weights: np.ndarray, taps: Taps, channels: int, block: Block = SINGLE) -> Stream:
    """Weights [K, C, kernel...] in tiles of so many channels; an index is channel in the tile * lines + line, the first
    channel's if an entry is of four."""
    filters, depth = weights.shape[:2]
    tiles, groups = -(-depth // channels), len(taps.shifts)
    members = [sorted((taps.line[t], t) for t in range(len(taps.line)) if taps.group[t] == g) for g in range(groups)]
    most = max(map(len, members))  # taps of a group; groups of fewer are filled up with zeros
    assert channels * taps.lines <= WIDE_LINES
    assert channels % block.channels == 0
    assert channels // block.channels * most < 256, "a count is a byte"
    order = np.full((groups, most), len(taps.line))
    table = np.zeros((groups, channels, most), np.int64)
    for g, own in enumerate(members):
        for i, (line, tap) in enumerate(own):
            order[g, i] = tap
            table[g, :, i] = np.arange(channels) * taps.lines + line
    # A group holds whole columns of taps mostly, so gathering taps is all that reorders within a channel.
    flat = np.zeros((filters, tiles * channels, len(taps.line) + 1), np.float32)
    flat[:, :depth, :-1] = weights.reshape(filters, depth, prod(weights.shape[2:]))
    walked = flat.reshape(filters, tiles, channels, -1).transpose(1, 0, 2, 3)[..., order]  # [tile, K, c, group, tap]
    rows = filters // block.filters
    blocks = walked.reshape(tiles, rows, block.filters, -1, block.channels, groups, most)
    entries = np.ascontiguousarray(blocks.transpose(0, 1, 5, 3, 6, 2, 4)).reshape(-1, block.size)
    found = np.flatnonzero(entries.any(1))
    table = table[:, :: block.channels]
    index = np.uint8 if channels * taps.lines <= MOST_LINES else np.uint16
    indices = table.astype(index).reshape(-1)[found % table.size]
    counts = np.bincount(found // (table.size // groups), minlength=tiles * rows * groups).reshape(tiles, rows, groups)
    starts = _starts(counts.sum(2), BLOCK // block.filters)
    return Stream(entries[found].reshape(-1), indices, counts.astype(np.uint8), starts)


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
