"""Let a convolution add a tensor of its output's shape while it stores.

Before: `c = conv(x, w, b); y = relu(c + r)`. After: `y = conv(x, w, b, r, activation=relu)`.
"""

from __future__ import annotations

from packer.ir import Graph, Node
from packer.ir.ops import Binary, Conv
from packer.passes.rewrite import Uses

__all__ = ["fuse_residual"]


def fuse_residual(graph: Graph) -> Graph:
    """The graph with additions fused into the convolution that makes one of their operands, the later one if both
    do."""
    uses = Uses(graph)
    position = {node.outputs[0]: i for i, node in enumerate(graph.nodes)}
    absorbed: set[str] = set()
    nodes: list[Node] = []
    for node in graph.nodes:
        conv = _conv(graph, uses, node, position, absorbed)
        if conv is None:
            nodes.append(node)
            continue
        assert isinstance(conv.op, Conv)
        assert isinstance(node.op, Binary)
        absorbed.add(conv.outputs[0])
        other = next(name for name in node.inputs if name != conv.outputs[0])
        bias = conv.inputs[2] if len(conv.inputs) > 2 else None
        op = Conv(conv.op.strides, conv.op.pads, conv.op.dilations, conv.op.group, node.op.activation)
        nodes.append(Node(op, (conv.inputs[0], conv.inputs[1], bias, other), node.outputs, conv.sources + node.sources))
    return graph.replaced([n for n in nodes if n.outputs[0] not in absorbed]) if absorbed else graph


def _conv(graph: Graph, uses: Uses, node: Node, position: dict[str, int], absorbed: set[str]) -> Node | None:
    """The convolution that can take over the addition `node`."""
    if not isinstance(node.op, Binary) or node.op.kind != "add":
        return None
    if any(graph.type(name or "") != graph.type(node.outputs[0]) for name in node.inputs):
        return None
    found = None
    for name in node.inputs:
        maker = uses.sole_producer(name, node)
        if (
            maker is None
            or not isinstance(maker.op, Conv)
            or maker.op.activation is not None
            or maker.outputs[0] in absorbed
        ):
            continue
        if len(maker.inputs) > 3:
            continue
        if found is None or position[maker.outputs[0]] > position[found.outputs[0]]:
            found = maker
    return found
