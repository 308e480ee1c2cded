"""Straight-line code: a multiply-add for each weight that is not zero."""

from __future__ import annotations

import math

from targets.cuda.board import Board
from targets.cuda.costs.memory import SECTOR, again, sectors
from targets.cuda.demand import Demand, held, parts_of
from targets.cuda.emit import CHUNK, Settings
from targets.cuda.emit.arithmetic import arithmetic_of
from targets.cuda.emit.half2 import MOST
from targets.cuda.emit.window import AHEAD
from targets.cuda.geometry import Geometry
from targets.cuda.lanes import conflicts
from targets.cuda.model.machine import bytes_of_code
from targets.cuda.tiling import Tile

__all__ = ["straight"]

_WARP = 32
_ONCE = 55  # instructions of a thread beside those that are repeated, mostly of addresses
_BARRIER = 20  # cycles
_MEETINGS = 2  # of a thread with others of its window


def straight(board: Board, layer: Geometry, settings: Settings) -> dict[str, float]:
    """Seconds of each of demand.BOUNDS, of all entries of a layer."""
    each = math.ceil(layer.each / settings.channels)
    slices = each * layer.group
    products = layer.nonzeros / slices
    together = max(1, min(slices, int(settings.multiplies / max(1.0, products))))  # slices of an entry
    own = (
        _window(board, layer, settings, settings.tile, together, layer.each / each, products)
        if settings.tile
        else (_points(board, layer, settings, together, layer.each / each, products))
    )
    entries = {"launch": math.ceil(slices / together)}
    return {name: part * entries.get(name, slices / together) for name, part in parts_of(own, board).items()}


def _window(
    board: Board, layer: Geometry, settings: Settings, tile: Tile, slices: int, channels: float, products: float
) -> Demand:
    taps = layer.taps * layer.used(channels)
    used = layer.depth * layer.used(channels, layer.taps // layer.depth)
    chunks, loads = max(1.0, used / tile.chunk), used * tile.passes * tile.pixels
    down, across = -(-layer.extent[0] // tile.down), -(-layer.extent[1] // tile.columns)
    tiles, warps = down * across * layer.images, tile.threads // _WARP
    sums = channels * tile.pixels
    lines = used * ((tile.down - 1) * layer.strides[0] + (layer.kernel[0] - 1) * layer.dilations[0] + 1)
    touched = tiles * slices * lines * sectors(tile.line, layer.size)
    line = sectors(tile.columns // 2, layer.size) / 2 if layer.pool else sectors(tile.columns, layer.size)
    if layer.added:
        line += sectors(tile.columns, layer.size)
    stored = tiles * slices * sums * tile.rows * line
    batches = math.ceil(tile.chunk * tile.passes * tile.pixels / AHEAD)
    shared = taps + loads / tile.pixels
    waits = chunks * (batches * _waits(board, (products + taps) / (chunks * batches)) + _BARRIER)
    return _demand(
        board, layer, settings, tiles, warps, tile.shared, slices,
        products, shared, loads, 2 * chunks + _ONCE, channels, sums, touched, stored, waits,
        conflicts(tile.threads, tile.columns, tile.pitch * layer.strides[0], bool(layer.pool)),
    )  # fmt: skip


def _points(board: Board, layer: Geometry, settings: Settings, slices: int, channels: float, products: float) -> Demand:
    used = layer.depth * layer.used(channels)
    each = arithmetic_of(settings.arithmetic).pixels
    tiles, warps = math.ceil(layer.pixels / (settings.threads * each)), settings.threads // _WARP
    sums = channels * each
    touched = tiles * warps * slices * used * each * sectors(_WARP * layer.strides[1], layer.size)
    line = sectors(_WARP * layer.kept, layer.size) + (sectors(_WARP, layer.size) if layer.added else 0.0)
    stored = tiles * warps * slices * sums * line
    waits = used / CHUNK * _waits(board, products / max(1.0, used / CHUNK))
    return _demand(
        board, layer, settings, tiles, warps, 0, slices,
        products, 0.0, used * each, _ONCE, channels, sums, touched, stored, waits, 1.0,
    )  # fmt: skip


def _demand(
    board: Board,
    layer: Geometry,
    settings: Settings,
    tiles: int,
    warps: int,
    shared_bytes: int,
    slices: int,
    products: float,
    shared: float,
    loads: float,
    once: float,
    channels: float,
    sums: float,
    touched: float,
    stored: float,
    waits: float,
    conflicts: float,
) -> Demand:
    """Of an entry: instructions of a warp, and sectors of all blocks. Where pixels are pooled, a sum takes two shuffles
    and as many joins."""
    blocks, every = tiles * slices, tiles * slices * warps
    wide = 2 * products / MOST if settings.arithmetic == "half2" else 0.0  # halves that become floats
    accesses = loads + sums * (1 + layer.added + (_MEETINGS if layer.pool else 0))
    issued = products + shared + accesses + 3 * channels + once + 2 * wide + (_MEETINGS * sums if layer.pool else 0)
    holds = held(board, settings.threads, settings.registers, shared_bytes)
    written = layer.filters * layer.pixels * layer.size * slices / math.ceil(layer.each / settings.channels)
    written /= layer.group
    return Demand(
        blocks=blocks,
        warps=warps,
        held=holds,
        slots=every * (issued - board.dual_issue * min(shared + accesses, products)),
        units=every * max(products * _WARP / board.lanes, shared, accesses, wide),
        banks=every * shared * conflicts,
        sectors=touched + stored,
        dram=again(board, layer.source * layer.images, touched * SECTOR, blocks, holds, tiles)
        + written * (layer.kept + layer.added),
        code=slices * bytes_of_code(issued, board.sm),
        slices=slices,
        alone=issued + board.memory_cycles + waits,
    )


def _waits(board: Board, between: float) -> float:
    """Cycles that a warp waits for memory if so many pass until it needs what it loads."""
    return max(0.0, board.memory_cycles - between)
