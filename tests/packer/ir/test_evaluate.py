"""Whole graphs by the references."""

import itertools
import tracemalloc

import numpy as np
import pytest

from packer.ir import DType, Graph, Node, TensorType, Value
from packer.ir.evaluate import evaluate
from packer.ir.ops import Activation, Cast, Conv, MatMul, Pool, Reduce, Reshape, ShapeError, TopK, Unary


def build() -> Graph:
    """A small classifier: convolution, pooling, a matrix product, the two best classes, and a cast back and forth."""
    rng = np.random.default_rng(0)
    nodes = [
        Node(Conv((1, 1), (1,) * 4, (1, 1), 1, Activation("relu")), ("x", "w"), ("a",)),
        Node(Pool("max", (2, 2), (2, 2), (0,) * 4, (1, 1)), ("a",), ("b",)),
        Node(Reduce("mean", (2, 3), False), ("b",), ("c",)),
        Node(Cast(DType.I32), ("c",), ("i",)),
        Node(Cast(DType.F32), ("i",), ("f",)),
        Node(MatMul(), ("c", "m"), ("d",)),
        Node(Reshape((5,)), ("d",), ("e",)),
        Node(TopK(2, 0), ("e",), ("best", "index")),
    ]
    values = {
        "x": Value("x", TensorType(DType.F32, (1, 3, 8, 8))),
        "w": Value.constant("w", rng.normal(size=(4, 3, 3, 3)).astype(np.float32)),
        "m": Value.constant("m", rng.normal(size=(4, 5)).astype(np.float32)),
    }
    for node in nodes:
        types = node.op.infer([values[n].type for n in node.inputs])
        values.update((n, Value(n, t)) for n, t in zip(node.outputs, types, strict=False))
    graph = Graph("g", ("x",), ("best", "index", "f", "x", "m"), tuple(nodes), values)
    graph.validate()
    return graph


def test_float32_and_float64_agree() -> None:
    graph = build()
    x = np.random.default_rng(1).normal(size=(1, 3, 8, 8)).astype(np.float32)
    single, double = evaluate(graph, {"x": x}), evaluate(graph, {"x": x}, np.float64)
    assert tuple(single) == graph.outputs
    assert [single[n].dtype for n in graph.outputs] == [np.float32, np.int64, *[np.float32] * 3]
    assert [double[n].dtype for n in graph.outputs] == [np.float64, np.int64, *[np.float64] * 3]
    for name in graph.outputs:
        np.testing.assert_allclose(single[name], double[name], 1e-5, 1e-5)
    assert np.abs(single["best"] - double["best"]).max() > 0  # computed, not cast at the end
    np.testing.assert_array_equal(single["x"], x)


def test_values_stored_as_halves_are_rounded() -> None:
    graph = build()
    x = np.random.default_rng(1).normal(size=(1, 3, 8, 8)).astype(np.float32)
    exact, found = evaluate(graph, {"x": x}, np.float64), evaluate(graph, {"x": x}, np.float64, {"x", "index"})
    np.testing.assert_array_equal(found["x"], x.astype(np.float16))
    assert (found["x"].dtype, found["index"].dtype) == (np.float64, np.int64)
    assert 0 < np.abs(found["best"] - exact["best"]).max() < 0.01


def test_inputs_are_checked() -> None:
    graph = build()
    with pytest.raises(ShapeError, match=r"expected input 'x', got \['y'\]"):
        evaluate(graph, {"y": np.zeros(1)})
    with pytest.raises(ShapeError, match=r"'x': expected f32\[1,3,8,8\], got float32\[1, 3\]"):
        evaluate(graph, {"x": np.zeros((1, 3), np.float32)})
    with pytest.raises(ShapeError, match="got int32"):
        evaluate(graph, {"x": np.zeros((1, 3, 8, 8), np.int32)})


def test_dead_values_are_freed() -> None:
    """A long chain needs the memory of a few tensors, not of all."""
    kind, count = TensorType(DType.F32, (1 << 20,)), 30
    names = [f"v{i}" for i in range(count + 1)]
    nodes = tuple(Node(Unary("neg"), (a,), (b,)) for a, b in itertools.pairwise(names))
    graph = Graph("chain", ("v0",), (names[-1],), nodes, {n: Value(n, kind) for n in names})
    x = np.ones(kind.shape, np.float32)
    tracemalloc.start()
    evaluate(graph, {"v0": x})
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 5 * kind.bytes
