"""Encode plain values as a flatbuffer by the schema: the only place that imports flatbuffers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import flatbuffers
import numpy as np

from packer.bundle.schema import SCALAR_BYTES, Field, load_schema
from packer.errors import ModelError

__all__ = ["encode"]

_NUMPY = {"byte": "<i1", "ubyte": "<u1", "int": "<i4", "uint": "<u4", "float": "<f4", "long": "<i8", "ulong": "<u8"}


def encode(table: str, values: Mapping[str, Any]) -> bytes:
    """The finished flatbuffer with `values` (field name -> value; tables as mappings) as its root table."""
    builder = flatbuffers.Builder(1 << 16)
    builder.Finish(_table(builder, table, values))
    return bytes(builder.Output())


def _table(builder: flatbuffers.Builder, name: str, values: Mapping[str, Any]) -> int:
    fields = load_schema()[name].fields
    unknown = set(values) - {field.name for field in fields}
    if unknown:
        raise KeyError(f"table {name} has no field {sorted(unknown)}")
    prepared = [_prepare(builder, field, values.get(field.name)) for field in fields]
    builder.StartObject(len(fields))
    for slot, (field, value) in enumerate(zip(fields, prepared, strict=True)):
        if value is None:
            continue
        if field.vector or field.type not in SCALAR_BYTES:
            builder.PrependUOffsetTRelativeSlot(slot, value, 0)
        else:
            getattr(builder, f"Prepend{_METHODS[field.type]}Slot")(slot, value, field.default)
    return int(builder.EndObject())


_METHODS = {
    "byte": "Int8",
    "ubyte": "Uint8",
    "int": "Int32",
    "uint": "Uint32",
    "float": "Float32",
    "long": "Int64",
    "ulong": "Uint64",
}


def _prepare(builder: flatbuffers.Builder, field: Field, value: Any) -> Any:
    """What goes in the slot: the scalar, or the offset of what is built before the table. Empty vectors and texts
    are left out."""
    if value is None:
        return None
    if not field.vector:
        if field.type == "string":
            return _text(builder, value) if value else None
        return float(value) if field.type == "float" else int(value)
    if len(value) == 0:
        return None
    if field.type in SCALAR_BYTES:
        return builder.CreateNumpyVector(np.ascontiguousarray(value, _NUMPY[field.type]))
    items = [_text(builder, v) if field.type == "string" else _table(builder, field.type, v) for v in value]
    builder.StartVector(4, len(items), 4)
    for item in reversed(items):
        builder.PrependUOffsetTRelative(item)
    return builder.EndVector()


def _text(builder: flatbuffers.Builder, value: str) -> int:
    """A string of the bundle; strings end with their first zero byte."""
    if "\0" in value:
        raise ModelError("a name holds a zero character", got=repr(value), hint="rename it")
    return int(builder.CreateString(value))
