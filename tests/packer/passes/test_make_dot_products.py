"""A row times a transposed matrix is made of dot products."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from onnx import ModelProto, TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

from packer.importers import import_onnx
from packer.ir.evaluate import evaluate
from packer.ir.ops import MatMul, Transpose
from packer.passes import optimize
from packer.passes.make_dot_products import make_dot_products


def model(
    a: Sequence[int], b: Sequence[int], perm: Sequence[int], bias: Sequence[int] | None, also: bool
) -> ModelProto:
    """relu(a @ transpose(b) + bias); `also`: what is transposed is an output, too."""
    nodes = [
        helper.make_node("Transpose", ["b"], ["t"], perm=perm),
        helper.make_node("MatMul", ["a", "t"], ["m"]),
        *([] if bias is None else [helper.make_node("Add", ["m", "bias"], ["s"])]),
        helper.make_node("Relu", ["m" if bias is None else "s"], ["y"]),
    ]
    numbers = np.random.default_rng(1).integers(-8, 9, () if bias is None else bias)
    graph = helper.make_graph(
        nodes,
        "dots",
        [helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in (("a", a), ("b", b))],
        [helper.make_tensor_value_info(n, TensorProto.FLOAT, None) for n in (["y", "t"] if also else ["y"])],
        [numpy_helper.from_array(numbers.astype(np.float32), "bias")],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def products(
    a: Sequence[int], b: Sequence[int], perm: Sequence[int], bias: Sequence[int] | None = None, also: bool = False
) -> tuple[int, int]:
    """How many columns the product has, and how many transposes there are, when the graph computes what it should."""
    network, rng = model(a, b, perm, bias, also), np.random.default_rng(0)
    graph = optimize(import_onnx(network))
    inputs = {n: rng.integers(-8, 9, s).astype(np.float32) for n, s in (("a", a), ("b", b))}
    got = evaluate(graph, inputs)
    for name, want in zip(graph.outputs, ReferenceEvaluator(network).run(None, inputs), strict=True):
        np.testing.assert_array_equal(got[name], want)
    assert make_dot_products(graph) is graph
    (product,) = [node for node in graph.nodes if isinstance(node.op, MatMul)]
    return graph.type(product.outputs[0]).shape[-1], sum(isinstance(node.op, Transpose) for node in graph.nodes)


@pytest.mark.parametrize("bias", [None, (), (1,), (20,), (3, 1, 20), (3, 1, 1)])
def test_rows_times_transposed_matrices(bias: Sequence[int] | None) -> None:
    assert products((3, 1, 7), (3, 20, 7), (0, 2, 1), bias) == (1, 0)


def test_batches_are_broadcast() -> None:
    assert products((2, 1, 1, 7), (3, 20, 7), (0, 2, 1)) == (1, 0)
    assert products((1, 7), (2, 3, 20, 7), (0, 1, 3, 2)) == (1, 0)


def test_what_else_is_transposed_remains() -> None:
    assert products((2, 4, 1, 8), (2, 20, 4, 8), (0, 2, 3, 1)) == (1, 1)


def test_others_are_left() -> None:
    assert products((3, 2, 7), (3, 20, 7), (0, 2, 1)) == (20, 1)  # more than one row
    assert products((3, 1, 7), (3, 20, 7), (0, 2, 1), also=True) == (20, 1)  # transposed for others, too
    assert products((20, 1, 3), (3, 20, 7), (1, 0, 2)) == (7, 1)  # rows stay rows
    assert products((7,), (20, 7), (1, 0)) == (20, 1)  # a vector
