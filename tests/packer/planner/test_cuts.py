"""Cuts know in how many cache lines of a planar output cores meet, and choices pay for them."""

from __future__ import annotations

import pytest

from packer.ir import DType, Graph, Node, TensorType, Value
from packer.ir.ops import Unary
from packer.planner.choices import choices_of
from packer.planner.costs import Costs
from packer.planner.cuts import Cuts
from packer.planner.split import Piece, Split, splits
from targets.base import Layout, block_grain, resolve

TARGET = resolve("cpu")


def relu(*shape: int) -> Graph:
    values = {name: Value(name, TensorType(DType.F32, shape)) for name in "xy"}
    return Graph("g", ("x",), ("y",), (Node(Unary("relu"), ("x",), ("y",)),), values)


def met(graph: Graph, cores: int, name: str) -> int:
    (node,), type = graph.nodes, graph.type("y")
    speeds = (1.0,) * cores
    dependence = node.op.dependence([type])
    (split,) = (s for s in splits(type, dependence, speeds, block_grain(type.rank)) if s.name == name)
    return Cuts(graph, Costs(TARGET.on(TARGET.machine.sized(cores))), speeds).cut(node, split).met


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
    assert met(relu(*shape), cores, name) == lines


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
