"""Each pass, and all of them together, against ONNX's own reference on random networks; and what each is there for."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import numpy as np
import pytest
from onnx import ModelProto, TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

from packer.importers import import_onnx
from packer.ir import Graph
from packer.ir.evaluate import evaluate
from packer.ir.ops import Activation, Binary, Unary
from packer.passes import PASSES, optimize
from tests.packer.passes.random_models import random_model


def check(graph: Graph, model: ModelProto, seed: int = 0) -> None:
    """The graph is valid and computes what ONNX's reference says."""
    graph.validate()
    inputs = {
        name: np.random.default_rng(seed).standard_normal(graph.type(name).shape).astype(np.float32)
        for name in graph.inputs
    }
    want = ReferenceEvaluator(model).run(None, inputs)
    got = evaluate(graph, inputs)
    for name, expected in zip(graph.outputs, want, strict=True):
        scale = max(1.0, float(np.abs(expected).max(initial=0)))
        np.testing.assert_allclose(got[name], expected, rtol=0, atol=2e-4 * scale, err_msg=name)


@pytest.mark.parametrize("run", PASSES, ids=lambda run: run.__name__)
def test_each_pass_keeps_the_meaning(run: Callable[[Graph], Graph]) -> None:
    changed = 0
    for seed in range(110):
        model = random_model(seed)
        before = import_onnx(model)
        after = run(before)
        changed += after is not before
        check(after, model, seed)
    assert changed >= 3 or run.__name__ in ("fold_constants", "remove_dead", "fuse_bias"), (
        "the random networks never exercise this pass"
    )


@pytest.mark.parametrize("seed", range(100))
def test_all_passes_keep_the_meaning(seed: int) -> None:
    model = random_model(seed)
    check(optimize(import_onnx(model)), model, seed)


def model_of(nodes: list[object], x: tuple[int, ...], y: tuple[int, ...], **weights: np.ndarray) -> ModelProto:
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, x)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, y)],
        [numpy_helper.from_array(data, name) for name, data in weights.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def ops(graph: Graph) -> Counter[str]:
    return Counter(type(node.op).__name__ for node in graph.nodes)


def normal(*shape: int) -> np.ndarray:
    return np.random.default_rng(1).standard_normal(shape).astype(np.float32)


def test_residual_block_becomes_two_convolutions() -> None:
    def norm(x: str, y: str) -> object:
        return helper.make_node("BatchNormalization", [x, "s", "b", "m", "v"], [y])

    nodes = [
        helper.make_node("Conv", ["x", "w1"], ["a"], pads=[1] * 4),
        norm("a", "b1"),
        helper.make_node("Relu", ["b1"], ["c"]),
        helper.make_node("Conv", ["c", "w2"], ["d"], pads=[1] * 4),
        norm("d", "e"),
        helper.make_node("Add", ["e", "x"], ["f"]),
        helper.make_node("Relu", ["f"], ["y"]),
    ]
    model = model_of(
        nodes,
        (1, 4, 5, 5),
        (1, 4, 5, 5),
        w1=normal(4, 4, 3, 3),
        w2=normal(4, 4, 3, 3),
        s=normal(4),
        b=normal(4),
        m=normal(4),
        v=normal(4) ** 2,
    )
    graph = optimize(import_onnx(model))
    check(graph, model)
    assert ops(graph) == {"Conv": 2}
    assert len(graph.nodes[1].sources) == 4  # Conv, BatchNormalization, Add, Relu keep their names


def test_norm_behind_concat_becomes_one_scale_shift() -> None:
    nodes = [
        helper.make_node("Concat", ["x", "x"], ["c"], axis=1),
        helper.make_node("BatchNormalization", ["c", "s", "b", "m", "v"], ["n"]),
        helper.make_node("Mul", ["n", "k"], ["q"]),
        helper.make_node("Relu", ["q"], ["y"]),
    ]
    model = model_of(
        nodes, (1, 2, 3, 3), (1, 4, 3, 3), s=normal(4), b=normal(4), m=normal(4), v=normal(4) ** 2, k=normal(4, 1, 1)
    )
    graph = optimize(import_onnx(model))
    check(graph, model)
    assert ops(graph) == {"Concat": 1, "ScaleShift": 1}


@pytest.mark.parametrize(
    ("function", "pads", "fused"),
    [
        ({"op_type": "Relu"}, 1, True),
        ({"op_type": "LeakyRelu", "alpha": 0.1}, 0, True),
        ({"op_type": "LeakyRelu", "alpha": -0.1}, 0, False),
        ({"op_type": "Abs"}, 0, False),
    ],
)
def test_a_rising_function_goes_before_a_maximum(function: dict[str, object], pads: int, fused: bool) -> None:
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["c"], "conv"),
        helper.make_node("MaxPool", ["c"], ["p"], "pool", kernel_shape=[2, 2], strides=[2, 2], pads=[pads] * 4),
        helper.make_node(inputs=["p"], outputs=["y"], name="function", **function),
    ]
    model = model_of(nodes, (1, 2, 6, 6), (1, 3, 3 + pads, 3 + pads), w=normal(3, 2, 1, 1))
    graph = optimize(import_onnx(model))
    check(graph, model)
    if fused:
        assert [node.sources for node in graph.nodes] == [("conv", "function"), ("pool",)]
    else:
        assert [node.sources for node in graph.nodes] == [("conv",), ("pool",), ("function",)]


