"""Products of bytes with results in floats, of levels that are known, as products of floats: for targets that have none
of bytes.

Before: `y = integer_conv(x, w, x_zero, x_scale, scale, b)`, all but x constant. After:
`y = conv(dequantize(x), w scale, b)`.
"""

from __future__ import annotations

import numpy as np

from packer.ir import Graph, Node
from packer.ir.ops import Conv, DequantizeLinear, IntegerConv, IntegerMatMul, MatMul
from packer.passes.rewrite import Rewriting

__all__ = ["float_products"]


def float_products(graph: Graph) -> Graph:
    """The graph without such products of bytes."""
    rewriting = Rewriting(graph, "floats")
    for node in graph.nodes:
        if not isinstance(node.op, IntegerConv | IntegerMatMul) or not _add(graph, rewriting, node):
            rewriting.nodes.append(node)
    return rewriting.result()


def _add(graph: Graph, rewriting: Rewriting, node: Node) -> bool:
    """Whether the product could be added as one of floats."""
    op, y, (x, *others) = node.op, node.outputs[0], node.inputs
    constants = [graph.constant(name) for name in others]
    if len(constants) < 5 or any(data is None for data in constants):
        return False
    w, _, _, scale, _ = (np.asarray(data) for data in constants)
    along = (-1, *(1,) * (w.ndim - 1)) if isinstance(op, IntegerConv) else (-1,)
    weights = rewriting.constant(y, w.astype(np.float32) * scale.reshape(along))
    floats = rewriting.add(DequantizeLinear(0), (x, others[2], others[1]), node)
    if isinstance(op, IntegerConv):
        made: Conv | MatMul = Conv(op.strides, op.pads, op.dilations, op.group, op.activation)
    else:
        assert isinstance(op, IntegerMatMul)
        made = MatMul(op.activation)
    rewriting.add(made, (floats, weights, others[4]), node, y)
    return True
