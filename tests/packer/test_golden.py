"""Golden samples of networks that decide: they are not ones that rounding decides."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from edgert.devices import this_machine
from edgert.selftest import selftest
from packer.api import compile_model, pack
from packer.golden import sample
from packer.ir import DType, TensorType


def deciding(
    nodes: list[onnx.NodeProto], x: tuple[int, ...], y: tuple[int, ...], **weights: np.ndarray
) -> onnx.ModelProto:
    graph = helper.make_graph(
        nodes,
        "decides",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, x)],
        [helper.make_tensor_value_info("y", TensorProto.INT64, y)],
        [numpy_helper.from_array(data.astype(np.float32), name) for name, data in weights.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.checker.check_model(model)
    return model


def test_samples_of_a_number_are_always_the_same_and_others_differ() -> None:
    drawn = [sample("x", TensorType(DType.F32, (1, 5)), number) for number in (0, 1, 0)]
    assert drawn[0].tobytes() == drawn[2].tobytes() != drawn[1].tobytes()
    assert drawn[0].tobytes() == sample("x", TensorType(DType.F32, (1, 5))).tobytes()


def test_a_sample_that_rounding_decides_is_not_taken() -> None:
    shape = (1, 7)
    first, second = (sample("x", TensorType(DType.F32, shape), number) for number in (0, 1))
    nodes = [helper.make_node("Sub", ["x", "w"], ["d"]), helper.make_node("ArgMax", ["d"], ["y"], axis=1)]
    for equal, taken in ((first, second), (second, first)):  # in the one sample, all differences are 0
        (golden,) = compile_model(deciding(nodes, shape, (1, 1), w=equal)).goldens
        np.testing.assert_array_equal(golden.inputs["x"], taken)
        assert golden.outputs["y"] == np.argmax(taken - equal)
        assert golden.rtol == 1e-4


def test_the_largest_few_come_in_an_order_that_rounding_leaves() -> None:
    """Of 200 numbers the third and the fourth are equal in the first sample."""
    shape = (1, 200)
    first = sample("x", TensorType(DType.F32, shape))[0]
    w, order = np.zeros(shape), np.argsort(-first)
    w[0, order[3]] = first[order[2]] - first[order[3]]
    nodes = [
        helper.make_node("Add", ["x", "w"], ["d"]),
        helper.make_node("Constant", [], ["k"], value_ints=[6]),
        helper.make_node("TopK", ["d", "k"], ["values", "y"], axis=1),
    ]
    (golden,) = compile_model(deciding(nodes, shape, (1, 6), w=w)).goldens
    assert golden.inputs["x"].tobytes() != first.tobytes()


def test_all_instruction_sets_decide_as_the_sample_says(tmp_path: Path) -> None:
    weights = np.random.default_rng(0).standard_normal((6, 16, 3, 3))
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["c"], pads=[1, 1, 1, 1]),
        helper.make_node("ArgMax", ["c"], ["y"], axis=1, keepdims=0),
    ]
    pack(deciding(nodes, (1, 16, 96, 96), (1, 96, 96), w=weights), tmp_path / "model.edge")
    found = selftest(tmp_path / "model.edge", isa="all", runs=1)
    assert found.passed
    assert [output.max_abs for output in found.outputs] == [0.0] * len(this_machine().isas)
