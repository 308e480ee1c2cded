"""Concat and Slice as views: nothing is copied that need not be, and every element is where it was meant to be."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from packer.bundle.model import Place, Program
from packer.importers import import_onnx
from packer.ir import DType, Graph, Node, TensorType, Value
from packer.ir.ops import Binary, Concat, Conv, Gather, Op, Pool, Reshape, Slice, Unary
from packer.passes import optimize
from packer.planner import plan
from packer.planner.costs import Costs
from packer.planner.problem import build
from packer.planner.schedule import schedule
from packer.planner.select import sample
from targets.base import Layout, resolve
from targets.machine import Machine
from tests.packer.planner.prove import prove
from tests.packer.planner.random_views import random_views

TARGET = resolve("cpu").on(Machine.load("zen4-server"))


class Net:
    """A graph under construction."""

    def __init__(self, **inputs: tuple[int, ...]) -> None:
        self.values = {name: Value(name, TensorType(DType.F32, shape)) for name, shape in inputs.items()}
        self.inputs = tuple(inputs)
        self.nodes: list[Node] = []

    def __call__(self, name: str, op: Op, *inputs: str) -> str:
        (type,) = op.infer([self.values[n].type for n in inputs])[:1]
        self.values[name] = Value(name, type)
        self.nodes.append(Node(op, inputs, (name,), (name,)))
        return name

    def conv(self, name: str, x: str, channels: int) -> str:
        weights = np.ones((channels, self.values[x].type.shape[1], 1, 1), np.float32)
        self.values[f"{name}.w"] = Value.constant(f"{name}.w", weights)
        return self(name, Conv((1, 1), (0, 0, 0, 0), (1, 1)), x, f"{name}.w")

    def cut(self, name: str, x: str, axis: int, begin: int, end: int) -> str:
        shape = list(self.values[x].type.shape)
        starts = tuple(begin if i == axis else 0 for i in range(len(shape)))
        shape[axis] = end - begin
        return self(name, Slice(starts, (1,) * len(shape), tuple(shape)), x)

    def graph(self, *outputs: str) -> Graph:
        graph = Graph("g", self.inputs, outputs, tuple(self.nodes), self.values)
        graph.validate()
        return graph


def kernels(graph: Graph, cores: int = 1) -> Counter[str]:
    program = plan(graph, TARGET, cores)
    prove(graph, program)
    return Counter(step.kernel for step in program.steps)


def root(program: Program, name: str) -> str:
    """The value in whose memory a value lies."""
    roots = {program.tensors[t.root].name for t in program.tensors if t.name == name and t.root >= 0}
    return roots.pop() if len(roots) == 1 else name


@pytest.mark.parametrize("cores", [1, 2, 3])
@pytest.mark.parametrize("batch", [1, 2])
def test_nested_concats_are_one_tensor(cores: int, batch: int) -> None:
    net = Net(x=(batch, 16, 12, 12))
    last = net.conv("first", "x", 16)
    for i in range(4):
        new = net.conv(f"new{i}", last, 16)
        last = net(f"join{i}", Concat(1), last, new)
    graph = net.graph(net.conv("y", last, 16))
    program = plan(graph, TARGET, cores)
    prove(graph, program)
    assert {step.kernel for step in program.steps} <= {"conv", "conv_direct", "reorder"}
    assert all(root(program, name) == "join3" for name in ("first", "new0", "new3", "join0", "join2"))


@pytest.mark.parametrize("axis", [0, 1, 2, 3])
def test_any_axis(axis: int) -> None:
    net = Net(x=(2, 16, 6, 5))
    a, b = net.conv("a", "x", 16), net("b", Unary("exp"), "x")
    graph = net.graph(net("y", Concat(axis), a, b))
    assert "concat" not in kernels(graph)


def test_what_cannot_lie_in_the_result_is_copied_alone() -> None:
    net = Net(x=(1, 16, 8, 8))
    net.values["c"] = Value.constant("c", np.ones((1, 16, 8, 8), np.float32))
    a, b = net.conv("a", "x", 16), net.conv("b", "x", 16)
    graph = net.graph(net("y", Concat(1), "x", "c", a, b, a), b)
    program = plan(graph, TARGET)
    prove(graph, program)
    copies = [step for step in program.steps if step.kernel == "concat"]
    assert [[program.tensors[i].name for i in step.inputs] for step in copies] == [["x", "y:constant"], ["b", "a"]]


def test_kernels_without_views_and_other_shapes_are_copied() -> None:
    net = Net(x=(2, 16, 8, 8), i=(2, 16, 8, 8))
    net.values["at"] = Value.constant("at", np.arange(8, dtype=np.int64))
    gathered, reshaped = net("g", Gather(2), "x", "at"), net("r", Reshape((2, 16, 8, 8)), net("e", Unary("exp"), "i"))
    read = net("read", Unary("abs"), "x")  # but read by a kernel that takes no views
    net("z", Gather(3), read, "at")
    graph = net.graph(net("y", Concat(1), gathered, reshaped, read), "z")
    program = plan(graph, TARGET)
    prove(graph, program)
    (copy,) = [step for step in program.steps if step.kernel == "concat"]
    assert len(copy.inputs) == 3


def test_other_readers_read_the_view() -> None:
    net = Net(x=(1, 16, 8, 8))
    a, b = net.conv("a", "x", 16), net.conv("b", "x", 16)
    graph = net.graph(net.conv("y", net("j", Concat(1), a, b), 8), net.conv("z", a, 8), net("e", Unary("exp"), b))
    program = plan(graph, TARGET)
    prove(graph, program)
    assert {root(program, "a"), root(program, "b")} == {"j"}
    assert "concat" not in {step.kernel for step in program.steps}


def test_halves_of_channels_are_read_where_they_lie() -> None:
    """As in ShuffleNet v2 and CSP: one half goes on, the other is joined to what came of it."""
    net = Net(x=(2, 32, 8, 8))
    first = net.conv("first", "x", 32)
    a, b = net.cut("a", first, 1, 0, 16), net.cut("b", first, 1, 16, 32)
    graph = net.graph(net.conv("y", net("j", Concat(1), a, net.conv("c", b, 16)), 8))
    program = plan(graph, TARGET)
    prove(graph, program)
    assert root(program, "b") == "first"
    copied = [step for step in program.steps if step.kernel in ("concat", "copy")]
    assert [program.tensors[step.inputs[0]].name for step in copied] == ["a"]


def test_parts_of_blocks_are_not_views_in_blocks() -> None:
    """The first input of 8 channels cuts a block; planar rows have no blocks."""
    net = Net(x=(1, 16, 8, 8))
    parts = [net.conv(name, "x", channels) for name, channels in (("a", 8), ("b", 24), ("c", 16))]
    graph = net.graph(net.conv("y", net("j", Concat(1), *parts), 16))
    for forms in build(graph, Costs(TARGET), 1).choices[3]:
        choices = [
            next(c for c in own if len(c.split.pieces) == 1 and set(c.form.outputs) == set(forms.form.outputs))
            for own in build(graph, Costs(TARGET), 1).choices
        ]
        program = schedule(graph, TARGET, choices)
        prove(graph, program)
        copied = [program.tensors[i].name for s in program.steps if s.kernel == "concat" for i in s.inputs]
        assert copied == (["a", "b"] if forms.form.outputs[0] is Layout.BLOCK16 else [])


def test_outputs_of_the_graph() -> None:
    """A Concat is made in the caller's memory; what it joins and the caller wants, too, is copied, as are slices."""
    net = Net(x=(1, 16, 8, 8))
    a, b = net.conv("a", "x", 16), net.conv("b", "x", 16)
    graph = net.graph(net("y", Concat(1), a, b), a, net.cut("s", b, 2, 1, 5))
    program = plan(graph, TARGET)
    prove(graph, program)
    assert [program.tensors[i].place for i in program.outputs] == [Place.OUTPUT] * 3
    names = [program.tensors[s.inputs[0]].name for s in program.steps if s.kernel in ("concat", "copy")]
    assert sorted(names) == ["a", "b"]


