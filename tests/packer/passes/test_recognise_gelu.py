"""GELUs in pieces, as exporters write them, become one operator; what is nearly one stays as it is."""

from __future__ import annotations

import math

import numpy as np
import pytest
from onnx import ModelProto, TensorProto, helper
from onnx.reference import ReferenceEvaluator

from packer.importers import import_onnx
from packer.ir import Graph
from packer.ir.evaluate import evaluate
from packer.passes import optimize
from packer.passes.recognise_gelu import recognise_gelu
from tests.packer.passes.expressions import Expression, Tape, Term

SHAPE = (2, 3, 7)
ROOT = math.sqrt(2 / math.pi)


def erf(x: Term) -> Term:
    return x.tape.node("Erf", x.name)


def tanh(x: Term) -> Term:
    return x.tape.node("Tanh", x.name)


def negated(x: Term) -> Term:
    return x.tape.node("Neg", x.name)


def cubic(x: Term) -> Term:
    return ROOT * (x + 0.044715 * (x * (x * x)))


EXACT: dict[str, Expression] = {
    "half last": lambda x: x * (erf(x / math.sqrt(2)) + 1) * 0.5,
    "half first": lambda x: 0.5 * x * (erf(x / math.sqrt(2)) + 1),
    "half of all": lambda x: 0.5 * (x * (erf(x * math.sqrt(0.5)) + 1)),
    "half of the share": lambda x: 0.5 * (1 + erf(x * math.sqrt(0.5))) * x,
    "half within": lambda x: x * (0.5 + 0.5 * erf(x * math.sqrt(0.5))),
    "divided by two": lambda x: (x * (1 + erf(x / math.sqrt(2)))) / 2,
    "rounded constants": lambda x: x * (erf(x / 1.4142135) + 1) * 0.5,
    "the other side": lambda x: 0.5 * x * (1 - erf(negated(x) * 0.70710677)),
}
TANH: dict[str, Expression] = {
    "power": lambda x: 0.5 * x * (1 + tanh(ROOT * (x + 0.044715 * x**3))),
    "products": lambda x: 0.5 * (x * (1 + tanh(cubic(x)))),
    "products from the left": lambda x: 0.5 * (x * (1 + tanh(ROOT * (x + x * 0.044715 * x * x)))),
    "share": lambda x: x * (0.5 * (1 + tanh(cubic(x)))),
    "half last": lambda x: x * (tanh(cubic(x)) + 1) * 0.5,
    "x outside": lambda x: x * 0.5 * (1 + tanh(x * 0.7978845608 * (1 + 0.044715 * x * x))),
    "square": lambda x: x * 0.5 * (1 + tanh(x * ROOT * (1 + 0.044715 * x**2))),
}
NEARLY: dict[str, Expression] = {
    "another divisor": lambda x: x * (erf(x / 1.4142) + 1) * 0.5,
    "another half": lambda x: x * (erf(x / math.sqrt(2)) + 1) * 0.5001,
    "another one": lambda x: x * (erf(x / math.sqrt(2)) + 1.001) * 0.5,
    "no half": lambda x: x * (erf(x / math.sqrt(2)) + 1),
    "one less": lambda x: x * (erf(x / math.sqrt(2)) - 1) * 0.5,
    "the side of minus x": lambda x: x * (1 + erf(negated(x) / math.sqrt(2))) * 0.5,
    "less from one": lambda x: x * (1 - erf(x / math.sqrt(2))) * 0.5,
    "squared": lambda x: x * x * (erf(x / math.sqrt(2)) + 1) * 0.5,
    "share squared": lambda x: x * 0.5 * (erf(x / math.sqrt(2)) * erf(x / math.sqrt(2)) + 1),
    "no erf": lambda x: x * (x / math.sqrt(2) + 1) * 0.5,
    "half of x in erf": lambda x: x * (erf(x * 0.5 / math.sqrt(2)) + 1) * 0.5,
    "another function": lambda x: x * (tanh(x / math.sqrt(2)) + 1) * 0.5,
    "divided by the share": lambda x: x * 0.5 / (erf(x / math.sqrt(2)) + 1),
    "another root": lambda x: 0.5 * x * (1 + tanh(0.7979 * (x + 0.044715 * x**3))),
    "another cube": lambda x: 0.5 * x * (1 + tanh(ROOT * (x + 0.0447 * x**3))),
    "another power": lambda x: 0.5 * x * (1 + tanh(ROOT * (x + 0.044715 * x**2))),
    "no cube": lambda x: 0.5 * x * (1 + tanh(ROOT * x)),
    "a constant for each column": lambda x: x * (erf(x / math.sqrt(2)) + 1) * np.full(SHAPE[-1:], 0.5),
    "one more dimension": lambda x: x * (erf(x / math.sqrt(2)) + 1) * np.full((1, 1, 1, 1), 0.5),
}


