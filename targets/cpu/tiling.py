"""How a sparse convolution is cut so that its accumulators stay in registers and its inputs in the first cache, and how
many cycles it computes for (runtime_c/src/kernels/conv_sparse.c)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from math import prod

from targets.cpu.cost.conv import Geometry
from targets.cpu.sparse import MOST_LINES, Taps, taps_of

__all__ = ["Tiling", "tiling"]

_MOST = {16: 14, 8: 12, 4: 24}  # vectors of accumulators, by the floats of a vector
_VECTOR, _ENTRY = 1.10, 0.75  # cycles of a non-zero: for each vector of accumulators, and besides
_AGAIN = 1.8  # cycles a vector to load and store the accumulators of a row in a tile,
_SHIFT = 1.0  # and to shift them between two groups
_COPIED = 1.5  # cycles a vector of a line that is copied,
_LINE = 6.0  # and to begin a line
_STRIDED = 0.4  # cycles an element of a line of a strided row


@dataclass(frozen=True, slots=True)
class Tiling:
    """Strips of `rows` rows of outputs, tiles of `channels`; `cycles` of the whole convolution, inputs in the first
    cache."""

    rows: int
    channels: int
    cycles: float


@lru_cache(maxsize=1 << 14)
def tiling(g: Geometry, density: float, lanes: int, l1_bytes: int) -> Tiling | None:
    """The tiling of fewest cycles; None if bytes cannot tell the lines of a channel."""
    _, height, width = _walked(g)
    best: Tiling | None = None
    for rows in range(1, max(1, min(height, _MOST[lanes])) + 1):
        taps = taps_of(g.kernel, g.stride, g.dilation, rows)
        if taps.lines >= MOST_LINES:
            break
        reach, most = taps.shifts[0], _MOST[lanes] * lanes
        pad = g.pad[2] if g.stride[2] == 1 else 0
        for columns in sorted({-(-width // n) for n in range(1, -(-width // lanes) + 1)}, reverse=True):
            shared = min(pad, max(reach - pad, 0)) if columns == width else 0
            line = _rounded(columns + reach - shared, lanes)
            if rows * line > most and (rows > 1 or columns > lanes):
                continue
            channels = _channels(g, taps, line, l1_bytes)
            cycles = _cycles(g, density, lanes, rows, columns, line, channels)
            if best is None or cycles < best.cycles:
                best = Tiling(rows, channels, cycles)
    return best


def _walked(g: Geometry) -> tuple[int, ...]:
    """Extents of the output; one row of all positions if the kernel has one tap."""
    return (1, 1, prod(g.out)) if prod(g.kernel) == 1 else g.out


def _rounded(floats: int, lanes: int) -> int:
    """To whole vectors, or to half ones of 16 where that wastes much less."""
    whole, half = -(-floats // lanes) * lanes, -(-floats // 8) * 8
    return half if lanes == 16 and whole > 1.2 * half else whole


def _channels(g: Geometry, taps: Taps, line: int, l1_bytes: int) -> int:
    """Channels whose lines fit the first cache and whose counts and indices are bytes; tiles as even as can be."""
    of_group = max(map(taps.group.count, range(len(taps.shifts))))
    most = max(1, min(MOST_LINES // taps.lines, 255 // of_group, l1_bytes // (4 * taps.lines * line)))
    return max(1, -(-g.channels // -(-g.channels // most))) if g.channels else 1


def _cycles(g: Geometry, density: float, lanes: int, rows: int, columns: int, line: int, channels: int) -> float:
    depth, height, width = _walked(g)
    taps = taps_of(g.kernel, g.stride, g.dilation, rows)
    tiles = -(-g.channels // channels)
    entries = density * g.filters * g.channels * prod(g.kernel)
    strips, vectors = -(-height // rows), height * line / lanes  # of all strips, whose last may have fewer rows
    cycles = entries * (_VECTOR * vectors + _ENTRY * strips)
    cycles += g.filters * tiles * vectors * (_AGAIN + _SHIFT * (len(taps.shifts) - 1))
    copied = g.channels * strips * taps.lines
    each = _LINE + _COPIED * line / lanes + (_STRIDED * line if g.stride[2] > 1 else 0.0)
    segments = -(-width // columns)
    return g.images * g.groups * depth * segments * (cycles + copied * each)