def test_the_joined_tensor_can_be_written_over_whole() -> None:
    net = Net(x=(1, 16, 8, 8))
    a, b = net("a", Unary("exp"), "x"), net("b", Unary("abs"), "x")
    joined = net("r", Unary("relu"), net("j", Concat(1), a, b))
    graph = net.graph(net("y", Pool("max", (2, 2), (2, 2), (0, 0, 0, 0), (1, 1)), joined))
    program = plan(graph, TARGET)
    assert prove(graph, program) == 1


def test_but_not_while_an_input_is_needed() -> None:
    net = Net(x=(1, 16, 8, 8))
    a, b = net("a", Unary("exp"), "x"), net("b", Unary("abs"), "x")
    joined = net("r", Unary("relu"), net("j", Concat(1), a, b))
    graph = net.graph(net("y", Binary("add"), net.cut("s", joined, 1, 0, 16), a))
    assert prove(graph, plan(graph, TARGET)) <= 1  # the sum, not the relu


def test_a_value_that_a_tiled_node_reads_later_is_not_written_over() -> None:
    """u streams into v, so it runs after r, which must not work in the memory of x."""
    machine = TARGET.machine.sized(1)
    small = TARGET.on(replace(machine, cores=tuple(replace(core, l2_bytes=16384) for core in machine.cores)))
    net = Net(i=(1, 16, 32, 32))
    x = net.conv("x", "i", 16)
    u, r = net.conv("u", x, 16), net("r", Unary("relu"), x)
    graph = net.graph(net("y", Binary("add"), net.conv("v", u, 16), r))
    problem = build(graph, Costs(small), 1)
    streamed = 0
    for seed in range(10):
        weights = [np.array([1.0 + 9 * choice.streams_out for choice in own]) for own in problem.choices]
        chosen = sample(problem, np.random.default_rng(seed), weights).chosen
        choices = [own[i] for own, i in zip(problem.choices, chosen, strict=True)]
        prove(graph, schedule(graph, small, choices))
        streamed += choices[1].streams_out and not choices[0].streams_out
    assert streamed


