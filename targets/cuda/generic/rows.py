"""Operators that go over rows: all elements of an array along some axes are a row, and a team of threads has it.

Rows whose elements are neighbours in memory are read across the lanes of a warp; otherwise neighbouring rows are. What
a thread has of a short row stays in its registers, so that memory is read once however often the row is gone over.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from targets.cuda.array import Array
from targets.cuda.emit.ptx import Builder, module
from targets.cuda.generic.access import Walk, address, load, offsets, store
from targets.cuda.generic.team import Join, Team, tree
from targets.cuda.kernel import Code, Kernel

__all__ = ["Rows", "by_rows", "by_walks"]

_KEPT = 32  # elements of a row that a thread holds in registers
_AT_ONCE = 8  # elements of a longer row that are on the way at a time
_FOLDED = 16  # rounds after which a partial result is added to the total
_MOST_LANES, _MOST_DEEP = 512, 16  # members of a team
_FEWEST = 1 << 14  # threads that keep a small GPU busy
_REACH = 1 << 23  # bytes that an offset in an instruction can tell
_REGISTERS = 1 << 15  # of a block
_TYPES = {"f": "f32", "r": "u32"}

Result = Callable[[str, str, str | None], str]
"""Of the registers with an element, its number in the row, and a predicate where not all members have it."""


def by_rows(
    name: str,
    x: Array,
    y: Array,
    strides: Sequence[int],
    axes: Sequence[int],
    body: Callable[[Rows], None],
    parameters: Mapping[str, int | np.ndarray] | None = None,
) -> Code:
    """One kernel that does `body` for the rows of x along `axes`. `strides` are those of y over the dimensions of x.
    Kernels have pointers to the operands `parameters` under these names."""
    kept = [axis for axis in range(len(x.shape)) if axis not in axes]
    rows, row = (
        Walk.over([x.shape[i] for i in some], [x.strides[i] for i in some], [strides[i] for i in some])
        for some in (kept, axes)
    )
    return by_walks(name, (x, y), rows, row, (x.origin, y.origin), body, parameters or {})


def by_walks(
    name: str,
    arrays: tuple[Array, Array],
    rows: Walk,
    row: Walk,
    origins: tuple[int, int],
    body: Callable[[Rows], None],
    parameters: Mapping[str, int | np.ndarray],
) -> Code:
    """One kernel that does `body` for rows of the first array: `rows` leads from the first element of a row to that of
    the next one, `row` from element to element, in both arrays. `origins` are the first elements of all."""
    b = Builder()
    emitted = Rows(b, arrays, rows, row, origins)
    body(emitted)
    b.emit("ret")
    team = emitted.team
    text = b.entry(name, ("x", *parameters, "y"), team.threads, team.shared, min(128, _REGISTERS // team.threads))
    grid = (-(-rows.elements // team.across), 1, 1)
    return Code((Kernel(name, module(text), grid, team.threads),), (0, *parameters.values()))


class Rows:
    """Emits what a member of a team does with the elements of its row."""

    def __init__(
        self, b: Builder, arrays: tuple[Array, Array], rows: Walk, row: Walk, origins: tuple[int, int]
    ) -> None:
        self.b, self._arrays, self._row = b, arrays, row
        self.count = row.elements
        self.team = _team(rows, row)
        number, self.member = self.team.place(b)
        own = b.new("r", "mad.lo.u32", b.new("r", "mov.u32", "%ctaid.x"), self.team.across, number)
        self._inside = None  # whether there is such a row; the last one is gone over again for those that are not
        if rows.elements % self.team.across:
            self._inside = b.new("p", "setp.lt.u32", own, rows.elements)
            own = b.new("r", "min.u32", own, rows.elements - 1)
        begins = offsets(b, rows, own, origins)
        self._begins = [
            address(b, name, begin, array.dtype) for name, begin, array in zip("xy", begins, arrays, strict=True)
        ]
        steps = -(-self.count // self.team.size)
        self._kept = self._values(self.member, steps, self.count) if steps <= _KEPT else None

    def fold(self, term: Callable[[str, str], Sequence[str]], join: Join, neutral: Sequence[str]) -> tuple[str, ...]:
        """The terms of all elements joined: `term` gives them for the registers with an element and its number in the
        row, and `neutral` are immediates that change nothing."""
        if self._kept is not None:
            return self.team.combine(self.b, self._terms(self._kept, term, join, neutral), join)
        total = [self._variable(immediate) for immediate in neutral]
        partial = [self._variable(immediate) for immediate in neutral]

        def visit(begin: str, number: str) -> None:
            found = self._terms(self._values(begin, _AT_ONCE, None), term, join, neutral)
            found = join(self.b, partial, found)
            _move(self.b, partial, found)
            done = self.b.new("r", "and.b32", number, _FOLDED - 1)
            whole = self.b.new("p", "setp.eq.u32", done, _FOLDED - 1)
            _move(self.b, total, join(self.b, total, partial), whole)
            _move(self.b, partial, neutral, whole)

        rest = self._loop(visit)
        own = join(self.b, total, partial)
        if rest is not None:
            own = join(self.b, own, self._terms(self._values(*rest), term, join, neutral))
        return self.team.combine(self.b, own, join)

    def map(self, result: Result) -> None:
        """Store what `result` makes of each element."""
        if self._kept is not None:
            self._put(self.member, self._kept, result)
            return
        rest = self._loop(lambda begin, _: self._put(begin, self._values(begin, _AT_ONCE, None), result))
        if rest is not None:
            self._put(rest[0], self._values(*rest), result)

    def store(self, value: str) -> None:
        """Store the one result of the row."""
        first = self.b.new("p", "setp.eq.u32", self.member, 0)
        if self._inside is not None:
            first = self.b.new("p", "and.pred", first, self._inside)
        store(self.b, self._arrays[1].dtype, self._begins[1], value, where=first)

    def _variable(self, immediate: str) -> str:
        kind = "f" if immediate.startswith("0f") else "r"
        return self.b.new(kind, f"mov.{_TYPES[kind]}", immediate)

    def _loop(self, visit: Callable[[str, str], None]) -> tuple[str, int, int] | None:
        """A loop over all that the members have in full rounds of `_AT_ONCE` elements: `visit` gets the number of the
        first of them, and of the round. What is left: its first number, steps and elements of the row."""
        b, size = self.b, self.team.size
        rounds, left = divmod(self.count, _AT_ONCE * size)
        begin, number = b.new("r", "mov.u32", self.member), b.new("r", "mov.u32", 0)
        again = b.label()
        b.place(again)
        b.emit('.pragma "nounroll"')  # more elements at once would take registers from other blocks
        visit(begin, number)
        b.emit(f"add.u32 {begin}, {begin}, {_AT_ONCE * size}")
        b.emit(f"add.u32 {number}, {number}, 1")
        b.emit(f"@{b.new('p', 'setp.lt.u32', number, rounds)} bra {again}")
        return (begin, -(-left // size), left) if left else None

    def _values(self, begin: str, steps: int, left: int | None) -> list[tuple[str, str, str | None]]:
        """The elements `begin`, `begin` + size, ...: value, number, and a predicate where not all members have it: of
        `left` elements from the first member's on."""
        found = []
        for step, (at, offset, number) in enumerate(self._places(0, begin, steps)):
            where = None
            if left is not None and (step + 1) * self.team.size > left:
                where = self.b.new("p", "setp.lt.u32", self.member, left - step * self.team.size)
            found.append((load(self.b, self._arrays[0].dtype, at, offset, where=where), number, where))
        return found

    def _places(self, operand: int, begin: str, steps: int) -> list[tuple[str, int, str]]:
        """Address, offset in bytes and number in the row of these elements."""
        b, size = self.b, self.team.size
        numbers = [begin] + [b.new("r", "add.u32", begin, step * size) for step in range(1, steps)]
        width = self._arrays[operand].dtype.bytes
        walk = Walk(self._row.extents, (self._row.strides[operand],))
        if len(walk.extents) == 1 and steps * size * walk.strides[0][0] * width < _REACH:
            step = walk.strides[0][0] * width
            at = b.new("d", "mad.wide.u32", begin, step, self._begins[operand])
            return [(at, i * size * step, number) for i, number in enumerate(numbers)]
        return [
            (b.new("d", "mad.wide.u32", offsets(b, walk, number, (0,))[0], width, self._begins[operand]), 0, number)
            for number in numbers
        ]

    def _terms(
        self,
        values: Sequence[tuple[str, str, str | None]],
        term: Callable[[str, str], Sequence[str]],
        join: Join,
        neutral: Sequence[str],
    ) -> tuple[str, ...]:
        terms = []
        for value, number, where in values:
            own = term(value, number)
            if where is not None:
                own = [
                    self.b.new(register[1], f"selp.{_TYPES[register[1]]}", register, other, where)
                    for register, other in zip(own, neutral, strict=True)
                ]
            terms.append(own)
        return tree(self.b, terms, join)

    def _put(self, begin: str, values: Sequence[tuple[str, str, str | None]], result: Result) -> None:
        for (value, number, where), (at, offset, _) in zip(values, self._places(1, begin, len(values)), strict=True):
            both = where if self._inside is None else self._inside
            if where is not None and self._inside is not None:
                both = self.b.new("p", "and.pred", where, self._inside)
            store(self.b, self._arrays[1].dtype, at, result(value, number, where), offset, both)


def _team(rows: Walk, row: Walk) -> Team:
    """Enough threads to keep a GPU busy, if there is work for them, and not many more."""
    lanes = not rows.extents or (bool(row.extents) and row.strides[0][-1] < rows.strides[0][-1])
    size, most = 1, _MOST_LANES if lanes else _MOST_DEEP
    while size < most and 4 * size < row.elements and ((lanes and size < 32) or rows.elements * size < _FEWEST):
        size *= 2
    return Team(size, max(1 if lanes else 32, 128 // size), lanes)


def _move(b: Builder, into: Sequence[str], values: Sequence[str], where: str | None = None) -> None:
    for register, value in zip(into, values, strict=True):
        b.emit(f"{f'@{where} ' if where else ''}mov.{_TYPES[register[1]]} {register}, {value}")
