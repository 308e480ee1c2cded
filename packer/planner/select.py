"""Strategies: how one choice a node is found. `exact` is the planner; the others are what it is measured against."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from packer.planner.pbqp import Solution, solve
from packer.planner.problem import IMPOSSIBLE, Problem
from packer.planner.split import NONE
from targets.base import TargetError

if TYPE_CHECKING:
    from packer.planner.policy import Measure

__all__ = ["STRATEGIES", "Strategy", "among", "exact", "learned", "sample"]

Strategy = Callable[[Problem], Solution]


def exact(problem: Problem) -> Solution:
    """The cheapest plan over the whole graph."""
    return solve(list(problem.own), problem.edges)


def unsplit(problem: Problem) -> Solution:
    """The cheapest plan on one core."""
    return among(problem, lambda split: split == NONE)


def rows(problem: Problem) -> Solution:
    """The cheapest plan that cuts every operator by rows into as many pieces as possible, where it has rows."""
    return among(problem, lambda split: split.startswith("H") and "x" not in split and "/" not in split)


def greedy(problem: Problem) -> Solution:
    """For each node in turn the choice that is cheapest by itself and after those before it; later ones do not
    count."""
    chosen: list[int] = []
    for v, own in enumerate(problem.own):
        total = own + np.array([IMPOSSIBLE if choice.streams_out else 0.0 for choice in problem.choices[v]])
        for (u, w), matrix in problem.edges.items():
            if w == v:
                total = total + matrix[chosen[u]]
        chosen.append(int(np.argmin(total)))
    return Solution(tuple(chosen), problem.seconds(chosen), False)


def learned(measure: Measure | None = None, budget: float = math.inf) -> Strategy:
    """The strategy of policy.py: searches until `measure` took `budget` seconds; without it, by the cost model.

    Raises TargetError where PyTorch is missing.
    """
    try:
        from packer.planner.policy import Policy
    except ModuleNotFoundError as error:
        if error.name != "torch":
            raise
        raise TargetError("search 'policy' needs PyTorch\nInstall it: pip install 'edgert[search]'") from None
    return Policy(measure, budget)


STRATEGIES: dict[str, Strategy] = {
    "exact": exact,
    "none": unsplit,
    "rows": rows,
    "greedy": greedy,
    "policy": lambda problem: learned()(problem),
}


def among(problem: Problem, allowed: Callable[[str], bool]) -> Solution:
    """The cheapest plan whose nodes use splits of an allowed name, wherever they have one with the most pieces."""
    own = []
    for alternatives, costs in zip(problem.choices, problem.own, strict=True):
        plain = [c for c in alternatives if not c.streams_out and not c.takes]
        most = max((len(c.split.pieces) for c in plain if allowed(c.split.name)), default=0)
        wanted = [c for c in plain if allowed(c.split.name) and len(c.split.pieces) == most]
        wanted = wanted or [c for c in plain if c.split.name == NONE]
        own.append(costs + np.array([0.0 if c in wanted else IMPOSSIBLE for c in alternatives]))
    return solve(own, problem.edges)


def sample(problem: Problem, random: np.random.Generator, weights: Sequence[np.ndarray] | None = None) -> Solution:
    """A random consistent plan: in execution order, each node takes a choice that goes with those before it, by chance
    with the given weights (uniformly without)."""
    into: dict[int, list[tuple[int, np.ndarray]]] = {}
    for (u, v), matrix in problem.edges.items():
        into.setdefault(v, []).append((u, matrix))
    chosen: list[int] = []
    while len(chosen) < len(problem.choices):
        v = len(chosen)
        chance = np.ones(len(problem.choices[v])) if weights is None else np.array(weights[v])
        chance[problem.own[v] >= IMPOSSIBLE] = 0.0
        for u, matrix in into.get(v, []):
            chance[matrix[chosen[u]] >= IMPOSSIBLE] = 0.0
        if chance.any():
            chosen.append(int(random.choice(len(chance), p=chance / chance.sum())))
        else:
            chosen.clear()  # tiles that no consumer takes in these layouts: again
    return Solution(tuple(chosen), problem.seconds(chosen), False)
