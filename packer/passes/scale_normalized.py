"""Let a normalisation scale and shift what it normalised.

Before: `n = normalize(x); m = n * scale; y = m + shift`. After: `y = normalize(x, scale, shift)`.
"""

from __future__ import annotations

from packer.ir import Graph, Node, Value
from packer.ir.ops import Binary, Normalize
from packer.passes.rewrite import Uses, constants_for

__all__ = ["scale_normalized"]

_PLACES = {"mul": 1, "add": 2}


def scale_normalized(graph: Graph) -> Graph:
    """The graph with each product or sum with a constant along the last dimension, if what was normalised is that one
    alone, as an input of the normalisation that it alone reads."""
    uses = Uses(graph)
    taken: set[str] = set()
    absorbed: set[str] = set()
    values: list[Value] = []
    nodes: list[Node] = []
    for node in graph.nodes:
        fused = _fused(graph, node, uses)
        if fused is None:
            nodes.append(node)
            continue
        maker, parameter = fused
        assert isinstance(node.op, Binary)
        constant = graph.constant(parameter)
        assert constant is not None
        (value,) = constants_for(graph, node, {"by": constant.reshape(-1)}, taken)
        inputs = [*maker.inputs, None, None][:3]
        inputs[_PLACES[node.op.kind]] = value.name
        while inputs[-1] is None:
            inputs.pop()
        values.append(value)
        absorbed.add(maker.outputs[0])
        nodes.append(Node(maker.op, tuple(inputs), node.outputs, maker.sources + node.sources))
    if not absorbed:
        return graph
    return graph.replaced([n for n in nodes if n.outputs[0] not in absorbed], values)


def _fused(graph: Graph, node: Node, uses: Uses) -> tuple[Node, str] | None:
    """The normalisation whose output `node` scales or shifts, and by what."""
    if not isinstance(node.op, Binary) or node.op.kind not in _PLACES or node.op.activation is not None:
        return None
    for name, parameter in (node.inputs, node.inputs[::-1]):
        maker, constant = uses.sole_producer(name, node), graph.constant(parameter)
        if maker is None or not isinstance(maker.op, Normalize) or constant is None or parameter is None:
            continue
        type = graph.type(node.outputs[0])
        along = constant.shape[-1:] == type.shape[-1:] != () and constant.size == type.shape[-1]
        last = maker.op.axes == (type.rank - 1,) and graph.type(maker.outputs[0]) == type
        if along and last and len(maker.inputs) <= _PLACES[node.op.kind]:
            return maker, parameter
    return None
