"""float_products: devices, which have no products of bytes, get products of floats."""

from __future__ import annotations

import numpy as np
import pytest

from packer.ir import DType, Graph
from packer.ir.evaluate import evaluate
from packer.ir.ops import (
    Activation,
    Conv,
    DequantizeLinear,
    DynamicLevels,
    IntegerConv,
    IntegerMatMul,
    MatMul,
    Op,
    QuantizeLinear,
)
from packer.passes.float_products import float_products
from packer.planner import prepared
from targets.base import resolve
from tests.packer.passes.test_recognise_quantized import Sketch


def product(sketch: Sketch, op: Op, *shape: int) -> str:
    """Of x and weights of this shape, its output channels being the first dimension, or the last of a matrix."""
    filters = shape[0] if len(shape) > 2 else shape[-1]
    numbers = sketch.rng.uniform(0.001, 0.01, filters)
    operands = (
        sketch.constant(sketch.rng.integers(-99, 100, shape), np.int8), sketch.constant(120, np.uint8),
        sketch.constant(0.02, np.float32), sketch.constant(numbers, np.float32),
        sketch.constant(numbers - 0.005, np.float32),
    )  # fmt: skip
    return sketch.add(op, "x", *operands)


def check(graph: Graph, kinds: tuple[type[Op], ...]) -> None:
    """The same floats but for rounding, on every target by what it can do."""
    after = float_products(graph)
    after.validate()
    assert [type(node.op) for node in after.nodes] == list(kinds)
    x = np.random.default_rng(2).integers(0, 256, graph.type("x").shape).astype(np.uint8)
    (want,), (got,) = (evaluate(g, {"x": x}).values() for g in (graph, after))
    np.testing.assert_allclose(got, want, rtol=0, atol=1e-5 * np.abs(want).max())
    assert [type(node.op) for node in prepared(graph, resolve("jetson")).nodes] == list(kinds)
    assert prepared(graph, resolve("cpu")).nodes == graph.nodes


@pytest.mark.parametrize("group", [1, 16])
def test_convolutions(group: int) -> None:
    s = Sketch()
    op = IntegerConv((2, 1), (1, 0, 1, 1), (1, 1), group, Activation("relu"))
    check(s.graph(product(s, op, 32 if group == 1 else 16, 16 // group, 3, 3)), (DequantizeLinear, Conv))


def test_matrix_products() -> None:
    s = Sketch((3, 20))
    check(s.graph(product(s, IntegerMatMul(), 20, 7)), (DequantizeLinear, MatMul))


def test_levels_that_are_found_at_run_time_stay() -> None:
    s = Sketch((3, 20), DType.F32)
    scale = s.add(DynamicLevels(), "x")
    zero = s.constant(0, np.uint8)
    levels = s.add(QuantizeLinear(0), "x", scale, zero)
    numbers = s.constant(np.ones(7), np.float32)
    w = s.constant(s.rng.integers(-99, 100, (20, 7)), np.int8)
    graph = s.graph(s.add(IntegerMatMul(), levels, w, zero, scale, numbers, numbers))
    assert float_products(graph) is graph
