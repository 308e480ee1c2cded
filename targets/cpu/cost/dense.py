"""The dense inner loop (runtime_c/src/kernels/simd/f32-dense.h): tiles of pixels by blocks of 16 output channels."""

from __future__ import annotations

from functools import lru_cache

from targets.cpu.cost.at import At

__all__ = ["dense_seconds"]

# (blocks, most pixels) of the tiles, by the floats of a vector: the tables of the inner loop.
_WIDTHS = {
    16: ((4, 6), (3, 9), (2, 14), (1, 14)),
    8: ((4, 1), (2, 2), (1, 6)),
    4: ((2, 2), (1, 5)),
}
_KEPT = 256 * 1024  # bytes of weights that come from the second cache in time for short tiles
_TILE = 12.0  # cycles to start and end a tile
_SPAN = 3.0  # cycles to go on to the next span of inputs
_BROADCAST = 0.5  # cycles to load an input for all lanes


@lru_cache(maxsize=1 << 16)
def _groups(lanes: int, pixels: int, blocks: int, kept: int) -> tuple[tuple[int, int, int], ...]:
    """How a row of `pixels` by `blocks` is cut: (blocks of a tile, how often, tiles of the row). The weights of `kept`
    blocks stay in the second cache."""
    widths, found = _WIDTHS[lanes], []
    fewest = -(-pixels // widths[-1][1])
    while blocks > 0:
        for width, most in widths[:-1]:
            alone = width > 2 and width + 1 == blocks
            as_fast = most >= 4 and pixels >= 2 * most and width <= kept
            if width <= blocks and not alone and (-(-pixels // most) <= fewest or as_fast):
                break
        else:
            width, most = widths[-1]
        times = max(1, (blocks - 2 * width) // width)
        found.append((width, times, -(-pixels // most)))
        blocks -= times * width
    return tuple(found)


def dense_seconds(
    at: At,
    rows: int,
    pixels: int,
    blocks: int,
    taps: float,
    spans: float,
    distance: float,
    row: float = 64.0,
    speed: float = 1.0,
) -> float:
    """`rows` rows of `pixels` by `blocks` blocks of 16 outputs, each a sum over `taps` inputs that lie in `spans` runs.
    Each tap of a block has a `row` of weights of so many bytes, and its products are made at `speed`, relative to
    those of float32.

    The weights were last touched `distance` bytes ago. They are fetched while tiles are computed.
    """
    vectors, cycles, load = 16 // at.lanes, 0.0, 1.0 / at.load
    kept = min(4, int(_KEPT / max(1.0, taps * row)))
    broadcast = _BROADCAST if at.lanes > 4 else load / 4
    for width, times, tiles in _groups(at.lanes, pixels, blocks, kept):
        count = pixels / tiles * width * vectors
        again = width * row * at.reach(2.0 * width * taps * row)[0] / at.cycle  # from the cache that these weights fit
        tap = max(count / at.fma / speed, width * vectors * load + pixels / tiles * broadcast, at.latency, again)
        cycles += times * rows * tiles * (taps * tap + spans * _SPAN + _TILE + count / at.store)
    busy = cycles * at.cycle / at.efficiency.dense
    return max(busy, at.moved(blocks * taps * row, distance))
