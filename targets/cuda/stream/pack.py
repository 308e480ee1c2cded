"""Weights that are not zero as pairs of value and offset, in the order in which blocks use them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from targets.cuda.layer import ConvLayer
from targets.cuda.stream.tile import RUN, Settings, Tile

__all__ = ["Stream", "stream_of"]

_WORD, _LINE = 4, 16  # bytes


@dataclass(frozen=True, slots=True, eq=False)
class Stream:
    """What blocks read, u32 throughout.

    `filters` [blocks, filters of a block] are output channels, those of a thread beside each other, 2^32 - 1 for none;
    `first` [blocks] the input channels where blocks begin. Chunk `i` of a block stages channels from there on, the last
    chunk the last ones. Its part of `words` begins at line `begins[block * chunks + i]` of 16 bytes: where the list of
    each filter begins, in bytes from the part's begin, and where the last one ends; then the lists, each of pairs (bits
    of a value, offset in bytes in shared memory), filled up to multiples of `RUN` with values of 0. `most` is the
    largest part in bytes.
    """

    filters: np.ndarray
    first: np.ndarray
    begins: np.ndarray
    words: np.ndarray
    chunks: int
    depth: int
    most: int


def stream_of(layer: ConvLayer, settings: Settings, tile: Tile) -> Stream:
    """The layer's weights for these settings. A block has filters of one group or, where those are few, of several; the
    filters of a warp have about as many weights as those of the others."""
    total, depth = layer.weights.shape[:2]
    each = total // layer.group
    groups = max(1, min(layer.group, settings.filters // each))
    counts = np.count_nonzero(layer.weights.reshape(total, -1), axis=1)
    parts, first = [], []
    for group in range(0, layer.group, groups):
        own = np.arange(group * each, min(group + groups, layer.group) * each)
        own = own[np.argsort(-counts[own], kind="stable")]
        for begin in range(0, len(own), settings.filters):
            parts.append(own[begin : begin + settings.filters])
            first.append(min(group, layer.group - groups) * depth)
    filters = np.full((len(parts), settings.filters), -1)
    lanes = settings.filters // settings.channels
    for number, part in enumerate(parts):
        dealt = np.full(settings.filters, -1)
        dealt[: len(part)] = part
        filters[number] = dealt.reshape(settings.channels, lanes).T.reshape(-1)
    begins, words, most = _lists(layer, settings, tile, filters, np.array(first), groups * depth)
    chunks = -(-groups * depth // settings.depth)
    return Stream(filters.astype(np.uint32), np.array(first, np.uint32), begins, words, chunks, groups * depth, most)


def _lists(
    layer: ConvLayer, settings: Settings, tile: Tile, filters: np.ndarray, first: np.ndarray, channels: int
) -> tuple[np.ndarray, np.ndarray, int]:
    """`begins`, `words` and `most` of the stream; a block reads so many input channels."""
    total, depth = layer.weights.shape[:2]
    blocks, count = filters.shape
    chunks = -(-channels // settings.depth)
    place = np.zeros(total, np.int64)  # of a filter among those of all blocks
    real = np.flatnonzero(filters.reshape(-1) >= 0)
    place[filters.reshape(-1)[real]] = real
    filter, channel, r, s = np.nonzero(layer.weights)
    values = layer.weights[filter, channel, r, s].astype(np.float32)
    block, slot = np.divmod(place[filter], count)
    channel = channel + filter // (total // layer.group) * depth - first[block]
    chunk = channel // settings.depth
    channel = channel - np.minimum(chunk * settings.depth, channels - settings.depth)
    across, residue = np.divmod(s * layer.dilations[1], layer.strides[1])
    offsets = channel * tile.channel + r * layer.dilations[0] * tile.pitch + residue * tile.phase + across
    key = (block * chunks + chunk) * count + slot
    order = np.lexsort((offsets, key))
    lengths = np.bincount(key, minlength=blocks * chunks * count).reshape(-1, count)
    padded = -(-lengths // RUN) * RUN
    head = -(-(count + 1) * _WORD // _LINE) * _LINE // _WORD  # words
    starts = head + 2 * np.cumsum(np.pad(padded, ((0, 0), (1, 0))), axis=1)  # words
    begins = np.concatenate([[0], np.cumsum(starts[:, -1])])
    words = np.zeros(begins[-1], np.uint32)
    words[(begins[:-1, None] + np.arange(count + 1)).reshape(-1)] = _WORD * starts.reshape(-1)
    key = key[order]
    within = np.arange(len(key)) - np.concatenate([[0], np.cumsum(lengths.reshape(-1))])[key]
    at = begins[key // count] + starts[key // count, key % count] + 2 * within
    words[at] = values[order].view(np.uint32)
    words[at + 1] = _WORD * offsets[order]
    return (begins * _WORD // _LINE).astype(np.uint32), words, int(starts[:, -1].max()) * _WORD
