"""Merge neighbouring per-channel scalings and shifts into one.

Before: `m = x * scale[c]; y = m + shift[c]`. After: `y = scale_shift(x, scale, shift)`.
"""

from __future__ import annotations

from packer.ir import Graph, Node, Value
from packer.ir.ops import Activation, Binary, ScaleShift
from packer.passes.affine import as_affine, narrowed
from packer.passes.rewrite import Uses, constants_for

__all__ = ["make_scale_shift"]


def make_scale_shift(graph: Graph) -> Graph:
    """The graph with each pair of affine operators, the first used by the second alone, as one ScaleShift."""
    uses = Uses(graph)
    taken: set[str] = set()
    absorbed: set[str] = set()
    values: list[Value] = []
    nodes: list[Node] = []
    for node in graph.nodes:
        second = as_affine(graph, node)
        maker = uses.sole_producer(second[0], node) if second is not None else None
        first = as_affine(graph, maker) if maker is not None else None
        # `absorbed` also tells that the maker itself was merged just now; the next round goes on from there.
        if second is None or maker is None or first is None or _activation(maker) is not None or first[0] in absorbed:
            nodes.append(node)
            continue
        parameters = narrowed(scale=first[1] * second[1], shift=first[2] * second[1] + second[2])
        if parameters is None:
            nodes.append(node)
            continue
        constants = constants_for(graph, node, parameters, taken)
        values += constants
        absorbed.add(maker.outputs[0])
        op = ScaleShift(_activation(node))
        nodes.append(Node(op, (first[0], *(c.name for c in constants)), node.outputs, maker.sources + node.sources))
    if not absorbed:
        return graph
    return graph.replaced([n for n in nodes if n.outputs[0] not in absorbed], values)


def _activation(node: Node) -> Activation | None:
    assert isinstance(node.op, Binary | ScaleShift)
    return node.op.activation
