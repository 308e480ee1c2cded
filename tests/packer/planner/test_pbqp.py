"""The solver against brute force."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from packer.planner.pbqp import solve


def total(costs: list[np.ndarray], edges: dict[tuple[int, int], np.ndarray], chosen: list[int]) -> float:
    own = sum(float(cost[i]) for cost, i in zip(costs, chosen, strict=True))
    return own + sum(float(matrix[chosen[u], chosen[v]]) for (u, v), matrix in edges.items())


def random_problem(seed: int, extra_edges: int) -> tuple[list[np.ndarray], dict[tuple[int, int], np.ndarray]]:
    random = np.random.default_rng(seed)
    size = int(random.integers(1, 8))
    costs = [random.integers(0, 20, random.integers(1, 4)).astype(float) for _ in range(size)]
    edges = {}
    for v in range(1, size):
        parents = random.permutation(v)[: 1 + int(random.integers(0, extra_edges + 1))]
        for u in map(int, parents):
            edges[u, v] = random.integers(0, 20, (costs[u].size, costs[v].size)).astype(float)
    return costs, edges


def brute_force(costs: list[np.ndarray], edges: dict[tuple[int, int], np.ndarray]) -> float:
    return min(total(costs, edges, list(c)) for c in itertools.product(*(range(cost.size) for cost in costs)))


def check(costs: list[np.ndarray], edges: dict[tuple[int, int], np.ndarray]) -> None:
    solution = solve(costs, edges)
    assert solution.exact
    assert solution.cost == total(costs, edges, list(solution.chosen)) == brute_force(costs, edges)


@pytest.mark.parametrize("extra_edges", [0, 1, 2, 3, 6])
def test_random_graphs_are_solved_exactly(extra_edges: int) -> None:
    for seed in range(100):
        check(*random_problem(seed, extra_edges))


def test_residual_chains_are_solved_exactly() -> None:
    random = np.random.default_rng(7)
    for _ in range(50):
        costs = [random.integers(0, 20, 2).astype(float) for _ in range(10)]
        edges = {(u, u + 1): random.integers(0, 20, (2, 2)).astype(float) for u in range(9)}
        edges |= {(u, u + 3): random.integers(0, 20, (2, 2)).astype(float) for u in range(0, 7, 3)}
        check(costs, edges)


def test_complete_graphs_need_branching_and_are_solved_exactly() -> None:
    random = np.random.default_rng(3)
    for _ in range(20):
        costs = [random.integers(0, 20, 3).astype(float) for _ in range(7)]
        edges = {(u, v): random.integers(0, 20, (3, 3)).astype(float) for v in range(7) for u in range(v)}
        check(costs, edges)


def test_parallel_edges_of_both_directions_add_up() -> None:
    costs = [np.zeros(2), np.zeros(2)]
    edges = {(0, 1): np.array([[0.0, 5], [5, 3]]), (1, 0): np.array([[9.0, 0], [0, 0]])}
    assert solve(costs, edges).chosen == (1, 1)


def test_no_nodes() -> None:
    assert solve([], {}).chosen == ()
