"""What the learned policy sees, and which choices can be part of a plan. Needs no PyTorch."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import pytest

from packer.importers import import_onnx
from packer.passes import optimize
from packer.planner.costs import Costs
from packer.planner.features import choice_features, node_features, possible
from packer.planner.problem import IMPOSSIBLE, Problem, build
from packer.planner.select import sample
from targets.base import resolve
from targets.machine import Machine
from tests.e2e.random_networks import random_network
from tests.packer.planner.test_plan import chain

TARGET = resolve("cpu").on(Machine.load("zen4-server"))


@lru_cache
def problem_of(seed: int) -> Problem:
    """Of a random network, or of large images, which stream."""
    graph = chain(256, 16, 3, 1, 3, 3) if seed % 5 == 0 else optimize(import_onnx(random_network(seed).model))
    cores = 1 + seed % 4
    return build(graph, Costs(TARGET.on(TARGET.machine.sized(cores))), cores, partial_sums=seed % 2 == 0)


@pytest.mark.parametrize("seed", range(20))
def test_every_node_and_choice_has_finite_features(seed: int) -> None:
    problem = problem_of(seed)
    nodes, choices = node_features(problem), choice_features(problem)
    assert len(nodes) == len(choices) == len(problem.choices)
    assert [len(rows) for rows in choices] == [len(alternatives) for alternatives in problem.choices]
    assert len({rows.shape[1] for rows in choices}) == 1
    for table in (nodes, *choices):
        assert table.dtype == np.float32
        assert np.isfinite(table).all()


def test_choices_that_differ_look_different() -> None:
    problem = problem_of(1)
    for alternatives, rows in zip(problem.choices, choice_features(problem), strict=True):
        assert len({row.tobytes() for row in rows}) > len(alternatives) // 2


@pytest.mark.parametrize("seed", range(20))
def test_possible_choices_never_run_out(seed: int) -> None:
    problem, random = problem_of(seed), np.random.default_rng(seed)
    masks = possible(problem)
    for _ in range(20):
        chosen: list[int] = []
        for v, mask in enumerate(masks):
            left = mask.copy()
            for (u, w), matrix in problem.edges.items():
                if w == v:
                    left &= matrix[chosen[u]] < IMPOSSIBLE
            chosen.append(int(random.choice(np.flatnonzero(left))))
        assert problem.seconds(chosen) < IMPOSSIBLE


def test_no_plan_is_lost() -> None:
    streamed = 0
    for seed in range(0, 40, 5):
        problem = problem_of(seed)
        masks = possible(problem)
        chosen = sample(problem, np.random.default_rng(seed)).chosen
        assert all(mask[i] for mask, i in zip(masks, chosen, strict=True))
        streamed += any(own[i].streams_out for own, i in zip(problem.choices, chosen, strict=True))
    assert streamed > 0
