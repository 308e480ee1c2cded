"""Sparse convolutions whose weights are streamed."""

from __future__ import annotations

import math

from targets.cuda.board import Board
from targets.cuda.costs.memory import SECTOR, again, sectors
from targets.cuda.demand import Demand, held, parts_of
from targets.cuda.geometry import Geometry
from targets.cuda.model.machine import bytes_of_code
from targets.cuda.stream.tile import RUN, Settings, tile_of

__all__ = ["streamed"]

_WARP = 32
_PAIR = 8  # bytes of a weight and its place
_LIST = 9  # instructions of a list beside those of its pairs
_ONCE = 180  # of a thread
_UNEVEN = 1.1  # times the average is the largest part of a stream
_AHEAD = 16  # loads on the way at a time


def streamed(board: Board, layer: Geometry, settings: Settings) -> dict[str, float]:
    """Seconds of each of demand.BOUNDS."""
    tile = tile_of(layer, settings)
    down, across = -(-layer.extent[0] // settings.rows), -(-layer.extent[1] // settings.columns)
    tiles, slices = down * across * layer.images, -(-layer.filters // settings.filters)
    blocks, warps = tiles * slices, -(-settings.threads // _WARP)
    channels = layer.depth * max(1, min(layer.group, settings.filters // layer.each))
    chunks = -(-channels // settings.depth)
    lists = settings.channels * chunks
    pairs = settings.channels * layer.nonzeros / layer.filters + lists * (RUN - 1) / 2  # of a thread
    stream = pairs * settings.filters / settings.channels * _PAIR  # bytes of a block
    staged = chunks * settings.depth / tile.together * tile.passes
    loads = staged + stream / 16 / settings.threads
    stores = settings.channels * settings.high
    reads = pairs * (settings.high + 1 / RUN) + lists
    issued = pairs * (2 * settings.high + 3) + lists * _LIST + 2.5 * loads + 6 * stores + 30 * chunks + _ONCE
    issued += 3 * stores if layer.pool else 0
    every = blocks * warps
    shared = settings.depth * tile.channel * 4 + int(_UNEVEN * stream / chunks) + 4 * settings.filters
    holds = held(board, settings.threads, settings.registers, shared)
    touched = blocks * chunks * settings.depth * tile.lines * sectors(tile.line, layer.size)
    written = layer.filters * layer.pixels * layer.size * (layer.kept + layer.added)
    streams = blocks * stream
    batches = math.ceil(settings.depth / tile.together * tile.passes / _AHEAD) + 2
    own = Demand(
        blocks=blocks,
        warps=warps,
        held=holds,
        slots=every * (issued - board.dual_issue * min(reads + loads, pairs * settings.high)),
        units=every * max(pairs * settings.high * _WARP / board.lanes, reads + loads),
        banks=every * (pairs * (settings.high + 2) + lists + staged + 4 * stream / 16 / settings.threads),
        sectors=touched + (written + streams) / SECTOR * 1.3,
        dram=again(board, layer.source * layer.images, touched * SECTOR, blocks, holds, tiles)
        + again(board, streams / tiles, streams, blocks, holds, slices)
        + written,
        code=bytes_of_code(_ONCE + 40 * settings.channels * settings.high, board.sm),
        slices=1,
        alone=issued + board.memory_cycles + chunks * (batches * board.memory_cycles + 40),
    )
    return parts_of(own, board)
