"""Attention, as exporters write it, becomes one operator with the transpositions around it; what is nearly one stays as
it is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pytest
from onnx import ModelProto, TensorProto, helper
from onnx.reference import ReferenceEvaluator

from packer.importers import import_onnx
from packer.ir import Graph
from packer.ir.evaluate import evaluate
from packer.ir.ops import Attention, MatMul, Softmax, Transpose
from packer.passes import optimize
from packer.passes.recognise_attention import recognise_attention
from packer.planner import prepared
from targets.base import resolve
from tests.packer.passes.expressions import Tape, Term

HEADS, ROWS, KEYS, DEPTH, COLUMNS = 3, 9, 11, 4, 5
SHAPES = {"q": (1, ROWS, HEADS, DEPTH), "k": (1, KEYS, HEADS, DEPTH), "v": (1, KEYS, HEADS, COLUMNS)}
SAME, HEADS_FIRST, SWAPPED = (0, 1, 2, 3), (0, 2, 1, 3), (0, 1, 3, 2)
EARLIER = np.tri(ROWS, KEYS) > 0
MASK = np.linspace(-2, 2, ROWS * KEYS).reshape(ROWS, KEYS)


def turned(x: Term, *perm: int) -> Term:
    return x.tape.node("Transpose", x.name, perm=perm)


def product(a: Term, b: Term) -> Term:
    return a.tape.node("MatMul", a.name, b.name)


def softmax(x: Term, axis: int = -1) -> Term:
    return x.tape.node("Softmax", x.name, axis=axis)


Form = Callable[[Term, Term, Term], Term]


def plain(q: Term, k: Term, v: Term, scores: Callable[[Term], Term] = lambda s: s) -> Term:
    raw = product(turned(q, *HEADS_FIRST), turned(k, 0, 2, 3, 1))
    return turned(product(softmax(scores(raw)), turned(v, *HEADS_FIRST)), *HEADS_FIRST)


def columns_first(q: Term, k: Term, v: Term) -> Term:
    """As detectors write it: values in rows times scores in columns."""
    scores = product(turned(q, 0, 2, 1, 3), turned(k, 0, 2, 3, 1))
    return product(turned(v, 0, 2, 3, 1), turned(softmax(scores), *SWAPPED))


def scaled_before(q: Term, k: Term, v: Term) -> Term:
    scores = product(turned(q, *HEADS_FIRST) * 0.5, turned(turned(k, *HEADS_FIRST) / 4.0, *SWAPPED))
    return product(softmax(scores), turned(v, *HEADS_FIRST))


def chosen(scores: Term, below: float, chosen: np.ndarray, filled: bool = False) -> Term:
    """Scores where they are chosen, else a number; or where others are filled with it."""
    tape, number = scores.tape, scores.tape.number(below)
    if filled:
        return tape.node("Where", tape.flags(~chosen).name, number.name, scores.name)
    return tape.node("Where", tape.flags(chosen).name, scores.name, number.name)


def zeroed(x: Term, zero: float = 0.0, at: Term | None = None) -> Term:
    """A softmax without what is no number, as PyTorch's exporter writes it; or without what is none in `at`."""
    s, tape = softmax(x), x.tape
    return tape.node("Where", tape.node("IsNaN", (at or s).name).name, tape.number(zero).name, s.name)


def weighted(q: Term, k: Term, v: Term, weights: Callable[[Term], Term]) -> Term:
    """By weights of scores that a mask of rows without any key is added to."""
    mask = np.where(EARLIER & (np.arange(ROWS)[:, None] != 3), 0.0, -np.inf)
    return product(weights(product(turned(q, *HEADS_FIRST), turned(k, 0, 2, 3, 1)) + mask), turned(v, *HEADS_FIRST))


@dataclass(frozen=True)
class Case:
    form: Form
    scale: float = 1.0
    mask: bool = False
    y_axes: tuple[int, ...] = HEADS_FIRST
    zeroed: bool = False


