"""Let a row times a transposed matrix be that matrix times a column: dot products of rows where they lie.

Before: `y = a @ transpose(b)`, a [..,1,K], b [..,N,K], as attention of a single query does. After:
`y = reshape(b @ reshape(a))`, with a as [..,K,1]; what b's transpose does besides remains.
"""

from __future__ import annotations

from packer.ir import Graph, Node, TensorType, Value
from packer.ir.ops import MatMul, Reshape, Transpose
from packer.ir.ops.base import Op
from packer.ir.types import DType
from packer.passes.rewrite import Uses, fresh

__all__ = ["make_dot_products"]


def make_dot_products(graph: Graph) -> Graph:
    """The graph with products of a row and a matrix, transposed for nothing else, turned around."""
    uses = Uses(graph)
    taken: set[str] = set()
    values: dict[str, Value] = {}
    nodes: list[Node] = []

    def add(op: Op, inputs: tuple[str | None, ...], node: Node) -> str:
        types = [None if name is None else (values.get(name) or graph.values[name]).type for name in inputs]
        name = fresh(graph, f"{node.outputs[0]}.dots", taken)
        values[name] = Value(name, op.infer(types)[0])
        nodes.append(Node(op, inputs, (name,), node.sources))
        return name

    for node in graph.nodes:
        transpose = _transposed(graph, uses, node)
        if transpose is None:
            nodes.append(node)
            continue
        assert isinstance(transpose.op, Transpose)
        a, _, bias = (*node.inputs, None)[:3]
        (b,) = transpose.inputs
        perm = (*transpose.op.perm[:-2], transpose.op.perm[-1], transpose.op.perm[-2])
        if perm != tuple(range(len(perm))):
            b = add(Transpose(perm), (b,), node)
        operands: tuple[str | None, ...] = (b, add(_as_column(graph.type(a or "")), (a,), node))
        if bias is not None:
            operands = (*operands, add(_as_column(graph.type(bias)), (bias,), node))
        nodes.append(
            Node(
                Reshape(graph.type(node.outputs[0]).shape), (add(node.op, operands, node),), node.outputs, node.sources
            )
        )
    return graph.replaced(nodes, list(values.values())) if values else graph


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
