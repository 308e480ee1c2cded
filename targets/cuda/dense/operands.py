"""How operands get from device memory to shared memory."""

from __future__ import annotations

from dataclasses import dataclass, field

from packer.ir import DType
from targets.cuda.dense.tile import Tile
from targets.cuda.emit.element import fetch, widen
from targets.cuda.emit.ptx import Builder

__all__ = ["Gathered", "Packed", "Strided"]


@dataclass(slots=True)
class _Staged:
    """What the threads of a block bring to shared memory, a chunk at a time to one of two buffers."""

    b: Builder
    tile: Tile
    thread: str
    _to: str = field(default="", init=False, kw_only=True)  # where a thread stores what it has fetched

    def turn(self, by: str) -> None:
        """Let the next `put` go to the other buffer."""
        self.b.emit(f"add.u32 {self._to}, {self._to}, {by}")


@dataclass(slots=True)
class Packed(_Staged):
    """Rows of constants, in the order in which threads read them: [chunks, depth, rows] for each block of rows.

    `at` is a register with the address of the block's first chunk.
    """

    at: str
    _values: list[list[str]] = field(default_factory=list)

    @property
    def pitch(self) -> int:
        """Elements from one term to the next in shared memory."""
        return self.tile.rows

    @property
    def _vector(self) -> int:
        each = self.tile.depth * self.tile.rows // self.tile.threads
        return next(size for size in (4, 2, 1) if each % size == 0)

    def start(self, to: str) -> None:
        """Threads take consecutive vectors."""
        b, size = self.b, 4 * self._vector
        self.at = b.new("d", "add.s64", self.at, b.new("d", "mul.wide.u32", self.thread, size))
        self._to = b.new("r", "mad.lo.u32", self.thread, size, to)

    def fetch(self) -> None:
        """Load the next chunk into registers."""
        b, size = self.b, self._vector
        step = self.tile.threads * size
        total = self.tile.depth * self.tile.rows
        self._values = []
        for offset in range(0, total, step):
            values = [b.register("f") for _ in range(size)]
            b.emit(f"ld.global.nc{_suffix(size)}.f32 {_group(values)}, [{self.at}+{4 * offset}]")
            self._values.append(values)
        b.emit(f"add.s64 {self.at}, {self.at}, {4 * total}")

    def put(self) -> None:
        """Store what was fetched to shared memory."""
        step = 4 * self.tile.threads * self._vector
        for number, values in enumerate(self._values):
            self.b.emit(f"st.shared{_suffix(len(values))}.f32 [{self._to}+{number * step}], {_group(values)}")


