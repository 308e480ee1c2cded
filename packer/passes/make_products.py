"""Let convolutions of one position be products of rows and a matrix, whose kernels go through the weights once.

Before: `y = relu(conv(x) + bias)`, the kernel as large as the image, as behind global pooling. After:
`y = reshape(relu(reshape(x) @ w + bias))`, an image being a row. So are the gates of squeeze-and-excitation: J. Hu et
al., "Squeeze-and-Excitation Networks", CVPR 2018.
"""

from __future__ import annotations

import numpy as np

from packer.ir import Graph, Node
from packer.ir.ops import Conv, MatMul, Reshape
from packer.passes.rewrite import Rewriting

__all__ = ["make_products"]


def make_products(graph: Graph) -> Graph:
    """The graph with convolutions of one position, constant weights and one group as matrix products."""
    made = Rewriting(graph, "product")
    matrices: dict[str, str] = {}
    for node in graph.nodes:
        if not _is_product(graph, node):
            made.nodes.append(node)
            continue
        assert isinstance(node.op, Conv)
        x, w, *terms = (name for name in node.inputs if name is not None)
        if w not in matrices:
            weights = np.asarray(graph.constant(w))
            matrices[w] = made.constant(w, weights.reshape(len(weights), -1).T)
        y, features = graph.type(node.outputs[0]), made.type(matrices[w]).shape[0]
        operands = [made.add(Reshape((y.shape[0], features)), (x,), node), matrices[w]]
        for term in terms:
            operands.append(term if graph.type(term).rank == 1 else made.add(Reshape(y.shape[:2]), (term,), node))
        product = made.add(MatMul(node.op.activation), operands, node)
        made.add(Reshape(y.shape), (product,), node, node.outputs[0])
    return made.result()


def _is_product(graph: Graph, node: Node) -> bool:
    """Whether each output is a sum over a whole image, and what is added to it is a bias or a residual, not both."""
    op = node.op
    if not isinstance(op, Conv) or op.group > 1 or any(op.pads) or len([n for n in node.inputs if n is not None]) > 3:
        return False
    x, weights = graph.type(node.inputs[0] or ""), graph.constant(node.inputs[1])
    return weights is not None and x.elements > 0 and x.shape[1:] == weights.shape[1:]
