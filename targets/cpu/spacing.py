"""How far planes lie apart: caches find a line by the last bits of its address, so where planes are a multiple of some
power of two apart, the same pixel of all channels competes for a few sets, and processors that compare the last bits of
addresses take what was just stored to one channel for what is loaded from another."""

from __future__ import annotations

from math import gcd, prod

__all__ = ["distance", "spaced"]

_LINE, _SETS = 64, 64  # bytes of a line of the cache, and lines of which addresses have the same last bits
_MOST = 8  # planes that many lines apart, or a multiple of it, need not move
_CHANNELS = 16  # fewer channels have room in few sets
_MORE = 8  # at most so much of a plane, its eighth, may lie between


def spaced(shape: tuple[int, ...], element: int) -> tuple[int, ...]:
    """The shape of a planar tensor [N,C,spatial] at whose origin a value of `shape`, of elements of so many bytes, has
    channels that are spread over the sets of caches: with more rows (of a signal more samples, of a volume more
    slices), where its own planes are not."""
    if not 3 <= len(shape) <= 5 or shape[1] < _CHANNELS or 0 in shape:
        return shape
    unit = prod(shape[3:]) * element

    def shared(rows: int) -> int:
        lines, rest = divmod(rows * unit, _LINE)
        return 0 if rest else gcd(lines, _SETS)

    own = shared(shape[2])
    if own <= _MOST:
        return shape
    more = [rows for rows in range(shape[2] + 1, shape[2] + shape[2] // _MORE + 1) if 0 < shared(rows) < own]
    return (*shape[:2], min(more, key=lambda rows: (shared(rows), rows)), *shape[3:]) if more else shape


def distance(plane: tuple[int, ...], channels: int) -> int:
    """Floats from one plane of these extents to the next, of so many, where they lie in what is `spaced`; leading
    extents of 1 are those of dimensions that there are not."""
    extents = plane[next((i for i, extent in enumerate(plane) if extent > 1), len(plane) - 1) :]
    return prod(spaced((1, channels, *extents), 4)[2:])
