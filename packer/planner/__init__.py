"""From a graph and a target to a program: for the whole graph at once, how each node runs and on which cores.

Choices of every node (choices.py) and adjustments between them (adjust.py) make one problem (problem.py), which a
strategy solves (select.py; the exact one by pbqp.py); the plan becomes steps over tensors in memory (schedule.py).
"""

from __future__ import annotations

import gc
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from types import MappingProxyType

from packer.bundle.model import Program
from packer.ir import Graph
from packer.passes.float_products import float_products
from packer.passes.recognise_attention import recognise_attention
from packer.planner.agree import agreed
from packer.planner.choices import Choice
from packer.planner.costs import Costs, Signature
from packer.planner.explain import to_json
from packer.planner.pbqp import Solution
from packer.planner.problem import Problem, build
from packer.planner.schedule import schedule
from packer.planner.select import STRATEGIES, Strategy
from targets.base import Target, TargetError

__all__ = ["WORTH_OF_WEIGHTS", "Plan", "make_plan", "make_plans", "plan", "prepared", "worth_their_cores"]


MOST_CORES = 254  # of a program
# Percent of time given for a percent of the bytes of weights: what brings ResNet-50 below half of onnxruntime's memory.
WORTH_OF_WEIGHTS = 0.086
_WAKING = 30e-6  # seconds until a worker that sleeps between two runs begins with one
_NONE: Mapping[int, float] = MappingProxyType({})


@dataclass(frozen=True, slots=True, eq=False)
class Plan:
    """A problem and its solution."""

    problem: Problem
    solution: Solution

    @property
    def choices(self) -> tuple[Choice, ...]:
        """What each node does, in execution order."""
        chosen = self.solution.chosen
        return tuple(alternatives[i] for alternatives, i in zip(self.problem.choices, chosen, strict=True))

    @property
    def arithmetic(self) -> tuple[str, ...]:
        """What decides the bits of each node's results: the arithmetic of its form."""
        return self.problem.arithmetic(self.solution.chosen)

    @property
    def seconds(self) -> float:
        """Predicted time of one run."""
        return self.solution.cost

    def explain(self, errors: Mapping[int, float] = _NONE, error: float | None = None) -> str:
        """Its decisions as JSON, for people, with the errors of layers and of the whole network due to rounding."""
        return to_json(self.problem, self.solution, errors, error)

    def program(self, errors: Mapping[int, float] = _NONE, error: float | None = None) -> Program:
        """The plan as steps over tensors; errors as for `explain`."""
        made = schedule(self.problem.graph, self.problem.costs.target, self.choices, self.problem.cores)
        return replace(made, plan=self.explain(errors, error))


def prepared(graph: Graph, target: Target) -> Graph:
    """The graph that is planned for `target`, which may have operators that others do not: devices have no products of
    bytes, processors have attention."""
    if target.device:
        return float_products(graph)
    return recognise_attention(graph) if target.attends else graph


def make_plans(
    graph: Graph,
    target: Target,
    counts: Sequence[int],
    *,
    implementation: str | None = None,
    search: str | Strategy = "exact",
    partial_sums: bool = False,
    records: Mapping[Signature, float] | None = None,
) -> tuple[Plan, ...]:
    """The plans that `search`, a strategy or its name, finds for each of these numbers of cores, with `implementation`
    wherever a node offers it. All give the same bits: the arithmetic of each node is decided for all of them that the
    target's machine has cores for.

    With `partial_sums` input channels may be split, too, and results depend on the split in their last bits.
    `records` are measured times that overrule the target's cost model. Raises TargetError for an unknown strategy or
    implementation, or more cores than a program can have.
    """
    for cores in counts:
        if not 1 <= cores <= MOST_CORES:
            raise TargetError(f"number of cores: expected 1 to {MOST_CORES}, got {cores}")
    strategy = STRATEGIES.get(search) if isinstance(search, str) else search
    if strategy is None:
        raise TargetError(f"unknown search '{search}'; known: {', '.join(STRATEGIES)}")
    graph, problems = prepared(graph, target), {}
    with _uncollected():
        for cores in sorted(set(counts)):
            costs = Costs(target.on(target.machine.sized(cores)), records or {})
            problems[cores] = build(graph, costs, cores, implementation, partial_sums)
        known = [problem for cores, problem in problems.items() if cores <= len(target.machine.cores)]
        arithmetic = agreed(known or list(problems.values())[:1], WORTH_OF_WEIGHTS)
    plans = {cores: Plan(problem, problem.solve(strategy, arithmetic)) for cores, problem in problems.items()}
    return tuple(plans[cores] for cores in counts)


def worth_their_cores(plans: Sequence[Plan]) -> tuple[Plan, ...]:
    """Of plans for more and more cores the first, and those that save what it takes to wake a worker."""
    kept: list[Plan] = []
    for plan in plans:
        if not kept or plan.seconds + _WAKING < min(fewer.seconds for fewer in kept):
            kept.append(plan)
    return tuple(kept)


def make_plan(
    graph: Graph,
    target: Target,
    cores: int = 1,
    *,
    implementation: str | None = None,
    search: str | Strategy = "exact",
    partial_sums: bool = False,
    records: Mapping[Signature, float] | None = None,
) -> Plan:
    """The one plan of make_plans for one number of cores."""
    (made,) = make_plans(
        graph, target, (cores,),
        implementation=implementation, search=search, partial_sums=partial_sums, records=records,
    )  # fmt: skip
    return made


@contextmanager
def _uncollected() -> Iterator[None]:
    """Nothing that a problem is made of is part of a cycle: to look for cycles again and again would take a third of
    the time."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.freeze()  # what was made is old at once, so that it need not be searched
            gc.unfreeze()
            gc.enable()


def plan(graph: Graph, target: Target, cores: int = 1, **options: object) -> Program:
    """The program of `make_plan`."""
    return make_plan(graph, target, cores, **options).program()  # type: ignore[arg-type]
