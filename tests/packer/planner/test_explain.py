"""What is said of a plan is true: costs add up to it, and no other choice would have been better than the runner-up."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
import pytest
from onnx import helper, numpy_helper

from edgert.decisions import parse_plan
from packer.importers import import_onnx
from packer.ir import Graph
from packer.passes import optimize
from packer.planner import Plan, make_plan
from packer.planner.costs import Costs
from packer.planner.explain import decisions
from packer.planner.pbqp import Solution
from packer.planner.problem import IMPOSSIBLE, Problem, build
from packer.planner.select import sample
from targets.base import resolve
from targets.machine import Machine
from tests.e2e.random_networks import random_network
from tests.packer.passes.random_models import random_model

TARGET = resolve("cpu").on(Machine.load("zen4-server"))
SEEDS = range(12)


def random_graph(seed: int) -> Graph:
    return optimize(import_onnx(random_model(seed) if seed % 2 else random_network(seed).model))


def random_plans() -> Iterator[Plan]:
    """The cheapest plan, and any plan, of random networks on 1 to 4 cores, some with partial sums."""
    for seed in SEEDS:
        cores = 1 + seed % 4
        yield make_plan(random_graph(seed), TARGET, cores, partial_sums=seed % 3 == 0)
        target = TARGET.on(TARGET.machine.sized(cores))
        problem = build(random_graph(seed), Costs(target), cores, partial_sums=True)
        yield Plan(problem, sample(problem, np.random.default_rng(seed)))


def streaming(cores: int, gbps: float) -> Plan:
    """The plan of two convolutions with much between them, on a machine without a third cache, whose memory is so fast,
    shared by all cores."""
    kinds = tuple(replace(core, dram_gbps=gbps) for core in TARGET.machine.cores)
    return make_plan(wide(), TARGET.on(replace(TARGET.machine, cores=kinds, l3_bytes=0, dram_gbps=gbps)), cores)


def wide() -> Graph:
    rng = np.random.default_rng(0)
    weights = [
        numpy_helper.from_array(rng.standard_normal(shape).astype(np.float32), name)
        for name, shape in (("a", (64, 16, 5, 5)), ("b", (16, 64, 1, 1)))
    ]
    nodes = [
        helper.make_node("Conv", ["x", "a"], ["t"], "wide", pads=[2] * 4),
        helper.make_node("Conv", ["t", "b"], ["y"], "narrow"),
    ]
    x = helper.make_tensor_value_info("x", 1, (1, 16, 256, 256))
    y = helper.make_tensor_value_info("y", 1, (1, 16, 256, 256))
    graph = helper.make_graph(nodes, "g", [x], [y], weights)
    return optimize(import_onnx(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)))


def test_decisions_add_up_to_the_plan() -> None:
    for plan in (*random_plans(), streaming(1, 1.0), streaming(2, 20.0)):
        found = decisions(plan.problem, plan.solution.chosen)
        assert [d.choice for d in found] == list(plan.choices)
        assert sum(d.compute + d.adjust for d in found) == pytest.approx(plan.seconds, abs=1e-12)
        assert all(d.compute >= 0 and d.adjust >= -1e-12 for d in found)


def changed(problem: Problem, chosen: Sequence[int], choices: dict[int, int]) -> float:
    return problem.seconds([choices.get(v, i) for v, i in enumerate(chosen)])


def test_no_choice_of_one_node_is_better_than_the_runner_up() -> None:
    compared = 0
    for plan in random_plans():
        problem, chosen = plan.problem, plan.solution.chosen
        before = problem.seconds(chosen)
        for v, d in enumerate(decisions(problem, chosen)):
            others = [changed(problem, chosen, {v: i}) for i in range(len(problem.choices[v])) if i != chosen[v]]
            least = min((other for other in others if other < IMPOSSIBLE), default=IMPOSSIBLE)
            if d.choice.dominates is not None:
                least = min(least, before + d.choice.dominates.seconds - d.choice.seconds)
            if d.runner_up is None:
                assert least >= IMPOSSIBLE
            else:
                assert before + d.runner_up.seconds <= least + 1e-12
                if d.runner_up.nodes == 1:
                    assert before + d.runner_up.seconds == pytest.approx(least, abs=1e-12)
                    assert d.runner_up.compute == pytest.approx(d.runner_up.choice.seconds - d.choice.seconds)
                compared += 1
    assert compared > 100


def test_the_cheapest_plan_has_no_better_runner_up_of_its_arithmetic() -> None:
    """Others may be faster, but give other bits or take more memory."""
    for seed in SEEDS:
        plan = make_plan(random_graph(seed), TARGET, 1 + seed % 4)
        for d in decisions(plan.problem, plan.solution.chosen):
            if d.runner_up is not None and d.runner_up.choice.form.arithmetic == d.choice.form.arithmetic:
                assert d.runner_up.seconds >= -1e-12


def test_dominated_choices_are_the_next_best_of_their_kind() -> None:
    """Another algorithm in the same layouts and pieces."""
    found = 0
    for seed in SEEDS:
        for alternatives in make_plan(random_graph(seed), TARGET, 2).problem.choices:
            for choice in alternatives:
                if choice.dominates is not None:
                    found += 1
                    assert choice.seconds <= choice.dominates.seconds
                    assert choice.split.name == choice.dominates.split.name
                    assert choice.form.inputs == choice.dominates.form.inputs
                    assert choice.form != choice.dominates.form
    assert found > 0


def test_what_streams_is_compared_with_what_does_not() -> None:
    """Two nodes that stream into one another change one by one, or both to what is best without."""
    together = 0
    for cores, gbps in itertools.product((1, 2), (1.0, 20.0, 80.0)):
        plan = streaming(cores, gbps)
        problem, chosen = plan.problem, plan.solution.chosen
        first, second = decisions(problem, chosen)
        assert first.choice.streams_out
        assert second.choice.takes
        before = problem.seconds(chosen)
        apart = min(
            changed(problem, chosen, {0: i, 1: j})
            for i, a in enumerate(problem.choices[0])
            for j, b in enumerate(problem.choices[1])
            if not (a.streams_out or b.takes)
        )
        for v, d in enumerate((first, second)):
            alone = [changed(problem, chosen, {v: i}) for i in range(len(problem.choices[v])) if i != chosen[v]]
            assert d.runner_up is not None
            assert before + d.runner_up.seconds == pytest.approx(min(apart, *alone), abs=1e-12)
            assert d.runner_up.nodes == (2 if apart < min(alone) else 1)
            if d.runner_up.nodes == 2:
                together += 1
                assert not d.runner_up.choice.streams_out
                assert not d.runner_up.choice.takes
    assert 0 < together < 12


@pytest.mark.parametrize("cores", [1, 2])
def test_nothing_streams_where_memory_is_as_fast_as_the_cache(cores: int) -> None:
    """Tiles would have to change their layout in turn, and save nothing."""
    first, second = streaming(cores, 200.0 * cores).choices
    assert not first.streams_out
    assert not second.takes


def test_json_is_the_same_every_time_and_reads_back() -> None:
    for plan in (*random_plans(), streaming(2, 1.0)):
        text = plan.explain()
        again = Plan(plan.problem, Solution(plan.solution.chosen, plan.solution.cost, plan.solution.exact))
        assert again.explain() == text == plan.program().plan
        raw = json.loads(text)
        assert list(raw) == sorted(raw)
        found = parse_plan(text)
        assert (found.machine, found.exact) == (TARGET.machine.name, plan.solution.exact)
        assert found.nanoseconds == round(plan.seconds * 1e9)
        for node, choice, told in zip(plan.problem.graph.nodes, plan.choices, found.decisions, strict=True):
            assert (told.nodes, told.operator) == (node.sources, type(node.op).__name__)
            assert [value.name for value in told.outputs] == list(node.outputs)
            assert told.outputs[0].shape == plan.problem.graph.type(node.outputs[0]).shape
            split = choice.split.name + (" in bands" if choice.banded else "")
            assert (told.algorithm, told.split) == (choice.form.implementation, split)
            assert [(p.core, p.box) for p in told.pieces] == [(p.core, p.box) for p in choice.split.pieces]
            assert (told.streams_in, told.streams_out) == (bool(choice.takes), choice.streams_out)
            assert told.compute == round(choice.seconds * 1e9)
