"""Sums of convolutions of one value become one convolution."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import ModelProto, NodeProto, TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

from packer.importers import import_onnx
from packer.ir import Graph
from packer.ir.evaluate import evaluate
from packer.ir.ops import Conv, MatMul
from packer.passes import optimize
from packer.passes.merge_parallel import merge_parallel

CHANNELS, SIZE = 4, 11
Geometry = dict[str, Any]


class Branches:
    """A network that adds up branches of x."""

    def __init__(self, seed: int = 0) -> None:
        self.random = np.random.default_rng(seed)
        self.nodes: list[NodeProto] = []
        self.weights: list[TensorProto] = []

    def constant(self, *shape: int) -> str:
        self.weights.append(
            numpy_helper.from_array(self.random.standard_normal(shape).astype(np.float32), self.name("w"))
        )
        return self.weights[-1].name

    def name(self, stem: str) -> str:
        return f"{stem}{len(self.nodes)}_{len(self.weights)}"

    def op(self, kind: str, *inputs: str, **attributes: object) -> str:
        self.nodes.append(helper.make_node(kind, inputs, [self.name("t")], **attributes))
        return self.nodes[-1].output[0]

    def conv(self, kernel: tuple[int, int], x: str = "x", bias: bool = True, **geometry: Any) -> str:
        group = geometry.get("group", 1)
        operands = [self.constant(CHANNELS, CHANNELS // group, *kernel)] + ([self.constant(CHANNELS)] if bias else [])
        return self.op("Conv", x, *operands, **geometry)

    def norm(self, x: str) -> str:
        variance = numpy_helper.from_array(self.random.uniform(0.5, 2, CHANNELS).astype(np.float32), self.name("v"))
        self.weights.append(variance)
        parameters = [self.constant(CHANNELS) for _ in range(3)]
        return self.op("BatchNormalization", x, *parameters, variance.name)

    def sum(self, *names: str) -> str:
        y = names[0]
        for name in names[1:]:
            y = self.op("Add", *((y, name) if self.random.random() < 0.5 else (name, y)))
        return y

    def optimized(self, *outputs: str) -> Graph:
        """The graph after all passes, when it computes what it should."""
        network = self.model(*outputs)
        graph = optimize(import_onnx(network))
        x = self.random.standard_normal((2, CHANNELS, SIZE, SIZE)).astype(np.float32)
        wanted = ReferenceEvaluator(network).run(None, {"x": x})
        got = evaluate(graph, {"x": x})
        for name, want in zip(graph.outputs, wanted, strict=True):
            np.testing.assert_allclose(got[name], want, rtol=1e-4, atol=1e-4)
        assert merge_parallel(graph) is graph
        return graph

    def model(self, *outputs: str) -> ModelProto:
        shape = (2, CHANNELS, SIZE, SIZE)
        results = [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in outputs]
        info = helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)
        graph = helper.make_graph(self.nodes, "branches", [info], results, self.weights)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def convs(graph: Graph) -> list[Conv]:
    return [node.op for node in graph.nodes if isinstance(node.op, Conv)]


@pytest.mark.parametrize("group", [1, 2, CHANNELS])
@pytest.mark.parametrize("order", range(3))
def test_a_block_of_repvgg_is_one_convolution(group: int, order: int) -> None:
    b = Branches(order)
    branches = [
        b.norm(b.conv((3, 3), bias=False, pads=[1] * 4, group=group)),
        b.norm(b.conv((1, 1), bias=False, group=group)),
        b.norm("x"),
    ]
    y = b.op("Relu", b.sum(*branches[order:], *branches[:order]))
    graph = b.optimized(y)
    (op,) = convs(graph)
    assert len(graph.nodes) == 1
    assert (op.pads, op.group) == ((1, 1, 1, 1), group)
    assert op.activation is not None


GEOMETRIES: dict[str, tuple[tuple[int, int], Geometry, tuple[int, int], Geometry]] = {
    "strides": ((3, 3), {"strides": [2, 2], "pads": [1] * 4}, (1, 1), {"strides": [2, 2]}),
    "dilations": ((3, 3), {"dilations": [2, 2], "pads": [2] * 4}, (1, 1), {}),
    "same dilations": ((5, 5), {"dilations": [2, 2], "pads": [4] * 4}, (3, 3), {"dilations": [2, 2], "pads": [2] * 4}),
    "a row": ((3, 3), {"pads": [1] * 4}, (1, 3), {"pads": [0, 1, 0, 1]}),
    "to one side": ((2, 2), {"pads": [1, 1, 0, 0]}, (2, 1), {"pads": [1, 0, 0, 0]}),
    "side by side": ((2, 2), {"pads": [1, 1, 0, 0]}, (2, 1), {"pads": [0, 0, 1, 0]}),
    "the same": ((3, 3), {"pads": [1] * 4}, (3, 3), {"pads": [1] * 4}),
}


@pytest.mark.parametrize("name", GEOMETRIES)
def test_geometries(name: str) -> None:
    first, a, second, c = GEOMETRIES[name]
    b = Branches(1)
    graph = b.optimized(b.sum(b.conv(first, **a), b.conv(second, bias=False, **c)))
    assert len(graph.nodes) == 1


def test_sums_that_stay() -> None:
    def left(*kernels: tuple[tuple[int, int], Geometry], also: bool = False, x: str | None = None) -> int:
        b = Branches(2)
        other = "x" if x is None else b.op(x, "x")
        made = [b.conv(kernel, other if i else "x", **geometry) for i, (kernel, geometry) in enumerate(kernels)]
        return len(convs(b.optimized(b.sum(*made), *(made[:1] if also else []))))

    same = {"pads": [1] * 4}
    assert left(((3, 3), same), ((1, 1), {})) == 1
    assert left(((3, 3), same), ((1, 1), {}), also=True) == 2
    assert left(((3, 3), same), ((1, 1), {}), x="Relu") == 2
    assert left(((3, 3), same), ((1, 1), {"group": 2})) == 2
    assert left(((1, 5), {"pads": [0, 2, 0, 2]}), ((5, 1), {"pads": [2, 0, 2, 0]})) == 2
    dilated = {"pads": [2] * 4, "dilations": [2, 2]}
    assert left(((3, 3), same), ((3, 3), dilated)) == 2


def test_a_sum_that_repeats_one_branch_stays() -> None:
    b = Branches(3)
    whole = b.conv((3, 3), pads=[1] * 4)
    one = b.conv((SIZE, SIZE))
    graph = b.optimized(b.sum(whole, one))
    assert len(convs(graph)) == 1
    assert sum(isinstance(node.op, MatMul) for node in graph.nodes) == 1, "the convolution of one position"


def test_functions_stay_between() -> None:
    b = Branches(4)
    inner = b.op("Relu", b.sum(b.conv((3, 3), pads=[1] * 4), b.conv((1, 1))))
    graph = b.optimized(b.sum(inner, b.conv((1, 1))))
    assert len(convs(graph)) == 2


@pytest.mark.parametrize("seed", range(25))
def test_random_branches(seed: int) -> None:
    """Any number of branches of any kernels, which agree in what they make."""
    b = Branches(seed)
    strides = [int(n) for n in b.random.integers(1, 3, 2)]
    group = int(b.random.choice([1, 2, CHANNELS]))
    branches = []
    for _ in range(int(b.random.integers(2, 6))):
        kernel = [int(n) for n in b.random.integers(1, 5, 2)]
        dilations = [int(n) for n in b.random.integers(1, 3, 2)]
        begins = [int(b.random.integers(0, d * (k - 1) + 1)) for k, d in zip(kernel, dilations, strict=True)]
        ends = [d * (k - 1) - n for k, d, n in zip(kernel, dilations, begins, strict=True)]
        geometry = {"strides": strides, "dilations": dilations, "pads": begins + ends, "group": group}
        branches.append(b.conv((kernel[0], kernel[1]), bias=bool(b.random.random() < 0.5), **geometry))
    if strides == [1, 1] and b.random.random() < 0.5:
        branches.append(b.norm("x"))
    b.optimized(b.sum(*branches))
