"""Concats read what has been joined before, and whole values instead of all their slices."""

from __future__ import annotations

import numpy as np
import pytest

from packer.ir import DType, Graph, Node, TensorType, Value
from packer.ir.evaluate import evaluate
from packer.ir.ops import Concat, Slice
from packer.passes.nest_concats import nest_concats


def graph_of(nodes: list[Node], outputs: tuple[str, ...]) -> Graph:
    values = {name: Value(name, TensorType(DType.F32, (2, 4, 3))) for name in "xyz"}
    for node in nodes:
        (type,) = node.op.infer([values[name or ""].type for name in node.inputs])
        values[node.outputs[0]] = Value(node.outputs[0], type)
    graph = Graph("g", ("x", "y", "z"), outputs, tuple(nodes), values)
    graph.validate()
    return graph


def nested(graph: Graph) -> dict[str, tuple[str | None, ...]]:
    """What each concat reads afterwards; it computes the same."""
    after = nest_concats(graph)
    after.validate()
    inputs = {name: np.random.default_rng(i).random((2, 4, 3), np.float32) for i, name in enumerate("xyz")}
    want, got = evaluate(graph, inputs), evaluate(after, inputs)
    assert all(np.array_equal(got[name], want[name]) for name in graph.outputs)
    assert nest_concats(after) is after
    return {node.outputs[0]: node.inputs for node in after.nodes if isinstance(node.op, Concat)}


def join(name: str, *inputs: str, axis: int = 1) -> Node:
    return Node(Concat(axis), inputs, (name,))


def cut(name: str, x: str, begin: int, end: int, step: int = 1) -> Node:
    return Node(Slice((0, begin, 0), (1, step, 1), (2, (end - begin) // step, 3)), (x,), (name,))


def test_earlier_concats_are_read() -> None:
    graph = graph_of(
        [join("a", "x", "y"), join("b", "x", "y", "z"), join("c", "z", "x", "y", "z", "x")], ("a", "b", "c")
    )
    assert nested(graph) == {"a": ("x", "y"), "b": ("a", "z"), "c": ("z", "b", "x")}


def test_not_along_another_axis() -> None:
    graph = graph_of([join("a", "x", "y", axis=2), join("b", "x", "y", "z")], ("a", "b"))
    assert nested(graph)["b"] == ("x", "y", "z")


def test_all_slices_of_a_value_are_the_value() -> None:
    graph = graph_of([cut("l", "x", 0, 1), cut("r", "x", 1, 4), join("a", "y", "l", "r", "z")], ("a", "r"))
    assert nested(graph) == {"a": ("y", "x", "z")}


@pytest.mark.parametrize(
    "nodes",
    [
        [cut("l", "x", 0, 1), cut("r", "x", 1, 4), join("a", "r", "l", "z")],
        [cut("l", "x", 0, 1), cut("r", "x", 2, 4), join("a", "l", "r", "z")],
        [cut("l", "x", 0, 1), cut("r", "y", 1, 4), join("a", "l", "r", "z")],
        [cut("l", "x", 0, 4, 2), cut("r", "x", 2, 4), join("a", "l", "r", "z")],
    ],
    ids=["order", "gap", "another", "step"],
)
def test_slices_that_are_not_all_of_it(nodes: list[Node]) -> None:
    assert nested(graph_of(nodes, ("a",)))["a"] == nodes[-1].inputs