def model(expression: Expression, seed: int = 0, also: str | None = None, read: str | None = None) -> ModelProto:
    """y = expression(x); `also` is an output too, `read` is read by another node."""
    tape = Tape(seed)
    outputs = [expression(Term(tape, "x")).name]
    outputs += [also] if also is not None else [tape.node("Neg", read).name] if read is not None else []
    graph = helper.make_graph(
        tape.nodes,
        "gelu",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, SHAPE)],
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in outputs],
        tape.constants,
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def kinds(graph: Graph) -> list[str]:
    return [getattr(node.op, "kind", "") for node in graph.nodes]


def check(graph: Graph, network: ModelProto) -> None:
    graph.validate()
    x = np.random.default_rng(2).normal(0, 3, SHAPE).astype(np.float32)
    x.reshape(-1)[:6] = 0, -0.0, 20, -20, 1e-3, -1e-3
    wanted = ReferenceEvaluator(network).run(None, {"x": x})
    got = evaluate(graph, {"x": x})
    for name, want in zip(graph.outputs, wanted, strict=True):
        np.testing.assert_allclose(got[name], want, rtol=1e-5, atol=5e-6)


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize(
    ("expression", "kind"),
    [*((e, "gelu") for e in EXACT.values()), *((e, "gelu_tanh") for e in TANH.values())],
    ids=[*EXACT, *(f"tanh, {name}" for name in TANH)],
)
def test_forms(expression: Expression, kind: str, seed: int) -> None:
    network = model(expression, seed)
    before = import_onnx(network)
    after = recognise_gelu(before)
    check(after, network)
    assert kinds(after) == [kind]
    assert after.nodes[0].inputs == ("x",)
    assert sorted(after.nodes[0].sources) == sorted(s for node in before.nodes for s in node.sources)
    assert recognise_gelu(after) is after
    assert kinds(optimize(before)) == [kind]


@pytest.mark.filterwarnings("ignore:divide by zero")
@pytest.mark.parametrize("expression", NEARLY.values(), ids=NEARLY)
def test_what_is_none(expression: Expression) -> None:
    network = model(expression)
    before = import_onnx(network)
    assert recognise_gelu(before) is before
    after = optimize(before)
    assert not any("gelu" in kind for kind in kinds(after))
    check(after, network)


@pytest.mark.parametrize("piece", range(4))
def test_pieces_that_others_need_stay(piece: int) -> None:
    name = f"t{piece}"
    for network in (model(EXACT["half last"], also=name), model(EXACT["half last"], read=name)):
        before = import_onnx(network)
        assert before.nodes[piece].outputs == (name,)
        assert recognise_gelu(before) is before
        check(optimize(before), network)


def test_an_operand_of_another_value() -> None:
    def gated(x: Term) -> Term:
        z = negated(x) + 0.25
        return x * (erf(z / math.sqrt(2)) + 1) * 0.5

    before = import_onnx(model(gated))
    assert recognise_gelu(before) is before


def test_one_behind_another() -> None:
    network = model(lambda x: EXACT["half first"](TANH["power"](EXACT["half last"](x) * 3)) * 2)
    after = recognise_gelu(import_onnx(network))
    assert kinds(after) == ["gelu", "mul", "gelu_tanh", "gelu", "mul"]
    check(after, network)


@pytest.mark.parametrize("kind", ["gelu", "gelu_tanh"])
def test_a_layer_takes_it(kind: str) -> None:
    def layer(x: Term) -> Term:
        weights = np.random.default_rng(3).standard_normal((7, 7)).astype(np.float32)
        product = x.tape.node("MatMul", x.name, x.tape.number(weights).name) + np.arange(7, dtype=np.float32)
        return (EXACT["half last"] if kind == "gelu" else TANH["products"])(product)

    network = model(layer)
    after = optimize(import_onnx(network))
    check(after, network)
    (node,) = after.nodes
    assert node.op.activation.kind == kind
