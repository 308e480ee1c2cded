"""Programs: symbolically executed over their memory, every step finds what it reads; who may write over its input."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest

from packer.bundle.model import Place, Program, Tensor
from packer.importers import import_onnx
from packer.ir import DType, Extent, Graph, Node, TensorType, Value
from packer.ir.ops import Binary, Conv, NonZero, Reshape, Unary
from packer.passes import optimize
from packer.planner.schedule import schedule
from packer.planner.select import select_forms
from targets.base import Form, Layout, resolve, stored_bytes
from tests.e2e.random_networks import random_network
from tests.packer.passes.random_models import random_model

TARGET = resolve("cpu")
Area = tuple[tuple[Place, int], int, int]


class Memory:
    """What lies where: the value and layout that each 64 bytes of arena, inputs and outputs hold, as a number."""

    def __init__(self, graph: Graph, program: Program) -> None:
        self.program = program
        self.held: dict[tuple[Place, int], np.ndarray] = {}
        self.numbers: dict[tuple[str, Layout], int] = {}
        self.root: dict[str, str] = {}  # a reshaped value is the value it was made from
        for node in graph.nodes:
            if isinstance(node.op, Reshape) and node.inputs[0] is not None:
                self.root[node.outputs[0]] = self.root.get(node.inputs[0], node.inputs[0])

    def area(self, tensor: Tensor) -> Area:
        """The memory of a tensor, its first unit and the one behind its last, all within that memory."""
        first, units = tensor.offset // 64, -(-stored_bytes(tensor.type, tensor.layout) // 64)
        assert tensor.offset % 64 == 0
        if tensor.place is Place.ARENA:
            assert (first + units) * 64 <= self.program.arena_bytes, tensor
        return (tensor.place, tensor.index if tensor.place is not Place.ARENA else 0), first, first + units

    def cells(self, tensor: Tensor) -> np.ndarray:
        memory, first, last = self.area(tensor)
        size = self.program.arena_bytes // 64 + 1 if tensor.place is Place.ARENA else last
        return self.held.setdefault(memory, np.full(size, -1))[first:last]

    def number(self, tensor: Tensor) -> int:
        """That of the value in its layout."""
        value = self.root.get(tensor.name, tensor.name), tensor.layout
        return self.numbers.setdefault(value, len(self.numbers))

    def write(self, tensor: Tensor) -> None:
        self.cells(tensor)[:] = self.number(tensor)

    def expect(self, tensor: Tensor, reader: str) -> None:
        if tensor.data is None:
            assert (self.cells(tensor) == self.number(tensor)).all(), f"{reader} reads '{tensor.name}'"


def overlap(a: Area, b: Area) -> bool:
    return a[0] == b[0] and max(a[1], b[1]) < min(a[2], b[2])


def prove(graph: Graph, program: Program) -> int:
    """Execute the program over its memory; how many steps write over an input."""
    memory = Memory(graph, program)
    producers = graph.producers()
    overwritten = 0
    for name, number in zip(graph.inputs, program.inputs, strict=True):
        tensor = program.tensors[number]
        assert (tensor.name, tensor.place, tensor.layout) == (name, Place.INPUT, Layout.PLANAR)
        memory.write(tensor)
    for step in program.steps:
        inputs = [program.tensors[i] if i >= 0 else None for i in step.inputs]
        outputs = [program.tensors[i] for i in step.outputs]
        for tensor in inputs:
            if tensor is not None:
                memory.expect(tensor, step.kernel)
        areas = [memory.area(tensor) for tensor in outputs]
        assert not any(overlap(a, b) for a, b in combinations(areas, 2)), f"outputs of {step.kernel} overlap"
        assert all(tensor.place in (Place.ARENA, Place.OUTPUT) for tensor in outputs)
        allowed = producers[outputs[0].name].op.inplace if step.nodes else ()
        own = [(i, memory.area(t)) for i, t in enumerate(inputs) if t is not None and t.data is None]
        shared = [i for i, area in own if any(overlap(area, other) for other in areas)]
        assert len(shared) <= 1, f"{step.kernel} writes over two of its inputs"
        for i in shared:
            tensor = inputs[i]
            assert tensor is not None
            assert i in allowed, f"{step.kernel} writes over its input {i}"
            assert memory.area(tensor) == memory.area(outputs[0])
            assert (tensor.type, tensor.layout) == (outputs[0].type, outputs[0].layout)
        overwritten += len(shared)
        for tensor in outputs:
            memory.write(tensor)
    for position, (name, number) in enumerate(zip(graph.outputs, program.outputs, strict=True)):
        tensor = program.tensors[number]
        assert (tensor.name, tensor.place, tensor.index) == (name, Place.OUTPUT, position)
        assert (tensor.type, tensor.layout) == (graph.type(name), Layout.PLANAR)
        memory.expect(tensor, "the caller")
        if tensor.extent is not None:
            memory.expect(program.tensors[tensor.extent[1]], "the caller")
    assert program.arena_floor <= program.arena_bytes
    return overwritten


def cheapest(graph: Graph) -> Program:
    return schedule(graph, TARGET, select_forms(graph, TARGET))


def any_forms(graph: Graph, seed: int) -> list[Form]:
    random = np.random.default_rng(seed)
    choices = [TARGET.forms(graph, node) for node in graph.nodes]
    return [forms[int(random.integers(len(forms)))] for forms in choices]


@pytest.mark.parametrize("first", range(0, 100, 20))
@pytest.mark.parametrize("make", [random_model, lambda seed: random_network(seed).model], ids=["patterns", "operators"])
def test_random_networks(make: Callable[[int], object], first: int) -> None:
    """With the forms chosen by cost, and with any."""
    overwritten = 0
    for seed in range(first, first + 20):
        graph = optimize(import_onnx(make(seed)))
        overwritten += prove(graph, cheapest(graph))
        overwritten += prove(graph, schedule(graph, TARGET, any_forms(graph, seed)))
    assert overwritten > 0, "no memory was used again"


def test_real_networks(models: Path) -> None:
    for path in sorted((models / "onnx").glob("*.onnx")):
        graph = optimize(import_onnx(path))
        prove(graph, cheapest(graph))


def test_a_moved_tensor_is_noticed() -> None:
    graph = chain(Unary("abs"), Unary("exp"), Unary("neg"), used=("a", "b"))
    program = cheapest(graph)
    prove(graph, program)
    places = [i for i, t in enumerate(program.tensors) if t.place is Place.ARENA]
    assert len({program.tensors[i].offset for i in places}) > 1
    tensors = tuple(replace(t, offset=0) if t.place is Place.ARENA else t for t in program.tensors)
    with pytest.raises(AssertionError, match=r"reads|writes over"):
        prove(graph, replace(program, tensors=tensors))


def chain(*functions: Unary, used: tuple[str, ...] = ()) -> Graph:
    """x -> a -> b -> ...; then y adds the last and each of the `used` ones."""
    type = TensorType(DType.F32, (2, 20, 3))
    names = [chr(ord("a") + i) for i in range(len(functions))]
    nodes = [Node(op, (before,), (name,)) for op, before, name in zip(functions, ["x", *names], names, strict=False)]
    last = names[-1]
    for i, name in enumerate(used):
        nodes.append(Node(Binary("add"), (last, name), (f"s{i}",), ("sum",)))
        last = f"s{i}"
    nodes.append(Node(Unary("relu"), (last,), ("y",), ("last",)))
    nodes = [replace(node, sources=("node",)) for node in nodes]
    values = {name: Value(name, type) for name in ("x", "y", *names, *(f"s{i}" for i in range(len(used))))}
    return Graph("g", ("x",), ("y",), tuple(nodes), values)


def test_a_chain_works_in_the_callers_output() -> None:
    program = cheapest(chain(Unary("abs"), Unary("exp"), Unary("neg")))
    assert program.arena_bytes == 0
    assert [program.tensors[step.outputs[0]].place for step in program.steps] == [Place.OUTPUT] * 4


def test_an_input_of_the_caller_is_never_written() -> None:
    program = cheapest(chain(Unary("abs")))
    written = {program.tensors[i].place for step in program.steps for i in step.outputs}
    assert written == {Place.OUTPUT}


def graph_of(nodes: list[Node], values: list[Value], inputs: tuple[str, ...], outputs: tuple[str, ...]) -> Graph:
    graph = Graph("g", inputs, outputs, tuple(nodes), {v.name: v for v in values})
    graph.validate()
    return graph


def test_weights_that_lie_in_blocks_are_packed_from_the_planar_copy() -> None:
    """The same value is the input of one convolution, in blocks, and the weights of another."""

    def normal(*shape: int) -> np.ndarray:
        return np.random.default_rng(0).standard_normal(shape).astype(np.float32)

    op = Conv((1, 1), (1, 1, 1, 1), (1, 1))
    square = TensorType(DType.F32, (32, 16, 3, 3))
    nodes = [
        Node(op, ("x", "c"), ("w",), ("made",)),
        Node(op, ("w", "c"), ("q",), ("read",)),
        Node(op, ("z", "w"), ("y",), ("weights",)),
    ]
    values = [
        Value("x", square), Value("w", square), Value("q", square), Value.constant("c", normal(16, 16, 3, 3)),
        Value("z", TensorType(DType.F32, (1, 16, 4, 4))), Value("y", TensorType(DType.F32, (1, 32, 4, 4))),
    ]  # fmt: skip
    graph = graph_of(nodes, values, ("x", "z"), ("q", "y"))
    planar, blocks = Layout.PLANAR, Layout.BLOCK16
    forms = [
        Form((planar, planar), (blocks,), 0.0),
        Form((blocks, planar), (planar,), 0.0),
        Form((planar, planar), (planar,), 0.0),
    ]
    program = schedule(graph, TARGET, forms)
    prove(graph, program)
    pack = next(step for step in program.steps if step.kernel == "pack_weights")
    assert program.tensors[pack.inputs[0]].layout is planar


def test_views_of_the_callers_memory_are_copied_to_outputs() -> None:
    flat, square = TensorType(DType.F32, (6,)), TensorType(DType.F32, (2, 3))
    constant = Value.constant("c", np.arange(6, dtype=np.float32))
    graph = graph_of(
        [Node(Reshape((6,)), ("x",), ("v",), ("r",)), Node(Unary("abs"), ("x",), ("a",), ("u",)),
         Node(Reshape((6,)), ("a",), ("b",), ("s",))],
        [Value("x", square), Value("v", flat), Value("a", square), Value("b", flat), constant],
        ("x",),
        ("x", "v", "a", "b", "c"),
    )  # fmt: skip
    program = cheapest(graph)
    memory = {program.tensors[number].index for number in program.outputs}
    assert memory == {0, 1, 2, 3, 4}
    assert sorted(step.kernel for step in program.steps) == ["copy"] * 4 + ["unary"]
    assert all(any(number in step.outputs for step in program.steps) for number in program.outputs)


def test_counts_live_until_the_end() -> None:
    indices, count = TensorType(DType.I64, (1, 8)), TensorType(DType.I64, (1,))
    big = TensorType(DType.F32, (8,))
    nodes = [Node(NonZero(), ("x",), ("i", "n"), ("nz",))]
    nodes += [Node(Unary("abs"), ("x",), ("a",), ("a",)), Node(Binary("add"), ("a", "x"), ("y",), ("y",))]
    graph = Graph(
        "g", ("x",), ("i", "y"), tuple(nodes),
        {n: Value(n, t) for n, t in (("x", big), ("i", indices), ("n", count), ("a", big), ("y", big))},
        (Extent("i", 1, "n"),),
    )  # fmt: skip
    program = cheapest(graph)
    prove(graph, program)
    extent = program.tensors[program.outputs[0]].extent
    assert extent is not None
    assert extent[0] == 1
    assert program.tensors[extent[1]].name == "n"
