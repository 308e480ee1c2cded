"""Make one function of the limits that values are held within.

Before: `a = max(x, 0); y = min(a, 6)`. After: `y = clip(x, 0, 6)`.
Limits are those of min and max with a number, of clip and of relu.
"""

from __future__ import annotations

import math

import numpy as np

from packer.ir import DType, Graph, Node
from packer.ir.ops import Binary, Unary
from packer.passes.rewrite import Uses

__all__ = ["merge_clips"]

_Range = tuple[str, float, float]
"""(x, low, high): y = min(max(x, low), high), low <= high."""


def merge_clips(graph: Graph) -> Graph:
    """The graph with each minimum and maximum with a number as a clip or relu, and those that follow each other, with
    no other reader between them, as one."""
    uses = Uses(graph)
    made: dict[str, Node] = {}
    nodes: list[Node] = []
    changed = False
    for original in graph.nodes:
        node = _merged(graph, original, uses, made)
        changed |= node is not original
        made[node.outputs[0]] = node
        nodes.append(node)
    return graph.replaced(nodes) if changed else graph


def _merged(graph: Graph, node: Node, uses: Uses, made: dict[str, Node]) -> Node:
    own = _range(graph, node)
    if own is None:
        return node
    x, low, high = own
    sources = node.sources
    maker = made.get(x) if uses.only_use(x, node) else None
    before = _range(graph, maker) if maker is not None else None
    if maker is not None and before is not None:
        x, low, high = before[0], *(min(max(bound, low), high) for bound in before[1:])
        sources = maker.sources + sources
    elif isinstance(node.op, Unary):
        return node
    op = Unary("relu") if (low, high) == (0.0, math.inf) else Unary("clip", low, high)
    return Node(op, (x,), node.outputs, sources)


def _range(graph: Graph, node: Node) -> _Range | None:
    """Between what the output is held, if that is all the node does."""
    op, output = node.op, graph.type(node.outputs[0])
    if output.dtype is not DType.F32:
        return None
    if isinstance(op, Unary) and node.inputs[0] is not None:
        low, high = {"relu": (0.0, math.inf), "clip": (op.alpha, op.beta)}.get(op.kind, (math.inf, -math.inf))
        return (node.inputs[0], low, high) if low <= high else None
    if not isinstance(op, Binary) or op.activation is not None or op.kind not in ("min", "max"):
        return None
    for x, other in (node.inputs, node.inputs[::-1]):
        data = graph.constant(other)
        if x is None or data is None or data.size != 1 or np.isnan(data).any() or graph.type(x) != output:
            continue
        bound = float(data.reshape(-1)[0])
        return (x, bound, math.inf) if op.kind == "max" else (x, -math.inf, bound)
    return None
