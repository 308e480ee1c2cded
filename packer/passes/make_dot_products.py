"""Let a row times a transposed matrix be that matrix times a column: dot products of rows where they lie.

Before: `y = a @ transpose(b)`, a [..,1,K], b [..,N,K], as attention of a single query does. After:
`y = reshape(b @ reshape(a))`, with a as [..,K,1]; what b's transpose does besides remains.
"""

from __future__ import annotations

from packer.ir import Graph, Node, TensorType
from packer.ir.ops import MatMul, Reshape, Transpose
from packer.ir.types import DType
from packer.passes.rewrite import Rewriting, Uses

__all__ = ["make_dot_products"]


def make_dot_products(graph: Graph) -> Graph:
    """The graph with products of a row and a matrix, transposed for nothing else, turned around."""
    uses = Uses(graph)
    made = Rewriting(graph, "dots")
    for node in graph.nodes:
        transpose = _transposed(graph, uses, node)
        if transpose is None:
            made.nodes.append(node)
            continue
        assert isinstance(transpose.op, Transpose)
        a, _, bias = (*node.inputs, None)[:3]
        (b,) = transpose.inputs
        perm = (*transpose.op.perm[:-2], transpose.op.perm[-1], transpose.op.perm[-2])
        if perm != tuple(range(len(perm))):
            b = made.add(Transpose(perm), (b,), node)
        operands: tuple[str | None, ...] = (b, made.add(_as_column(graph.type(a or "")), (a,), node))
        if bias is not None:
            operands = (*operands, made.add(_as_column(graph.type(bias)), (bias,), node))
        dots = made.add(node.op, operands, node)
        made.add(Reshape(graph.type(node.outputs[0]).shape), (dots,), node, node.outputs[0])
    return made.result()


def _transposed(graph: Graph, uses: Uses, node: Node) -> Node | None:
    """What transposes the second operand for this product of rows of one alone, within rows of the first operand."""
    if not isinstance(node.op, MatMul):
        return None
    row, made = graph.type(node.inputs[0] or ""), uses.sole_producer(node.inputs[1], node)
    if row.rank < 2 or row.shape[-2] != 1 or row.dtype is not DType.F32 or made is None:
        return None
    if not isinstance(made.op, Transpose) or len(made.op.perm) < 2:
        return None
    return made if made.op.perm[-2] == len(made.op.perm) - 1 else None


def _as_column(row: TensorType) -> Reshape:
    """[..,1,N], or what broadcasts to it, as [..,N,1]."""
    return Reshape((*row.shape[:-2], row.shape[-1], 1) if row.rank > 0 else (1, 1))
