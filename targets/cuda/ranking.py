"""The ways to make a convolution in each tier, best first by what they are estimated to take on a board.

The first way of a tier is named like the tier, the others after it with their settings: what was measured on a device
is remembered by these names.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from functools import cache

from targets.base import TargetError
from targets.cuda import dense, stream
from targets.cuda.board import Board
from targets.cuda.costs import dense as dense_parts
from targets.cuda.costs import straight, streamed
from targets.cuda.demand import held, seconds_of
from targets.cuda.emit import Settings
from targets.cuda.emit.arithmetic import arithmetic_of
from targets.cuda.emit.window import AHEAD
from targets.cuda.geometry import Geometry
from targets.cuda.slices import CODE, MOST_MULTIPLIES, RESIDENT
from targets.cuda.tiling import tile_of, tiles

__all__ = ["Way", "parts", "pool_of", "pooled", "settings", "tier_of", "ways"]

Way = Settings | dense.Tile | stream.Settings
_BEST = 3  # ways of a tier that are worth measuring
_TILES = 6  # of a number of channels that are looked at in all their variations
_THREADS = (64, 256)
_CHANNELS = {"t1": (64, 32), "t1c": (32, 16), "t1h": (32, 16)}
_STREAMS = 12  # settings of streams that are looked at
_ARITHMETIC = {"t1": "float32", "t1c": "float32", "t1h": "half2"}
_SUMS = {"float32": 1, "half2": 3}  # registers of an output channel
_OWN = 24  # registers of a thread beside sums and what is loaded ahead


def tier_of(name: str) -> str:
    """The tier that a way belongs to."""
    return name.partition(" ")[0]


def pooled(name: str, pool: str) -> str:
    """The name of a way for the implementation that pools, too."""
    return f"{name} + {pool} pool"


def pool_of(implementation: str) -> tuple[str, str]:
    """The name of a way, and the pool in its kernels; "": none."""
    name, _, pool = implementation.partition(" + ")
    return name, pool.partition(" ")[0]


def ways(board: Board, layer: Geometry, tier: str) -> tuple[str, ...]:
    """The names of the best ways of a tier, best first; none if it has none."""
    return tuple(_ranked(board, layer, tier))[:_BEST]


def settings(board: Board, layer: Geometry, name: str) -> Way:
    """The settings of a way by its name. Raises TargetError for none of this version."""
    tier, _, text = name.partition(" ")
    if not text:
        return next(iter(_ranked(board, layer, tier).values()))
    if tier == "t2":
        found: Way | None = _read_streamed(text)
    elif tier == "t3":
        found = _read_dense(text)
    else:
        found = _read_straight(layer, _ARITHMETIC[tier], text)
    if found is None:
        raise TargetError(f"expected the name of a way to make a convolution, got '{name}'")
    return found


def parts(board: Board, layer: Geometry, name: str) -> dict[str, float]:
    """Seconds of each of demand.BOUNDS."""
    return _parts(board, layer, settings(board, layer, name))


@cache
def _ranked(board: Board, layer: Geometry, tier: str) -> dict[str, Way]:
    found = sorted(_candidates(board, layer, tier), key=lambda way: seconds_of(_parts(board, layer, way)))
    return {f"{tier} {_text(way)}" if number else tier: way for number, way in enumerate(found)}


def _parts(board: Board, layer: Geometry, way: Way) -> dict[str, float]:
    if isinstance(way, Settings):
        return straight(board, layer, way)
    if isinstance(way, stream.Settings):
        return streamed(board, layer, way)
    bytes = (
        4.0 * layer.filters * layer.taps,
        float(layer.source * layer.images),
        layer.size * layer.filters * layer.pixels * layer.kept,
    )
    return dense_parts(board, way, layer.each, layer.pixels, layer.taps, layer.group, bytes)


def _candidates(board: Board, layer: Geometry, tier: str) -> Iterator[Way]:
    if tier == "t3":
        yield from dense.TILES
    elif tier == "t2":
        yield from stream.ranked(layer)[:_STREAMS]
    else:
        yield from dict.fromkeys(_straight(board, layer, tier))


def _straight(board: Board, layer: Geometry, tier: str) -> Iterator[Settings]:
    """Channels a thread; of tiles those with the fewest instructions, with whole and half chunks, and with the pitch
    that avoids conflicts of banks and the least; as many registers as there are, or as few as are enough."""
    products = layer.nonzeros / layer.filters
    for channels in _CHANNELS[tier]:
        own = min(channels, layer.each)
        while tier != "t1c" and own > 1 and own * products > MOST_MULTIPLIES:
            own //= 2
        if tier == "t1c" and own * products * CODE > RESIDENT:
            continue
        for one in _tiled(layer, own, _ARITHMETIC[tier]):
            sums = own * _SUMS[one.arithmetic]
            fewer = min(one.registers, -(-(sums + AHEAD + _OWN) // 8) * 8)
            shared = one.tile.shared if one.tile else 0
            yield one
            if held(board, one.threads, fewer, shared) > held(board, one.threads, one.registers, shared):
                yield replace(one, registers=fewer)


def _tiled(layer: Geometry, channels: int, arithmetic: str) -> Iterator[Settings]:
    pixels = arithmetic_of(arithmetic).pixels
    if layer.kernel == (1, 1):
        yield from (Settings(channels, None, threads, arithmetic=arithmetic) for threads in (64, 128, 256))
        return
    for tile in tiles(layer, channels, _THREADS, pixels)[:_TILES]:
        least = replace(tile, pitch=tile.phase * layer.strides[1])
        for one in dict.fromkeys((tile, least)):
            yield Settings(channels, one, one.threads, arithmetic=arithmetic)
            if one.chunk > 1:
                half = replace(one, chunk=one.chunk // 2)
                yield Settings(channels, half, one.threads, arithmetic=arithmetic)


def _text(way: Way) -> str:
    if isinstance(way, Settings):
        one = way.tile
        tile = "" if one is None else f" {one.rows}x{one.columns} chunk {one.chunk} pitch {one.pitch}"
        return f"channels {way.channels}{tile} threads {way.threads} registers {way.registers}"
    if isinstance(way, stream.Settings):
        return f"{way.high}x{way.columns}x{way.groups} channels {way.channels} depth {way.depth} threads {way.threads}"
    return f"{way.rows}x{way.columns} {way.high}x{way.wide}"


def _read_straight(layer: Geometry, arithmetic: str, text: str) -> Settings | None:
    if (found := _STRAIGHT.fullmatch(text)) is None:
        return None
    channels, rows, columns, chunk, pitch, threads, registers = (int(n or 0) for n in found.groups())
    if not rows:
        return Settings(channels, None, threads, registers, arithmetic=arithmetic)
    tile = tile_of(layer, rows, columns, chunk, arithmetic_of(arithmetic).pixels)
    if tile is None:
        return None
    return Settings(channels, replace(tile, pitch=pitch), threads, registers, arithmetic=arithmetic)


def _read_streamed(text: str) -> stream.Settings | None:
    found = _STREAMED.fullmatch(text)
    return None if found is None else stream.Settings(*map(int, found.groups()))


def _read_dense(text: str) -> dense.Tile | None:
    return next((tile for tile in dense.TILES if _text(tile) == text), None)


_STRAIGHT = re.compile(r"channels (\d+)(?: (\d+)x(\d+) chunk (\d+) pitch (\d+))? threads (\d+) registers (\d+)")
_STREAMED = re.compile(r"(\d+)x(\d+)x(\d+) channels (\d+) depth (\d+) threads (\d+)")
