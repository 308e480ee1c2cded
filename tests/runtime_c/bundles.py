"""The bundle that the C tests open: `python -m tests.runtime_c.bundles` writes tests/golden/session.edge.

For x [64,96] it gives y = transpose(relu(x) + w) as two views of one output, and the positions of relu(x)'s non-zeros,
whose number depends on data. Two programs, one for each architecture, share the segment of w.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from packer.bundle.model import Bundle, Golden, Place, Program, Step, Tensor
from packer.bundle.writer import write_bundle
from packer.ir import DType, TensorType
from targets.base import Attribute, Layout

__all__ = ["GOLDEN", "session_bundle"]

GOLDEN = Path(__file__).resolve().parents[1] / "golden" / "session.edge"
ROWS, COLUMNS = 64, 96


def session_bundle() -> Bundle:
    """The bundle's contents, the same at every call."""
    size = ROWS * COLUMNS
    w = np.arange(COLUMNS, dtype=np.float32) / 8
    x = np.random.default_rng(1).standard_normal((ROWS, COLUMNS)).astype(np.float32)
    flat = TensorType(DType.F32, (size,))
    matrix = TensorType(DType.F32, (ROWS, COLUMNS))
    planar = Layout.PLANAR
    tensors = (
        Tensor("x", matrix, planar, Place.INPUT),
        Tensor("w", TensorType(DType.F32, (COLUMNS,)), planar, Place.SEGMENT, data=w),
        Tensor("relu", matrix, planar, Place.ARENA),
        Tensor("sum", matrix, planar, Place.ARENA, offset=size * 4),
        Tensor("y", TensorType(DType.F32, (COLUMNS, ROWS)), planar, Place.OUTPUT),
        Tensor("y_flat", flat, planar, Place.OUTPUT),
        Tensor("where", TensorType(DType.I64, (2, size)), planar, Place.OUTPUT, 1, extent=(1, 7)),
        Tensor("where_count", TensorType(DType.I64, (1,)), planar, Place.ARENA, offset=size * 8),
    )
    steps = (
        Step("unary", ("activate",), (0,), (2,), (Attribute("kind", text="relu"),)),
        Step("binary", ("shift", "again"), (2, 1), (3,), (Attribute("kind", text="add"),)),
        Step(
            "copy",
            ("turn",),
            (3,),
            (5,),
            (
                Attribute("offset", ints=(0,)),
                Attribute("shape", ints=(COLUMNS, ROWS)),
                Attribute("strides", ints=(1, COLUMNS)),
            ),
        ),
        Step("non_zero", ("find",), (2,), (6, 7), ()),
    )
    arena = size * 8 + 64
    programs = tuple(
        Program(target, arch, arena, arena, tensors, steps, (0,), (4, 6))
        for target, arch in (("cpu", "x86_64"), ("cpu-aarch64", "aarch64"))
    )
    golden = Golden({"x": x}, {"y": (np.maximum(x, 0) + w).T.copy()}, 0.0, 0.0)
    return Bundle("edgert tests", "session", programs, (golden,))


if __name__ == "__main__":
    write_bundle(session_bundle(), GOLDEN)
