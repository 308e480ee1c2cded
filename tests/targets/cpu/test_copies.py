"""Parts of what a strided copy makes: the elements that its attributes walk are those of the operator's reference."""

from __future__ import annotations

import numpy as np
import pytest

from packer.ir import Box, DType, Graph, Node, TensorType, Value, whole
from packer.ir.ops import Expand, Op, Reshape, Slice, Tile, Transpose
from targets.base import resolve

TARGET = resolve("cpu")
X = np.arange(2 * 12 * 5, dtype=np.float32).reshape(2, 12, 5)


@pytest.mark.parametrize(
    ("op", "box", "read"),
    [
        (Reshape((2, 3, 4, 5)), ((1, 2), (1, 3), (0, 4), (2, 5)), ((1, 2), (4, 12), (2, 5))),
        (Reshape((24, 5)), ((12, 24), (0, 4)), ((1, 2), (0, 12), (0, 4))),
        (Transpose((2, 0, 1)), ((1, 4), (0, 2), (3, 9)), ((0, 2), (3, 9), (1, 4))),
        (Slice((0, 11, 1), (1, -2, 1), (2, 6, 3)), ((1, 2), (2, 5), (0, 2)), ((1, 2), (3, 8), (1, 3))),
        (Expand((3, 2, 12, 5)), ((1, 3), (0, 1), (4, 12), (0, 5)), ((0, 1), (4, 12), (0, 5))),
        (Tile((1, 1, 3)), ((1, 2), (4, 6), (0, 15)), ((1, 2), (4, 6), (0, 5))),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Op) else "",
)
def test_a_part_of_a_copy(op: Op, box: Box, read: Box) -> None:
    expected = op.reference(X)[0]
    x, y = (TensorType(DType.F32, array.shape) for array in (X, expected))
    node = Node(op, ("x",), ("y",))
    graph = Graph("g", ("x",), ("y",), (node,), {"x": Value("x", x), "y": Value("y", y)})
    form = TARGET.forms(graph, node)[0]
    lowered = TARGET.lower(graph, node, form)
    for wanted, given in ((whole(y), op.part(whole(y), [x]).reads[0]), (box, read)):
        step = TARGET.restrict(graph, node, form, lowered, op.part(wanted, [x]))
        assert step.inputs[0] is not None
        assert given is not None
        assert step.inputs[0].box == given
        source = np.ascontiguousarray(X[tuple(slice(*span) for span in given)]).ravel()
        offset, shape, strides = (attribute.ints for attribute in step.attributes)
        walked = np.lib.stride_tricks.as_strided(source[offset[0] :], shape, [4 * stride for stride in strides])
        assert np.array_equal(walked.ravel(), expected[tuple(slice(*span) for span in wanted)].ravel())
