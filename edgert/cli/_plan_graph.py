"""The graph of a plan, ready to be drawn: operators in rows, from top to bottom as time goes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from edgert.decisions import Plan
    from edgert.reader import Program

__all__ = ["Edge", "PlanGraph", "plan_graph"]


@dataclass(frozen=True, slots=True)
class Edge:
    """A value on its way: between nodes, made in one layout and needed in another."""

    source: int
    target: int
    name: str
    made: str
    needed: str
    tiles: bool


@dataclass(frozen=True, slots=True)
class PlanGraph:
    """Nodes 0 to n - 1 are the plan's decisions, the others inputs by name. `lines`: the row that phases begin with."""

    inputs: tuple[str, ...]
    edges: tuple[Edge, ...]
    rows: tuple[int, ...]
    lines: tuple[tuple[int, int, int], ...]  # row, first and last phase


def plan_graph(program: Program, plan: Plan, steps: Sequence[Sequence[int]]) -> PlanGraph:
    """Rows from top to bottom as time goes: below what is read, and below all phases before."""
    count = len(plan.decisions)
    made: dict[str, int] = {}
    inputs: dict[str, int] = {}
    edges: list[Edge] = []
    rows = [0] * count
    lines: list[tuple[int, int, int]] = []
    base = phase = deepest = 0
    for first, v in _in_time(plan, steps):
        d = plan.decisions[v]
        own = [program.steps[step].phase for step in steps[v]] if first in steps[v] else []
        if own and min(own) > phase:
            base = deepest + 1
            lines.append((base, phase + 1, min(own)))
        phase = max(own, default=phase)
        row = base
        for position, value in enumerate(d.inputs):
            if value.name not in made:
                made[value.name] = inputs.setdefault(value.name, count + len(inputs))
                rows.append(0)
            u = made[value.name]
            given = plan.decisions[u].outputs if u < count else ()
            layout = next((output.layout for output in given if output.name == value.name), "planar")
            edges.append(Edge(u, v, value.name, layout, value.layout, d.streams_in and position == 0))
            row = max(row, rows[u] + 1)
        made.update((output.name, v) for output in d.outputs)
        rows[v] = row
        deepest = max(deepest, row)
    return PlanGraph(tuple(inputs), tuple(edges), tuple(rows), tuple(lines))


def _in_time(plan: Plan, steps: Sequence[Sequence[int]]) -> list[tuple[float, int]]:
    """When decisions come, and which, in order: at their first step, or at the first that reads what they give, which
    may be there without a step, or before the step that copies it to an output."""
    read: dict[str, float] = {}
    keys = []
    for v in reversed(range(len(plan.decisions))):
        d = plan.decisions[v]
        key = min((*steps[v], *(read.get(value.name, math.inf) for value in d.outputs)), default=math.inf)
        read.update((value.name, min(key, read.get(value.name, key))) for value in d.inputs)
        keys.append((key, v))
    return sorted(keys)