@dataclass(slots=True)
class Strided(_Staged):
    """Rows of a matrix in device memory whose terms lie beside each other. `depth` neighbouring threads load a
    chunk of a row; what lies behind the last term is 0.

    `at` has the address of the product's first row; `first` is the block's first row of `rows`, and there are `terms`
    of each, `stride` elements from row to row.
    """

    at: str
    first: str
    rows: int
    terms: int
    stride: int
    dtype: DType
    _offsets: list[str] = field(default_factory=list)
    _values: list[str] = field(default_factory=list)
    _term: str = ""

    @property
    def pitch(self) -> int:
        """Elements from one term to the next in shared memory; 4 more than rows, so that neighbours use other banks."""
        return self.tile.rows + 4

    @property
    def _step(self) -> int:
        return self.tile.threads // self.tile.depth

    def start(self, to: str) -> None:
        """One register with the offset of each row that a thread loads; rows behind the last are the last again."""
        b, depth, size = self.b, self.tile.depth, self.dtype.bytes
        term = b.new("r", "and.b32", self.thread, depth - 1)
        row = b.new("r", "shr.u32", self.thread, depth.bit_length() - 1)
        at = b.new("r", "mad.lo.u32", term, self.pitch, row)
        self._to = b.new("r", "mad.lo.u32", at, 4, to)
        self._term = b.new("r", "mov.u32", term)
        row = b.new("r", "add.u32", self.first, row)
        self._offsets = []
        for number in range(self.tile.rows // self._step):
            own = b.new("r", "add.u32", row, number * self._step)
            if self.rows % self.tile.rows:
                own = b.new("r", "min.u32", own, self.rows - 1)
            self._offsets.append(b.new("r", "mul.lo.u32", own, self.stride * size))
        self.at = b.new("d", "add.s64", self.at, b.new("d", "mul.wide.u32", term, size))

    def fetch(self) -> None:
        """Load the next chunk into registers."""
        b, inside, self._values = self.b, None, []
        if self.terms % self.tile.depth:
            inside = b.new("p", "setp.lt.u32", self._term, self.terms)
            b.emit(f"add.u32 {self._term}, {self._term}, {self.tile.depth}")
        for offset in self._offsets:
            place = b.new("d", "add.s64", self.at, b.new("d", "cvt.u64.u32", offset))
            self._values.append(fetch(b, self.dtype, f"[{place}]", inside=inside))
        b.emit(f"add.s64 {self.at}, {self.at}, {self.tile.depth * self.dtype.bytes}")

    def put(self) -> None:
        """Store what was fetched to shared memory, rows beside each other."""
        for number, value in enumerate(self._values):
            word = widen(self.b, self.dtype, value)
            self.b.emit(f"st.shared.f32 [{self._to}+{4 * number * self._step}], {word}")


@dataclass(slots=True)
class Gathered(_Staged):
    """Columns whose terms lie at offsets that all columns share: a thread loads the same terms of each chunk for
    its column.

    `at` has the address of the thread's column; `part` says which of the terms of a chunk are its own. Term `t` of a
    chunk is `t * stride` bytes behind the chunk, and chunks are `step` bytes apart or, where that is None, as far from
    the column as a table in memory says, whose address is in `table`; where `stride` is None, too, the table has an
    entry for each term. Of a row of `terms`, what lies behind the last is 0; None: chunks are full.
    """

    part: str
    at: str
    dtype: DType
    stride: int | None
    step: int | None
    table: str = ""
    terms: int | None = None
    _next: list[str] = field(default_factory=list)
    _values: list[str] = field(default_factory=list)
    _term: str = ""

    @property
    def pitch(self) -> int:
        """Elements from one term to the next in shared memory."""
        return self.tile.columns

    @property
    def _full(self) -> bool:
        return self.terms is None or self.terms % self.tile.depth == 0

    @property
    def _each(self) -> int:
        return self.tile.depth * self.tile.columns // self.tile.threads

    def start(self, to: str) -> None:
        """Threads of a warp load the same term."""
        b, each = self.b, self._each
        column = b.new("r", "and.b32", self.thread, self.tile.columns - 1)
        term = b.new("r", "mul.lo.u32", self.part, each)
        at = b.new("r", "mad.lo.u32", term, self.pitch, column)
        self._to = b.new("r", "mad.lo.u32", at, 4, to)
        if self.stride is not None:
            offset = b.new("r", "mul.lo.u32", term, self.stride)
            self.at = b.new("d", "add.s64", self.at, b.new("d", "cvt.u64.u32", offset))
        elif self.step is None:
            self.table = b.new("d", "add.s64", self.table, b.new("d", "mul.wide.u32", term, 4))
        self._term = b.new("r", "mov.u32", term)
        if self.step is None:
            self._next = [b.register("r") for _ in range(1 if self.stride is not None else each)]
            self._look()

    def _look(self) -> None:
        """Load the offsets of the next chunk."""
        count, chunk = len(self._next), 1 if self.stride is not None else self.tile.depth
        width = next(size for size in (4, 2, 1) if count % size == 0)
        for i in range(0, count, width):
            self.b.emit(f"ld.global.nc{_suffix(width)}.u32 {_group(self._next[i : i + width])}, [{self.table}+{4 * i}]")
        self.b.emit(f"add.s64 {self.table}, {self.table}, {4 * chunk}")

    def fetch(self) -> None:
        """Load the next chunk into registers."""
        b, each, self._values = self.b, self._each, []
        places = [b.new("d", "add.s64", self.at, b.new("d", "cvt.u64.u32", offset)) for offset in self._next] or [
            self.at
        ]
        for number in range(each):
            place = places[number] if self.stride is None else f"{places[0]}+{number * self.stride}"
            self._values.append(fetch(b, self.dtype, f"[{place}]", inside=self._inside(number)))
        if not self._full:
            b.emit(f"add.u32 {self._term}, {self._term}, {self.tile.depth}")
        if self.step is None:
            self._look()
        else:
            b.emit(f"add.s64 {self.at}, {self.at}, {self.step}")

    def _inside(self, number: int) -> str | None:
        """The predicate that there is the thread's term of that number in the chunk; None: there is."""
        if self.terms is None or self._full:
            return None
        return self.b.new("p", "setp.lt.u32", self._term, max(0, self.terms - number))

    def put(self) -> None:
        """Store what was fetched to shared memory, columns beside each other."""
        for number, value in enumerate(self._values):
            self.b.emit(f"st.shared.f32 [{self._to}+{4 * number * self.pitch}], {widen(self.b, self.dtype, value)}")


def _suffix(size: int) -> str:
    return f".v{size}" if size > 1 else ""


def _group(values: list[str]) -> str:
    return f"{{{', '.join(values)}}}" if len(values) > 1 else values[0]
