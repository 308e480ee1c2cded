"""Make products of small whole powers, which take a fraction of the time.

Before: `y = pow(x, 3)`. After: `square = x * x; y = square * x`.
"""

from __future__ import annotations

from packer.ir import DType, Graph, Node, Value
from packer.ir.ops import Binary
from packer.passes.rewrite import fresh

__all__ = ["multiply_powers"]


def multiply_powers(graph: Graph) -> Graph:
    """The graph with each power of 2, 3 or 4 of floats as one or two products, within two units in the last place; of
    zeros, infinities and NaN they are those of the power."""
    taken = set[str]()
    squares: list[Value] = []
    nodes: list[Node] = []
    changed = False
    for node in graph.nodes:
        x, op = node.inputs[0], node.op
        if x is None or not isinstance(op, Binary) or (exponent := _exponent(graph, node, x)) not in (2.0, 3.0, 4.0):
            nodes.append(node)
            continue
        changed = True
        factors = (x, x)
        if exponent != 2.0:
            squares.append(Value(fresh(graph, f"{node.outputs[0]}.square", taken), graph.type(x)))
            square = squares[-1].name
            nodes.append(Node(Binary("mul"), factors, (square,), node.sources))
            factors = (square, x) if exponent == 3.0 else (square, square)
        nodes.append(Node(Binary("mul", op.activation), factors, node.outputs, node.sources))
    return graph.replaced(nodes, squares) if changed else graph


def _exponent(graph: Graph, node: Node, base: str) -> float | None:
    """The number that is the exponent of all elements of a tensor of floats, if that is what the node computes."""
    y, number = graph.type(node.outputs[0]), graph.constant(node.inputs[1])
    if not isinstance(node.op, Binary) or node.op.kind != "pow" or y.dtype is not DType.F32:
        return None
    if graph.type(base) != y or number is None or number.size != 1:
        return None
    return float(number.reshape(-1)[0])
