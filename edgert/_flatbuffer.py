"""Verify and decode a flatbuffer by the schema: tables as dictionaries, vectors of numbers as read-only arrays.

Every offset is proven before it is followed. Work stays linear in the size: at most one table for every 8 bytes of
metadata is referred to, and vectors and texts, counted at each reference, may add up to 8 times the metadata.
Attributes, which steps share, are looked at once.
https://flatbuffers.dev/internals/
"""

from __future__ import annotations

import struct
from typing import Any

import numpy as np

from edgert._schema import TABLES
from edgert.errors import EdgertError, MalformedError

__all__ = ["decode"]

MOST_BYTES = (1 << 31) - 1
_FORMATS = {"byte": "<b", "ubyte": "<B", "int": "<i", "uint": "<I", "float": "<f", "long": "<q", "ulong": "<Q"}


def decode(data: memoryview, root: str, base: int) -> dict[str, Any]:
    """The root table of `data`, which starts at byte `base` of the file; absent fields have their defaults."""
    decoder = _Decoder(data, base)
    if len(data) > MOST_BYTES:
        raise decoder.malformed(0, root, "less than 2 GiB of metadata", len(data))
    return decoder.table(decoder.follow(0, "the root table"), root, root)


class _Decoder:
    def __init__(self, data: memoryview, base: int) -> None:
        self.data, self.base = data, base
        self.tables_left, self.bytes_left = len(data) // 8, 8 * len(data)
        self.attributes: dict[int, dict[str, Any]] = {}

    def table(self, at: int, name: str, where: str) -> dict[str, Any]:
        self.tables_left -= 1
        if self.tables_left < 0:
            raise self.malformed(at, where, "at most one table for every 8 bytes", "more")
        if name == "Attribute" and at in self.attributes:
            return self.attributes[at]
        vtable = at - int(self.scalar(at, "int", where))
        size, extent = int(self.number(vtable, "<H", 2, where)), int(self.number(vtable + 2, "<H", 2, where))
        if size < 4 or size % 2:
            raise self.malformed(vtable, where, "an even vtable size of 4 or more", size)
        self.within(vtable, size, where)
        if extent < 4:
            raise self.malformed(vtable, where, "a table size of 4 or more", extent)
        self.within(at, extent, where)
        row: dict[str, Any] = {}
        for slot, (field, kind, default) in enumerate(TABLES[name]):
            inside = f"{where}.{field}"
            entry = 4 + 2 * slot
            offset = int(self.number(vtable + entry, "<H", 2, inside)) if entry + 2 <= size else 0
            width = struct.calcsize(_FORMATS.get(kind, "<I"))
            if offset and (offset < 4 or offset + width > extent):
                raise self.malformed(vtable + entry, inside, f"a field within the table's {extent} bytes", offset)
            row[field] = self.field(at + offset if offset else None, kind, default, inside)
        if name == "Attribute":
            self.attributes[at] = row
        return row

    def field(self, at: int | None, kind: str, default: int, where: str) -> Any:
        """The value of the field at `at`, or what stands for an absent one."""
        if kind in _FORMATS:
            return default if at is None else self.scalar(at, kind, where)
        if kind == "string":
            return "" if at is None else self.string(self.follow(at, where), where)
        element = kind.strip("[]")
        if element in _FORMATS:
            if at is None:
                return np.empty(0, _FORMATS[element])
            return self.vector(self.follow(at, where), element, where)
        if at is None:
            return []
        start = self.follow(at, where)
        count = int(self.scalar(start, "uint", where))
        self.within(start + 4, 4 * count, where)
        self.spend(start, 4 * count + 4, where)
        found = []
        for index in range(count):
            inside = f"{where}[{index}]"
            target = self.follow(start + 4 + 4 * index, inside)
            found.append(self.string(target, inside) if element == "string" else self.table(target, element, inside))
        return found

    def vector(self, at: int, kind: str, where: str) -> np.ndarray[Any, Any]:
        count = int(self.scalar(at, "uint", where))
        dtype = np.dtype(_FORMATS[kind])
        if (at + 4) % dtype.itemsize:
            raise self.malformed(at + 4, where, f"alignment to {dtype.itemsize} bytes", "less")
        self.within(at + 4, count * dtype.itemsize, where)
        self.spend(at, count * dtype.itemsize + 4, where)
        return np.frombuffer(self.data, dtype, count, at + 4)

    def string(self, at: int, where: str) -> str:
        size = int(self.scalar(at, "uint", where))
        self.within(at + 4, size + 1, where)
        self.spend(at, size + 5, where)
        raw = bytes(self.data[at + 4 : at + 4 + size])
        if self.data[at + 4 + size] or 0 in raw:
            raise self.malformed(at, where, "a text that ends with its only zero byte", "another one")
        try:
            return raw.decode()
        except UnicodeDecodeError:
            raise self.malformed(at, where, "UTF-8 text", "other bytes") from None

    def follow(self, at: int, where: str) -> int:
        """The position that the offset at `at` points to."""
        offset = int(self.scalar(at, "uint", where))
        if offset == 0:
            raise self.malformed(at, where, "an offset", "0")
        self.scalar(at + offset, "uint", where)
        return at + offset

    def spend(self, at: int, size: int, where: str) -> None:
        self.bytes_left -= size
        if self.bytes_left < 0:
            raise self.malformed(at, where, "contents stored once", "more references than the metadata has room for")

    def scalar(self, at: int, kind: str, where: str) -> int | float:
        code = _FORMATS[kind]
        return self.number(at, code, struct.calcsize(code), where)

    def number(self, at: int, code: str, width: int, where: str) -> int | float:
        self.within(at, width, where)
        if at % width:
            raise self.malformed(at, where, f"alignment to {width} bytes", "less")
        value: int | float = struct.unpack_from(code, self.data, at)[0]
        return value

    def within(self, at: int, size: int, where: str) -> None:
        if at < 0 or at + size > len(self.data):
            raise self.malformed(at, where, f"{size} bytes within the metadata of {len(self.data)}", f"position {at}")

    def malformed(self, at: int, where: str, expected: str, got: object) -> EdgertError:
        return MalformedError.of(f"{where} at byte {self.base + at}: expected {expected}, got {got}")
