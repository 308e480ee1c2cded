"""Convolutions of bytes by the quads of weights that are not all zero: which there are, where, and of what."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from packer.ir import DType, Graph, Node, TensorType, Value
from packer.ir.ops import QuantizedConv
from targets.base import resolve
from targets.cpu.quantized import words_of

TARGET = resolve("cpu-x86_64-avx512")


def convolution(density: float, group: int = 1, block: int = 1) -> tuple[Graph, Node]:
    """64 filters of 3x3 over 32 channels; blocks of neighbouring channels of a filter are zero together."""
    rng = np.random.default_rng(3)
    shape = (64, 32 // group, 3, 3)
    kept = np.repeat(rng.random((64, shape[1] // block, 3, 3)) < density, block, axis=1)
    w = np.where(kept, rng.integers(1, 100, shape), 0).astype(np.int8)
    op = QuantizedConv((1, 1), (1, 1, 1, 1), (1, 1), group, 3, 110)
    values = [
        Value("x", TensorType(DType.U8, (1, 32, 9, 9))), Value.constant("w", w),
        Value.constant("s", np.ones(64, np.float32)), Value.constant("b", np.zeros(64, np.int32)),
    ]  # fmt: skip
    values.append(Value("y", op.infer([value.type for value in values])[0]))
    node = Node(op, ("x", "w", "s", "b"), ("y",))
    return Graph("g", ("x",), ("y",), (node,), {value.name: value for value in values}), node


def offered(target: str, graph: Graph, node: Node) -> bool:
    return "unrolled" in {form.implementation for form in resolve(target).forms(graph, node)}


def test_quads() -> None:
    w = np.zeros((2, 6, 1, 3), np.int8)
    w[1, 2, 0, 1], w[1, 5, 0, 2] = -1, 3
    words = words_of(w)
    assert words.shape == (2, 2, 1, 3)
    assert {tuple(map(int, place)): int(words[tuple(place)]) for place in np.argwhere(words)} == {
        (1, 0, 0, 1): 0x00FF0000, (1, 1, 0, 2): 0x00000300,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("density", "group", "block", "expected"),
    [
        (0.1, 1, 1, True),
        (0.2, 1, 1, True),
        (0.4, 1, 1, False),
        (0.5, 1, 4, True),
        (0.9, 1, 4, False),
        (0.1, 2, 1, False),
    ],
)
def test_where_they_are_few(density: float, group: int, block: int, expected: bool) -> None:
    assert offered("cpu-x86_64-avx512", *convolution(density, group, block)) == expected


def test_only_where_processors_multiply_bytes() -> None:
    graph, node = convolution(0.1)
    for name in ("cpu-x86_64", "cpu-aarch64", "cpu-jetson-tx2"):
        assert not offered(name, graph, node)
    assert not [f for f in replace(TARGET, vnni=False).forms(graph, node) if f.implementation == "unrolled"]


@pytest.mark.parametrize(("filters", "groups"), [((0, 16), (0, 1)), ((16, 48), (1, 3)), ((32, 64), (2, 4))])
def test_parts_are_whole_groups(filters: tuple[int, int], groups: tuple[int, int]) -> None:
    graph, node = convolution(0.1)
    form = next(form for form in TARGET.forms(graph, node) if form.implementation == "unrolled")
    whole = TARGET.lower(graph, node, form)
    types = [graph.type(name or "") for name in node.inputs]
    step = TARGET.restrict(graph, node, form, whole, node.op.part(((0, 1), filters, (3, 6), (0, 9)), types))
    assert step.kernel == "conv_unrolled_quantized"
    table, bias, scale = step.inputs[4:7]
    assert table is not None
    assert table.box == ((0, 1), groups, (0, 13))
    for operand in (bias, scale):
        assert operand is not None
        assert operand.box == ((0, 1), filters)
