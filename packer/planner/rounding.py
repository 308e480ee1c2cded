"""What a plan computes with that is less exact than the network: rounded weights, and values as halves."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from packer.ir import DType, Graph
from packer.ir.evaluate import evaluate
from packer.ir.ops import Conv
from packer.ir.rounding import relative_error
from packer.planner import Plan
from targets.base import Layout

__all__ = ["Rounding", "rounding_of"]


@dataclass(frozen=True, slots=True, eq=False)
class Rounding:
    """`weights` that are rounded, by name, as they are used; `halves` are the values that are stored, used or summed as
    float16. `errors` are those of the layers whose weights are rounded, by the number of their node: ||y - exact y||
    over ||exact y|| for random inputs. `noise` is how many times as large the errors of results may be as those of
    rounded weights, where inputs are rounded too."""

    weights: Mapping[str, np.ndarray]
    halves: frozenset[str]
    errors: Mapping[int, float]
    noise: float = 1.0

    def __bool__(self) -> bool:
        return bool(self.weights or self.halves)

    def same(self, other: Rounding) -> bool:
        """Whether networks rounded like this and like the other one give the same."""
        if self.halves != other.halves or self.weights.keys() != other.weights.keys():
            return False
        return all(np.array_equal(data, other.weights[name]) for name, data in self.weights.items())

    def evaluate(self, graph: Graph, inputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """The outputs of the graph that was planned in float64, rounded like this."""
        changed = {name: replace(graph.values[name], data=data) for name, data in self.weights.items()}
        return evaluate(replace(graph, values={**graph.values, **changed}), inputs, np.float64, self.halves)


def rounding_of(plan: Plan) -> Rounding:
    """What the plan rounds."""
    graph, target = plan.problem.graph, plan.problem.costs.target
    weights: dict[str, np.ndarray] = {}
    errors: dict[int, float] = {}
    halves: set[str] = set()
    noise = 1.0
    for number, (node, choice) in enumerate(zip(graph.nodes, plan.choices, strict=True)):
        used = target.rounded(graph, node, choice.form)
        if used is not None:
            name = node.inputs[1] or ""
            exact = graph.values[name].data
            assert exact is not None
            weights[name] = used
            first = 0 if isinstance(node.op, Conv) else -1  # the axis of outputs
            noise = max(noise, target.noise(choice.form))
            errors[number] = relative_error(np.moveaxis(exact, first, 0), np.moveaxis(used, first, 0))
        if target.narrows(choice.form):
            halves.update((node.inputs[0] or "", *node.outputs))
        sides = (node.inputs, choice.form.inputs), (node.outputs, choice.form.outputs)
        for names, layouts in sides:
            on_device = (n for n, layout in zip(names, layouts, strict=False) if n and layout is Layout.PLANES)
            halves.update(n for n in on_device if target.stored(graph, n)[0] is DType.F16)
    return Rounding(weights, frozenset(halves), errors, noise)
