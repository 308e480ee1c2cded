"""Boxes of what a strided copy makes: the elements that its attributes walk are those of the operator's reference."""

from __future__ import annotations

import numpy as np
import pytest

from packer.ir import Box, DType, Graph, Node, TensorType, Value, whole
from packer.ir.ops import Expand, Op, Reshape, Slice, Transpose
from targets.cpu.lower import copy_attributes

X = np.arange(2 * 12 * 5, dtype=np.float32).reshape(2, 12, 5)


@pytest.mark.parametrize(
    ("op", "box"),
    [
        (Reshape((2, 3, 4, 5)), ((1, 2), (1, 3), (0, 4), (2, 5))),
        (Reshape((24, 5)), ((7, 20), (0, 4))),
        (Reshape((120,)), ((35, 80),)),
        (Transpose((2, 0, 1)), ((1, 4), (0, 2), (3, 9))),
        (Slice((0, 11, 1), (1, -2, 1), (2, 6, 3)), ((1, 2), (2, 5), (0, 2))),
        (Expand((3, 2, 12, 5)), ((1, 3), (0, 1), (4, 12), (0, 5))),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Op) else "",
)
def test_a_box_of_a_copy(op: Op, box: Box) -> None:
    expected = op.reference(X)[0]
    x, y = (TensorType(DType.F32, array.shape) for array in (X, expected))
    node = Node(op, ("x",), ("y",))
    graph = Graph("g", ("x",), ("y",), (node,), {"x": Value("x", x), "y": Value("y", y)})
    for part in (whole(y), box):
        offset, shape, strides = (attribute.ints for attribute in copy_attributes(graph, node, part))
        walked = np.lib.stride_tricks.as_strided(X.ravel()[offset[0] :], shape, [4 * stride for stride in strides])
        assert np.array_equal(walked.ravel(), expected[tuple(slice(*span) for span in part)].ravel())
