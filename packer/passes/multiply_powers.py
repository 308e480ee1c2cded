"""Make products of small whole powers, which take a fraction of the time.

Before: `y = pow(x, 3)`. After: `square = x * x; y = square * x`.
"""

from __future__ import annotations

from packer.ir import DType, Graph, Node
from packer.ir.ops import Binary
from packer.passes.rewrite import Rewriting

__all__ = ["multiply_powers"]


def multiply_powers(graph: Graph) -> Graph:
    """The graph with each power of 2, 3 or 4 of floats as one or two products, within two units in the last place; of
    zeros, infinities and NaN they are those of the power."""
    made = Rewriting(graph, "square")
    for node in graph.nodes:
        x, op = node.inputs[0], node.op
        if x is None or not isinstance(op, Binary) or (exponent := _exponent(graph, node, x)) not in (2.0, 3.0, 4.0):
            made.nodes.append(node)
            continue
        factors = (x, x)
        if exponent != 2.0:
            square = made.add(Binary("mul"), factors, node)
            factors = (square, x) if exponent == 3.0 else (square, square)
        made.add(Binary("mul", op.activation), factors, node, node.outputs[0])
    return made.result()


def _exponent(graph: Graph, node: Node, base: str) -> float | None:
    """The number that is the exponent of all elements of a tensor of floats, if that is what the node computes."""
    y, number = graph.type(node.outputs[0]), graph.constant(node.inputs[1])
    if not isinstance(node.op, Binary) or node.op.kind != "pow" or y.dtype is not DType.F32:
        return None
    if graph.type(base) != y or number is None or number.size != 1:
        return None
    return float(number.reshape(-1)[0])
