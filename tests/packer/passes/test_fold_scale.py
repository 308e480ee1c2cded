"""Scales and shifts of a product's columns become part of its weights and bias; those of its rows do not."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from onnx import ModelProto, TensorProto, helper
from onnx.reference import ReferenceEvaluator

from packer.importers import import_onnx
from packer.ir.evaluate import evaluate
from packer.ir.ops import MatMul
from packer.passes.fold_scale import fold_scale
from tests.packer.passes.expressions import Expression, Tape, Term

SHAPE, COLUMNS = (2, 3, 4), 5
ALONG = np.linspace(1, 3, COLUMNS)
RANDOM = np.random.default_rng(3)
WEIGHTS = RANDOM.standard_normal((SHAPE[-1], COLUMNS))


def model(expression: Expression) -> ModelProto:
    """The expression of x times constant weights."""
    tape = Tape(1)
    product = tape.node("MatMul", "x", tape.number(WEIGHTS).name)
    y = expression(product)
    graph = helper.make_graph(
        tape.nodes,
        "scales",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, SHAPE)],
        [helper.make_tensor_value_info(y.name, TensorProto.FLOAT, None)],
        tape.constants,
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def check(expression: Expression, nodes: int) -> None:
    network = model(expression)
    graph = import_onnx(network)
    while (after := fold_scale(graph)) is not graph:
        graph = after
    graph.validate()
    assert len(graph.nodes) == nodes
    assert isinstance(graph.nodes[0].op, MatMul)
    x = RANDOM.standard_normal(SHAPE).astype(np.float32)
    (want,) = ReferenceEvaluator(network).run(None, {"x": x})
    np.testing.assert_allclose(evaluate(graph, {"x": x})[graph.outputs[0]], want, rtol=1e-5, atol=1e-6)


FOLDED: dict[str, Expression] = {
    "number": lambda y: y * np.full((), 0.5),
    "quotient": lambda y: y / 4.0,
    "along columns": lambda y: y * ALONG,
    "of more dimensions": lambda y: y * ALONG.reshape(1, 1, COLUMNS),
    "shift, then scale": lambda y: (y + ALONG) * ALONG,
    "difference": lambda y: y - ALONG,
}
KEPT: dict[str, Callable[[Term], Term]] = {
    "along rows": lambda y: y * np.array([[1.0], [2.0], [3.0]]),
    "of every element": lambda y: y * np.ones((SHAPE[1], COLUMNS)) * 1.0,
    "turned quotient": lambda y: y.tape.number(2.0) / y,
    "too large": lambda y: y * np.full(COLUMNS, 3e38),
}


@pytest.mark.parametrize("expression", FOLDED.values(), ids=FOLDED)
def test_columns(expression: Expression) -> None:
    check(expression, 1)


@pytest.mark.parametrize("name", KEPT)
def test_others_stay(name: str) -> None:
    graph = import_onnx(model(KEPT[name]))
    assert fold_scale(graph) is graph
