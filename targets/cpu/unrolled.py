"""Sparse weights as what groups of filters have at each place, in the order in which instructions are made of them
(docs/format.md, runtime_c/src/kernels/conv_unrolled.c): pure numpy, exact bytes."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from math import gcd, prod

import numpy as np

from targets.cpu.cost.conv import Geometry
from targets.cpu.tiling import whole_line

__all__ = ["FILTERS", "GENERATED", "LANES", "Strips", "Unrolled", "channels_of_tile", "group_sizes", "strips_of", "unrolled_stream", "window"]

FILTERS = 28  # of a group at most: their sums stay in registers
GENERATED = 64  # bytes of the vectors of processors that instructions are made for
LANES = 16  # positions of a vector
_BATCH, _FAR = 4, 63  # places whose inputs are loaded at once, and how many places each is further on at most
_FLOATS = 128 * 1024  # of the inputs of a tile: they stay in the second cache
_LINES, _WHOLE = 256, 16  # lines of a channel at most; vectors of a flat strip at least, if there are as many
_LEAST = 32  # vectors of a strip that make up for making its instructions


@dataclass(frozen=True, slots=True, eq=False)
class Unrolled:
    """The non-zeros of a constant: tile by tile, in a tile by group of filters, in a group by tap, of a tap by channel
    of the tile, of that by filter.

    The channels of a tap at which a group has any come in batches of four. values f32 [entries], owners u8 [entries]:
    filter of the group, plus 32 times the channel's number in its batch; batches u32 [n]: of each of four bytes the
    lower six bits, how many channels further on the next one is, the others how many entries the batch has; groups i32
    [tiles, groups, 4 + taps]: how many filters each has, where its batches and its entries begin, how many entries
    these are, and how many batches each tap has.
    """

    values: np.ndarray
    owners: np.ndarray
    batches: np.ndarray
    groups: np.ndarray


def window(filters: int) -> int:
    """Filters between which a convolution can be cut: a half or a quarter of them, unless groups would be small."""
    for parts in (4, 2):
        if filters % (16 * parts) == 0 and filters // parts > 3 * FILTERS:
            return filters // parts
    return filters


def group_sizes(filters: int) -> list[int]:
    """How many of the filters each group has: in each window as even as can be."""
    own = window(filters)
    count = -(-own // FILTERS)
    return [own * (i + 1) // count - own * i // count for i in range(count)] * (filters // own)


@dataclass(frozen=True, slots=True)
class Strips:
    """How a convolution's positions are cut (runtime_c/src/kernels/sparse_geometry.c): so many strips of an image and
    group, `vectors` in all of them; of each channel, `lines` of so many floats each are copied in all."""

    count: int
    vectors: int
    lines: int
    line: int


def strips_of(g: Geometry, channels: int) -> Strips:
    """With tiles of so many channels."""
    floats, positions = max(_FLOATS // channels, 1), prod(g.out)
    if prod(g.kernel) == 1:
        vectors = -(-positions // LANES)
        if g.flat() == (1, 1, positions) and positions % LANES == 0 and positions // LANES % 8 != 0:
            return Strips(1, vectors, 0, 0)
        count = -(-vectors // max(floats // LANES, _WHOLE))
        lines = count if g.stride == (1, 1, 1) else max(count, g.out[0] * g.out[1])
        return Strips(count, vectors, lines, vectors * LANES // lines)
    reach = [(k - 1) * d // s for k, d, s in zip(g.kernel, g.dilation, g.stride, strict=True)]
    phases = [min(k, s // gcd(s, d)) for k, d, s in zip(g.kernel, g.dilation, g.stride, strict=True)]
    line = whole_line(g, reach[2])
    rows, each = g.out[1], g.kernel[0] * phases[1] * phases[2]
    while rows > 1 and ((rows + reach[1]) * each > _LINES or (rows + reach[1]) * each * line > floats):
        rows -= -(-rows // 8)
    count = -(-g.out[1] // rows)
    rows = -(-g.out[1] // count)
    vectors = count * -(-((rows - 1) * line + g.out[2]) // LANES)
    return Strips(count * g.out[0], vectors * g.out[0], count * g.out[0] * (rows + reach[1]) * each, line)


@lru_cache(maxsize=1 << 12)
def channels_of_tile(g: Geometry) -> int:
    """As many as strips of enough positions leave room for: all, or else tiles as even as can be."""
    depth = max(g.channels, 1)
    for tiles in range(1, depth + 1):
        channels = -(-depth // tiles)
        strips = strips_of(g, channels)
        if strips.lines == 0 or strips.count == g.out[0] or strips.vectors >= _LEAST * strips.count:
            return channels
    return 1


def unrolled_stream(weights: np.ndarray, channels: int, of: int) -> Unrolled:
    """Weights [K, C, kernel...] of a convolution `of` so many groups, in tiles of so many channels."""
    filters, depth, taps = weights.shape[0] // of, weights.shape[1], prod(weights.shape[2:])
    sizes, tiles = group_sizes(filters), -(-depth // channels)
    each, own = len(sizes), max(sizes)
    # [tiles, groups, taps, channels, own filters], with zeros for filters and channels that there are none of
    padded = np.zeros((of, each, own, tiles * channels, taps), np.float32)
    for i, (end, size) in enumerate(zip(np.cumsum(sizes), sizes, strict=True)):
        padded[:, i, :size, :depth] = weights.reshape(of, filters, depth, taps)[:, end - size : end]
    walked = padded.reshape(of * each, own, tiles, channels, taps).transpose(2, 0, 4, 3, 1)
    found = np.flatnonzero(walked)
    values = np.ascontiguousarray(walked).reshape(-1)[found]
    place, owner = np.divmod(found, own)  # of all tiles, groups and taps
    first = np.flatnonzero(np.diff(place, prepend=-1))  # entries with which a place begins
    counts = np.diff(first, append=found.size)
    run, at = np.divmod(place[first], channels)  # of the places of a tap
    forward = np.diff(at, prepend=0)
    fresh = np.flatnonzero(np.diff(run, prepend=-1))  # places with which a run begins
    forward[fresh] = at[fresh]
    skipped = np.maximum(forward - 1, 0) // _FAR  # places without entries on the way to each
    ends = np.cumsum(skipped + 1)
    used = np.bincount(run, skipped + 1, tiles * of * each * taps).astype(np.int64)
    batches = -(-used // _BATCH)  # each run's places fill whole batches
    stored = ends - 1 + (np.cumsum(batches * _BATCH - used) - (batches * _BATCH - used))[run]
    further, counted = (np.zeros(int(batches.sum()) * _BATCH, np.int64) for _ in range(2))
    between = np.arange(ends[-1] if ends.size else 0)  # all places, of which those on the way are _FAR further on
    on_the_way = np.setdiff1d(between, ends - 1, assume_unique=True)
    further[on_the_way + np.repeat(stored - ends + 1, skipped)] = _FAR
    further[stored], counted[stored] = forward - _FAR * skipped, counts
    own_batch = counted.reshape(-1, _BATCH).sum(1, keepdims=True) >> np.arange(0, 2 * _BATCH, 2) & 3
    packed = (further.reshape(-1, _BATCH) | own_batch << 6).astype(np.uint8).reshape(-1).view("<u4")
    table = np.zeros((tiles * of * each, 4 + taps), np.int32)
    table[:, 0] = sizes * (tiles * of)
    table[:, 3] = np.bincount(run // taps, counts, len(table))
    table[:, 4:] = batches.reshape(-1, taps)
    table[:, 1] = np.cumsum(table[:, 4:].sum(1)) - table[:, 4:].sum(1)
    table[:, 2] = np.cumsum(table[:, 3]) - table[:, 3]
    owners = (owner + 32 * np.repeat(stored % _BATCH, counts)).astype(np.uint8)
    return Unrolled(values, owners, packed, table.reshape(tiles, of * each, 4 + taps))
