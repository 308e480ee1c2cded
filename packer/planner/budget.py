"""A budget for rounded weights: as many as keep the network's outputs near those of the exact ones are rounded."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from packer.ir.evaluate import evaluate
from packer.ir.rounding import difference
from packer.planner import Plan
from packer.planner.rounding import Rounding, rounding_of

__all__ = ["within_budget"]

_MARGIN = 4.0  # other inputs than the sample's meet the budget, too


def within_budget(plan: Plan, inputs: Mapping[str, np.ndarray]) -> Plan:
    """The plan with exact weights where rounding all that its target would moves the outputs for a sample of `inputs`
    by more than a fourth of the target's budget.

    Each layer adds about the same error, so those with the fewest non-zeros become exact first.
    """
    graph, budget = plan.problem.graph, plan.problem.costs.target.budget / _MARGIN
    weights = rounding_of(plan).weights if 0 < budget < math.inf else {}
    names = sorted(weights, key=lambda name: (-np.count_nonzero(weights[name]), name))
    if not names:
        return plan
    want = evaluate(graph, inputs, np.float64)
    kept, error = len(names), math.inf
    while kept:
        chosen = Rounding({name: weights[name] for name in names[:kept]}, frozenset(), {})
        got = chosen.evaluate(graph, inputs)
        error = max((difference(got[name], want[name]) for name in graph.outputs), default=0.0)
        if error <= budget:
            break
        kept = min(kept - 1, int(0.8 * kept * (budget / error) ** 2))  # their squares add up
    return _keeping(plan, frozenset(names[kept:]))


def _keeping(plan: Plan, exact: frozenset[str]) -> Plan:
    costs = plan.problem.costs
    return replace(plan, problem=replace(plan.problem, costs=replace(costs, target=costs.target.keeping(exact))))
