"""Small whole powers become products; other powers stay."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import ModelProto, TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

from packer.importers import import_onnx
from packer.ir import Graph
from packer.ir.evaluate import evaluate
from packer.ir.ops import Activation, Binary
from packer.passes import optimize
from packer.passes.multiply_powers import multiply_powers
from tests.packer.passes.expressions import Expression, Tape, Term

SHAPE = (2, 3, 4)


def model(expression: Expression, element: int = TensorProto.FLOAT, also: str | None = None) -> ModelProto:
    tape = Tape(1)
    outputs = [expression(Term(tape, "x")).name] + ([also] if also else [])
    graph = helper.make_graph(
        tape.nodes,
        "powers",
        [helper.make_tensor_value_info("x", element, SHAPE)],
        [helper.make_tensor_value_info(name, element, None) for name in outputs],
        tape.constants,
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def kinds(graph: Graph) -> list[str]:
    return [node.op.kind for node in graph.nodes if isinstance(node.op, Binary)]


@pytest.mark.parametrize(("exponent", "products"), [(2, 1), (3, 2), (4, 2)])
def test_powers_become_products(exponent: int, products: int) -> None:
    network = model(lambda x: x**exponent)
    graph = multiply_powers(import_onnx(network))
    graph.validate()
    assert kinds(graph) == ["mul"] * products
    x = np.random.default_rng(0).standard_normal(SHAPE).astype(np.float32) * 9
    x.flat[:6] = 0.0, -0.0, np.inf, -np.inf, np.nan, 1e30
    with np.errstate(over="ignore", invalid="ignore"):
        expected = ReferenceEvaluator(network).run(None, {"x": x})[0]
        found = evaluate(graph, {"x": x})[graph.outputs[0]]
    np.testing.assert_allclose(found, expected, rtol=2.4e-7)
    assert (np.signbit(found) == np.signbit(expected))[~np.isnan(x)].all()


@pytest.mark.parametrize("exponent", [0, 1, 5, -1, -2, 0.5, 2.5, np.inf, np.nan])
def test_others_stay(exponent: float) -> None:
    assert kinds(multiply_powers(import_onnx(model(lambda x: x**exponent)))) == ["pow"]


def test_exponents_that_differ_stay() -> None:
    assert kinds(multiply_powers(import_onnx(model(lambda x: x ** np.full((4,), 2.0, np.float32))))) == ["pow"]


def test_a_base_that_is_repeated_stays() -> None:
    graph = import_onnx(model(lambda x: x ** np.full((1, 1, 1, 1), 2.0, np.float32)))
    assert kinds(multiply_powers(graph)) == ["pow"]


def test_a_number_to_the_power_of_x_stays() -> None:
    graph = import_onnx(model(lambda x: x.tape.node("Pow", x.tape.number(2.0).name, x.name)))
    assert kinds(multiply_powers(graph)) == ["pow"]


def test_integers_stay() -> None:
    def square(x: Term) -> Term:
        x.tape.constants.append(numpy_helper.from_array(np.array(2, np.int32), "two"))
        return x.tape.node("Pow", x.name, "two")

    assert kinds(multiply_powers(import_onnx(model(square, TensorProto.INT32)))) == ["pow"]


def test_what_others_read_and_what_comes_after() -> None:
    """The square of a square is made once for two readers; what comes behind a power stays behind the product."""
    network = model(lambda x: x.tape.node("Relu", ((x**2) ** 3 - 2).name), also="t1")
    graph = optimize(import_onnx(network))
    assert kinds(graph).count("mul") == 3
    assert "pow" not in kinds(graph)
    x = np.random.default_rng(3).standard_normal(SHAPE).astype(np.float32)
    for name, expected in zip(graph.outputs, ReferenceEvaluator(network).run(None, {"x": x}), strict=True):
        np.testing.assert_allclose(evaluate(graph, {"x": x})[name], expected, rtol=1e-5)


def test_activations_are_kept() -> None:
    graph = import_onnx(model(lambda x: x**3))
    power = graph.nodes[0]
    fused = graph.replaced([type(power)(Binary("pow", Activation("relu")), power.inputs, power.outputs)])
    assert [node.op for node in multiply_powers(fused).nodes] == [Binary("mul"), Binary("mul", Activation("relu"))]