def test_what_convolutions_write_and_read_has_planes_apart() -> None:
    """In larger tensors of their own, which may be written over by each other, too."""
    net = Net(x=(1, 16, 64, 64))
    a = net("a", Unary("exp"), net.conv("c", "x", 16))
    net("z", Unary("abs"), net.cut("s", net("u", Unary("exp"), "x"), 1, 0, 8))
    shaped = net("f", Reshape((1, 16, 4096)), net("r", Unary("exp"), net.conv("d", a, 16)))
    joined = net("j", Concat(1), net.conv("e", a, 16), net.conv("g", a, 16))
    last = net.conv("y", joined, 16)
    graph = net.graph(last, "z", net("v", Unary("abs"), shaped))
    program = plan(graph, TARGET)
    made = {number for step in program.steps for number in step.outputs}
    roots = {program.tensors[n].name: program.tensors[n].root for n in made}
    spaced = {name for name, root in roots.items() if root >= 0 and program.tensors[root].name.endswith(":spaced")}
    assert spaced == {"c", "a", "d", "e", "g"}, "not what no convolution has to do with, is reshaped, or the caller's"
    assert program.tensors[roots["e"]].type.shape == (1, 32, 65, 64)
    assert roots["e"] == roots["g"]
    assert program.tensors[roots["a"]].offset == program.tensors[roots["c"]].offset
    assert prove(graph, program) >= 2


@pytest.mark.parametrize("cores", [1, 2])
def test_squeezenet_copies_nothing(models: Path, cores: int) -> None:
    graph = optimize(import_onnx(models / "onnx" / "squeezenet1.1_webnn.onnx"))
    assert sum(isinstance(node.op, Concat) for node in graph.nodes) == 8
    assert not {"concat", "copy"} & {step.kernel for step in plan(graph, TARGET, cores).steps}


@pytest.mark.usefixtures("planes")
@pytest.mark.parametrize("first", [0, *(pytest.param(n, marks=pytest.mark.slow) for n in (20, 40))])
def test_random_graphs(first: int) -> None:
    """With the plan chosen by cost, and with any."""
    for seed in range(first, first + 20):
        graph = random_views(seed)
        for cores in (1, 2 + seed % 4):
            prove(graph, plan(graph, TARGET, cores))
            problem = build(graph, Costs(TARGET.on(TARGET.machine.sized(cores))), cores)
            chosen = sample(problem, np.random.default_rng(seed)).chosen
            choices = [own[i] for own, i in zip(problem.choices, chosen, strict=True)]
            prove(graph, schedule(graph, problem.costs.target, choices, cores))
