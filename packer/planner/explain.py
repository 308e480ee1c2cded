"""Why the plan is as it is: for each node what was chosen, what it is predicted to take, and why the runner-up lost."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from packer.planner.choices import Choice
from packer.planner.problem import IMPOSSIBLE, Problem

__all__ = ["Decision", "decisions"]


@dataclass(frozen=True, slots=True)
class Decision:
    """What one node does. Times in seconds: `compute` of the slowest core, `adjust` for bringing its operands into the
    states it needs; of the runner-up how much more it would take with everything else unchanged."""

    node: str
    operator: str
    algorithm: str
    layouts: str
    split: str
    cores: int
    compute: float
    adjust: float
    runner_up: str
    more_compute: float
    more_adjust: float

    @property
    def seconds(self) -> float:
        return self.compute + self.adjust


def decisions(problem: Problem, chosen: Sequence[int]) -> tuple[Decision, ...]:
    """One decision a node, in execution order."""
    around: dict[int, list[tuple[int, int]]] = {v: [] for v in range(len(chosen))}
    for u, v in problem.edges:
        around[u].append((u, v))
        around[v].append((u, v))
    return tuple(_decision(problem, chosen, v, around[v]) for v in range(len(chosen)))


def _decision(problem: Problem, chosen: Sequence[int], v: int, links: list[tuple[int, int]]) -> Decision:
    node, alternatives = problem.graph.nodes[v], problem.choices[v]
    total = problem.own[v].copy()
    into = 0.0
    for u, w in links:
        matrix = problem.edges[u, w]
        total += matrix[chosen[u]] if w == v else matrix[:, chosen[w]]
        if w == v:
            into += float(matrix[chosen[u], chosen[v]])
    mine = alternatives[chosen[v]]
    others = [i for i in range(len(alternatives)) if i != chosen[v] and total[i] < IMPOSSIBLE]
    second = min(others, key=lambda i: (total[i], i), default=None)
    more = 0.0 if second is None else float(total[second] - total[chosen[v]])
    more_compute = 0.0 if second is None else alternatives[second].seconds - mine.seconds
    return Decision(
        node=node.sources[0] if node.sources else node.outputs[0],
        operator=type(node.op).__name__,
        algorithm=mine.form.implementation,
        layouts=_layouts(mine),
        split=_split(mine),
        cores=len({piece.core for piece in mine.split.pieces}),
        compute=mine.seconds,
        adjust=into + float(problem.own[v][chosen[v]]) - mine.seconds,
        runner_up="" if second is None else _describe(alternatives[second]),
        more_compute=more_compute,
        more_adjust=more - more_compute,
    )


def _describe(choice: Choice) -> str:
    return " ".join(filter(None, (choice.form.implementation, _layouts(choice), _split(choice))))


def _layouts(choice: Choice) -> str:
    source = choice.form.inputs[0].name.lower() if choice.form.inputs else ""
    return f"{source}>{choice.form.outputs[0].name.lower()}"


def _split(choice: Choice) -> str:
    streams = {(True, True): "><", (True, False): ">", (False, True): "<", (False, False): ""}
    return choice.split.name + streams[bool(choice.takes), choice.streams_out]