def test_a_value_used_twice_is_not_fused_away() -> None:
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["a"]),
        helper.make_node("Relu", ["a"], ["r"]),
        helper.make_node("Mul", ["a", "r"], ["y"]),
    ]
    model = model_of(nodes, (1, 2, 3, 3), (1, 2, 3, 3), w=normal(2, 2, 1, 1))
    graph = optimize(import_onnx(model))
    check(graph, model)
    assert ops(graph) == {"Conv": 1, "Unary": 1, "Binary": 1}


def test_constant_subgraphs_disappear() -> None:
    nodes = [
        helper.make_node("Exp", ["k"], ["e"]),
        helper.make_node("Transpose", ["e"], ["t"]),
        helper.make_node("MatMul", ["x", "t"], ["y"]),
        helper.make_node("Relu", ["x"], ["unused"]),
    ]
    model = model_of(nodes, (2, 3), (2, 5), k=normal(5, 3))
    graph = optimize(import_onnx(model))
    check(graph, model)
    assert ops(graph) == {"MatMul": 1}


def test_hard_swish_is_one_node() -> None:
    nodes = [
        helper.make_node("Add", ["x", "three"], ["a"]),
        helper.make_node("Clip", ["a", "zero", "six"], ["c"]),
        helper.make_node("Mul", ["x", "c"], ["m"]),
        helper.make_node("Div", ["m", "six"], ["y"]),
    ]
    model = model_of(nodes, (1, 2, 3, 3), (1, 2, 3, 3), three=np.float32(3), zero=np.float32(0), six=np.float32(6))
    graph = optimize(import_onnx(model))
    check(graph, model)
    assert [getattr(node.op, "kind", "") for node in graph.nodes] == ["hard_swish"]


@pytest.mark.filterwarnings("ignore:overflow", "ignore:invalid value")
@pytest.mark.parametrize(
    ("kind", "k", "alpha"),
    [("Mul", 1.702, 1.702), ("Div", 0.5, 2.0), ("Mul", -1.0, -1.0), ("Mul", 0.0, None), ("Div", 1e-39, None)],
)
def test_a_sigmoid_of_a_multiple_is_a_swish(kind: str, k: float, alpha: float | None) -> None:
    nodes = [
        helper.make_node(kind, ["x", "k"], ["a"]),
        helper.make_node("Sigmoid", ["a"], ["s"]),
        helper.make_node("Mul", ["s", "x"], ["y"]),
    ]
    model = model_of(nodes, (2, 3, 4), (2, 3, 4), k=np.float32(k))
    graph = optimize(import_onnx(model))
    check(graph, model)
    if alpha is None:
        assert "silu" not in [getattr(node.op, "kind", "") for node in graph.nodes]
    else:
        assert [node.op for node in graph.nodes] == [Unary("silu", pytest.approx(alpha))]


