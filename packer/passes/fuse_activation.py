"""Move a pointwise function into the operator that makes its argument.

Before: `c = conv(x, w); y = relu(c)`. After: `y = conv(x, w, activation=relu)`.
"""

from __future__ import annotations

from dataclasses import replace

from packer.ir import DType, Graph, Node
from packer.ir.ops import Activation, Binary, Conv, ConvTranspose, MatMul, ScaleShift, Unary
from packer.passes.rewrite import Uses

__all__ = ["fuse_activation"]

_BOOLEAN = ("is_nan", "is_inf")


def fuse_activation(graph: Graph) -> Graph:
    """The graph with float functions of one argument fused behind convolutions, products, sums and scale-shifts."""
    uses = Uses(graph)
    nodes: dict[str, Node] = {}  # by first output, in order
    changed = False
    for node in graph.nodes:
        maker = _fusable(graph, uses, node)
        # A maker that itself just got fused carries an activation by now.
        current = nodes.get(maker.outputs[0]) if maker is not None else None
        if maker is None or current is not maker:
            nodes[node.outputs[0]] = node
            continue
        assert isinstance(node.op, Unary)
        del nodes[maker.outputs[0]]
        op = replace(maker.op, activation=Activation(node.op.kind, node.op.alpha, node.op.beta))  # type: ignore[call-arg]
        nodes[node.outputs[0]] = Node(op, maker.inputs, node.outputs, maker.sources + node.sources)
        changed = True
    return graph.replaced(list(nodes.values())) if changed else graph


def _fusable(graph: Graph, uses: Uses, node: Node) -> Node | None:
    if not isinstance(node.op, Unary) or node.op.kind in _BOOLEAN or graph.type(node.outputs[0]).dtype is not DType.F32:
        return None
    maker = uses.sole_producer(node.inputs[0], node)
    if maker is None or not isinstance(maker.op, Binary | Conv | ConvTranspose | MatMul | ScaleShift):
        return None
    return maker if maker.op.activation is None else None
