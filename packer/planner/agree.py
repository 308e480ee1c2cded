"""The arithmetic of each node, decided for all programs of a bundle together, so that they give the same bits.

Each number of cores has an arithmetic that suits it best: that of its cheapest plan while weights have a price. Each of
these is tried on all numbers of cores; the one with the least sum of slowdowns is taken. But what leaves out zeros is
taken only if no number of cores is slower for it than with all of them: else what suits one number of cores is sought
in view of what the others gain by it, less and less so.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence

import numpy as np

from packer.planner.pbqp import solve
from packer.planner.problem import IMPOSSIBLE, Problem

__all__ = ["agreed"]

Arithmetic = tuple[str, ...]

_FEW = 32e6  # bytes of weights: those of smaller networks cost no more than if they had as many
_ALIKE = 1.01  # times as slow as this is not slower
_SHARES = (1.0, 0.5, 0.25, 0.1)


def agreed(problems: Sequence[Problem], worth: float) -> Arithmetic:
    """The arithmetic of each node for the problems of one graph on different numbers of cores, fewest first.

    With n bytes of weights and a run of t seconds in the plan that is cheapest if weights are free, each byte costs
    `worth` t/n seconds: so many percent of time are given for one percent of weights, fewer where n is below 32 MB and
    there is little to save.
    """
    best, *others = _ranked(problems, worth)
    if not others or not _leaves_out_zeros(problems[0], best):
        return best
    dense = _ranked([_with_zeros(problem) for problem in problems], worth)[0]
    most = [_seconds(problem, dense) for problem in problems]
    for arithmetic in itertools.chain([best], _compromises(problems, most), others):
        if all(_seconds(problem, arithmetic) <= _ALIKE * limit for problem, limit in zip(problems, most, strict=True)):
            return arithmetic
    return dense


def _ranked(problems: Sequence[Problem], worth: float) -> list[Arithmetic]:
    """What suits each number of cores best, in order of the slowdowns that all have by it."""
    own = [_thrifty(problem, worth) for problem in problems]
    least = [_seconds(problem, arithmetic) for problem, arithmetic in zip(problems, own, strict=True)]

    def slowdown(arithmetic: Arithmetic) -> float:
        """The sum of how many times as long each number of cores takes as it would with its own arithmetic."""
        return sum(
            1.0 if arithmetic == its else _seconds(problem, arithmetic) / max(seconds, 1e-12)
            for problem, its, seconds in zip(problems, own, least, strict=True)
        )

    return sorted(dict.fromkeys(own), key=slowdown)


def _compromises(problems: Sequence[Problem], seconds: Sequence[float]) -> Iterator[Arithmetic]:
    """What suits each number of cores, a run of which takes so long, if the others' layers count, less and less, by
    what they would cost by themselves."""
    for share, (i, problem) in itertools.product(_SHARES, enumerate(problems)):
        own = [costs.copy() for costs in problem.own]
        for other, its in zip(problems, seconds, strict=True):
            if other is problem:
                continue
            for v, choices in enumerate(problem.choices):
                least: dict[str, float] = {}
                for choice, cost in zip(other.choices[v], other.own[v], strict=True):
                    least[choice.form.arithmetic] = min(least.get(choice.form.arithmetic, IMPOSSIBLE), float(cost))
                there = np.array([least.get(choice.form.arithmetic, IMPOSSIBLE) for choice in choices])
                own[v] += share * seconds[i] / its * there
        yield problem.arithmetic(solve(own, problem.edges).chosen)


def _leaves_out_zeros(problem: Problem, arithmetic: Arithmetic) -> bool:
    """Whether any node does."""
    return any(
        choice.form.leaves_out_zeros and choice.form.arithmetic == wanted
        for choices, wanted in zip(problem.choices, arithmetic, strict=True)
        for choice in choices
    )


def _with_zeros(problem: Problem) -> Problem:
    """The problem without choices that leave out zeros, where there are others."""
    alone = [all(choice.form.leaves_out_zeros for choice in choices) for choices in problem.choices]
    return problem.among(lambda v, choice: alone[v] or not choice.form.leaves_out_zeros)[0]


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
