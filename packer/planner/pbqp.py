"""Partitioned boolean quadratic problem: choose one alternative a node so that node and edge costs are least.

Solved exactly by graph reductions: nodes without edges (R0), with one (RI) and with two (RII) are removed without loss;
chains, trees and the diamonds of residual networks vanish completely. Where no such node is left, the node of highest
degree is tried in each of its alternatives (branch and bound), each time with a smaller graph.
After Anderson & Gregg, "Optimal DNN primitive selection with PBQP", CGO 2018.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

__all__ = ["Solution", "solve"]

BRANCHES = 10_000  # of graphs that do not reduce; what is found by then may not be the least


@dataclass(frozen=True, slots=True)
class Solution:
    """The chosen alternative of each node and what all of them cost; `exact` unless the search was cut off."""

    chosen: tuple[int, ...]
    cost: float
    exact: bool


def solve(costs: list[np.ndarray], edges: dict[tuple[int, int], np.ndarray]) -> Solution:
    """The cheapest choice.

    `costs[u]` holds the cost of each alternative of node u; `edges[u, v]` with u != v the cost of each pair
    (rows: alternatives of u, columns: of v). Costs are finite.
    """
    graph = _Graph([np.array(cost, float) for cost in costs], [{} for _ in costs])
    for (u, v), matrix in edges.items():
        graph.connect(u, v, np.array(matrix, float))
    search = _Search()
    search.explore(graph, 0.0, {})
    assert search.best is not None
    return Solution(tuple(search.best[u] for u in range(len(costs))), search.cost, search.branches <= BRANCHES)


class _Graph:
    """What is left of the problem: a cost vector for each node, a matrix for each linked pair."""

    def __init__(self, vectors: list[np.ndarray], links: list[dict[int, np.ndarray]]) -> None:
        self.vectors = vectors
        self.links = links
        self.waiting = set(range(len(vectors)))

    def copy(self) -> _Graph:
        other = _Graph(list(self.vectors), [dict(own) for own in self.links])
        other.waiting = set(self.waiting)
        return other

    def connect(self, u: int, v: int, matrix: np.ndarray) -> None:
        self.links[u][v] = self.links[u][v] + matrix if v in self.links[u] else matrix
        self.links[v][u] = self.links[u][v].T

    def remove(self, u: int) -> dict[int, np.ndarray]:
        """Take node u out and return the links it had."""
        self.waiting.discard(u)
        own, self.links[u] = self.links[u], {}
        for v in own:
            del self.links[v][u]
        return own

    def reduce(self) -> list[tuple[int, dict[int, np.ndarray]]]:
        """Remove nodes of degree two or less as long as there are any; they and their links, in order of removal."""
        order = []
        ready = [u for u in sorted(self.waiting, reverse=True) if len(self.links[u]) <= 2]
        while ready:
            u = ready.pop()
            if u not in self.waiting:
                continue
            own = self.remove(u)
            order.append((u, own))
            if len(own) == 1:
                ((v, matrix),) = own.items()
                self.vectors[v] = self.vectors[v] + (self.vectors[u][:, None] + matrix).min(axis=0)
            elif len(own) == 2:
                (v, to_v), (w, to_w) = own.items()
                through = self.vectors[u][:, None, None] + to_v[:, :, None] + to_w[:, None, :]
                self.connect(v, w, through.min(axis=0))
            ready.extend(v for v in own if len(self.links[v]) <= 2)
        return order

    def bound(self) -> float:
        """No choice for the nodes left costs less than this."""
        own = sum(float(self.vectors[u].min()) for u in self.waiting)
        return own + sum(float(m.min()) for u in self.waiting for v, m in self.links[u].items() if u < v)


class _Search:
    """Depth-first branch and bound over graphs that do not reduce."""

    def __init__(self) -> None:
        self.best: dict[int, int] | None = None
        self.cost = float("inf")
        self.branches = 0

    def explore(self, graph: _Graph, fixed_cost: float, fixed: dict[int, int]) -> None:
        """Solve `graph`, given that the nodes in `fixed` are decided and cost `fixed_cost` by themselves."""
        order = graph.reduce()
        # A node of degree 0 was settled when it was removed: its own vector then holds all that hangs on it.
        settled = sum(float(graph.vectors[u].min()) for u, own in order if not own)
        if self.best is not None and fixed_cost + settled + graph.bound() >= self.cost:
            return
        if graph.waiting:
            self.branch(graph, fixed_cost + settled, fixed, order)
        elif fixed_cost + settled < self.cost:
            self.cost = fixed_cost + settled
            self.best = _backtrack(graph, order, fixed)

    def branch(
        self, graph: _Graph, cost: float, fixed: dict[int, int], order: list[tuple[int, dict[int, np.ndarray]]]
    ) -> None:
        """Try the alternatives of the node of highest degree, the locally best first."""
        u = max(sorted(graph.waiting), key=lambda node: len(graph.links[node]))
        hanging = [(m + graph.vectors[v]).min(axis=1) for v, m in graph.links[u].items()]
        for alternative in np.argsort(graph.vectors[u] + sum(hanging), kind="stable"):
            self.branches += 1
            if self.branches > BRANCHES and self.best is not None:
                return
            smaller = graph.copy()
            for v, matrix in smaller.remove(u).items():
                smaller.vectors[v] = smaller.vectors[v] + matrix[alternative]
            found_before = self.cost
            self.explore(smaller, cost + float(graph.vectors[u][alternative]), {**fixed, u: int(alternative)})
            if self.cost < found_before and self.best is not None:
                self.best = _backtrack(graph, order, self.best)


def _backtrack(graph: _Graph, order: list[tuple[int, dict[int, np.ndarray]]], chosen: dict[int, int]) -> dict[int, int]:
    """Add the choices of reduced nodes, last removed first: each has its neighbours decided by then."""
    chosen = dict(chosen)
    for u, own in reversed(order):
        total = graph.vectors[u] + sum(matrix[:, chosen[v]] for v, matrix in own.items())
        chosen[u] = int(np.argmin(total))
    return chosen
