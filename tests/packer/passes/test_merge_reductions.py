"""Reductions of reductions fold over all their axes at once."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import ModelProto, TensorProto, helper
from onnx.reference import ReferenceEvaluator

from packer.importers import import_onnx
from packer.ir.evaluate import evaluate
from packer.ir.ops import Op, Reduce
from packer.passes import optimize

SHAPE = (2, 3, 4, 5)


def model(*nodes: tuple[str, list[int], int], dtype: int = TensorProto.FLOAT, also: bool = False) -> ModelProto:
    """The reductions one after the other, given with axes and keepdims; `also`: the first one is an output too."""
    names = ["x", *(f"t{i}" for i in range(len(nodes)))]
    outputs = [names[-1], *(["t0"] if also else [])]
    graph = helper.make_graph(
        [
            helper.make_node(f"Reduce{kind}", [x], [y], axes=axes, keepdims=keepdims)
            for (kind, axes, keepdims), x, y in zip(nodes, names, names[1:], strict=False)
        ],
        "reductions",
        [helper.make_tensor_value_info("x", dtype, SHAPE)],
        [helper.make_tensor_value_info(name, dtype, None) for name in outputs],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 11)], ir_version=8)


def ops(network: ModelProto) -> list[Op]:
    """The operators left, when they compute what they should."""
    graph = optimize(import_onnx(network))
    integer = network.graph.input[0].type.tensor_type.elem_type == TensorProto.INT32
    x = np.random.default_rng(4).normal(0, 4, SHAPE).astype(np.int32 if integer else np.float32)
    wanted = ReferenceEvaluator(network).run(None, {"x": x})
    got = evaluate(graph, {"x": x})
    for name, want in zip(graph.outputs, wanted, strict=True):
        np.testing.assert_allclose(got[name], want, rtol=1e-5, atol=1e-6)
    return [node.op for node in graph.nodes]


@pytest.mark.parametrize("kind", ["Mean", "Sum", "Prod", "Max", "Min"])
def test_merged(kind: str) -> None:
    name = kind.lower()
    assert ops(model((kind, [3], 1), (kind, [2], 1))) == [Reduce(name, (2, 3))]
    assert ops(model((kind, [3], 0), (kind, [2], 0))) == [Reduce(name, (2, 3), keepdims=False)]
    assert ops(model((kind, [1], 0), (kind, [0, 2], 0))) == [Reduce(name, (0, 1, 3), keepdims=False)]
    assert ops(model((kind, [0], 0), (kind, [0], 0), (kind, [0], 0))) == [Reduce(name, (0, 1, 2), keepdims=False)]
    assert ops(model((kind, [1, 3], 1), (kind, [1, 2], 1))) == [Reduce(name, (1, 2, 3))]


def test_not_merged() -> None:
    assert len(ops(model(("Mean", [3], 1), ("Sum", [2], 1)))) == 2
    assert len(ops(model(("Mean", [3], 1), ("Mean", [2], 0)))) == 2
    assert len(ops(model(("L2", [3], 1), ("L2", [2], 1)))) == 2
    assert len(ops(model(("Max", [3], 1), ("Max", [2], 1), also=True))) == 2


def test_integers() -> None:
    assert len(ops(model(("Sum", [3], 1), ("Sum", [2], 1), dtype=TensorProto.INT32))) == 1
