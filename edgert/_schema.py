"""The metadata schema. Generated from edgert.fbs; do not edit: run
`python -m packer.bundle.generate`.
"""

from __future__ import annotations

from typing import Final, NamedTuple

__all__ = ["TABLES", "Field"]


class Field(NamedTuple):
    """A field; its id is its position in the table."""

    name: str
    type: str  # as in the schema: "ulong", "string", "[long]", "[Tensor]"
    default: int


TABLES: Final[dict[str, tuple[Field, ...]]] = {
    "Bundle": (
        Field("producer", "string", 0),
        Field("model", "string", 0),
        Field("segments", "[Segment]", 0),
        Field("programs", "[Program]", 0),
        Field("goldens", "[Golden]", 0),
    ),
    "Segment": (
        Field("name", "string", 0),
        Field("offset", "ulong", 0),
        Field("length", "ulong", 0),
        Field("sha256", "[ubyte]", 0),
    ),
    "Program": (
        Field("target", "string", 0),
        Field("arch", "string", 0),
        Field("arena_bytes", "ulong", 0),
        Field("arena_floor", "ulong", 0),
        Field("tensors", "[Tensor]", 0),
        Field("steps", "[Step]", 0),
        Field("inputs", "[uint]", 0),
        Field("outputs", "[uint]", 0),
        Field("cores", "uint", 1),
        Field("speeds", "[float]", 0),
        Field("plan", "int", -1),
        Field("device", "string", 0),
        Field("device_bytes", "ulong", 0),
        Field("modules", "[Module]", 0),
    ),
    "Module": (
        Field("cubin_segment", "int", -1),
        Field("cubin_offset", "ulong", 0),
        Field("cubin_bytes", "ulong", 0),
        Field("ptx_segment", "int", -1),
        Field("ptx_offset", "ulong", 0),
        Field("ptx_stored", "ulong", 0),
        Field("ptx_bytes", "ulong", 0),
    ),
    "Tensor": (
        Field("name", "string", 0),
        Field("dtype", "ubyte", 0),
        Field("layout", "ubyte", 0),
        Field("shape", "[long]", 0),
        Field("place", "ubyte", 0),
        Field("index", "uint", 0),
        Field("offset", "ulong", 0),
        Field("extent_axis", "byte", -1),
        Field("extent_count", "uint", 0),
        Field("root", "int", -1),
        Field("begin", "[long]", 0),
        Field("halo", "[uint]", 0),
    ),
    "Step": (
        Field("kernel", "string", 0),
        Field("nodes", "[string]", 0),
        Field("inputs", "[int]", 0),
        Field("outputs", "[int]", 0),
        Field("attributes", "[Attribute]", 0),
        Field("core", "ubyte", 0),
        Field("phase", "uint", 0),
    ),
    "Attribute": (
        Field("name", "string", 0),
        Field("ints", "[long]", 0),
        Field("floats", "[float]", 0),
        Field("text", "string", 0),
    ),
    "Golden": (
        Field("inputs", "[GoldenTensor]", 0),
        Field("outputs", "[GoldenTensor]", 0),
        Field("atol", "float", 0),
        Field("rtol", "float", 0),
    ),
    "GoldenTensor": (
        Field("name", "string", 0),
        Field("segment", "uint", 0),
        Field("offset", "ulong", 0),
        Field("length", "ulong", 0),
    ),
}
