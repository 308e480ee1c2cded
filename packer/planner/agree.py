"""The arithmetic of each node, decided for all programs of a bundle together, so that they give the same bits.

Each number of cores has an arithmetic that suits it best: that of its cheapest plan while weights have a price. Each of
these is tried on all numbers of cores; the one with the least sum of slowdowns is taken.
"""

from __future__ import annotations

from collections.abc import Sequence

from packer.planner.pbqp import solve
from packer.planner.problem import Problem

__all__ = ["agreed"]

Arithmetic = tuple[str, ...]

_FEW = 32e6  # bytes of weights: those of smaller networks cost no more than if they had as many


def agreed(problems: Sequence[Problem], worth: float) -> Arithmetic:
    """The arithmetic of each node for the problems of one graph on different numbers of cores, fewest first.

    With n bytes of weights and a run of t seconds in the plan that is cheapest if weights are free, each byte costs
    `worth` t/n seconds: so many percent of time are given for one percent of weights, fewer where n is below 32 MB and
    there is little to save.
    """
    own = [_thrifty(problem, worth) for problem in problems]
    least = [_seconds(problem, arithmetic) for problem, arithmetic in zip(problems, own, strict=True)]

    def slowdown(arithmetic: Arithmetic) -> float:
        """The sum of how many times as long each number of cores takes as it would with its own arithmetic."""
        return sum(
            1.0 if arithmetic == its else _seconds(problem, arithmetic) / max(seconds, 1e-12)
            for problem, its, seconds in zip(problems, own, least, strict=True)
        )

    return min(dict.fromkeys(own), key=slowdown)


def _thrifty(problem: Problem, worth: float) -> Arithmetic:
    """That of the cheapest plan while weights have a price."""
    free = solve(list(problem.own), problem.edges)
    bytes = sum(float(own[i]) for own, i in zip(problem.weights, free.chosen, strict=True))
    price = worth * free.cost / max(bytes, _FEW)
    priced = [own + price * weights for own, weights in zip(problem.own, problem.weights, strict=True)]
    return problem.arithmetic(solve(priced, problem.edges).chosen)


def _seconds(problem: Problem, arithmetic: Arithmetic) -> float:
    """Of the cheapest plan with this arithmetic."""
    return problem.solve(lambda one: solve(list(one.own), one.edges), arithmetic).cost
