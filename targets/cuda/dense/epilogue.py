"""What is done with the sums of a block: bias, residual, activation, pooling, and stores of neighbouring columns."""

from __future__ import annotations

from dataclasses import dataclass

from packer.ir import DType
from packer.ir.ops import Activation
from targets.cuda.dense.product import Place
from targets.cuda.dense.tile import Tile
from targets.cuda.emit.activation import activate
from targets.cuda.emit.element import fetch, store, widen
from targets.cuda.emit.pool import first_of, pooled
from targets.cuda.emit.ptx import Builder
from targets.cuda.generic.window import both

__all__ = ["Matrix", "finish", "own_column"]

_REACH = 1 << 31  # bytes that an offset in PTX can tell


@dataclass(frozen=True, slots=True)
class Matrix:
    """Elements of a block's sums in memory: `at` has the address of the thread's column in the thread's first row, and
    rows are `stride` elements apart. Of rows 0 elements apart there is one."""

    at: str
    stride: int
    dtype: DType = DType.F32

    def element(self, b: Builder, row: int) -> str:
        """The address operand for the row so far behind the thread's first."""
        offset = row * self.stride * self.dtype.bytes
        return f"[{self.at}+{offset}]" if offset < _REACH else f"[{b.new('d', 'add.s64', self.at, offset)}]"


def own_column(b: Builder, tile: Tile, thread: str) -> tuple[str, str]:
    """The column of a block that a thread loads and stores, and its number among the threads with that column: its
    first row is 4 times that. Neighbouring threads have neighbouring columns."""
    part = b.new("r", "shr.u32", thread, tile.columns.bit_length() - 1)
    return b.new("r", "and.b32", thread, tile.columns - 1), part


def finish(
    b: Builder,
    tile: Tile,
    place: Place,
    sums: list[list[str]],
    y: Matrix,
    bias: Matrix | None,
    residual: Matrix | None,
    activation: Activation | None,
    limit: str | None,
    inside: str | None,
    pool: str = "",
) -> None:
    """Store activation(sums + bias + residual), or what a pool of 2 x 2 makes of four neighbouring columns. Threads
    exchange their sums row by row in shared memory, so that each gets one column. `limit` has the number of rows from
    the thread's first to the end, None: enough; `inside` the predicate that the column is one, None: it is."""
    if limit is not None and inside is not None:
        limit = b.new("r", "selp.u32", limit, 0, inside)
    size, apart = 4 * tile.down * tile.columns, tile.threads // tile.columns
    line = b.new("r", "mad.lo.u32", place.down, 4 * tile.columns, place.shared)
    to = b.new("r", "mad.lo.u32", place.across, 16, line)
    here = b.new("r", "mad.lo.u32", place.thread, 4, place.shared)
    of_column = None
    if bias is not None and bias.stride == 0:
        of_column = widen(b, bias.dtype, fetch(b, bias.dtype, f"[{bias.at}]"))
    kept_limit, kept_inside = limit, inside
    if pool and limit is not None:
        kept_limit = b.new("r", "selp.u32", limit, 0, first_of(b, place.thread))
    elif pool:
        kept_inside = both(b, (first_of(b, place.thread), inside))
    b.emit("bar.sync 0")
    for number, own in enumerate(sums):
        buffer = number % 2 * size
        for run in range(tile.wide // 4):
            four = ", ".join(own[4 * run : 4 * run + 4])
            b.emit(f"st.shared.v4.f32 [{to}+{buffer + 16 * run * tile.across}], {{{four}}}")
        b.emit("bar.sync 0")
        places = [tile.row(number) + 4 * apart * j for j in range(tile.wide)]
        tests = [_test(b, limit, inside, row) for row in places]
        added = []
        for matrix in (bias if of_column is None else None, residual):
            if matrix is not None:
                added.append([_read(b, matrix, row, test) for row, test in zip(places, tests, strict=True)])
        for j, (row, test) in enumerate(zip(places, tests, strict=True)):
            total = b.new("f", "ld.shared.f32", f"[{here}+{buffer + 4 * j * tile.threads}]")
            for value in ([] if of_column is None else [of_column]) + [values[j] for values in added]:
                total = b.new("f", "add.rn.f32", total, value)
            total = activate(b, total, activation)
            if pool:
                total = pooled(b, pool, (total,), activation)
                test = _test(b, kept_limit, kept_inside, row)
            at = y.element(b, row)
            with b.only(test):
                store(b, y.dtype, at, total)


def _test(b: Builder, limit: str | None, inside: str | None, row: int) -> str | None:
    return inside if limit is None else b.new("p", "setp.gt.u32", limit, row)


def _read(b: Builder, matrix: Matrix, row: int, test: str | None) -> str:
    at = matrix.element(b, row)
    with b.only(test):
        return widen(b, matrix.dtype, fetch(b, matrix.dtype, at, cache=""))
