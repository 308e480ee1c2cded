"""Rows that each core has to itself: which values can be stored so, what is copied, and that cores share no line."""

from __future__ import annotations

import numpy as np
import pytest

from packer.bundle.model import Place, Program
from packer.ir import DType, Graph, Node, TensorType, Value
from packer.ir.ops import Concat, Conv, Op, Reshape, Slice, Transpose, Unary
from packer.planner import make_plan
from packer.planner.bands import Bands, bandable, row_axis
from packer.planner.costs import Costs
from packer.planner.problem import build
from packer.planner.schedule import schedule
from packer.planner.select import sample
from packer.planner.split import Piece, Split
from targets.base import resolve, stored_bytes
from targets.machine import Machine
from tests.packer.planner.prove import band, prove
from tests.packer.planner.random_bands import random_bands

TARGET = resolve("cpu").on(Machine.load("zen4-server"))


def chain(*ops: Op, shape: tuple[int, ...] = (1, 64, 14, 14)) -> Graph:
    """Operators one after the other."""
    values, nodes = [Value("v0", TensorType(DType.F32, shape))], []
    for i, op in enumerate(ops):
        inputs = [f"v{i}"]
        if isinstance(op, Conv):
            channels = values[-1].type.shape[1]
            kernel = 1 if op.pads == (0, 0, 0, 0) else 3
            weights = np.random.default_rng(i).random((channels, channels // op.group, kernel, kernel)) < 0.2
            inputs.append(f"w{i}")
            values.insert(0, Value.constant(f"w{i}", weights.astype(np.float32)))
        values.append(Value(f"v{i + 1}", op.infer([v.type for name in inputs for v in values if v.name == name])[0]))
        nodes.append(Node(op, tuple(inputs), (f"v{i + 1}",), (f"n{i}",)))
    return Graph("g", ("v0",), (f"v{len(ops)}",), tuple(nodes), {value.name: value for value in values})


POINTWISE, DEPTHWISE = Conv((1, 1), (0, 0, 0, 0), (1, 1)), Conv((1, 1), (1, 1, 1, 1), (1, 1), 64)
SHUFFLE = (Reshape((1, 4, 16, 14, 14)), Transpose((0, 2, 1, 3, 4)), Reshape((1, 64, 14, 14)))


def bands_of(program: Program) -> dict[str, list[int]]:
    """The numbers of the tensors that are bands with memory of their own, by value."""
    found: dict[str, list[int]] = {}
    for number, tensor in enumerate(program.tensors):
        name, rows = band(tensor.name)
        if rows is not None and tensor.root < 0:
            found.setdefault(name, []).append(number)
    return found


@pytest.mark.parametrize("cores", [2, 3])
def test_rows_of_small_planes_lie_apart(cores: int) -> None:
    """Those that another core reads are copied: of what a depthwise kernel reads, shuffled, and nothing else."""
    graph = chain(POINTWISE, *SHUFFLE, DEPTHWISE, POINTWISE, *SHUFFLE, DEPTHWISE, POINTWISE, Unary("relu"))
    plan = make_plan(graph, TARGET, cores)
    assert sum(choice.banded for choice in plan.choices) > 6
    program = plan.program()
    prove(graph, program)
    bands = bands_of(program)
    assert {"v1", "v4", "v5"} <= set(bands)
    halos = [program.tensors[step.outputs[0]] for step in program.steps if step.kernel == "copy" and not step.nodes]
    assert {tensor.name.split(":")[0] for tensor in halos} == {"v3", "v8"}
    assert len(halos) == 2 * 2 * (cores - 1)
    assert all(tensor.type.shape[-2:] == (1, 14) for tensor in halos), "a row each"


def test_each_core_keeps_to_its_part_of_the_arena() -> None:
    program = make_plan(chain(POINTWISE, *SHUFFLE, DEPTHWISE, POINTWISE, Unary("relu")), TARGET, 2).program()
    lines: dict[int, set[int]] = {}
    for step in program.steps:
        for tensor in (program.tensors[number] for number in step.outputs):
            root = program.tensors[tensor.root] if tensor.root >= 0 else tensor
            if ":rows" in root.name and root.place is Place.ARENA:
                end = root.offset + stored_bytes(root.type, root.layout)
                lines.setdefault(step.core, set()).update(range(root.offset // 64, -(-end // 64)))
    assert lines[0]
    assert lines[1]
    assert not lines[0] & lines[1]


@pytest.mark.usefixtures("planes")
@pytest.mark.parametrize("first", [0, 25, *(pytest.param(n, marks=pytest.mark.slow) for n in range(50, 150, 25))])
def test_random_plans(first: int) -> None:
    """Bands of all kinds of operators, joined and seen under other shapes: every element is where it is read."""
    values = copies = 0
    for seed in range(first, first + 25):
        graph, cores = random_bands(seed), 2 + seed % 3
        problem = build(graph, Costs(TARGET.on(TARGET.machine.sized(cores))), cores)
        weights = [np.array([1.0 + 50.0 * choice.banded for choice in own]) for own in problem.choices]
        chosen = sample(problem, np.random.default_rng(seed), weights).chosen
        choices = [own[i] for own, i in zip(problem.choices, chosen, strict=True)]
        program = schedule(graph, problem.costs.target, choices, cores)
        prove(graph, program)
        values += len(bands_of(program))
        copies += sum(step.kernel == "copy" and not step.nodes for step in program.steps)
    assert values > 50
    assert copies > 50


@pytest.mark.parametrize(
    ("op", "can"),
    [
        (Unary("relu"), True),
        (DEPTHWISE, True),
        (Reshape((1, 4, 16, 14, 14)), True),
        (Reshape((1, 64, 7, 28)), False),  # other rows
        (Reshape((64, 14, 14)), False),  # other images
        (Slice((0, 16, 0, 0), (1, 1, 1, 1), (1, 32, 14, 14)), True),
        (Slice((0, 0, 2, 0), (1, 1, 1, 1), (1, 64, 10, 14)), False),
        (Slice((0, 0, 0, 0), (1, 2, 1, 1), (1, 32, 14, 14)), False),
        (Concat(1), True),
        (Concat(2), False),
    ],
    ids=repr,
)
def test_who_reads_bands(op: Op, can: bool) -> None:
    graph = chain(Unary("relu"), op, Unary("relu"))
    first, second, _ = graph.nodes
    assert bandable(graph, first, [second], 2) == can


def test_what_is_not_in_bands() -> None:
    graph = chain(Unary("relu"), Unary("abs"))
    assert not bandable(graph, graph.nodes[1], [], 2), "an output is the caller's"
    reshaped = chain(Reshape((1, 4, 16, 14, 14)), Unary("relu"))
    assert not bandable(reshaped, reshaped.nodes[0], [reshaped.nodes[1]], 3), "nor is another view of an input"
    x = TensorType(DType.F32, (1, 64, 14, 14))
    rows = Split("H2", tuple(Piece(i, ((0, 1), (0, 64), (7 * i, 7 * i + 7), (0, 14))) for i in range(2)))
    channels = Split("C2", tuple(Piece(i, ((0, 1), (32 * i, 32 * i + 32), (0, 14), (0, 14))) for i in range(2)))
    assert row_axis(rows, x) == 2
    assert row_axis(channels, x) == 0
    assert row_axis(rows, TensorType(DType.F32, (2, 64, 14, 14))) == 0
    assert row_axis(Split("none", (Piece(0, rows.pieces[0].box),)), x) == 0


def test_boxes_of_bands() -> None:
    bands = Bands(2, {0: (0, 8), 1: (6, 14)})
    type = TensorType(DType.F32, (1, 64, 14, 10))
    assert bands.type(type, 1).shape == (1, 64, 8, 10)
    assert bands.within(((0, 1), (3, 5), (7, 9), (0, 10)), 1) == ((0, 1), (3, 5), (1, 3), (0, 10))
    assert bands.through(((0, 1), (3, 5), (0, 14), (0, 10)), 1) == ((0, 1), (3, 5), (0, 8), (0, 10))
    assert bands.name("y", 1) == "y:rows6-14"
