"""The sums of a block: operands go through registers into one of two buffers in shared memory while the other is used.

The scheme is that of blocked matrix products on GPUs since Volkov & Demmel, "Benchmarking GPUs to tune dense linear
algebra", SC 2008: a thread holds a tile of sums in registers, so that each word it reads from shared memory is used by
several multiply-adds.
"""

from __future__ import annotations

from typing import Protocol

from targets.cuda.dense.tile import Tile
from targets.cuda.emit.ptx import Builder, f32

__all__ = ["Operand", "Place", "product", "shared_bytes"]


class Operand(Protocol):
    """One side of a product, as a block gets it."""

    @property
    def pitch(self) -> int:
        """Elements from one term to the next in shared memory."""

    def start(self, to: str) -> None:
        """Prepare addresses; `to` is a register with the operand's first byte in the buffer that is filled first."""

    def fetch(self) -> None:
        """Load the next chunk into registers."""

    def put(self) -> None:
        """Store what was fetched to shared memory."""

    def turn(self, by: str) -> None:
        """Let the next `put` go to the other buffer, so many bytes behind."""


class Place:
    """Where threads are in a block's tile."""

    def __init__(self, b: Builder, tile: Tile) -> None:
        self.thread = b.new("r", "mov.u32", "%tid.x")
        shift = tile.across.bit_length() - 1
        self.down = b.new("r", "shr.u32", self.thread, shift)
        self.across = b.new("r", "and.b32", self.thread, tile.across - 1)
        self.shared = b.new("r", "mov.u32", "shared")


def _buffer(tile: Tile, rows: Operand, columns: Operand) -> int:
    """Bytes of one buffer."""
    return 4 * tile.depth * (rows.pitch + columns.pitch)


def shared_bytes(tile: Tile, rows: Operand, columns: Operand) -> int:
    """Bytes of shared memory: two buffers, in which sums are exchanged later on."""
    return max(2 * _buffer(tile, rows, columns), 8 * tile.down * tile.columns)


def product(b: Builder, tile: Tile, place: Place, rows: Operand, columns: Operand, chunks: int) -> list[list[str]]:
    """Registers with the sums [high][wide] of a thread, over so many chunks of `tile.depth` terms."""
    sums = [[b.new("f", "mov.f32", f32(0)) for _ in range(tile.wide)] for _ in range(tile.high)]
    if chunks == 0:
        return sums
    size, behind = _buffer(tile, rows, columns), 4 * tile.depth * rows.pitch
    left = b.new("r", "mad.lo.u32", place.down, 16, place.shared)
    top = b.new("r", "add.u32", b.new("r", "mad.lo.u32", place.across, 16, place.shared), behind)
    rows.start(place.shared)
    columns.start(b.new("r", "add.u32", place.shared, behind))
    for operand in (rows, columns):
        operand.fetch()
    for operand in (rows, columns):
        operand.put()
    b.emit("bar.sync 0")
    if chunks == 1:
        _chunk(b, tile, sums, (left, rows.pitch), (top, columns.pitch))
        return sums
    turn, remaining = b.new("r", "mov.u32", size), b.new("r", "mov.u32", chunks - 1)
    begin, ahead, end = b.label(), b.label(), b.label()
    for operand in (rows, columns):
        operand.turn(turn)
    b.place(begin)
    last = b.new("p", "setp.eq.u32", remaining, 0)
    b.emit(f"@{last} bra {ahead}")
    for operand in (rows, columns):
        operand.fetch()
    b.place(ahead)
    _chunk(b, tile, sums, (left, rows.pitch), (top, columns.pitch))
    b.emit(f"@{last} bra {end}")
    for operand in (rows, columns):
        operand.put()
    for register in (left, top):
        b.emit(f"add.u32 {register}, {register}, {turn}")
    b.emit(f"sub.u32 {turn}, 0, {turn}")
    for operand in (rows, columns):
        operand.turn(turn)
    b.emit(f"sub.u32 {remaining}, {remaining}, 1")
    b.emit("bar.sync 0")
    b.emit(f"bra {begin}")
    b.place(end)
    return sums


def _chunk(b: Builder, tile: Tile, sums: list[list[str]], rows: tuple[str, int], columns: tuple[str, int]) -> None:
    """All terms of a chunk; `rows` and `columns` are the thread's place in shared memory, and the pitch there."""
    for term in range(tile.depth):
        left = _read(b, rows[0], 4 * term * rows[1], tile.high, tile.down)
        top = _read(b, columns[0], 4 * term * columns[1], tile.wide, tile.across)
        for own, x in zip(sums, left, strict=True):
            for total, y in zip(own, top, strict=True):
                b.emit(f"fma.rn.f32 {total}, {x}, {y}, {total}")


def _read(b: Builder, place: str, offset: int, count: int, threads: int) -> list[str]:
    """A thread's `count` words of a term, in runs of 4."""
    values = [b.register("f") for _ in range(count)]
    for run in range(count // 4):
        four = ", ".join(values[4 * run : 4 * run + 4])
        b.emit(f"ld.shared.v4.f32 {{{four}}}, [{place}+{offset + 16 * run * threads}]")
    return values
