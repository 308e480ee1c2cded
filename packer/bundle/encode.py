"""Encode plain values as a flatbuffer by the schema: the only place that imports flatbuffers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import flatbuffers
import numpy as np

from packer.bundle.schema import SCALAR_BYTES, Field, load_schema
from packer.errors import ModelError

__all__ = ["encode"]

_NUMPY = {"byte": "<i1", "ubyte": "<u1", "int": "<i4", "uint": "<u4", "float": "<f4", "long": "<i8", "ulong": "<u8"}


def encode(table: str, values: Mapping[str, Any]) -> bytes:
    """The finished flatbuffer with `values` (field name -> value; tables as mappings) as its root table.

    Equal texts, vectors of numbers and attributes are stored once, unless readers would refuse so many references."""
    encoder = _Encoder(shares=True)
    body = encoder.finish(table, values)
    if 8 * encoder.tables <= len(body) and encoder.bytes <= 8 * len(body):
        return body
    return _Encoder(shares=False).finish(table, values)


class _Encoder:
    """Counts references to tables, and the bytes of texts and vectors that a reader visits: of an attribute once."""

    def __init__(self, shares: bool) -> None:
        self.builder, self.shares = flatbuffers.Builder(1 << 16), shares
        self.tables = self.bytes = 0
        self.made: dict[object, int] = {}

    def finish(self, table: str, values: Mapping[str, Any]) -> bytes:
        self.builder.Finish(self.table(table, values))
        return bytes(self.builder.Output())

    def table(self, name: str, values: Mapping[str, Any]) -> int:
        self.tables += 1
        fields = load_schema()[name].fields
        unknown = set(values) - {field.name for field in fields}
        if unknown:
            raise KeyError(f"table {name} has no field {sorted(unknown)}")
        before = self.bytes
        prepared = [self.prepare(field, values.get(field.name)) for field in fields]
        make, key = partial(self.make_table, fields, prepared), (name, *prepared)
        if name != "Attribute":
            return make()
        if key in self.made:
            self.bytes = before
        return self.once(key, make)

    def make_table(self, fields: Sequence[Field], prepared: Sequence[Any]) -> int:
        self.builder.StartObject(len(fields))
        for slot, (field, value) in enumerate(zip(fields, prepared, strict=True)):
            if value is None:
                continue
            if field.vector or field.type not in SCALAR_BYTES:
                self.builder.PrependUOffsetTRelativeSlot(slot, value, 0)
            else:
                getattr(self.builder, f"Prepend{_METHODS[field.type]}Slot")(slot, value, field.default)
        return int(self.builder.EndObject())

    def prepare(self, field: Field, value: Any) -> Any:
        """What goes in the slot: the scalar, or the offset of what is built before the table. Empty vectors and texts
        are left out."""
        if value is None:
            return None
        if not field.vector:
            if field.type == "string":
                return self.text(value) if value else None
            return float(value) if field.type == "float" else int(value)
        if len(value) == 0:
            return None
        self.bytes += 4
        if field.type in SCALAR_BYTES:
            data = np.ascontiguousarray(value, _NUMPY[field.type])
            self.bytes += data.nbytes
            return self.once((field.type, data.tobytes()), lambda: int(self.builder.CreateNumpyVector(data)))
        self.bytes += 4 * len(value)
        items = [self.text(v) if field.type == "string" else self.table(field.type, v) for v in value]
        return self.once(("tables", *items), lambda: self.offsets(items))

    def offsets(self, items: Sequence[int]) -> int:
        self.builder.StartVector(4, len(items), 4)
        for item in reversed(items):
            self.builder.PrependUOffsetTRelative(item)
        return int(self.builder.EndVector())

    def text(self, value: str) -> int:
        """A string of the bundle; strings end with their first zero byte."""
        if "\0" in value:
            raise ModelError("a name holds a zero character", got=repr(value), hint="rename it")
        self.bytes += 5 + len(value.encode())
        return self.once(("text", value), lambda: int(self.builder.CreateString(value)))

    def once(self, key: object, make: Callable[[], int]) -> int:
        """Where `make` builds what is told by `key`, or has before."""
        if not self.shares:
            return make()
        if key not in self.made:
            self.made[key] = make()
        return self.made[key]


_METHODS = {
    "byte": "Int8",
    "ubyte": "Uint8",
    "int": "Int32",
    "uint": "Uint32",
    "float": "Float32",
    "long": "Int64",
    "ulong": "Uint64",
}
