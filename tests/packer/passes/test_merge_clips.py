"""Limits that follow each other become one clip or relu."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import ModelProto, TensorProto, helper
from onnx.reference import ReferenceEvaluator

from packer.importers import import_onnx
from packer.ir.evaluate import evaluate
from packer.ir.ops import Unary
from packer.passes import optimize
from packer.passes.merge_clips import merge_clips
from tests.packer.passes.expressions import Expression, Tape, Term

SHAPE = (2, 5, 4)
INF = float("inf")


def top(x: Term, *others: float | np.ndarray) -> Term:
    return x.tape.node("Max", x.name, *(x.tape.number(other).name for other in others))


def bottom(x: Term, *others: float | np.ndarray) -> Term:
    return x.tape.node("Min", x.name, *(x.tape.number(other).name for other in others))


def relu(x: Term) -> Term:
    return x.tape.node("Relu", x.name)


def swapped(x: Term, value: float) -> Term:
    return x.tape.node("Max", x.tape.number(value).name, x.name)


FORMS: dict[str, tuple[Expression, Unary]] = {
    "relu6": (lambda x: bottom(top(x, 0), 6), Unary("clip", 0, 6)),
    "relu6 from above": (lambda x: top(bottom(x, 6), 0), Unary("clip", 0, 6)),
    "relu6 of a relu": (lambda x: bottom(relu(x), 6), Unary("clip", 0, 6)),
    "relu": (lambda x: top(x, 0), Unary("relu")),
    "the other operand": (lambda x: swapped(x, 0), Unary("relu")),
    "one limit": (lambda x: bottom(x, 1.5), Unary("clip", -INF, 1.5)),
    "several operands": (lambda x: bottom(x, 1.5, 0.5), Unary("clip", -INF, 0.5)),
    "narrower": (lambda x: bottom(top(bottom(top(x, -1), 2), -2), 0.5), Unary("clip", -1, 0.5)),
    "all the same": (lambda x: bottom(top(x, 3), 1), Unary("clip", 1, 1)),
    "twice": (lambda x: relu(relu(x)), Unary("relu")),
}


def model(expression: Expression, also: str | None = None) -> ModelProto:
    tape = Tape()
    outputs = [expression(Term(tape, "x")).name] + ([also] if also else [])
    graph = helper.make_graph(
        tape.nodes,
        "limits",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, SHAPE)],
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in outputs],
        tape.constants,
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def ops(network: ModelProto) -> list[object]:
    """The operators left, when they compute what they should."""
    graph = optimize(import_onnx(network))
    x = np.random.default_rng(3).normal(0, 4, SHAPE).astype(np.float32)
    x.reshape(-1)[:3] = np.nan, np.inf, -np.inf
    wanted = ReferenceEvaluator(network).run(None, {"x": x})
    got = evaluate(graph, {"x": x})
    for name, want in zip(graph.outputs, wanted, strict=True):
        np.testing.assert_array_equal(got[name], want)
    assert merge_clips(graph) is graph
    return [node.op for node in graph.nodes]


@pytest.mark.parametrize("form", FORMS)
def test_forms(form: str) -> None:
    expression, op = FORMS[form]
    assert ops(model(expression)) == [op]


def test_what_others_read_stays() -> None:
    assert ops(model(lambda x: bottom(top(x, -1), 2), also="t0")) == [
        Unary("clip", -1, INF),
        Unary("clip", -INF, 2),
    ]


@pytest.mark.parametrize("limit", [np.arange(4), np.full((5, 1), 2.0), np.zeros((1, 1, 1, 1)), np.nan])
def test_what_is_no_limit(limit: np.ndarray) -> None:
    (op,) = ops(model(lambda x: top(x, np.asarray(limit))))
    assert not isinstance(op, Unary)


def test_limits_the_wrong_way_round() -> None:
    """A clip whose low limit is above the high one gives the high one, and is left as it is."""
    network = model(lambda x: x.tape.node("Clip", relu(x).name, x.tape.number(3.0).name, x.tape.number(1.0).name))
    assert ops(network) == [Unary("relu"), Unary("clip", 3, 1)]
