"""Sparse weights as what groups of filters have at each place, in the order in which instructions are made of them
(docs/format.md, runtime_c/src/kernels/conv_unrolled.c): pure numpy, exact bytes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import gcd, prod

import numpy as np

from targets.cpu.cost.conv import Geometry

__all__ = [
    "FILTERS",
    "LANES",
    "Strips",
    "Unrolled",
    "channels_of_tile",
    "group_sizes",
    "strips_of",
    "unrolled_stream",
    "window",
]

FILTERS = 28  # of a group at most: their sums stay in registers
LANES = 16  # positions of a vector
_BATCH, _FAR = 4, 63  # places whose inputs are loaded at once, and how many places each is further on at most
_FLOATS = 128 * 1024  # of the inputs of a tile: they stay in the second cache
_WHOLE = 16  # vectors of a strip at least, if there are as many
_FEW = 24, 8  # vectors of outputs that make up for larger tiles, of kernels and of single taps
_CHANNELS = (128, 64, 64), (1024, 512, 256)  # of a tile at most: if vectors are few, if they are strided, else
_SETS, _PAGE, _MANY = 8, 64, 96  # lines between channels, and filters, that decide whether inputs are copied,
_GROUPS = 16  # and groups of filters if vectors begin with lines of the cache
_VALUE, _LOAD = 8, 10  # bytes of the instructions of a value and of a load
_KEPT_ROOM, _PACKED_ROOM = 100_000, 34_000  # bytes that those of a set have
_ROWED, _FEW_VALUES = 16, 4  # channels at least, and values of an input in a group at most, to copy row by row
_KEPT, _LEAST = (64, 512), 4  # channels of a tile that are packed or kept, and groups they are kept for,
_KEPT_SETS, _KEPT_VECTORS = 2, 9  # sets that keep them anyhow, and vectors for each further one


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


def group_sizes(filters: int, positions: int) -> list[int]:
    """How many of the filters each group has, in each window: as many as it can, so that few load an input; as even as
    can be where two threads cannot share the positions, but filters."""
    own = window(filters)
    count = -(-own // FILTERS)
    if positions >= 2 * _WHOLE * LANES:
        sizes = [min(FILTERS, own - i) for i in range(0, own, FILTERS)]
    else:
        sizes = [own * (i + 1) // count - own * i // count for i in range(count)]
    return sizes * (filters // own)


@dataclass(frozen=True, slots=True)
class Strips:
    """How a convolution's positions are cut (runtime_c/src/kernels/unrolled_geometry.c): so many strips of an image and
    group, `vectors` in all of them; of each channel, so many `runs` and `floats` are copied in all, none where inputs
    are read in place. `inputs` are "kept", "packed", "rowed" or "apart". Of a single tap, each vector goes through
    `sets` of groups of filters that share its inputs, which are packed, or kept by the first group of each set; 0:
    groups load them on their own. Of several taps, many channels have so many planes that lie `far` apart, unless they
    are copied row by row."""

    count: int
    vectors: int
    runs: int
    floats: int
    inputs: str
    sets: int
    far: int


def strips_of(g: Geometry, channels: int, density: float, channel: int) -> Strips:
    """With tiles of so many channels, whose planes are `channel` floats apart."""
    depth, height, width = g.out
    taps, groups = prod(g.kernel), len(group_sizes(g.filters, prod(g.out)))
    pitch = max(width, -(-g.inside[2] // g.stride[2]))
    single = taps == 1 and channels >= _KEPT[0] and not any(g.pad)
    group = density * g.filters / groups * channels * taps * _VALUE + channels * _LOAD  # bytes of its instructions
    agree = g.stride[1:] == (1, 1) and (g.inside[1] == 1 or g.inside[2] == pitch)
    aligned, spread = channel % LANES == 0, channel % (_SETS * LANES) != 0
    many = groups >= _GROUPS
    kept = single and agree and aligned and channel > LANES and channels <= _KEPT[1]
    kept = kept and not (many and channel % (_PAGE * LANES) == 0)
    kept = kept and g.filters > FILTERS and _LEAST * group <= _KEPT_ROOM
    further = groups * group // _KEPT_ROOM - _KEPT_SETS + 1
    kept = kept and (group > _PACKED_ROOM / 2 or further * _KEPT_VECTORS * LANES <= prod(g.out))
    room = _KEPT_ROOM if kept else _PACKED_ROOM
    sets = -(-groups // max(1, int(room // max(group, 1.0))))
    near = aligned and (not single or channel == LANES or not many or group > _PACKED_ROOM)
    if kept or (agree and spread and (taps > 1 or near or g.filters < _MANY)):
        vectors = -(-((height - 1) * pitch + width) // LANES)
        inputs = "kept" if kept else "packed" if single and channel == LANES else "apart"
        return Strips(depth, depth * vectors, 0, 0, inputs, sets if inputs != "apart" else 0, 0)
    phases = [min(k, s // gcd(s, d)) for k, d, s in zip(g.kernel, g.dilation, g.stride, strict=True)]
    reach = ((g.kernel[1] - 1) * g.dilation[1] - g.pad[1]) // g.stride[1] - -g.pad[1] // g.stride[1]
    planes = g.kernel[0] * phases[1] * phases[2]
    lines = -(-pitch // LANES) * LANES
    rowed = taps > 1 and channels >= _ROWED and FILTERS * density <= _FEW_VALUES
    rowed = rowed and lines * channels <= _FLOATS and 8 * width >= 7 * lines
    pitch = lines if rowed else pitch
    rows = min(max(_FLOATS // (planes * channels * pitch) - reach, _WHOLE * LANES // pitch + 1), height)
    count = -(-height // rows)
    rows = -(-height // count)
    vectors = count * (rows * -(-width // LANES) if rowed else -(-((rows - 1) * pitch + width) // LANES))
    copied = depth * count * planes * (rows + reach)
    contiguous = not rowed and g.stride[1:] == (1, 1) and g.inside[2] == pitch
    runs = depth * count * planes if contiguous else copied
    passes = 2 if single and not contiguous else 1  # to lines, and from there to vectors
    far = planes if taps > 1 and channels >= _ROWED and not rowed else 0
    inputs = "packed" if single else "rowed" if rowed else "apart"
    return Strips(depth * count, depth * vectors, runs, passes * copied * pitch, inputs, sets if single else 0, far)


@lru_cache(maxsize=1 << 12)
def channels_of_tile(g: Geometry) -> int:
    """As many as the first cache has the inputs of a vector for; more where vectors are few, since sums are loaded and
    stored for each tile, or where they are packed anyhow; in tiles as even as can be."""
    vectors, single = -(-prod(g.out[1:]) // LANES), prod(g.kernel) == 1
    most = _CHANNELS[single][0 if vectors <= _FEW[single] else 1 if any(s > 1 for s in g.stride) else 2]
    depth = max(g.channels, 1)
    return -(-depth // -(-depth // most))


def unrolled_stream(weights: np.ndarray, channels: int, of: int, sizes: Sequence[int]) -> Unrolled:
    """Weights [K, C, kernel...], f32 or of another type, of a convolution `of` so many groups, each cut into groups of
    filters of such sizes, in tiles of so many channels."""
    filters, depth, taps = weights.shape[0] // of, weights.shape[1], prod(weights.shape[2:])
    tiles = -(-depth // channels)
    each, own = len(sizes), max(sizes)
    # [tiles, groups, taps, channels, own filters], with zeros for filters and channels that there are none of
    padded = np.zeros((of, each, own, tiles * channels, taps), weights.dtype)
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
    table[:, 0] = np.tile(sizes, tiles * of)
    table[:, 3] = np.bincount(run // taps, counts, len(table))
    table[:, 4:] = batches.reshape(-1, taps)
    table[:, 1] = np.cumsum(table[:, 4:].sum(1)) - table[:, 4:].sum(1)
    table[:, 2] = np.cumsum(table[:, 3]) - table[:, 3]
    owners = (owner + 32 * np.repeat(stored % _BATCH, counts)).astype(np.uint8)
    return Unrolled(values, owners, packed, table.reshape(tiles, of * each, 4 + taps))
