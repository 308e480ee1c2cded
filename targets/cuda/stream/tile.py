"""What a block of a streamed convolution computes, and how it keeps its input in shared memory."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from targets.base import TargetError
from targets.cuda.geometry import Geometry

__all__ = ["MOST_SHARED", "RUN", "Settings", "Tile", "ranked", "settings_of", "tile_of"]

MOST_SHARED = 48 * 1024  # bytes of a block
RUN = 2  # pairs that a thread reads together
_WARP = 32
_THREADS = 256
_INPUTS = (12 * 1024, 20 * 1024, 36 * 1024)  # bytes of shared memory for input
_STREAM = 8 * 1024  # and for pairs
_MULTIPROCESSOR = 64 * 1024  # bytes that it has
_PARALLEL = 16  # warps that it needs so that none waits for results of another
_PAIR = 8  # bytes of a weight and its offset
_HEAD = 1024  # bytes that say where lists begin, at most


@dataclass(frozen=True, slots=True)
class Settings:
    """What may be tuned: a thread has `high` pixels below each other, in `channels` output channels. `columns` threads
    are beside each other and `groups` of them below; `places` threads, whole warps, do the same of other channels.
    `depth` input channels are staged at a time."""

    high: int
    columns: int
    groups: int
    channels: int
    depth: int
    threads: int = _THREADS
    registers: int = 128

    @property
    def places(self) -> int:
        """Threads with different pixels, in whole warps."""
        return -(-self.columns * self.groups // _WARP) * _WARP

    @property
    def rows(self) -> int:
        """Rows of output pixels."""
        return self.high * self.groups

    @property
    def filters(self) -> int:
        """Output channels of a block."""
        return self.threads // self.places * self.channels


@dataclass(frozen=True, slots=True)
class Tile:
    """The input of a block: of a channel `lines` x `line` elements. In shared memory a line takes `pitch` words;
    columns that are equal modulo the stride lie together, `phase` words for each residue. Threads load `together`
    channels at a time, in `passes`."""

    lines: int
    line: int
    phase: int
    pitch: int
    together: int
    passes: int

    @property
    def channel(self) -> int:
        """Words of a channel in shared memory."""
        return self.lines * self.pitch


def tile_of(layer: Geometry, settings: Settings) -> Tile:
    """The input that the pixels of a block need. Lanes of a warp read from different banks as far as a pitch can make
    them."""
    (height, width), (down, across) = layer.kernel, layer.strides
    lines = (settings.rows - 1) * down + (height - 1) * layer.dilations[0] + 1
    line = (settings.columns - 1) * across + (width - 1) * layer.dilations[1] + 1
    phase = -(-line // across)
    pitch = _pitch(settings.columns, settings.groups, settings.high * down, phase * across)
    together = max(1, min(settings.depth, settings.threads // (lines * line)))
    while settings.depth % together:
        together -= 1
    return Tile(lines, line, phase, pitch, together, -(-lines * line // settings.threads) if together == 1 else 1)


@functools.cache
def _pitch(columns: int, groups: int, lines: int, least: int) -> int:
    """The pitch, at least so many words, with which lanes read from as many banks as can be: those of a group beside
    each other, groups as many lines apart."""
    lane = np.arange(min(_WARP, columns * groups))
    pitches = np.arange(least, least + _WARP)
    banks = np.sort((lane // columns * lines * pitches[:, None] + lane % columns) % _WARP, axis=1)
    return int(pitches[np.argmin(np.diff(banks, axis=1).astype(bool).sum(axis=1) * -1)])


@functools.cache
def settings_of(layer: Geometry) -> Settings:
    """The settings with the fewest cycles of shared memory, which is what these kernels wait for: one for each
    multiply-add of a warp, and some that staging and pairs take."""
    best = next(iter(ranked(layer)), None)
    if best is None:
        raise TargetError(f"a window of {layer.kernel}, dilated by {layer.dilations}, is too large for shared memory")
    return best


def ranked(layer: Geometry) -> list[Settings]:
    """All settings, those with the fewest cycles first."""
    return [found for found, _ in sorted(_candidates(layer), key=lambda found: _cost(layer, *found))]


def _cost(layer: Geometry, settings: Settings, tile: Tile) -> float:
    down, across = -(-layer.extent[0] // settings.rows), -(-layer.extent[1] // settings.columns)
    tiles, warps = down * across * layer.images, settings.places // _WARP
    filters, weights = layer.filters, max(1.0, layer.nonzeros)
    blocks = -(-filters // settings.filters)
    channels = layer.depth * max(1, settings.filters * layer.group // filters)
    chunks = -(-channels // settings.depth)
    lists = blocks * settings.filters * chunks
    stored = weights + lists * (RUN - 1) / 2
    cycles = stored * (settings.high + _PAIR // 4) * warps + 3 * lists * warps
    cycles += blocks * (channels * tile.channel / _WARP + stored / blocks * _PAIR / 4 / _WARP + 60 * chunks)
    each = -(-tiles * blocks // 2)  # two multiprocessors
    shared = settings.depth * tile.channel * 4 + min(_STREAM, stored / blocks / chunks * _PAIR)
    together = min(each, _MULTIPROCESSOR // shared, 2048 // settings.threads)
    idle = max(1.0, _PARALLEL / max(1, together * settings.threads // _WARP))
    return float(each * cycles / blocks * idle)


def _candidates(layer: Geometry) -> Iterator[tuple[Settings, Tile]]:
    height, width = layer.extent
    filters, depth, each = layer.filters, layer.depth, layer.each
    for high in (1, 2, 4, 7, 8):
        for columns in {width, *(min(width, n) for n in (7, 8, 14, 16, 28, 32, 64))}:
            for places in (32, 64, 128):
                groups = min(places // columns, -(-height // high))
                if layer.pool and (high % 2 or columns % 2):
                    continue
                if groups == 0 or (high > 1 and groups == 1 and high > height):
                    continue
                one = Settings(high, columns, groups, 1, 1)
                for channels in (1, 2, 4, 8):
                    if channels * high > 32:
                        continue
                    parts = min(_THREADS // one.places, -(-filters // channels))
                    own = replace(one, channels=channels, threads=one.places * parts)
                    yield from _deep(layer, own, depth * max(1, min(layer.group, own.filters // each)))


def _deep(layer: Geometry, settings: Settings, channels: int) -> Iterator[tuple[Settings, Tile]]:
    """The settings with some numbers of the block's input channels staged at a time, if one channel fits even if all
    its weights are used."""
    most = settings.filters * (layer.kernel[0] * layer.kernel[1] + RUN - 1) * _PAIR
    pairs = settings.filters * layer.kernel[0] * layer.kernel[1] * layer.density * _PAIR
    words = tile_of(layer, settings).channel
    if most + 4 * words + _HEAD > MOST_SHARED:
        return
    found = {max(1, min(channels, room // (4 * words), int(_STREAM / max(1.0, pairs)))) for room in _INPUTS}
    for depth in sorted(found):
        if 4 * depth * words <= _INPUTS[-1]:
            own = replace(settings, depth=depth)
            yield own, tile_of(layer, own)
