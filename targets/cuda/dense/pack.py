"""Weights of a convolution in the order in which blocks read them, and where the terms of a pixel's sum lie."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from targets.base import TargetError
from targets.cuda.dense.tile import Tile
from targets.cuda.layer import ConvLayer

__all__ = ["Terms", "packed", "terms_of"]


@dataclass(frozen=True, slots=True, eq=False)
class Terms:
    """The terms of each sum: `order` has the columns of the weights as [K, C / group R S], -1 behind the last; its
    length is a multiple of the depth. Term t of a chunk is `stride` elements times t behind its first; None: anywhere.
    First terms are `step` elements apart, the first one of all `begin` elements behind the column; None: anywhere.
    Without them, a `table` tells offsets in bytes (u32), a chunk's or, without `stride`, each term's, and of one chunk
    more.
    """

    order: np.ndarray
    begin: int
    stride: int | None
    step: int | None
    table: np.ndarray | None


def terms_of(layer: ConvLayer, depth: int) -> Terms:
    """Terms in chunks of `depth`, without those that no weight of the layer uses.

    Where all channels use the same taps and fill their chunks, a chunk is one tap of `depth` channels.
    """
    _, channels, height, width = layer.weights.shape
    size = layer.source.dtype.bytes
    if channels * layer.source.plane * size >= 1 << 32:
        raise TargetError(f"expected channels of a group in less than 4 GiB, got {channels} of {layer.source}")
    used = layer.weights.any(axis=0).reshape(channels, height * width)
    own, taps = np.flatnonzero(used.any(axis=1)), np.flatnonzero(used.any(axis=0))
    order = np.flatnonzero(used)
    if len(order) == len(own) * len(taps) and len(own) % depth == 0:
        blocks = own.reshape(-1, 1, depth) * height * width
        order = (blocks + taps.reshape(1, -1, 1)).reshape(-1)
    order = np.concatenate([order, np.full(-len(order) % depth, -1)])
    if not len(order):
        return Terms(order, 0, None, None, None)
    channel, tap = np.divmod(np.where(order < 0, order.max(), order), height * width)
    r, s = np.divmod(tap, width)
    lines = r * layer.dilations[0] * layer.source.pitch
    offsets = (channel * layer.source.plane + lines + s * layer.dilations[1]).reshape(-1, depth)
    gaps, steps = np.diff(offsets, axis=1), np.diff(offsets[:, 0])
    if gaps.size and (gaps != gaps.flat[0]).any():
        return Terms(order, 0, None, None, _table(offsets, size))
    stride = int(gaps.flat[0]) if gaps.size else 0
    if len(steps) == 0 or (steps == steps[0]).all():
        return Terms(order, int(offsets[0, 0]), stride, int(steps[0]) if len(steps) else 0, None)
    return Terms(order, 0, stride, None, _table(offsets[:, :1], size))


def _table(offsets: np.ndarray, size: int) -> np.ndarray:
    return np.concatenate([offsets, offsets[-1:]]).reshape(-1).astype(np.uint32) * np.uint32(size)


def packed(rows: np.ndarray, order: np.ndarray, tile: Tile) -> np.ndarray:
    """Rows [products, K, terms] as f32 [products, blocks of rows, chunks, depth, rows of a block], 0 where there are
    none."""
    products, count, _ = rows.shape
    blocks = -(-count // tile.rows)
    chosen = np.zeros((products, blocks * tile.rows, len(order)), np.float32)
    chosen[:, :count] = np.where(order < 0, 0, rows[:, :, order]) if rows.shape[2] else 0
    parts = chosen.reshape(products, blocks, tile.rows, len(order) // tile.depth, tile.depth)
    return np.ascontiguousarray(parts.transpose(0, 1, 3, 4, 2))
