"""A transpose of a reshaped transpose moves elements once."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import pytest
from onnx import ModelProto, TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

from packer.importers import import_onnx
from packer.ir import Graph
from packer.ir.evaluate import evaluate
from packer.ir.ops import Transpose
from packer.passes import optimize
from packer.passes.merge_transposes import merge_transposes

Case = tuple[Sequence[int], Sequence[int], Sequence[int], Sequence[int]]  # shape, transpose, reshape, transpose


def model(case: Case, also: bool = False) -> ModelProto:
    """The case, of sums with 1 so that nothing is moved to the input; `also`: what is reshaped is an output too."""
    shape, first, middle, second = case
    nodes = [
        helper.make_node("Add", ["x", "one"], ["a"]),
        helper.make_node("Transpose", ["a"], ["b"], perm=first),
        helper.make_node("Reshape", ["b", "shape"], ["c"]),
        helper.make_node("Transpose", ["c"], ["y"], perm=second),
    ]
    graph = helper.make_graph(
        nodes,
        "transposes",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info(n, TensorProto.FLOAT, None) for n in (["y", "b"] if also else ["y"])],
        [numpy_helper.from_array(np.array(middle), "shape"), numpy_helper.from_array(np.float32(1), "one")],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def moves(case: Case, also: bool = False) -> int:
    """How many transposes are left, when the graph computes what it should."""
    network = model(case, also)
    graph: Graph = optimize(import_onnx(network))
    x = np.arange(np.prod(case[0]), dtype=np.float32).reshape(case[0])
    wanted = ReferenceEvaluator(network).run(None, {"x": x})
    got = evaluate(graph, {"x": x})
    for name, want in zip(graph.outputs, wanted, strict=True):
        np.testing.assert_array_equal(got[name], want)
    assert merge_transposes(graph) is graph
    return sum(isinstance(node.op, Transpose) for node in graph.nodes)


MERGED: dict[str, Case] = {
    "heads split": ((1, 96, 50), (0, 2, 1), (50, 3, 2, 16), (1, 2, 0, 3)),
    "heads joined": ((4, 3, 49, 32), (0, 2, 1, 3), (196, 96), (1, 0)),
    "runs that stay": ((3, 5, 64), (1, 0, 2), (5, 3, 4, 16), (2, 0, 1, 3)),
    "shapes that share factors": ((6, 20, 16), (1, 0, 2), (40, 3, 16), (1, 0, 2)),
    "ones between": ((1, 32, 1, 18), (0, 3, 2, 1), (18, 1, 2, 16), (2, 1, 0, 3)),
}
LEFT: dict[str, Case] = {
    "short runs of x": ((4, 5, 8), (2, 0, 1), (8, 20), (1, 0)),
    "short runs of y": ((2, 7, 3, 7, 96), (0, 1, 3, 2, 4), (294, 96), (1, 0)),
    "shapes without common factors": ((6, 35), (1, 0), (14, 15), (1, 0)),
}


@pytest.mark.parametrize("name", MERGED)
def test_merged(name: str) -> None:
    assert moves(MERGED[name]) == 1


@pytest.mark.parametrize("name", LEFT)
def test_left(name: str) -> None:
    assert moves(LEFT[name]) == 2


def test_what_others_read_stays() -> None:
    assert moves(MERGED["heads split"], also=True) == 2


@pytest.mark.parametrize("seed", range(40))
def test_random_shapes(seed: int) -> None:
    """Factors of 16 and more, grouped at random on both sides of the reshape."""
    random = np.random.default_rng(seed)
    factors = [int(n) for n in random.choice([1, 2, 3, 16, 17], 5)]

    def grouped() -> list[int]:
        cuts = sorted({0, 5, *(int(n) for n in random.integers(1, 5, 3))})
        return [int(np.prod(factors[a:b])) for a, b in pairwise(cuts)]

    before, after = grouped(), grouped()
    first, second = (random.permutation(len(shape)) for shape in (before, after))
    shape = [before[int(np.flatnonzero(first == axis)[0])] for axis in range(len(before))]
    moves((shape, first.tolist(), after, second.tolist()))
