"""Transposes move behind operators that do not mind, and disappear where they meet their inverses."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import ModelProto, NodeProto, TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

from packer.importers import import_onnx
from packer.ir.evaluate import evaluate
from packer.ir.ops import Binary, Conv, Transpose
from packer.passes import optimize
from packer.passes.sink_transposes import sink_transposes

LAST, FIRST = (0, 2, 3, 1), (0, 3, 1, 2)  # channels last, and first again
SHAPE = (2, 3, 5, 7)
rng = np.random.default_rng(3)
CONSTANTS = {
    "one": np.float32(1.5),
    "channels": rng.standard_normal(3).astype(np.float32),
    "whole": rng.standard_normal((1, 5, 1, 3)).astype(np.float32),
    "mask": rng.random((5, 7, 1)) < 0.5,
    "pads": np.array([0, 1, 2, 0, 0, 0, 1, 0]),
    "starts": np.array([1, 6]),
    "ends": np.array([4, 0]),
    "axes": np.array([1, 2]),
    "steps": np.array([1, -2]),
    "scales": np.float32([1, 2, 1.5, 1]),
    "none": np.float32([]),
    "image": np.array([1, 2]),
    "depth": np.array([3]),
    "scale": np.float32(0.1),
    "zero": np.uint8(100),
    "each": np.float32([0.1, 0.2, 0.3]),
    "zeros": np.uint8([90, 100, 110]),
    "shape": np.array([2, 5, 7, 3]),
    "borders": np.array([0, 0, 1, 1, 0, 0, 1, 1]),
    "other": np.array([2, 5, 3, 7]),
    "weights": rng.standard_normal((4, 7, 3, 3)).astype(np.float32),
}


def network(nodes: list[NodeProto], outputs: tuple[str, ...] = ("y",)) -> ModelProto:
    """Of inputs x and z, with sums before, so that nothing is done to the inputs themselves."""
    first = [helper.make_node("Add", [name, "one"], [f"{name}0"]) for name in "xz"]
    graph = helper.make_graph(
        [*first, *nodes],
        "transposes",
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, SHAPE) for name in "xz"],
        [helper.make_tensor_value_info(name, TensorProto.UNDEFINED, None) for name in outputs],
        [numpy_helper.from_array(np.asarray(data), name) for name, data in CONSTANTS.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 19)], ir_version=8)


def transposes(nodes: list[NodeProto], outputs: tuple[str, ...] = ("y",)) -> int:
    """How many are left, when the graph computes what it should."""
    model = network(nodes, outputs)
    graph = optimize(import_onnx(model))
    inputs = {name: rng.standard_normal(SHAPE).astype(np.float32) for name in "xz"}
    for name, want in zip(outputs, ReferenceEvaluator(model).run(None, inputs), strict=True):
        np.testing.assert_allclose(evaluate(graph, inputs)[name], want, rtol=0, atol=1e-5)
    assert sink_transposes(graph) is graph
    return sum(isinstance(node.op, Transpose) for node in graph.nodes)


def node(kind: str, *inputs: str, **attributes: object) -> NodeProto:
    return helper.make_node(kind, inputs, ["b"], **attributes)


BETWEEN = {
    "a function": [node("Sigmoid", "a")],
    "a number": [node("Mul", "a", "one")],
    "a number before": [node("Div", "one", "a")],
    "a number for each channel": [node("Add", "a", "channels")],
    "slopes": [node("PRelu", "a", "channels")],
    "numbers of a dimension more": [node("Sub", "whole", "a")],
    "itself": [node("Mul", "a", "a")],
    "another": [node("Add", "a", "c")],
    "a choice": [node("Where", "mask", "a", "c")],
    "neighbours": [node("Concat", "a", "c", axis=3)],
    "neighbours that are constant": [helper.make_node("Concat", ["a", "a"], ["b"], axis=2)],
    "padding": [node("Pad", "a", "pads", "one")],
    "mirrored padding": [node("Pad", "a", "pads", mode="reflect")],
    "a slice": [node("Slice", "a", "starts", "ends", "axes", "steps")],
    "another size": [node("Resize", "a", "none", "scales", mode="linear")],
    "a mean over the image": [node("ReduceMean", "a", "image", keepdims=1)],
    "a sum over channels": [node("ReduceSum", "a", "depth", keepdims=1)],
    "levels and back": [
        helper.make_node("QuantizeLinear", ["a", "scale", "zero"], ["q"]),
        node("DequantizeLinear", "q", "scale", "zero"),
    ],
    "levels of channels and back": [
        helper.make_node("QuantizeLinear", ["a", "each", "zeros"], ["q"], axis=3),
        node("DequantizeLinear", "q", "each", "zeros", axis=-1),
    ],
    "several": [
        helper.make_node("Relu", ["a"], ["r"]),
        helper.make_node("Add", ["r", "channels"], ["s"]),
        node("Concat", "s", "c", axis=1),
    ],
}


@pytest.mark.parametrize("name", BETWEEN)
def test_nothing_is_moved_between_inverses(name: str) -> None:
    before = [
        helper.make_node("Transpose", ["x0"], ["a"], perm=LAST),
        helper.make_node("Transpose", ["z0"], ["c"], perm=LAST),
    ]
    assert transposes([*before, *BETWEEN[name], helper.make_node("Transpose", ["b"], ["y"], perm=FIRST)]) == 0


def test_a_mean_needs_no_transpose() -> None:
    before = helper.make_node("Transpose", ["x0"], ["a"], perm=LAST)
    assert transposes([before, helper.make_node("ReduceMean", ["a", "image"], ["y"], keepdims=0)]) == 0
    assert transposes([before, helper.make_node("ReduceMean", ["a", "depth"], ["y"], keepdims=0)]) == 0


def test_an_order_that_a_mean_leaves_stays() -> None:
    before = helper.make_node("Transpose", ["x0"], ["a"], perm=(3, 1, 2, 0))
    assert transposes([before, helper.make_node("ReduceMean", ["a", "image"], ["y"], keepdims=0)]) == 1


def test_none_is_made_where_others_read_what_is_transposed() -> None:
    nodes = [
        helper.make_node("Transpose", ["x0"], ["a"], perm=LAST),
        helper.make_node("Sigmoid", ["a"], ["y"]),
        helper.make_node("Softmax", ["a"], ["v"], axis=2),
    ]
    assert transposes(nodes, ("y", "v")) == 1
    assert transposes(nodes[:2], ("y", "a")) == 1


def test_those_that_meet_no_inverse_stay() -> None:
    """What follows them may become part of what follows that."""
    nodes = [
        helper.make_node("Transpose", ["x0"], ["a"], perm=(0, 3, 1, 2)),
        helper.make_node("Mul", ["a", "one"], ["b"]),
        helper.make_node("Pad", ["b", "borders"], ["c"]),
        helper.make_node("Conv", ["c", "weights"], ["y"]),
    ]
    graph = optimize(import_onnx(network(nodes)))
    assert [type(node.op) for node in graph.nodes][1:] == [Transpose, Binary, Conv]


def test_two_become_one() -> None:
    nodes = [
        helper.make_node("Transpose", ["x0"], ["a"], perm=LAST),
        helper.make_node("Transpose", ["z0"], ["c"], perm=LAST),
        helper.make_node("Add", ["a", "c"], ["y"]),
    ]
    assert transposes(nodes) == 1


def test_what_is_joined_with_other_values_stays() -> None:
    nodes = [
        helper.make_node("Transpose", ["x0"], ["a"], perm=LAST),
        helper.make_node("Reshape", ["z0", "shape"], ["c"]),
        helper.make_node("Add", ["a", "c"], ["b"]),
        helper.make_node("Transpose", ["b"], ["y"], perm=FIRST),
    ]
    assert transposes(nodes) == 2


def test_other_orders_stay() -> None:
    nodes = [
        helper.make_node("Transpose", ["x0"], ["a"], perm=LAST),
        helper.make_node("Transpose", ["e0"], ["c"], perm=(0, 1, 3, 2)),
        helper.make_node("Add", ["a", "c"], ["b"]),
        helper.make_node("Transpose", ["b"], ["y"], perm=FIRST),
    ]
    assert transposes([helper.make_node("Reshape", ["z0", "other"], ["e0"]), *nodes]) == 3