FORMS = {
    "plain": Case(plain),
    "product": Case(lambda q, k, v: plain(q, k, v, lambda s: s * 0.5), 0.5),
    "quotient": Case(lambda q, k, v: plain(q, k, v, lambda s: s / 4.0), 0.25),
    "mask": Case(lambda q, k, v: plain(q, k, v, lambda s: s + MASK), 1.0, True),
    "product and mask": Case(lambda q, k, v: plain(q, k, v, lambda s: s * 0.5 + MASK), 0.5, True),
    "choice": Case(lambda q, k, v: plain(q, k, v, lambda s: chosen(s, -3.4e38, EARLIER)), 1.0, True),
    "choice of products": Case(lambda q, k, v: plain(q, k, v, lambda s: chosen(s * 0.5, -np.inf, EARLIER)), 0.5, True),
    "filled": Case(lambda q, k, v: plain(q, k, v, lambda s: chosen(s, -1e9, EARLIER, True)), 1.0, True),
    "weights that are no numbers": Case(lambda q, k, v: weighted(q, k, v, zeroed), 1.0, True, SAME, True),
    "rows without a key": Case(lambda q, k, v: weighted(q, k, v, softmax), 1.0, True, SAME),
    "scaled before": Case(scaled_before, 0.125, False, SAME),
    "columns first": Case(columns_first, 1.0, False, SWAPPED),
}
NEARLY: dict[str, Form] = {
    "scaled mask": lambda q, k, v: plain(q, k, v, lambda s: (s + MASK) * 0.5),
    "two masks": lambda q, k, v: plain(q, k, v, lambda s: s + MASK + turned(q, 0, 2, 1, 3).tape.number(MASK[:, :1])),
    "choice of no score": lambda q, k, v: plain(q, k, v, lambda s: chosen(s, -3.4e38, np.tri(ROWS, KEYS, -1) > 0)),
    "choice of smaller scores": lambda q, k, v: plain(q, k, v, lambda s: chosen(s, -100.0, EARLIER)),
    "choice and mask": lambda q, k, v: plain(q, k, v, lambda s: chosen(s + MASK, -3.4e38, EARLIER)),
    "along rows": lambda q, k, v: turned(
        product(softmax(product(turned(q, *HEADS_FIRST), turned(k, 0, 2, 3, 1)), 2), turned(v, *HEADS_FIRST)), *SAME
    ),
    "factor for each": lambda q, k, v: plain(q, k, v, lambda s: s * np.linspace(1, 2, KEYS)),
    "turned quotient": lambda q, k, v: plain(q, k, v, lambda s: s.tape.number(2.0) / s),
    "mask with more batches": lambda q, k, v: plain(q, k, v, lambda s: s + np.ones((2, 1, 1, 1))),
    "constant keys": lambda q, k, v: plain(q, q.tape.number(np.ones((1, KEYS, HEADS, DEPTH))), v),
    "ones for what is no number": lambda q, k, v: weighted(q, k, v, lambda s: zeroed(s, 1.0)),
    "zeros elsewhere": lambda q, k, v: weighted(q, k, v, lambda s: zeroed(s, at=s)),
    "constant values": lambda q, k, v: plain(q, k, q.tape.number(np.ones((1, KEYS, HEADS, COLUMNS)))),
    "scores by themselves": lambda q, k, v: product(
        softmax(s := product(turned(q, *HEADS_FIRST), turned(k, 0, 2, 3, 1))), turned(s, *SWAPPED)
    ),
}


def model(form: Form, shapes: dict[str, tuple[int, ...]] = SHAPES, also: str | None = None) -> ModelProto:
    """y = form(q, k, v), and the value `also` as another output."""
    tape = Tape()
    outputs = [form(*(Term(tape, name) for name in shapes)).name] + ([also] if also else [])
    graph = helper.make_graph(
        tape.nodes,
        "attention",
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in shapes.items()],
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in outputs],
        tape.constants,
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def check(graph: Graph, network: ModelProto) -> None:
    graph.validate()
    rng = np.random.default_rng(2)
    inputs = {name: rng.normal(0, 1, graph.type(name).shape).astype(np.float32) for name in graph.inputs}
    wanted = ReferenceEvaluator(network).run(None, inputs)
    got = evaluate(graph, inputs)
    for name, want in zip(graph.outputs, wanted, strict=True):
        np.testing.assert_allclose(got[name], want, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", FORMS)
def test_forms(name: str) -> None:
    case = FORMS[name]
    network = model(case.form)
    before = optimize(import_onnx(network))
    after = recognise_attention(before)
    check(after, network)
    (node,) = after.nodes
    assert node.op == Attention(case.scale, HEADS_FIRST, HEADS_FIRST, HEADS_FIRST, case.y_axes, case.zeroed)
    assert node.inputs[:3] == ("q", "k", "v")
    assert (len(node.inputs) == 4) == case.mask
    made = {s for node in before.nodes if isinstance(node.op, MatMul | Softmax) for s in node.sources}
    assert made <= set(node.sources)
    assert len(set(node.sources)) == len(node.sources)
    assert recognise_attention(after) is after


@pytest.mark.parametrize("form", NEARLY.values(), ids=NEARLY)
def test_what_is_none(form: Form) -> None:
    network = model(form)
    before = optimize(import_onnx(network))
    assert recognise_attention(before) is before
    check(before, network)


def test_few_rows() -> None:
    """Seven rows are not worth it; a column of the scores as a row is."""
    for rows in (7, 8):
        network = model(plain, {**SHAPES, "q": (1, rows, HEADS, DEPTH)})
        after = recognise_attention(optimize(import_onnx(network)))
        check(after, network)
        assert (len(after.nodes) == 1) == (rows == 8)


@pytest.mark.parametrize("value", range(6))
def test_values_that_others_read(value: int) -> None:
    """Transposed operands may be read elsewhere, scores may not; the product is what the operator gives then."""
    network = model(plain, also=f"t{value}")
    graph = recognise_attention(optimize(import_onnx(network)))
    check(graph, network)
    kinds = [type(node.op) for node in graph.nodes]
    assert (Attention in kinds) == (value not in (2, 3))
    assert kinds.count(Transpose) == (4 if value in (2, 3) else int(value in (0, 1, 4, 5)))


def test_onnx_operator() -> None:
    """ONNX's own operator, of opset 23, is imported as what it is made of."""
    shapes = {"Q": (2, 9, 12), "K": (2, 11, 12), "V": (2, 11, 15)}
    node = helper.make_node("Attention", list(shapes), ["Y"], q_num_heads=3, kv_num_heads=3, is_causal=1)
    inputs = [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in shapes.items()]
    outputs = [helper.make_tensor_value_info("Y", TensorProto.FLOAT, None)]
    graph = helper.make_graph([node], "attention", inputs, outputs)
    network = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 23)], ir_version=10)
    after = recognise_attention(optimize(import_onnx(network)))
    check(after, network)
    assert [type(node.op).__name__ for node in after.nodes if "Reshape" not in str(node.op)] == ["Attention"]


def test_targets() -> None:
    """Processors have the operator; GPUs run what it is made of."""
    graph = optimize(import_onnx(model(plain)))
    assert [type(node.op) for node in prepared(graph, resolve("cpu")).nodes] == [Attention]
    assert prepared(graph, resolve("jetson")) is graph
