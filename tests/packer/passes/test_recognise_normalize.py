"""Normalisations in pieces, as exporters write them, become one operator with its scale and shift; what is nearly one
stays as it is."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import ModelProto, TensorProto, helper
from onnx.reference import ReferenceEvaluator

from packer.importers import import_onnx
from packer.ir import Graph
from packer.ir.evaluate import evaluate
from packer.ir.ops import Normalize
from packer.passes import optimize
from packer.passes.merge_duplicates import merge_duplicates
from packer.passes.recognise_normalize import recognise_normalize
from packer.passes.scale_normalized import scale_normalized
from tests.packer.passes.expressions import Expression, Tape, Term

SHAPE = (2, 3, 7)
EPSILON = float(np.float32(1e-3))
SCALE, SHIFT = np.linspace(-1, 2, 7), np.linspace(3, 1, 7)


def mean(x: Term, *axes: int, keepdims: int = 1) -> Term:
    return x.tape.node("ReduceMean", x.name, axes=list(axes or (-1,)), keepdims=keepdims)


def of(kind: str, x: Term) -> Term:
    return x.tape.node(kind, x.name)


def root(d: Term, *axes: int, epsilon: float = EPSILON) -> Term:
    return of("Sqrt", mean(d**2, *axes) + epsilon)


def from_mean(x: Term, *axes: int) -> Term:
    return x - mean(x, *axes)


def over(d: Term, *axes: int) -> Term:
    return d / root(d, *axes)


def by_product(x: Term) -> Term:
    d = from_mean(x)
    return d / of("Sqrt", mean(d * d) + EPSILON)


def by_reciprocal(x: Term) -> Term:
    d = from_mean(x)
    return d * of("Reciprocal", root(d))


FORMS: dict[str, tuple[Expression, Normalize]] = {
    "layer": (lambda x: over(from_mean(x)), Normalize((2,), EPSILON)),
    "difference twice": (lambda x: from_mean(x) / root(from_mean(x)), Normalize((2,), EPSILON)),
    "product": (by_product, Normalize((2,), EPSILON)),
    "reciprocal": (by_reciprocal, Normalize((2,), EPSILON)),
    "other axes": (lambda x: over(from_mean(x, 0, 1), 0, 1), Normalize((0, 1), EPSILON)),
    "root mean square": (lambda x: x / root(x), Normalize((2,), EPSILON, rms=True)),
    "one over the root": (lambda x: x * (x.tape.number(1.0) / root(x)), Normalize((2,), EPSILON, rms=True)),
    "scaled": (lambda x: over(from_mean(x)) * SCALE, Normalize((2,), EPSILON)),
    "shifted": (lambda x: over(from_mean(x)) + SHIFT, Normalize((2,), EPSILON)),
    "scaled and shifted": (lambda x: over(from_mean(x)) * SCALE + SHIFT, Normalize((2,), EPSILON)),
    "scale of more dimensions": (lambda x: x / root(x) * SCALE.reshape(1, 1, 7), Normalize((2,), EPSILON, rms=True)),
}
NEARLY: dict[str, Expression] = {
    "mean over other axes": lambda x: over(from_mean(x, 0), 2) - 1,
    "root of another difference": lambda x: from_mean(x) / root(from_mean(x, 0)),
    "another power": lambda x: from_mean(x) / of("Sqrt", mean(from_mean(x) ** 4) + EPSILON),
    "no epsilon": lambda x: from_mean(x) / of("Sqrt", mean(from_mean(x) ** 2)),
    "no root": lambda x: from_mean(x) / (mean(from_mean(x) ** 2) + EPSILON),
    "turned round": lambda x: root(from_mean(x)) / from_mean(x),
    "an epsilon for each": lambda x: from_mean(x) / of("Sqrt", mean(from_mean(x) ** 2) + np.ones(7)),
    "dropped dimension": lambda x: x / of("Sqrt", mean(x**2, 0, 1, keepdims=0) + EPSILON),
    "two over the root": lambda x: x * (x.tape.number(2.0) / root(x)),
}


def model(expression: Expression, seed: int = 0, also: str | None = None) -> ModelProto:
    """y = expression(x), and the value `also` as another output."""
    tape = Tape(seed)
    outputs = [expression(Term(tape, "x")).name] + ([also] if also else [])
    graph = helper.make_graph(
        tape.nodes,
        "normalize",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, SHAPE)],
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in outputs],
        tape.constants,
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def check(graph: Graph, network: ModelProto) -> None:
    graph.validate()
    x = np.random.default_rng(2).normal(1, 3, SHAPE).astype(np.float32)
    wanted = ReferenceEvaluator(network).run(None, {"x": x})
    got = evaluate(graph, {"x": x})
    for name, want in zip(graph.outputs, wanted, strict=True):
        np.testing.assert_allclose(got[name], want, rtol=1e-5, atol=5e-6)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("form", FORMS)
def test_forms(form: str, seed: int) -> None:
    expression, op = FORMS[form]
    network = model(expression, seed)
    before = import_onnx(network)
    after = optimize(before)
    check(after, network)
    (node,) = after.nodes
    assert node.op == op
    present = [name is not None for name in (*node.inputs[1:], None, None)[:2]]
    assert present == ["scale" in form, "shift" in form]
    sources = {source for node in merge_duplicates(before).nodes for source in node.sources}
    assert sorted(node.sources) == sorted(sources)
    assert recognise_normalize(after) is after
    assert scale_normalized(after) is after


@pytest.mark.parametrize("expression", NEARLY.values(), ids=NEARLY)
def test_what_is_none(expression: Expression) -> None:
    network = model(expression)
    before = import_onnx(network)
    if expression is not NEARLY["mean over other axes"]:  # that one is a root mean square of the differences
        assert recognise_normalize(before) is before
    check(optimize(before), network)


@pytest.mark.parametrize("value", [f"t{i}" for i in range(6)])
def test_values_that_others_read(value: str) -> None:
    """The mean and the difference may be read elsewhere; what comes between makes the operator worth nothing."""
    network = model(lambda x: over(from_mean(x)), also=value)
    graph = optimize(import_onnx(network))
    check(graph, network)
    names = [type(node.op) for node in graph.nodes]
    assert (Normalize in names) == (value in ("t0", "t1"))


@pytest.mark.parametrize("other", [SCALE.reshape(7, 1)[:3], np.full(1, 2.0), np.ones((3, 7)), np.ones((2, 1, 1, 7))])
def test_products_that_are_no_scale(other: np.ndarray) -> None:
    network = model(lambda x: over(from_mean(x)) * other)
    graph = optimize(import_onnx(network))
    check(graph, network)
    assert all(len(node.inputs) == 1 for node in graph.nodes if isinstance(node.op, Normalize))


def test_what_comes_after_scale_and_shift_stays() -> None:
    network = model(lambda x: (over(from_mean(x)) * SCALE + SHIFT) * SHIFT + SCALE)
    graph = optimize(import_onnx(network))
    check(graph, network)
    assert isinstance(graph.nodes[0].op, Normalize)
    assert len(graph.nodes[0].inputs) == 3
    assert len(graph.nodes) > 1
