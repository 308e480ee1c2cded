"""The metadata's bytes, broken one by one where the flatbuffer's own rules are."""

from __future__ import annotations

import struct
from collections.abc import Callable

from edgert._schema import TABLES
from tests.edgert.edge_files import HEADER, metadata_length, sign

__all__ = ["RULES", "break_metadata"]


class Metadata:
    """The bytes, and where things lie in them."""

    def __init__(self, data: bytearray) -> None:
        self.data = data

    def u32(self, at: int) -> int:
        return int(struct.unpack_from("<I", self.data, at)[0])

    def put(self, code: str, at: int, value: int) -> None:
        struct.pack_into("<" + code, self.data, at, value)

    def follow(self, at: int) -> int:
        return at + self.u32(at)

    def vtable(self, table: int) -> int:
        return table - int(struct.unpack_from("<i", self.data, table)[0])

    def slot(self, table: int, kind: str, field: str) -> int:
        """Where the vtable holds the field's offset."""
        number = [name for name, *_ in TABLES[kind]].index(field)
        return self.vtable(table) + 4 + 2 * number

    def field(self, table: int, kind: str, field: str) -> int:
        return table + int(struct.unpack_from("<H", self.data, self.slot(table, kind, field))[0])

    def item(self, table: int, kind: str, field: str, index: int = 0) -> int:
        """The table or text that an entry of a vector leads to."""
        return self.follow(self.follow(self.field(table, kind, field)) + 4 + 4 * index)

    @property
    def root(self) -> int:
        return self.follow(0)

    @property
    def program(self) -> int:
        return self.item(self.root, "Bundle", "programs")

    @property
    def tensor(self) -> int:
        return self.item(self.program, "Program", "tensors")

    @property
    def step(self) -> int:
        return self.item(self.program, "Program", "steps")


def break_metadata(good: bytes, change: Callable[[Metadata], object]) -> bytes:
    """The file with its metadata changed in place and its digest right."""
    found = bytearray(good)
    metadata = Metadata(found[HEADER : HEADER + metadata_length(good)])
    change(metadata)
    found[HEADER : HEADER + len(metadata.data)] = metadata.data
    return sign(found)


def _vtable(m: Metadata, table: int, code: str, at: int, value: int) -> None:
    m.put(code, m.vtable(table) + at, value)


def _text(m: Metadata) -> int:
    """The length of the producer's name."""
    return m.follow(m.field(m.root, "Bundle", "producer"))


def _producer(m: Metadata, text: bytes) -> None:
    at = _text(m)
    assert m.u32(at) >= len(text)
    m.data[at + 4 : at + 4 + len(text)] = text


def _shift(m: Metadata, at: int, by: int) -> None:
    """Makes an offset lead elsewhere."""
    m.put("I", at, (m.u32(at) + by) % (1 << 32))


