"""Cuts know in how many cache lines of a planar output cores meet, and choices pay for them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from packer.ir import DType, Graph, Node, TensorType, Value
from packer.ir.ops import Conv, Unary
from packer.planner.choices import choices_of
from packer.planner.costs import Costs
from packer.planner.cuts import Cut, Cuts
from packer.planner.split import Piece, Split, splits
from targets.base import Layout, Target, block_grain, resolve
from targets.machine import Machine

TARGET = resolve("cpu").on(Machine.load("zen4-server"))


def relu(*shape: int) -> Graph:
    values = {name: Value(name, TensorType(DType.F32, shape)) for name in "xy"}
    return Graph("g", ("x",), ("y",), (Node(Unary("relu"), ("x",), ("y",)),), values)


def conv(channels: int, group: int) -> Graph:
    x = TensorType(DType.F32, (1, channels, 56, 64))
    w = np.ones((channels, channels // group, 3, 3), np.float32)
    values = {"x": Value("x", x), "y": Value("y", x), "w": Value("w", TensorType(DType.F32, w.shape), w)}
    node = Node(Conv((1, 1), (1, 1, 1, 1), (1, 1), group), ("x", "w"), ("y",))
    return Graph("g", ("x",), ("y",), (node,), values)


def cut(graph: Graph, cores: int, name: str) -> Cut:
    (node,), type = graph.nodes, graph.type("y")
    speeds = (1.0,) * cores
    dependence = node.op.dependence([type])
    (split,) = (s for s in splits(type, dependence, speeds, block_grain(type.rank)) if s.name == name)
    return Cuts(graph, Costs(TARGET.on(TARGET.machine.sized(cores))), speeds).cut(node, split)


@pytest.mark.parametrize(
    ("shape", "cores", "name", "lines"),
    [
        ((1, 96, 14, 14), 1, "none", 0),
        ((1, 96, 14, 14), 2, "H2", 96),  # 7 rows of 56 bytes end within a line
        ((1, 96, 15, 15), 3, "H3", 2 * 96),  # the core in the middle has neighbours on both sides
        ((1, 96, 16, 16), 2, "H2", 0),
        ((1, 96, 16, 14), 2, "H2", 0),  # 448 bytes
        ((1, 96, 16, 15), 2, "H2", 96),  # halves are whole lines, planes are not
        ((1, 96, 14, 14), 2, "C2", 0),
    ],
)
def test_lines_of_two_cores(shape: tuple[int, ...], cores: int, name: str, lines: int) -> None:
    assert cut(relu(*shape), cores, name).met == lines


@pytest.mark.parametrize(
    ("shape", "cores", "name", "lines"),
    [
        ((1, 96, 14, 14), 1, "none", 0),
        ((1, 96, 14, 16), 2, "H2", 96 * 1),  # a seventh of 7 lines
        ((1, 96, 21, 16), 3, "H3", 2 * 96 * 1),
        ((1, 96, 28, 32), 2, "H2", 96 * 4),
        ((1, 96, 112, 112), 2, "H2", 96 * 8),  # not more than that
        ((1, 96, 112, 112), 2, "C2", 8),  # one run
        ((50, 14, 224), 2, "W2", 50 * 14 * 1),  # 7 lines of each row
    ],
)
def test_lines_that_are_fetched_ahead(shape: tuple[int, ...], cores: int, name: str, lines: float) -> None:
    assert cut(relu(*shape), cores, name).ahead == pytest.approx(lines)


def test_who_goes_through_planes_pays_for_them() -> None:
    """Pointwise and depthwise operators do, by what a line takes; other convolutions have a tile of all channels."""
    two = TARGET.on(TARGET.machine.sized(2))
    free = two.on(replace(two.machine, transfer_seconds=0.0))

    def seconds(graph: Graph, target: Target) -> float:
        (choices,) = choices_of(graph, Costs(target), 2)
        return min(c.seconds for c in choices if c.split.name == "H2" and set(c.form.outputs) == {Layout.PLANAR})

    line = two.machine.transfer_seconds
    for graph, lines in ((relu(1, 64, 56, 64), 64 * 8), (conv(64, 64), 64 * 8), (conv(64, 1), 0)):
        assert seconds(graph, two) - seconds(graph, free) == pytest.approx(0.2 * lines * line, abs=1e-12)


def test_tiles_of_one_core_do_not_meet() -> None:
    graph = relu(1, 96, 14, 14)
    tiles = [
        Piece(i // 2, ((0, 1), (0, 96), span, (0, 14))) for i, span in enumerate([(0, 3), (3, 7), (7, 9), (9, 14)])
    ]
    costs = Costs(TARGET.on(TARGET.machine.sized(2)))
    assert Cuts(graph, costs, (1.0, 1.0)).cut(graph.nodes[0], Split("H2/2", tuple(tiles))).met == 96


def test_planar_rows_pay_for_them() -> None:
    """As much work in rows that end between lines, or in blocks of channels, takes less time."""
    costs = Costs(TARGET.on(TARGET.machine.sized(2)))

    def seconds(width: int, layout: Layout) -> float:
        (choices,) = choices_of(relu(1, 512, 16, width), costs, 2)
        return min(c.seconds for c in choices if c.split.name == "H2" and c.form.outputs[0] is layout)

    assert seconds(15, Layout.PLANAR) > 1.1 * seconds(16, Layout.PLANAR)
    assert seconds(15, Layout.BLOCK16) < seconds(16, Layout.BLOCK16)
