"""Dense products of blocked matrices: convolutions, and matrices times matrices."""

from __future__ import annotations

import math

from targets.cuda.board import Board
from targets.cuda.costs.memory import SECTOR, again, sectors
from targets.cuda.demand import Demand, held, parts_of
from targets.cuda.dense import Tile
from targets.cuda.model.machine import bytes_of_code

__all__ = ["dense"]

_WARP = 32
_ONCE = 110  # instructions of a thread beside those that are repeated
_LOOP = 20  # and of a chunk beside products and loads
_BARRIER = 20  # cycles


def dense(
    board: Board, tile: Tile, rows: int, columns: int, terms: int, products: int, bytes: tuple[float, float, float]
) -> dict[str, float]:
    """Seconds of each of demand.BOUNDS, of so many products [rows, terms] x [terms, columns]; `bytes` of the left and
    the right operands and of the results."""
    blocks = -(-rows // tile.rows) * -(-columns // tile.columns) * products
    warps, chunks, sums = tile.threads // _WARP, -(-terms // tile.depth), tile.high * tile.wide
    loads = (tile.rows + tile.columns) * tile.depth / tile.threads  # words of a chunk and thread
    reads = tile.depth * (tile.high + tile.wide) / 4
    chunk = tile.depth * sums + reads + 2.5 * loads + _LOOP
    issued = chunks * chunk + 4 * sums + _ONCE
    every = blocks * warps
    shared = 8 * tile.depth * (tile.rows + tile.columns)
    holds = held(board, tile.threads, tile.registers, shared)
    touched = [blocks * chunks * tile.depth * width / _WARP * sectors(_WARP, 4) for width in (tile.rows, tile.columns)]
    stored = bytes[2] / SECTOR * 1.3
    side = max(1, -(-columns // tile.columns))
    own = Demand(
        blocks=blocks,
        warps=warps,
        held=holds,
        slots=every * (issued - board.dual_issue * chunks * (reads + 2 * loads)),
        units=every * chunks * max(tile.depth * sums * _WARP / board.lanes, reads + loads),
        banks=every * (chunks * (4 * reads + 1.5 * loads) + 2 * sums),
        sectors=sum(touched) + stored,
        dram=again(board, bytes[0], touched[0] * SECTOR, blocks, holds, math.ceil(blocks / side))
        + again(board, bytes[1], touched[1] * SECTOR, blocks, holds, side)
        + bytes[2],
        code=bytes_of_code(chunk + 4 * sums + _ONCE, board.sm),
        slices=1,
        alone=issued + board.memory_cycles + chunks * (_BARRIER + max(0.0, board.memory_cycles - chunk)),
    )
    return parts_of(own, board)
