"""What is gathered at places that ascend by one step is sliced."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

from packer.importers import import_onnx
from packer.ir import Graph
from packer.ir.evaluate import evaluate
from packer.ir.ops import Gather, Reshape, Slice
from packer.passes import optimize
from packer.passes.slice_gathers import slice_gathers

SHAPE = (6, 5, 7)


def gathered(indices: np.ndarray | int | list[int], axis: int) -> Graph:
    """y = gather(x, indices) after all passes, when it computes what it should."""
    data = np.asarray(indices, np.int64)
    graph = helper.make_graph(
        [helper.make_node("Gather", ["x", "i"], ["y"], axis=axis)],
        "gather",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, SHAPE)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(data, "i")],
    )
    network = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    found = optimize(import_onnx(network))
    x = np.random.default_rng(5).standard_normal(SHAPE).astype(np.float32)
    (want,) = ReferenceEvaluator(network).run(None, {"x": x})
    np.testing.assert_array_equal(evaluate(found, {"x": x})["y"], want)
    assert slice_gathers(found) is found
    return found


@pytest.mark.parametrize("axis", range(3))
@pytest.mark.parametrize("indices", [0, -1, 3, [2], [1, 2, 3], [-3, -2], [0, 2, 4], [[0, 1], [2, 3]]])
def test_slices(indices: int | list[int], axis: int) -> None:
    assert {type(node.op) for node in gathered(indices, axis).nodes} <= {Slice, Reshape}


@pytest.mark.parametrize("indices", [[0, 0], [2, 1, 0], [0, 1, 3], [4, 0], [-1, 0]])
def test_what_is_no_slice(indices: list[int]) -> None:
    assert [type(node.op) for node in gathered(indices, 1).nodes] == [Gather]
