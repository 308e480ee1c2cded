"""ReLUs with slopes, spelled out, become one operator."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import NodeProto, TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

from packer.importers import import_onnx
from packer.ir import Graph
from packer.ir.evaluate import evaluate
from packer.ir.ops import Activation, Binary, Op, Unary
from packer.passes import optimize
from packer.passes.recognise_leaky import recognise_leaky

SHAPE = (2, 3, 4, 5)
rng = np.random.default_rng(4)
NUMBERS = {
    "zero": np.float32(0),
    "half": np.float32(0.5),
    "two": np.float32(2),
    "tenth": np.float32(0.1),
    "minus": np.float32(-0.25),
    "slopes": rng.random((3, 1, 1), np.float32),
    "falling": -rng.random((1, 3, 1, 1), np.float32),
    "infinite": np.float32(np.inf),
    "same": np.full((3, 1, 1), 0.1, np.float32),
}


def optimized(nodes: list[NodeProto], outputs: tuple[str, ...] = ("y",)) -> Graph:
    """The graph after all passes, when it computes what it should."""
    tensors = [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in outputs]
    graph = helper.make_graph(
        nodes,
        "leaky",
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, SHAPE) for name in "xz"],
        tensors,
        [numpy_helper.from_array(np.asarray(data), name) for name, data in NUMBERS.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    found = optimize(import_onnx(model))
    inputs = {name: rng.standard_normal(SHAPE).astype(np.float32) for name in "xz"}
    for name, want in zip(outputs, ReferenceEvaluator(model).run(None, inputs), strict=True):
        np.testing.assert_allclose(evaluate(found, inputs)[name], want, rtol=1e-6, atol=0)
    assert recognise_leaky(found) is found
    return found


def node(kind: str, inputs: str, output: str = "y") -> NodeProto:
    return helper.make_node(kind, inputs.split(), [output])


UP = [node("Relu", "x", "r")]
DOWN = [node("Neg", "x", "n"), node("Relu", "n", "d")]  # -x where x is negative
HALF = [node("Abs", "x", "a"), node("Sub", "x a", "b"), node("Mul", "b half", "h")]  # x where x is negative
SPELLED: dict[str, tuple[list[NodeProto], Op]] = {
    "a maximum": ([node("Mul", "x tenth", "s"), node("Max", "s x")], Unary("leaky_relu", float(np.float32(0.1)))),
    "a minimum": ([node("Mul", "two x", "s"), node("Min", "x s")], Unary("leaky_relu", 2.0)),
    "two ReLUs": ([*UP, *DOWN, node("Mul", "d minus", "s"), node("Add", "r s")], Unary("leaky_relu", 0.25)),
    "a difference": ([*UP, *DOWN, node("Mul", "slopes d", "s"), node("Sub", "r s")], Binary("prelu")),
    "channels": ([*UP, *DOWN, node("Mul", "falling d", "s"), node("Add", "s r")], Binary("prelu")),
    "magnitudes": ([*UP, *HALF, node("Mul", "h slopes", "s"), node("Add", "r s")], Binary("prelu")),
    "half of two": (
        [node("Abs", "x", "a"), node("Add", "a x", "b"), node("Div", "b two")], Unary("relu")
    ),
    "what is below": (
        [*UP, node("Min", "x zero", "m"), node("Mul", "m tenth", "s"), node("Add", "r s")],
        Unary("leaky_relu", float(np.float32(0.1))),
    ),
    "one slope": ([node("PRelu", "x same")], Unary("leaky_relu", float(np.float32(0.1)))),
    "no slope": ([node("PRelu", "x zero")], Unary("relu")),
    "slopes": ([node("PRelu", "x slopes")], Binary("prelu")),
    "twice": (
        [node("PRelu", "x tenth", "p"), node("PRelu", "p half")], Unary("leaky_relu", float(np.float32(0.05)))
    ),
    "the rest": ([node("Min", "x zero", "m"), node("Sub", "x m")], Unary("relu")),
}  # fmt: skip


@pytest.mark.parametrize("name", SPELLED)
def test_spelled(name: str) -> None:
    nodes, op = SPELLED[name]
    (found,) = optimized(nodes).nodes
    assert found.op == op
    assert found.inputs[0] == "x"


@pytest.mark.parametrize(
    "nodes",
    [
        [*UP, *DOWN, node("Add", "r d")],  # |x| is no ReLU, but for its slope
        [*UP, *HALF, node("Mul", "h minus", "s"), node("Sub", "r s")],
    ],
)
def test_any_slope(nodes: list[NodeProto]) -> None:
    (found,) = optimized(nodes).nodes
    assert isinstance(found.op, Unary)
    assert found.op.kind == "leaky_relu"


@pytest.mark.parametrize(
    "nodes",
    [
        [node("Mul", "x tenth", "s"), node("Max", "s z")],  # of another value
        [node("Mul", "x two", "s"), node("Add", "s x")],  # not x where it is positive
        [*UP, node("Mul", "r infinite", "s"), node("Max", "x s")],
        [*UP, node("Add", "x half", "s"), node("Max", "r s")],
    ],
)
def test_what_is_no_leaky_relu(nodes: list[NodeProto]) -> None:
    assert len(optimized(nodes).nodes) == len(nodes)


def test_a_scale_before_is_no_part_of_it() -> None:
    nodes = [node("Mul", "x two", "v"), node("Mul", "v tenth", "s"), node("Max", "v s", "m"), node("Mul", "m z")]
    scaled, product = optimized(nodes).nodes
    assert scaled.op == Binary("mul", Activation("leaky_relu", float(np.float32(0.1))))
    assert product.op == Binary("mul")


def test_pieces_that_others_read_stay() -> None:
    nodes = [*UP, *DOWN, node("Mul", "d minus", "s"), node("Add", "r s"), node("Sigmoid", "d", "v")]
    assert len(optimized(nodes, ("y", "v")).nodes) == len(nodes)