def test_a_sigmoid_of_another_value_is_no_swish() -> None:
    nodes = [
        helper.make_node("Mul", ["x", "k"], ["a"]),
        helper.make_node("Mul", ["a", "k"], ["b"]),
        helper.make_node("Sigmoid", ["x"], ["s"]),
        helper.make_node("Mul", ["s", "b"], ["y"]),
    ]
    model = model_of(nodes, (2, 3, 4), (2, 3, 4), k=np.full(4, 2, np.float32))
    graph = optimize(import_onnx(model))
    check(graph, model)
    assert "silu" not in [getattr(node.op, "kind", "") for node in graph.nodes]


@pytest.mark.parametrize("of", ["x", "a"])
@pytest.mark.parametrize("swapped", [False, True])
def test_a_tanh_of_a_softplus_is_a_mish(of: str, swapped: bool) -> None:
    nodes = [
        helper.make_node("Mul", ["x", "k"], ["a"]),
        helper.make_node("Softplus", [of], ["s"]),
        helper.make_node("Tanh", ["s"], ["t"]),
        helper.make_node("Mul", ["t", "a"] if swapped else ["a", "t"], ["y"]),
    ]
    model = model_of(nodes, (2, 3, 4), (2, 3, 4), k=np.full(4, 2, np.float32))
    graph = optimize(import_onnx(model))
    check(graph, model)
    (op,) = (node.op for node in graph.nodes[-1:])
    assert isinstance(op, Binary)
    assert (op.activation == Activation("mish")) == (of == "a")


def test_what_scales_by_one_and_shifts_by_nothing_disappears() -> None:
    nodes = [
        helper.make_node("Reshape", ["x", "groups"], ["a"]),
        helper.make_node("InstanceNormalization", ["a", "one", "zero"], ["n"]),
        helper.make_node("Reshape", ["n", "channels"], ["b"]),
        helper.make_node("Mul", ["b", "ones"], ["y"]),
    ]
    weights = {
        "groups": np.array([1, 2, -1]),
        "channels": np.array([1, 4, 3, 3]),
        "ones": np.ones((4, 1, 1), np.float32),
    }
    weights |= {"one": np.ones(2, np.float32), "zero": np.zeros(2, np.float32)}
    model = model_of(nodes, (1, 4, 3, 3), (1, 4, 3, 3), **weights)
    graph = optimize(import_onnx(model))
    check(graph, model)
    assert ops(graph) == {"Reshape": 2, "Normalize": 1}


def affine_network(k: float) -> ModelProto:
    """y = (x k) k."""
    nodes = [helper.make_node("Mul", ["x", "k"], ["a"]), helper.make_node("Mul", ["a", "k"], ["y"])]
    return model_of(nodes, (1, 2, 3, 3), (1, 2, 3, 3), k=np.float32(k))


def test_constants_whose_product_overflows_are_not_merged() -> None:
    assert len(optimize(import_onnx(affine_network(3.0))).nodes) == 1
    graph = optimize(import_onnx(affine_network(1e30)))
    assert ops(graph) == {"Binary": 2}
    (y,) = evaluate(graph, {"x": np.zeros((1, 2, 3, 3), np.float32)}).values()
    assert not y.any()


def test_a_scale_that_overflows_the_weights_is_not_folded() -> None:
    nodes = [helper.make_node("Conv", ["x", "w"], ["a"]), helper.make_node("Mul", ["a", "k"], ["y"])]
    for k, folded in ((2.0, True), (1e30, False)):
        model = model_of(nodes, (1, 2, 3, 3), (1, 4, 3, 3), w=np.full((4, 2, 1, 1), 1e20, np.float32), k=np.float32(k))
        assert (ops(optimize(import_onnx(model))) == {"Conv": 1}) == folded


@pytest.mark.parametrize("top", [6.0, -6.0])
def test_a_clip_with_reversed_limits_is_no_swish(top: float) -> None:
    nodes = [
        helper.make_node("Add", ["x", "three"], ["a"]),
        helper.make_node("Clip", ["a", "zero", "top"], ["c"]),
        helper.make_node("Mul", ["x", "c"], ["m"]),
        helper.make_node("Div", ["m", "top"], ["y"]),
    ]
    model = model_of(nodes, (1, 2, 3, 3), (1, 2, 3, 3), three=np.float32(3), zero=np.float32(0), top=np.float32(top))
    graph = optimize(import_onnx(model))
    check(graph, model)
    assert (len(graph.nodes) == 1) == (top > 0)


