"""Programs: symbolically executed over their memory, every step finds what it reads; who may write over its input."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from packer.bundle.model import Place, Program
from packer.importers import import_onnx
from packer.ir import DType, Extent, Graph, Node, TensorType, Value, whole
from packer.ir.ops import Binary, Concat, Conv, NonZero, Reshape, Unary
from packer.passes import optimize
from packer.planner import plan, prepared
from packer.planner.choices import Choice
from packer.planner.costs import Costs
from packer.planner.problem import build
from packer.planner.schedule import schedule
from packer.planner.select import sample
from packer.planner.split import Piece, Split
from targets.base import Form, Layout, resolve
from targets.machine import Machine
from tests.e2e.random_networks import random_network
from tests.packer.passes.random_models import random_model
from tests.packer.planner.prove import prove

TARGET = resolve("cpu").on(Machine.load("zen4-server"))


def cheapest(graph: Graph, cores: int = 1) -> Program:
    return plan(graph, TARGET, cores)


def any_plan(graph: Graph, cores: int, seed: int) -> Program:
    problem = build(graph, Costs(TARGET.on(TARGET.machine.sized(cores))), cores, partial_sums=True)
    chosen = sample(problem, np.random.default_rng(seed)).chosen
    choices = [alternatives[i] for alternatives, i in zip(problem.choices, chosen, strict=True)]
    return schedule(graph, problem.costs.target, choices, cores)


@pytest.mark.parametrize("first", [0, *(pytest.param(n, marks=pytest.mark.slow) for n in range(20, 100, 20))])
@pytest.mark.parametrize("make", [random_model, lambda seed: random_network(seed).model], ids=["patterns", "operators"])
def test_random_networks(make: Callable[[int], object], first: int) -> None:
    """With the plan chosen by cost, and with any."""
    overwritten = 0
    for seed in range(first, first + 20):
        graph = prepared(optimize(import_onnx(make(seed))), TARGET)
        for cores in (1, 2 + seed % 4):
            overwritten += prove(graph, cheapest(graph, cores))
            overwritten += prove(graph, any_plan(graph, cores, seed))
    assert overwritten > 0, "no memory was used again"


SMALL = ("lenet5_dns_sparse", "mlperf_kws_dscnn", "mlperf_resnet8_cifar10", "mlperf_vww_mobilenet_v1_025")


@pytest.mark.parametrize("name", SMALL)
def test_real_networks(models: Path, name: str) -> None:
    graph = optimize(import_onnx(models / "onnx" / f"{name}.onnx"))
    for cores in (1, 2, 4):
        prove(graph, cheapest(graph, cores))


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


def test_a_concat_at_the_end_of_which_nothing_is_left_to_copy() -> None:
    small, large = TensorType(DType.F32, (2, 300, 3)), TensorType(DType.F32, (2, 600, 3))
    nodes = [Node(Unary(kind), ("x",), (kind,), (kind,)) for kind in ("abs", "exp")]
    nodes.append(Node(Concat(1), ("abs", "exp"), ("y",), ("y",)))
    values = [Value(name, small) for name in ("x", "abs", "exp")]
    graph = graph_of(nodes, [*values, Value("y", large)], ("x",), ("y",))
    for cores in (1, 2, 3):
        program = cheapest(graph, cores)
        prove(graph, program)
        assert all(step.kernel == "unary" for step in program.steps)


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
        Form((planar, planar), (blocks,)),
        Form((blocks, planar), (planar,)),
        Form((planar, planar), (planar,)),
    ]
    choices = [
        Choice(form, Split("none", (Piece(0, whole(graph.type(node.outputs[0]))),)), (None,), (0.0,))
        for form, node in zip(forms, graph.nodes, strict=True)
    ]
    program = schedule(graph, TARGET, choices)
    prove(graph, program)
    pack = next(step for step in program.steps if step.kernel == "pack_weights")
    assert program.tensors[pack.inputs[0]].layout is planar


@pytest.mark.parametrize("zeros", [0.0, 0.9])
def test_a_residual_that_nobody_else_reads_is_overwritten(zeros: float) -> None:
    """Whichever operand of the step it is."""
    rng = np.random.default_rng(0)
    weights = (rng.standard_normal((32, 32, 3, 3)) * (rng.random((32, 32, 3, 3)) >= zeros)).astype(np.float32)
    op, square = Conv((1, 1), (1, 1, 1, 1), (1, 1)), TensorType(DType.F32, (1, 32, 20, 20))
    nodes = [
        Node(Unary("abs"), ("x",), ("a",), ("abs",)),
        Node(Unary("exp"), ("x",), ("b",), ("exp",)),
        Node(op, ("a", "c", None, "b"), ("y",), ("conv",)),
        Node(op, ("y", "c"), ("z",), ("conv",)),
    ]
    values = [*(Value(name, square) for name in "xabyz"), Value.constant("c", weights)]
    program = cheapest(graph_of(nodes, values, ("x",), ("z",)))
    step = next(s for s in program.steps if program.tensors[s.outputs[0]].name == "y")
    assert (step.kernel in ("conv_sparse", "conv_unrolled")) == (zeros > 0)
    out = program.tensors[step.outputs[0]]
    assert [program.tensors[i].offset for i in step.inputs if i >= 0 and program.tensors[i].name == "b"] == [out.offset]


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
