"""Find the ReLUs, leaky ones too, that exporters spell out.

Before: `y = relu(x) - slope * relu(-x)`, `y = relu(x) + slope * (x - |x|) * 0.5`, `y = max(x, slope * x)`,
`y = prelu(x, slope)` with one slope for all channels, ...
After: `y = leaky_relu(x)`, `y = prelu(x, slope)` with a slope for each channel, or `y = relu(x)`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from packer.ir import DType, Graph, Node, Value
from packer.ir.ops import Binary, Unary
from packer.passes.rewrite import Uses, fresh

__all__ = ["recognise_leaky"]


@dataclass(frozen=True, slots=True, eq=False)
class _Slopes:
    """A value that is `up` x where x is positive, and `down` x where it is negative: so are sums, differences, maxima
    and minima of such values of one x."""

    x: str
    up: np.ndarray
    down: np.ndarray


def recognise_leaky(graph: Graph) -> Graph:
    """The graph with each value that is x where x is positive, and a constant times x elsewhere, as one operator."""
    uses, taken = Uses(graph), set[str]()
    known: dict[str, _Slopes] = {}
    values: list[Value] = []
    nodes: list[Node] = []
    changed = False
    for node in graph.nodes:
        found = _slopes(graph, node, known)
        if found is None:
            nodes.append(node)
            continue
        if len(uses.consumers[node.outputs[0]]) == 1:  # what several read is an x of its own
            known[node.outputs[0]] = found
        slope = found.down.astype(np.float32)
        if not isinstance(node.op, Binary) or (found.up != 1).any() or slope.size == 0 or (slope == 1).all():
            nodes.append(node)
            continue
        one = bool((slope == slope.flat[0]).all())
        if node.op.kind == "prelu" and found.x == node.inputs[0] and not one:
            nodes.append(node)
            continue
        changed = True
        if one:
            op = Unary("leaky_relu", float(slope.flat[0])) if slope.any() else Unary("relu")
            nodes.append(Node(op, (found.x,), node.outputs, node.sources))
            continue
        values.append(Value.constant(fresh(graph, f"{node.outputs[0]}.slope", taken), slope))
        nodes.append(Node(Binary("prelu"), (found.x, values[-1].name), node.outputs, node.sources))
    return graph.replaced(nodes, values) if changed else graph


def _slopes(graph: Graph, node: Node, known: Mapping[str, _Slopes]) -> _Slopes | None:
    """The output in terms of the x that the node's inputs are made of, or of an input."""
    op, output = node.op, graph.type(node.outputs[0])
    if output.dtype is not DType.F32 or not isinstance(op, Unary | Binary):
        return None

    def of(name: str | None) -> _Slopes | None:
        if name is None or graph.constant(name) is not None or graph.type(name) != output:
            return None
        return known.get(name) or _Slopes(name, np.ones(()), np.ones(()))

    if isinstance(op, Unary):
        a = of(node.inputs[0])
        return None if a is None else _of_function(op, a)
    if op.activation is not None:
        return None
    a, b = of(node.inputs[0]), of(node.inputs[1])
    if a is not None and b is not None:
        return _of_two(op.kind, a, b)
    data = graph.constant(node.inputs[0] if a is None else node.inputs[1])
    one = a or b
    if one is None or data is None or not np.isfinite(data).all():
        return None
    return _of_number(op.kind, one, data.astype(np.float64), a is not None)


def _of_function(op: Unary, a: _Slopes) -> _Slopes | None:
    match op.kind:
        case "neg":
            return _Slopes(a.x, -a.up, -a.down)
        case "abs":
            return _Slopes(a.x, np.abs(a.up), -np.abs(a.down))
        case "relu":
            return _Slopes(a.x, np.maximum(a.up, 0), np.minimum(a.down, 0))
        case "clip" if (op.alpha, op.beta) == (-math.inf, 0.0):
            return _Slopes(a.x, np.minimum(a.up, 0), np.maximum(a.down, 0))
    return None


def _of_two(kind: str, a: _Slopes, b: _Slopes) -> _Slopes | None:
    if a.x != b.x:
        return None
    match kind:
        case "add":
            return _Slopes(a.x, a.up + b.up, a.down + b.down)
        case "sub":
            return _Slopes(a.x, a.up - b.up, a.down - b.down)
        case "max":
            return _Slopes(a.x, np.maximum(a.up, b.up), np.minimum(a.down, b.down))
        case "min":
            return _Slopes(a.x, np.minimum(a.up, b.up), np.maximum(a.down, b.down))
    return None


def _of_number(kind: str, a: _Slopes, number: np.ndarray, first: bool) -> _Slopes | None:
    """`first`: whether the value comes before the number."""
    if kind == "mul":
        return _Slopes(a.x, a.up * number, a.down * number)
    if kind == "div" and first and number.all():
        return _Slopes(a.x, a.up / number, a.down / number)
    if kind == "prelu" and first:
        return _Slopes(a.x, np.where(a.up < 0, a.up * number, a.up), np.where(a.down > 0, a.down * number, a.down))
    if kind in ("max", "min") and not number.any():
        return _of_function(Unary("relu") if kind == "max" else Unary("clip", -math.inf, 0.0), a)
    return None
