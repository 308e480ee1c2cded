"""Let convolutions of one position be products of rows and a matrix, whose kernels go through the weights once.

Before: `y = relu(conv(x) + bias)`, the kernel as large as the image, as behind global pooling. After:
`y = reshape(relu(reshape(x) @ w + bias))`, an image being a row. So are the gates of squeeze-and-excitation: J. Hu et
al., "Squeeze-and-Excitation Networks", CVPR 2018.
"""

from __future__ import annotations

import numpy as np

from packer.ir import Graph, Node, Value
from packer.ir.ops import Conv, MatMul, Reshape
from packer.ir.ops.base import Op
from packer.passes.rewrite import fresh

__all__ = ["make_products"]


def make_products(graph: Graph) -> Graph:
    """The graph with convolutions of one position, constant weights and one group as matrix products."""
    taken: set[str] = set()
    values: dict[str, Value] = {}
    matrices: dict[str, str] = {}
    nodes: list[Node] = []

    def matrix(w: str) -> str:
        if w not in matrices:
            matrices[w] = fresh(graph, f"{w}.matrix", taken)
            weights = np.asarray(graph.constant(w))
            values[matrices[w]] = Value.constant(matrices[w], weights.reshape(len(weights), -1).T)
        return matrices[w]

    def add(op: Op, inputs: tuple[str, ...], node: Node) -> str:
        y = fresh(graph, f"{node.outputs[0]}.row", taken)
        values[y] = Value(y, op.infer([values[n].type if n in values else graph.type(n) for n in inputs])[0])
        nodes.append(Node(op, inputs, (y,), node.sources))
        return y

    for node in graph.nodes:
        if not _is_product(graph, node):
            nodes.append(node)
            continue
        assert isinstance(node.op, Conv)
        x, w, *terms = (name for name in node.inputs if name is not None)
        y, features = graph.type(node.outputs[0]), graph.type(w).elements // graph.type(w).shape[0]
        operands = [add(Reshape((y.shape[0], features)), (x,), node), matrix(w)]
        for term in terms:
            operands.append(term if graph.type(term).rank == 1 else add(Reshape(y.shape[:2]), (term,), node))
        product = add(MatMul(node.op.activation), tuple(operands), node)
        nodes.append(Node(Reshape(y.shape), (product,), node.outputs, node.sources))
    return graph.replaced(nodes, list(values.values())) if values else graph


def _is_product(graph: Graph, node: Node) -> bool:
    """Whether each output is a sum over a whole image, and what is added to it is a bias or a residual, not both."""
    op = node.op
    if not isinstance(op, Conv) or op.group > 1 or any(op.pads) or len([n for n in node.inputs if n is not None]) > 3:
        return False
    x, weights = graph.type(node.inputs[0] or ""), graph.constant(node.inputs[1])
    return weights is not None and x.elements > 0 and x.shape[1:] == weights.shape[1:]
