"""Any bundle as the plain values that a broken one is made of."""

from __future__ import annotations

from typing import Any

from edgert._flatbuffer import decode
from tests.edgert.edge_files import HEADER, metadata_length

__all__ = ["describe"]


def describe(file: bytes) -> dict[str, Any]:
    """What `tests.edgert.edge_files.assemble` makes the same file of; segments without what it fills in."""
    found = decode(memoryview(file)[HEADER : HEADER + metadata_length(file)], "Bundle", HEADER)
    segments = found["segments"]
    found["contents"] = [file[s["offset"] : s["offset"] + s["length"]] for s in segments]
    found["segments"] = [{"name": s["name"]} for s in segments]
    return found