def test_a_transposed_convolution_to_nothing() -> None:
    nodes = [helper.make_node("ConvTranspose", ["x", "w"], ["a"]), helper.make_node("Mul", ["a", "k"], ["y"])]
    model = model_of(
        nodes, (1, 2, 3, 3), (1, 0, 4, 4), w=np.zeros((2, 0, 2, 2), np.float32), k=np.zeros((0, 1, 1), np.float32)
    )
    assert ops(optimize(import_onnx(model))) == {"ConvTranspose": 1}


@pytest.mark.parametrize("pad", [0, 1])
def test_dead_filters_disappear_with_their_constants(pad: int) -> None:
    """Filters 1, 2 and 3 are a constant each; behind zero padding one channel stays and stands for them."""
    first, second = normal(4, 2, 1, 1), normal(3, 4, 3, 3)
    first[1:] = 0
    nodes = [
        helper.make_node("Conv", ["x", "w1", "b1"], ["a"]),
        helper.make_node("Relu", ["a"], ["r"]),
        helper.make_node("MaxPool", ["r"], ["p"], kernel_shape=[2, 2]),
        helper.make_node("Conv", ["p", "w2", "b2"], ["y"], pads=[pad] * 4),
    ]
    bias = np.array([0.5, 2.0, 3.0, -1.0], np.float32)
    size = 3 + 2 * pad
    model = model_of(nodes, (1, 2, 6, 6), (1, 3, size, size), w1=first, b1=bias, w2=second, b2=normal(3))
    graph = optimize(import_onnx(model))
    check(graph, model)
    kept = [graph.type(node.inputs[1] or "").shape[:2] for node in graph.nodes if type(node.op).__name__ == "Conv"]
    assert kept == ([(2, 2), (3, 2)] if pad else [(1, 2), (3, 1)])


def test_dead_neurons_and_unread_channels_disappear() -> None:
    first, second, third = normal(4, 2, 1, 1), normal(4, 5), normal(5, 3)
    second[2] = 0  # channel 2 is not read
    second[:, 1] = third[3] = 0  # neuron 1 is constant, neuron 3 not read
    nodes = [
        helper.make_node("Conv", ["x", "w1"], ["a"]),
        helper.make_node("GlobalAveragePool", ["a"], ["p"]),
        helper.make_node("Flatten", ["p"], ["f"]),
        helper.make_node("Gemm", ["f", "w2", "b2"], ["g"]),
        helper.make_node("Relu", ["g"], ["r"]),
        helper.make_node("Gemm", ["r", "w3", "b3"], ["y"]),
    ]
    model = model_of(nodes, (1, 2, 6, 6), (1, 3), w1=first, w2=second, b2=normal(5), w3=third, b3=normal(3))
    graph = optimize(import_onnx(model))
    check(graph, model)
    weights = [graph.type(node.inputs[1] or "").shape for node in graph.nodes if len(node.inputs) > 1]
    assert weights == [(3, 2, 1, 1), (3, 3), (3, 3)]


def test_channels_that_an_output_or_a_sum_needs_stay() -> None:
    weights, other = normal(4, 2, 1, 1), normal(3, 4, 1, 1)
    other[:, 2] = 0
    nodes = [
        helper.make_node("Conv", ["x", "w1"], ["a"]),
        helper.make_node("Conv", ["a", "w2"], ["b"]),
        helper.make_node("Conv", ["x", "w1"], ["c"], pads=[1] * 4),
        helper.make_node("MaxPool", ["c"], ["d"], kernel_shape=[3, 3]),
        helper.make_node("Mul", ["a", "d"], ["e"]),
        helper.make_node("ReduceSum", ["e"], ["f"], keepdims=1),
        helper.make_node("Add", ["b", "f"], ["y"]),
    ]
    model = model_of(nodes, (1, 2, 6, 6), (1, 3, 6, 6), w1=weights, w2=other)
    graph = optimize(import_onnx(model))
    check(graph, model)
    assert all(
        graph.type(node.inputs[1] or "").shape in ((4, 2, 1, 1), (3, 4, 1, 1))
        for node in graph.nodes
        if type(node.op).__name__ == "Conv"
    )