# What is wrong, how it comes about, and what the message says (a regular expression).
RULES: tuple[tuple[str, Callable[[Metadata], object], str], ...] = (
    ("root beyond the end", lambda m: m.put("I", 0, 1 << 20), "Bundle"),
    ("root at offset 0", lambda m: m.put("I", 0, 0), "an offset"),
    ("root not aligned", lambda m: m.put("I", 0, m.u32(0) + 2), "a multiple of 4"),
    ("largest root offset", lambda m: m.put("I", 0, 0xFFFFFFFF), "before the end"),
    ("vtable before the metadata", lambda m: m.put("i", m.root, 1 << 30), "a vtable within"),
    ("vtable behind the metadata", lambda m: m.put("i", m.root, -(1 << 30)), "before the end"),
    ("most negative vtable", lambda m: m.put("i", m.root, -(1 << 31)), "before the end"),
    ("vtable not aligned", lambda m: m.put("i", m.root, m.root - m.vtable(m.root) + 1), "a multiple of 2"),
    ("vtable of odd size", lambda m: _vtable(m, m.root, "H", 0, 7), "an even vtable size"),
    ("vtable of 2 bytes", lambda m: _vtable(m, m.root, "H", 0, 2), "an even vtable size"),
    ("vtable of 0 bytes", lambda m: _vtable(m, m.root, "H", 0, 0), "an even vtable size"),
    ("vtable beyond the end", lambda m: _vtable(m, m.root, "H", 0, 0xFFFE), "before the end"),
    ("table of 0 bytes", lambda m: _vtable(m, m.root, "H", 2, 0), "a table size"),
    ("table of 3 bytes", lambda m: _vtable(m, m.root, "H", 2, 3), "a table size"),
    ("table beyond the end", lambda m: _vtable(m, m.root, "H", 2, 0xFFFF), "before the end"),
    ("field over the vtable's offset", lambda m: m.put("H", m.slot(m.root, "Bundle", "model"), 2), "within the table"),
    ("field behind its table", lambda m: m.put("H", m.slot(m.root, "Bundle", "model"), 400), "within the table"),
    ("scalar behind its table", lambda m: m.put("H", m.slot(m.tensor, "Tensor", "dtype"), 4000), "within the table"),
    ("scalar not aligned", lambda m: m.put("H", m.slot(m.program, "Program", "arena_bytes"), 5), "a multiple of 8"),
    ("reference not aligned", lambda m: m.put("H", m.slot(m.root, "Bundle", "model"), 5), "a multiple of 4"),
    ("text at offset 0", lambda m: m.put("I", m.field(m.root, "Bundle", "producer"), 0), "an offset"),
    ("text beyond the end", lambda m: m.put("I", m.field(m.root, "Bundle", "producer"), 1 << 24), "before the end"),
    ("text not aligned", lambda m: _shift(m, m.field(m.root, "Bundle", "producer"), 1), "a multiple of 4"),
    ("text longer than the metadata", lambda m: m.put("I", _text(m), 1 << 24), "before the end"),
    ("longest text", lambda m: m.put("I", _text(m), 0xFFFFFFFF), "before the end"),
    ("text without a final zero", lambda m: m.put("I", _text(m), m.u32(_text(m)) - 1), "final NUL"),
    ("text with a zero", lambda m: _producer(m, b"a\0"), "UTF-8"),
    ("text with a lone continuation", lambda m: _producer(m, b"\x80"), "UTF-8"),
    ("text with an overlong slash", lambda m: _producer(m, b"\xc0\xaf"), "UTF-8"),
    ("text with a surrogate", lambda m: _producer(m, b"\xed\xa0\x80"), "UTF-8"),
    ("text beyond Unicode", lambda m: _producer(m, b"\xf4\x90\x80\x80"), "UTF-8"),
    ("vector at offset 0", lambda m: m.put("I", m.field(m.root, "Bundle", "programs"), 0), "an offset"),
    ("vector beyond the end", lambda m: m.put("I", m.field(m.root, "Bundle", "programs"), 1 << 24), "before the end"),
    (
        "vector longer than the metadata",
        lambda m: m.put("I", m.follow(m.field(m.root, "Bundle", "programs")), 1 << 24),
        "before the end",
    ),
    (
        "longest vector",
        lambda m: m.put("I", m.follow(m.field(m.root, "Bundle", "programs")), 0xFFFFFFFF),
        "before the end",
    ),
    (
        "longest shape",
        lambda m: m.put("I", m.follow(m.field(m.tensor, "Tensor", "shape")), 0xFFFFFFFF),
        "Tensor.shape",
    ),
    ("shape not aligned", lambda m: _shift(m, m.field(m.tensor, "Tensor", "shape"), 4), "Tensor.shape"),
    (
        "table at offset 0",
        lambda m: m.put("I", m.follow(m.field(m.root, "Bundle", "programs")) + 4, 0),
        "an offset",
    ),
    (
        "table beyond the end",
        lambda m: m.put("I", m.follow(m.field(m.program, "Program", "steps")) + 4, 1 << 24),
        "before the end",
    ),
    (
        "node name beyond the end",
        lambda m: m.put("I", m.follow(m.field(m.step, "Step", "nodes")) + 4, 1 << 24),
        "Step.nodes",
    ),
    ("inputs beyond the end", lambda m: m.put("I", m.field(m.step, "Step", "inputs"), 1 << 24), "Step.inputs"),
)
