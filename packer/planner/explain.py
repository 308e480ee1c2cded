"""Why a plan is as it is: for each node what was chosen, what it is predicted to take, and why the runner-up lost."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from packer.ir import Graph, Node
from packer.planner.choices import Choice
from packer.planner.costs import work_of
from packer.planner.pbqp import Solution, solve
from packer.planner.problem import IMPOSSIBLE, Problem
from targets.base import Layout

__all__ = ["Decision", "RunnerUp", "decisions", "to_json"]


@dataclass(frozen=True, slots=True)
class RunnerUp:
    """The next best choice of a node with all other nodes left as they are, and how many more seconds it takes for
    computing and for adjustments; fewer, if the plan is not the cheapest one.

    Nodes that stream into one another or share a kernel may change together, to what is best without: then seconds are
    those of all the `nodes`.
    """

    choice: Choice
    compute: float
    adjust: float
    nodes: int = 1

    @property
    def seconds(self) -> float:
        return self.compute + self.adjust


@dataclass(frozen=True, slots=True)
class Decision:
    """What one node does. Seconds: `compute` of the slowest core; `adjust` until its inputs, and graph outputs that it
    makes, are in the states in which they are needed. `runner_up` is None where nothing else is possible. `others` are
    the best choices of other tiers of a device and of the processor, cheapest first."""

    node: Node
    choice: Choice
    compute: float
    adjust: float
    runner_up: RunnerUp | None
    others: tuple[RunnerUp, ...] = ()


def decisions(problem: Problem, chosen: Sequence[int]) -> tuple[Decision, ...]:
    """One decision a node, in execution order; their seconds add up to those of the whole plan."""
    found = []
    into, total = _around(problem, chosen)
    apart = _apart(problem, chosen)
    for v, node in enumerate(problem.graph.nodes):
        mine = problem.choices[v][chosen[v]]
        adjust = into[v] + float(problem.own[v][chosen[v]]) - mine.seconds
        rivals = _alone(problem.choices[v], chosen[v], total[v]) + apart.get(v, [])
        runner_up = min(rivals, key=lambda rival: rival.seconds, default=None)
        others = _others(mine, rivals) if problem.costs.target.device else ()
        found.append(Decision(node, mine, mine.seconds, adjust, runner_up, others))
    return tuple(found)


def to_json(problem: Problem, solution: Solution, errors: Mapping[int, float], error: float | None) -> str:
    """The plan as docs/format.md describes it for bundles; the same text for the same plan. `errors` are those of nodes
    whose weights are rounded, by number, `error` that of the network's outputs, None: not known."""
    plan = {
        "machine": problem.costs.target.machine.name,
        "nanoseconds": _nanoseconds(solution.cost),
        "exact": solution.exact,
        "rounding": _digits(error),
        "decisions": [
            _plain(problem, decision) | {"rounding": _digits(errors.get(number))}
            for number, decision in enumerate(decisions(problem, solution.chosen))
        ],
    }
    return json.dumps(plan, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def _around(problem: Problem, chosen: Sequence[int]) -> tuple[list[float], list[np.ndarray]]:
    """By node: seconds of the adjustments of its inputs, and what each of its choices costs with those of its
    neighbours."""
    into = [0.0] * len(chosen)
    total = [own.copy() for own in problem.own]
    for (u, v), matrix in problem.edges.items():
        into[v] += float(matrix[chosen[u], chosen[v]])
        total[u] += matrix[:, chosen[v]]
        total[v] += matrix[chosen[u]]
    return into, total


def _alone(choices: Sequence[Choice], chosen: int, total: np.ndarray) -> list[RunnerUp]:
    """The choices that one node has besides the chosen one, and the one which that dominates."""
    mine = choices[chosen]
    found = [
        RunnerUp(choice, choice.seconds - mine.seconds, float(total[i] - total[chosen]) - choice.seconds + mine.seconds)
        for i, choice in enumerate(choices)
        if i != chosen and total[i] < IMPOSSIBLE
    ]
    if mine.dominates is not None:
        found.append(RunnerUp(mine.dominates, mine.dominates.seconds - mine.seconds, 0.0))
    return found


def _others(mine: Choice, rivals: Sequence[RunnerUp]) -> tuple[RunnerUp, ...]:
    """The best of each tier, and of the processor, but that of `mine`."""
    best: dict[str, RunnerUp] = {}
    for rival in sorted(rivals, key=lambda rival: rival.seconds):
        if _tier(rival.choice) != _tier(mine):
            best.setdefault(_tier(rival.choice), rival)
    return tuple(best.values())


def _tier(choice: Choice) -> str:
    """What implementations begin with on a device, up to their settings; "" for all of a processor's."""
    on_device = not {Layout.PLANES, Layout.REGISTERS}.isdisjoint(choice.form.outputs)
    return choice.form.implementation.partition(" ")[0] if on_device else ""


def _apart(problem: Problem, chosen: Sequence[int]) -> dict[int, list[RunnerUp]]:
    """For each node that streams, or shares a kernel with another one: the best that they could do without."""
    found: dict[int, list[RunnerUp]] = {}
    for chain in _chains(problem, chosen):
        inside = {}
        costs = {v: problem.own[v].copy() for v in chain}
        for (u, v), matrix in problem.edges.items():
            if u in costs and v in costs:
                inside[u, v] = matrix
            elif u in costs:
                costs[u] += matrix[:, chosen[v]]
            elif v in costs:
                costs[v] += matrix[chosen[u]]
        before = sum(float(costs[v][chosen[v]]) for v in chain)
        before += sum(float(matrix[chosen[u], chosen[v]]) for (u, v), matrix in inside.items())
        for v in chain:
            costs[v] += [0.0 if choice.alone else IMPOSSIBLE for choice in problem.choices[v]]
        number = {v: i for i, v in enumerate(chain)}
        best = solve(list(costs.values()), {(number[u], number[v]): matrix for (u, v), matrix in inside.items()})
        if best.cost >= IMPOSSIBLE:
            continue
        choices = [problem.choices[v][i] for v, i in zip(chain, best.chosen, strict=True)]
        compute = sum(c.seconds - problem.choices[v][chosen[v]].seconds for v, c in zip(chain, choices, strict=True))
        rivals = (RunnerUp(choice, compute, best.cost - before - compute, len(chain)) for choice in choices)
        found.update((v, [rival]) for v, rival in zip(chain, rivals, strict=True))
    return found


def _chains(problem: Problem, chosen: Sequence[int]) -> list[list[int]]:
    """Nodes that stream into one another or share a kernel, two or more."""
    nodes = problem.graph.nodes
    made_by = {name: v for v, node in enumerate(nodes) for name in node.outputs}
    chains: dict[int, list[int]] = {}  # by last node
    for v, node in enumerate(nodes):
        choice = problem.choices[v][chosen[v]]
        if choice.takes or choice.form.inputs[:1] == (Layout.REGISTERS,):
            u = made_by[node.inputs[0] or ""]
            chains[v] = [*chains.pop(u, [u]), v]
    return list(chains.values())


def _plain(problem: Problem, decision: Decision) -> dict[str, object]:
    graph, node, choice, form = problem.graph, decision.node, decision.choice, decision.choice.form
    inputs = [
        {"name": name, "layout": layout.name.lower()}
        for name, layout in zip(node.inputs, form.inputs, strict=True)
        if name is not None and graph.constant(name) is None
    ]
    outputs = [
        {"name": name, "layout": layout.name.lower(), "shape": graph.type(name).shape}
        for name, layout in zip(node.outputs, form.outputs, strict=False)
    ]
    target = problem.costs.target
    told = {
        "bound": target.bound(work_of(graph, node), form) if decision.compute else "",
        "others": [_rival(graph, node, other) for other in decision.others],
    }
    return {
        "nodes": node.sources,
        "operator": type(node.op).__name__,
        "inputs": inputs,
        "outputs": outputs,
        **_kind(graph, node, choice),
        "pieces": [[piece.core, piece.box] for piece in choice.split.pieces],
        "streams_in": bool(choice.takes),
        "streams_out": choice.streams_out,
        "compute": _nanoseconds(decision.compute),
        "adjust": _nanoseconds(decision.adjust),
        "runner_up": None if decision.runner_up is None else _rival(graph, node, decision.runner_up),
        **(told if target.device else {}),
    }


def _rival(graph: Graph, node: Node, rival: RunnerUp) -> dict[str, object]:
    return {
        **_kind(graph, node, rival.choice),
        "compute": _nanoseconds(rival.compute),
        "adjust": _nanoseconds(rival.adjust),
        "decisions": rival.nodes,
    }


def _kind(graph: Graph, node: Node, choice: Choice) -> dict[str, object]:
    """How a choice is told from the others."""
    form = choice.form
    read = [form.inputs[i] for i, name in enumerate(node.inputs) if name is not None and graph.constant(name) is None]
    sides = (dict.fromkeys(layout.name.lower() for layout in side) for side in (read, form.outputs))
    layouts = ">".join("+".join(side) for side in sides)
    split = choice.split.name + (" in bands" if choice.banded else "")
    return {"algorithm": form.implementation, "layouts": layouts, "split": split}


def _nanoseconds(seconds: float) -> int:
    return round(seconds * 1e9)


def _digits(error: float | None) -> float | None:
    """Two digits, which are the same on every machine."""
    return None if error is None else float(f"{error:.1e}")
