"""Memory layouts of the bundle format: stored size, and back to row-major."""

from __future__ import annotations

import math

import numpy as np

from edgert.dtypes import Array

__all__ = [
    "BLOCK16",
    "DEPTH16",
    "LANES",
    "LAYOUT_NAMES",
    "PLANAR",
    "PLANES",
    "WEIGHT16",
    "blocked_axis",
    "cut",
    "stored_elements",
    "stored_shape",
    "unpack",
]

PLANAR, BLOCK16, WEIGHT16, DEPTH16, PLANES = range(5)
LAYOUT_NAMES = ("planar", "block16", "weight16", "depth16", "planes")
LANES = 16


def blocked_axis(layout: int, rank: int) -> int:
    """The logical dimension that is split into lanes of 16."""
    return 0 if layout == DEPTH16 or rank == 1 else 1


def least_rank(layout: int) -> int:
    """The smallest rank that a tensor in this layout can have."""
    return (0, 1, 3, 1, 0)[layout]


def stored_shape(shape: tuple[int, ...], layout: int, halo: tuple[int, ...] = ()) -> tuple[int, ...]:
    """The extents with the blocked one rounded up to whole lanes, or those of planes with their halo."""
    extents = list(shape)
    if halo:
        top, left, bottom, right = halo
        extents[2:] = top + shape[2] + bottom, -(-(left + shape[3] + right) // 4) * 4
    if layout not in (PLANAR, PLANES):
        axis = blocked_axis(layout, len(shape))
        extents[axis] = -(-extents[axis] // LANES) * LANES
    return tuple(extents)


def stored_elements(shape: tuple[int, ...], layout: int, halo: tuple[int, ...] = ()) -> int:
    """Elements that a tensor of logical `shape` occupies, lanes of padding and halos included."""
    return math.prod(stored_shape(shape, layout, halo)) if 0 not in shape else 0


def cut(stored: Array, whole: tuple[int, ...], begin: tuple[int, ...], shape: tuple[int, ...], layout: int) -> Array:
    """The flat elements, in the same layout, of a view of the flat elements `stored` of a tensor of shape `whole`."""
    ends = [first + count for first, count in zip(begin, shape, strict=True)]
    extents, ranges = list(whole), list(zip(begin, ends, strict=True))
    if layout == WEIGHT16:
        slab = math.prod(whole[3:]) * LANES
        extents = [*whole[:2], whole[2] * slab]
        ranges = [*ranges[:2], (begin[2] * slab, ends[2] * slab)]
    if layout != PLANAR:
        axis = blocked_axis(layout, len(whole))
        extents[axis] = -(-whole[axis] // LANES)
        ranges[axis] = (begin[axis] // LANES, -(-ends[axis] // LANES))
        extents += [LANES] if layout != WEIGHT16 else []
    return stored.reshape(extents)[tuple(slice(first, end) for first, end in ranges)].reshape(-1)


def unpack(stored: Array, shape: tuple[int, ...], layout: int) -> Array:
    """The logical row-major array of the flat elements `stored` in `layout`; a copy except for PLANAR."""
    if layout == PLANAR:
        return stored.reshape(shape)
    axis = blocked_axis(layout, len(shape))
    blocks = -(-shape[axis] // LANES)
    if layout == WEIGHT16:
        lanes_last = _unpack_weights(stored, shape, blocks)
    else:
        lanes_last = stored.reshape(*shape[:axis], blocks, *shape[axis + 1 :], LANES)
    split = np.moveaxis(lanes_last, -1, axis + 1)
    joined = split.reshape(*shape[:axis], blocks * LANES, *shape[axis + 1 :])
    return np.ascontiguousarray(joined[(slice(None),) * axis + (slice(shape[axis]),)])


def _unpack_weights(stored: Array, shape: tuple[int, ...], blocks: int) -> Array:
    """[group, K, C, kernel...]: from [group, blocks, slabs of <= 16 channels] to [group, blocks, C, kernel..., 16]."""
    groups, channels, kernel = shape[0], shape[2], shape[3:]
    positions = math.prod(kernel)
    slabs = stored.reshape(groups, blocks, channels * positions * LANES)
    found = np.empty((groups, blocks, channels, *kernel, LANES), stored.dtype)
    for first in range(0, channels, LANES):
        count = min(LANES, channels - first)
        slab = slabs[:, :, first * positions * LANES : (first + count) * positions * LANES]
        slab = slab.reshape(groups, blocks, *kernel, count, LANES)
        found[:, :, first : first + count] = np.moveaxis(slab, -2, 2)
    return found
