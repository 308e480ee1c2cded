"""The metadata schema, parsed from edgert.fbs: what the writer encodes by and the generated tables come from."""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass
from pathlib import Path

__all__ = ["SCALAR_BYTES", "Field", "Table", "load_schema"]

SCALAR_BYTES = {"byte": 1, "ubyte": 1, "int": 4, "uint": 4, "float": 4, "long": 8, "ulong": 8}


@dataclass(frozen=True, slots=True)
class Field:
    """One field; its id is its position in the table."""

    name: str
    type: str  # a scalar, "string" or a table name; the element type of a vector
    vector: bool
    default: int


@dataclass(frozen=True, slots=True)
class Table:
    """One table of the schema, fields in id order."""

    name: str
    fields: tuple[Field, ...]


@functools.cache
def load_schema() -> dict[str, Table]:
    """The tables of edgert.fbs by name, in file order; the last one is no special: the root is "Bundle"."""
    text = re.sub(r"//.*", "", Path(__file__).with_name("edgert.fbs").read_text(encoding="utf-8"))
    tables: dict[str, Table] = {}
    for name, body in re.findall(r"table\s+(\w+)\s*\{([^}]*)\}", text):
        fields = re.findall(r"(\w+)\s*:\s*(\[?)(\w+)\]?\s*(?:=\s*(-?\d+))?\s*;", body)
        tables[name] = Table(
            name, tuple(Field(n, kind, bool(vector), int(default or 0)) for n, vector, kind, default in fields)
        )
    return tables
