"""Fold over all axes at once.

Before: `a = mean(x, 3); y = mean(a, 2)`. After: `y = mean(x, (2, 3))`; also sums, products and extremes.
"""

from __future__ import annotations

from packer.ir import DType, Graph, Node
from packer.ir.ops import Reduce
from packer.passes.rewrite import Uses

__all__ = ["merge_reductions"]

_KINDS = ("sum", "mean", "prod", "max", "min")


def merge_reductions(graph: Graph) -> Graph:
    """The graph with each reduction of what another one of its kind makes for it alone as one."""
    uses = Uses(graph)
    made: dict[str, Node] = {}  # by first output, in order
    changed = False
    for node in graph.nodes:
        maker = uses.sole_producer(node.inputs[0], node) if isinstance(node.op, Reduce) else None
        first = made.get(maker.outputs[0]) if maker is not None else None
        joined = _joined(graph, first, node) if first is not None else None
        if first is not None and joined is not None:
            del made[first.outputs[0]]
            node = Node(joined, first.inputs, node.outputs, first.sources + node.sources)
            changed = True
        made[node.outputs[0]] = node
    return graph.replaced(list(made.values())) if changed else graph


def _joined(graph: Graph, first: Node, second: Node) -> Reduce | None:
    a, b = first.op, second.op
    if not isinstance(a, Reduce) or not isinstance(b, Reduce):
        return None
    type = graph.type(first.inputs[0] or "")
    truncates = a.kind == "mean" and type.dtype is not DType.F32
    if a.kind != b.kind or a.kind not in _KINDS or a.keepdims != b.keepdims or truncates:
        return None
    kept = [axis for axis in range(type.rank) if a.keepdims or axis not in a.axes]
    return Reduce(a.kind, tuple(sorted({*a.axes, *(kept[axis] for axis in b.axes)})), a.keepdims)
