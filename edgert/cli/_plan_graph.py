"""The graph of a plan, ready to be drawn: operators in rows, from top to bottom as time goes."""

from __future__ import annotations

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
    for v in _in_time(plan, steps):
        d, own = plan.decisions[v], [program.steps[step].phase for step in steps[v]]
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


def _in_time(plan: Plan, steps: Sequence[Sequence[int]]) -> list[int]:
    """The decisions in the order of their first steps; those without steps come behind what they read."""
    when: dict[str, int] = {}
    keys = []
    for v, d in enumerate(plan.decisions):
        key = min(steps[v], default=max((when.get(value.name, 0) for value in d.inputs), default=0))
        when.update((output.name, key) for output in d.outputs)
        keys.append((key, v))
    return [v for _, v in sorted(keys)]
