"""Let a matrix product add the term that follows it.

Before: `m = a @ b; y = m + c`. After: `y = matmul(a, b, bias=c)`.
"""

from __future__ import annotations

from packer.ir import DType, Graph, Node
from packer.ir.ops import Binary, MatMul
from packer.passes.affine import rounds
from packer.passes.rewrite import Uses

__all__ = ["fuse_bias"]


def fuse_bias(graph: Graph) -> Graph:
    """The graph with additions of something that broadcasts to the product's shape fused into the product."""
    uses = Uses(graph)
    absorbed: set[str] = set()
    nodes: list[Node] = []
    for node in graph.nodes:
        product = _product(graph, uses, node)
        if product is None:
            nodes.append(node)
            continue
        assert isinstance(node.op, Binary)
        absorbed.add(product.outputs[0])
        other = next(name for name in node.inputs if name != product.outputs[0])
        inputs = (product.inputs[0], product.inputs[1], other)
        nodes.append(Node(MatMul(node.op.activation), inputs, node.outputs, product.sources + node.sources))
    return graph.replaced([n for n in nodes if n.outputs[0] not in absorbed]) if absorbed else graph


def _product(graph: Graph, uses: Uses, node: Node) -> Node | None:
    if not isinstance(node.op, Binary) or node.op.kind != "add" or graph.type(node.outputs[0]).dtype is not DType.F32:
        return None
    for name in node.inputs:
        maker = uses.sole_producer(name, node)
        if maker is None or not isinstance(maker.op, MatMul) or maker.op.activation is not None:
            continue
        added = graph.constant(next((other for other in node.inputs if other != name), None))
        if added is not None and rounds(added):
            continue
        if (len(maker.inputs) < 3 or maker.inputs[2] is None) and graph.type(name or "") == graph.type(node.outputs[0]):
            return maker
    return None
