"""Plans: the exact one is the least of all, no other strategy beats it, and it does what a good plan must."""

from __future__ import annotations

import itertools
import math
import time

import numpy as np
import pytest

from packer.importers import import_onnx
from packer.ir import DType, Graph, Node, TensorType, Value
from packer.ir.ops import Conv
from packer.passes import optimize
from packer.planner import Plan, make_plan
from packer.planner.costs import Costs, signature, work_of
from packer.planner.problem import IMPOSSIBLE, build
from packer.planner.schedule import schedule
from packer.planner.select import STRATEGIES, among, exact, sample
from targets.base import Form, Layout, TargetError, resolve
from targets.machine import Machine
from tests.e2e.random_networks import random_network
from tests.packer.passes.random_models import random_model
from tests.packer.planner.prove import prove

TARGET = resolve("cpu").on(Machine.load("zen4-server"))


def chain(rows: int, channels: int, *kernels: int) -> Graph:
    """Convolutions of these kernels over one image."""
    type = TensorType(DType.F32, (1, channels, rows, rows))
    values, nodes, last = {"x": Value("x", type)}, [], "x"
    for i, k in enumerate(kernels):
        weights = np.random.default_rng(i).standard_normal((channels, channels, k, k)).astype(np.float32)
        values[f"w{i}"] = Value.constant(f"w{i}", weights)
        values[f"y{i}"] = Value(f"y{i}", type)
        nodes.append(Node(Conv((1, 1), ((k - 1) // 2,) * 4, (1, 1)), (last, f"w{i}"), (f"y{i}",), (f"conv{i}",)))
        last = f"y{i}"
    return Graph("chain", ("x",), (last,), tuple(nodes), values)


def smallest(plan: Plan) -> float | None:
    """The least cost of its problem in its arithmetic by trying everything; None if that is too much."""
    own = [
        [i for i, choice in enumerate(choices) if choice.form.arithmetic == wanted]
        for choices, wanted in zip(plan.problem.choices, plan.arithmetic, strict=True)
    ]
    if math.prod(map(len, own)) > 20_000:
        return None
    return min(plan.problem.seconds(chosen) for chosen in itertools.product(*own))


@pytest.mark.slow
def test_the_exact_plan_is_the_least_of_all() -> None:
    compared = 0
    for seed in range(480):
        graph = optimize(import_onnx((random_network(seed).model, random_model(seed))[seed % 2]))
        cores = 1 + seed % 3
        if not 2 <= len(graph.nodes) <= 7:
            continue
        plan = make_plan(graph, TARGET, cores)
        least = smallest(plan)
        if least is not None:
            assert plan.solution.exact
            assert plan.seconds == pytest.approx(least, rel=1e-9)
            compared += 1
    assert compared > 60, compared


@pytest.mark.parametrize("seed", range(20))
def test_no_strategy_beats_the_exact_one(seed: int) -> None:
    graph = optimize(import_onnx(random_network(seed).model))
    cores = 1 + seed % 4
    problem = build(graph, Costs(TARGET.on(TARGET.machine.sized(cores))), cores)
    best = exact(problem)
    assert best.cost == pytest.approx(problem.seconds(best.chosen), rel=1e-9)
    for name, strategy in STRATEGIES.items():
        if name != "policy":
            assert strategy(problem).cost >= best.cost * (1 - 1e-9), name
    for number in range(5):
        other = sample(problem, np.random.default_rng(number))
        assert best.cost * (1 - 1e-9) <= other.cost < IMPOSSIBLE


def test_rows_stay_with_their_core() -> None:
    """1x1 convolutions in rows need nothing from another core: one phase after the input's layout, and no barrier."""
    plan = make_plan(chain(40, 64, 1, 1, 1, 1), TARGET, 2)
    assert len({choice.split.name.split("/")[0] for choice in plan.choices}) == 1
    assert all(len(choice.split.pieces) >= 2 for choice in plan.choices)
    assert plan.program().steps[-1].phase == 0


def test_large_tensors_use_memory_again() -> None:
    """Cores wait for each other where what they are done with is large: one core's steps need two tensors at a time,
    and so do two cores' steps."""
    graph = chain(100, 32, 1, 1, 1, 1, 1, 1)
    problem = build(graph, Costs(TARGET.on(TARGET.machine.sized(2))), 2)
    rows = among(problem, lambda name: name == "H2").chosen
    choices = [own[i] for own, i in zip(problem.choices, rows, strict=True)]
    assert all(choice.split.name == "H2" for choice in choices)
    program = schedule(graph, TARGET, choices, 2)
    assert program.arena_bytes < 3 * graph.type("x").bytes
    prove(graph, program)


def test_halos_need_a_barrier() -> None:
    program = make_plan(chain(56, 64, 3, 3), TARGET, 2).program()
    assert program.steps[-1].phase >= 1


def test_large_images_are_computed_depth_first() -> None:
    """Where a tensor exceeds the cache by far, tiles of rows go through neighbouring layers at once, also on one
    core."""
    target = resolve("cpu-jetson-tx2")
    for cores in (1, 2):
        plan = make_plan(chain(512, 16, 5, 1, 5), target, cores)
        assert any(choice.streams_out for choice in plan.choices)
        program = plan.program()
        whole = make_plan(chain(512, 16, 5, 1, 5), target, cores, search="none").program()
        assert program.arena_bytes < whole.arena_bytes


def test_unequal_cores_get_unequal_pieces() -> None:
    target = resolve("cpu-aarch64").on(Machine.load("jetson-tx2"))
    plan = make_plan(chain(96, 64, 3, 3), target, 6)
    program = plan.program()
    assert program.speeds[0] == 1.0
    assert program.speeds[-1] < 1.0
    pieces = {piece.core: piece.box for piece in plan.choices[0].split.pieces}
    volumes = {core: math.prod(end - begin for begin, end in box) for core, box in pieces.items()}
    assert volumes[0] > volumes[max(volumes)]


def test_more_cores_are_predicted_to_be_faster() -> None:
    graph = chain(112, 128, 3, 3, 3)
    seconds = [make_plan(graph, TARGET.on(Machine.load("xeon-e5-2666v3")), cores).seconds for cores in (1, 2, 4, 8, 16)]
    assert seconds == sorted(seconds, reverse=True)
    assert 1.8 < seconds[0] / seconds[1] <= 2.05


def test_records_overrule_the_model() -> None:
    """What is recorded as cheap is chosen, and only on the layer that it was recorded for."""
    graph = chain(28, 32, 3, 3)
    slow = Form((Layout.PLANAR, Layout.PLANAR), (Layout.PLANAR,), "im2col-caffe")
    assert all(choice.form.implementation != slow.implementation for choice in make_plan(graph, TARGET).choices)
    records = {signature(work_of(graph, graph.nodes[0]), slow): 1e-9}
    chosen = [choice.form.implementation for choice in make_plan(graph, TARGET, records=records).choices]
    assert set(chosen) == {slow.implementation}


def test_a_network_is_planned_in_a_second() -> None:
    """Processor time for a network as deep as ResNet-152, with room for a busy machine."""
    graph = chain(56, 64, *([1, 3, 1] * 50))
    started = time.process_time()
    make_plan(graph, TARGET, 4)
    assert time.process_time() - started < 5


def test_unknown_strategy() -> None:
    with pytest.raises(TargetError, match="unknown search 'best'; known: exact, none, rows, greedy"):
        make_plan(graph=optimize(import_onnx(random_model(0))), target=TARGET, search="best")


def test_one_core_does_everything() -> None:
    graph = optimize(import_onnx(random_model(0)))
    assert all(piece.core == 0 for choice in make_plan(graph, TARGET).choices for piece in choice.split.pieces)
