"""The part of a product that a block computes, and what it costs."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

__all__ = ["Tile", "choose", "issued"]

_WARP = 32
_PARALLEL = 8  # warps a multiprocessor needs so that none waits for results of another


@dataclass(frozen=True, slots=True)
class Tile:
    """`rows` x `columns` sums of a block, `high` x `wide` of them a thread, and the settings that may be tuned.

    `depth` terms are staged in shared memory at a time, in two buffers. A thread has at most `registers` registers.
    Rows and columns of a thread lie in runs of 4, so that it reads its operands 16 bytes at a time; its runs are as far
    apart as they can be. There are as many threads as rows and as columns, or a multiple of it.
    """

    rows: int
    columns: int
    high: int
    wide: int
    depth: int = 8
    registers: int = 128

    @property
    def threads(self) -> int:
        """Threads of a block."""
        return self.rows * self.columns // (self.high * self.wide)

    @property
    def across(self) -> int:
        """Threads beside each other; they hold all columns."""
        return self.columns // self.wide

    @property
    def down(self) -> int:
        """Threads below each other; they hold all rows."""
        return self.rows // self.high

    def row(self, number: int) -> int:
        """How far row `number` of a thread lies behind 4 times the thread's place from the top."""
        return number // 4 * 4 * self.down + number % 4


# all have threads in whole warps, and a multiple of rows and of columns
TILES = (
    Tile(128, 128, 8, 8),
    Tile(128, 64, 8, 8, registers=168),
    Tile(64, 128, 8, 8, registers=168),
    Tile(64, 64, 8, 8, registers=168),
    Tile(64, 64, 8, 4),
    Tile(64, 32, 8, 4),
    Tile(32, 64, 4, 8),
    Tile(32, 32, 4, 4),
    Tile(16, 64, 4, 4),
    Tile(16, 128, 4, 4),
)


def issued(tile: Tile, terms: int) -> float:
    """Instructions that a warp issues for sums of so many terms: multiply-adds, reads of shared memory, what stages a
    chunk, and what is done once."""
    sums = tile.high * tile.wide
    step = sums + (tile.high + tile.wide) / 4
    staged = (tile.rows + tile.columns) * tile.depth / tile.threads
    chunk = tile.depth * step + 3 * staged + 12
    return -(-terms // tile.depth) * chunk + 7 * sums + 100


def choose(
    rows: int, columns: int, terms: int, products: int = 1, multiprocessors: int = 2, tiles: Iterable[Tile] = TILES
) -> Tile:
    """The tile with the least time for so many products of `rows` x `columns` sums: blocks come in waves over the
    multiprocessors, each with 4 schedulers, which idle where too few warps are at work."""

    def cost(tile: Tile) -> float:
        blocks = -(-rows // tile.rows) * -(-columns // tile.columns) * products
        warps = tile.threads // _WARP
        together = max(1, min(2048 // tile.threads, 65_536 // (tile.registers * tile.threads)))  # on a multiprocessor
        each = -(-blocks // multiprocessors)
        idle = max(1.0, _PARALLEL / (min(each, together) * warps))
        return each * warps * issued(tile, terms) * idle

    return min(tiles, key=cost)
