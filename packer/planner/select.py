"""Choose the form (the layouts) of every node of the graph at once."""

from __future__ import annotations

import numpy as np

from packer.ir import Graph
from packer.planner.pbqp import solve
from targets.base import Form, Layout, Target, TargetError

__all__ = ["select_forms"]


def select_forms(graph: Graph, target: Target, implementation: str | None = None) -> list[Form]:
    """The cheapest consistent forms: what each costs, and what changing layouts between them costs.

    Graph inputs and outputs are planar. Nodes that offer `implementation` use it; TargetError if there is none.
    """
    choices = [target.forms(graph, node) for node in graph.nodes]
    if implementation is not None:
        choices = _only(choices, implementation)
    costs = [np.array([form.cost for form in forms]) for forms in choices]
    edges: dict[tuple[int, int], np.ndarray] = {}
    made: dict[str, tuple[int, int]] = {}
    outputs = set(graph.outputs)
    for v, node in enumerate(graph.nodes):
        for i, name in enumerate(node.inputs):
            if name is None or graph.constant(name) is not None:
                continue
            wanted = [form.inputs[i] for form in choices[v]]
            if name not in made:
                costs[v] = costs[v] + [_change(graph, target, name, Layout.PLANAR, layout) for layout in wanted]
                continue
            u, slot = made[name]
            given = [form.outputs[slot] for form in choices[u]]
            matrix = np.array([[_change(graph, target, name, a, b) for b in wanted] for a in given])
            edges[u, v] = edges[u, v] + matrix if (u, v) in edges else matrix
        for slot, name in enumerate(node.outputs):
            made[name] = (v, slot)
            if name in outputs:
                costs[v] = costs[v] + [
                    _change(graph, target, name, form.outputs[slot], Layout.PLANAR) for form in choices[v]
                ]
    return [forms[i] for forms, i in zip(choices, solve(costs, edges).chosen, strict=True)]


def _only(choices: list[tuple[Form, ...]], name: str) -> list[tuple[Form, ...]]:
    """The forms of that implementation wherever there is one."""
    known = sorted({form.implementation for forms in choices for form in forms if form.implementation})
    if name not in known:
        raise TargetError(f"no node can run as '{name}'; implementations here: {', '.join(known) or 'none to choose'}")
    return [tuple(form for form in forms if form.implementation == name) or forms for forms in choices]


def _change(graph: Graph, target: Target, name: str, source: Layout, destination: Layout) -> float:
    return 0.0 if source is destination else target.reorder(graph.type(name), source, destination)[1]
