"""The learned strategy: what it draws can be made, it learns from what it is told, and it gives the best it saw."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from functools import lru_cache
from importlib.util import find_spec
from typing import Any

import numpy as np
import pytest

from packer.bundle.model import Program
from packer.ir import DType, Graph, TensorType, Value
from packer.planner import make_plan
from packer.planner.costs import Costs
from packer.planner.problem import IMPOSSIBLE, Problem, build
from packer.planner.schedule import schedule
from packer.planner.select import exact, learned, sample
from targets.base import TargetError, resolve
from targets.machine import Machine
from tests.packer.planner.prove import prove
from tests.packer.planner.test_features import problem_of
from tests.packer.planner.test_plan import chain

TARGET = resolve("cpu").on(Machine.load("zen4-server"))
needs_torch = pytest.mark.skipif(find_spec("torch") is None, reason="needs PyTorch: pip install 'edgert[search]'")


@lru_cache
def images() -> Problem:
    return build(chain(64, 32, 3, 1, 3, 3), Costs(TARGET.on(TARGET.machine.sized(2))), 2)


def policy(*arguments: Any, **options: Any) -> Any:
    from packer.planner.policy import Policy

    return Policy(*arguments, **options)


def steps(programs: Sequence[Program]) -> list[float]:
    """A device that needs a millisecond for every step, whatever it does."""
    return [1e-3 * len(program.steps) for program in programs]


@needs_torch
@pytest.mark.parametrize("seed", range(10))
def test_what_it_draws_can_be_made(seed: int) -> None:
    problem = problem_of(seed)
    made: list[Program] = []

    def measure(programs: Sequence[Program]) -> list[float]:
        made.extend(programs)
        return steps(programs)

    solution = policy(measure, rounds=1, seed=seed)(problem)
    assert solution.cost == pytest.approx(problem.seconds(solution.chosen))
    assert solution.cost < IMPOSSIBLE
    assert not solution.exact
    for program in made[:4] if seed % 5 else ():  # large images take too long
        prove(problem.graph, program)


@needs_torch
def test_by_the_cost_model_it_comes_close_to_the_optimum() -> None:
    problem = images()
    best, random = exact(problem).cost, np.random.default_rng(0)
    found = policy()(problem).cost
    assert best * (1 - 1e-9) <= found < 1.02 * best
    assert found < min(sample(problem, random).cost for _ in range(500))


@needs_torch
def test_it_learns_what_the_device_likes() -> None:
    """Plans of fewer steps are drawn more and more."""
    means: list[float] = []

    def measure(programs: Sequence[Program]) -> list[float]:
        found = steps(programs)
        means.append(float(np.mean(found)))
        return found

    problem = images()
    solution = policy(measure, rounds=40)(problem)
    assert np.mean(means[30:40]) < 0.75 * means[0]
    fewest = min(len(make_plan(problem.graph, TARGET, 2, search=name).program().steps) for name in ("none", "exact"))
    chosen = [own[i] for own, i in zip(problem.choices, solution.chosen, strict=True)]
    assert len(schedule(problem.graph, TARGET, chosen, 2).steps) <= fewest


@needs_torch
def test_the_same_times_give_the_same_plan() -> None:
    import torch

    state, threads = torch.random.get_rng_state(), torch.get_num_threads()
    plans = [policy(steps, rounds=3, seed=seed)(images()).chosen for seed in (1, 1, 2)]
    assert plans[0] == plans[1] != plans[2]
    assert torch.equal(state, torch.random.get_rng_state())
    assert torch.get_num_threads() == threads


@needs_torch
def test_the_budget_is_time_of_measuring(monkeypatch: pytest.MonkeyPatch) -> None:
    from packer.planner import policy as module

    clock, calls = [0.0], []

    def measure(programs: Sequence[Program]) -> list[float]:
        clock[0] += 1.0
        calls.append(len(programs))
        return steps(programs)

    monkeypatch.setattr(module.time, "monotonic", lambda: clock[0])
    policy(measure, 5.0)(images())
    assert len(calls) == 5 + 1  # the best ones once more
    assert all(1 <= count <= module.PLANS for count in calls)
    calls.clear()
    policy(measure, 0.0)(images())
    assert len(calls) == 1 + 1


@needs_torch
def test_luck_does_not_win() -> None:
    """A plan that was fast once only is not taken."""
    times: dict[int, int] = {}

    def measure(programs: Sequence[Program]) -> list[float]:
        found = []
        for program in programs:
            kind = len(program.steps)
            times[kind] = times.get(kind, 0) + 1
            found.append(1e-6 if kind == unlucky and times[kind] == 1 else 1e-3 * kind)
        return found

    unlucky = 0
    policy(measure, rounds=1)(images())
    unlucky = max(times)
    times.clear()
    problem = images()
    chosen = policy(measure, rounds=1)(problem).chosen
    choices = [own[i] for own, i in zip(problem.choices, chosen, strict=True)]
    assert len(schedule(problem.graph, problem.costs.target, choices, 2).steps) < unlucky


@needs_torch
def test_without_a_device_that_can_run_it_the_cost_model_is_asked() -> None:
    asked = []

    def measure(programs: Sequence[Program]) -> None:
        asked.append(programs)

    assert policy(measure, rounds=3)(images()) == policy(rounds=3)(images())
    assert len(asked) == 1


@needs_torch
def test_a_network_without_operators() -> None:
    type = TensorType(DType.F32, (1, 4))
    graph = Graph("nothing", ("x",), ("x",), (), {"x": Value("x", type)})
    assert make_plan(graph, TARGET, 2, search="policy").choices == ()


def test_without_pytorch_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    monkeypatch.delitem(sys.modules, "packer.planner.policy", raising=False)
    with pytest.raises(TargetError, match=r"needs PyTorch\nInstall it: pip install 'edgert\[search\]'"):
        learned()
    with pytest.raises(TargetError, match="PyTorch"):
        make_plan(chain(8, 4, 1), TARGET, 1, search="policy")
