"""Choices whose condition is constant: those that are always the same become what they choose, others stay."""

from __future__ import annotations

import numpy as np
import pytest

from packer.ir import DType, Graph, Node, TensorType, Value
from packer.ir.evaluate import evaluate
from packer.ir.ops import Expand, Unary, Where
from packer.passes.simplify_movement import simplify_movement

A, B, Y = (3, 4), (1, 4), (2, 3, 4)


def graph(condition: np.ndarray) -> Graph:
    """y = -(condition ? a : b), a and b broadcast."""
    shapes = {"a": A, "b": B, "chosen": np.broadcast_shapes(condition.shape, A, B)}
    shapes["y"] = shapes["chosen"]
    values = {name: Value(name, TensorType(DType.F32, shape)) for name, shape in shapes.items()}
    values["c"] = Value.constant("c", condition)
    nodes = Node(Where(), ("c", "a", "b"), ("chosen",), ()), Node(Unary("neg"), ("chosen",), ("y",), ())
    found = Graph("g", ("a", "b"), ("y",), nodes, values)
    found.validate()
    return found


@pytest.mark.parametrize("chosen", [True, False])
@pytest.mark.parametrize("shape", [(), (4,), Y])
def test_the_same_choice_throughout(shape: tuple[int, ...], chosen: bool) -> None:
    before = graph(np.full(shape, chosen))
    after = simplify_movement(before)
    after.validate()
    inputs = {"a": np.arange(12, dtype=np.float32).reshape(A), "b": np.full(B, -1, np.float32)}
    np.testing.assert_array_equal(evaluate(after, inputs)["y"], evaluate(before, inputs)["y"])
    kinds = [type(node.op) for node in after.nodes]
    assert kinds == ([Unary] if chosen and shape != Y else [Expand, Unary])
    assert simplify_movement(after) is after


@pytest.mark.parametrize("condition", [np.array([True, False, True, True]), np.zeros((0, 3, 4), bool)], ids=str)
def test_choices_that_differ_and_empty_ones_stay(condition: np.ndarray) -> None:
    before = graph(condition)
    assert simplify_movement(before) is before
