"""Let products with sparse matrices be convolutions of one tap, whose kernels share each weight among many rows.

Before: `y = relu(a @ b + c)`, a [rows,K], most of b [K,N] zero. After: `y = relu(conv(a) + c)`, with a and y as images
of K and N channels, transposed on the way in and out. c is the bias if it has a constant for each column, the residual,
transposed as a is, if it has the shape of y.
"""

from __future__ import annotations

from math import prod

import numpy as np

from packer.ir import Graph, Node, TensorType
from packer.ir.ops import Conv, MatMul, Reshape, Transpose
from packer.ir.types import DType
from packer.passes.rewrite import Rewriting

__all__ = ["make_pointwise"]

_DENSEST = {64: 0.5, 32: 0.4, 16: 0.3}  # share of non-zeros with so many rows: measured, transposing included
_FIRST, _LAST = (0, 3, 1, 2), (0, 2, 3, 1)  # channels


def make_pointwise(graph: Graph) -> Graph:
    """The graph with products of many rows with constant sparse matrices as convolutions."""
    made = Rewriting(graph, "pointwise")
    shared: dict[tuple[str, int], str] = {}

    def constant(name: str, axis: int, data: np.ndarray) -> str:
        if (name, axis) not in shared:
            shared[name, axis] = made.constant(name, data)
        return shared[name, axis]

    def planes(name: str, node: Node) -> str:
        type = graph.type(name)
        if not _is_image(type):
            name = made.add(Reshape((1, 1, prod(type.shape[:-1]), type.shape[-1])), (name,), node)
        return made.add(Transpose(_FIRST), (name,), node)

    for node in graph.nodes:
        if not _is_sparse_product(graph, node):
            made.nodes.append(node)
            continue
        assert isinstance(node.op, MatMul)
        a, b, bias = (*node.inputs, None)[:3]
        assert a is not None
        assert b is not None
        y = graph.type(node.outputs[0])
        weights = np.asarray(graph.constant(b))
        operands: tuple[str | None, ...] = (planes(a, node), constant(b, 0, weights.T[:, :, None, None].copy()))
        if bias is not None and _is_of_columns(graph, bias, y):
            full = np.broadcast_to(np.asarray(graph.constant(bias)).reshape(-1), y.shape[-1:])
            operands = (*operands, constant(bias, y.shape[-1], full.copy()))
        elif bias is not None:
            operands = (*operands, None, planes(bias, node))
        found = made.add(Conv((1, 1), (0,) * 4, (1, 1), 1, node.op.activation), operands, node)
        if _is_image(y):
            made.add(Transpose(_LAST), (found,), node, node.outputs[0])
        else:
            made.add(Reshape(y.shape), (made.add(Transpose(_LAST), (found,), node),), node, node.outputs[0])
    return made.result()


def _is_sparse_product(graph: Graph, node: Node) -> bool:
    if not isinstance(node.op, MatMul):
        return False
    a, b, bias = (*node.inputs, None)[:3]
    left, right, y = graph.type(a or ""), graph.constant(b), graph.type(node.outputs[0])
    if right is None or right.ndim != 2 or left.rank < 2 or left.dtype is not DType.F32:
        return False
    if bias is not None and graph.type(bias) != y and not _is_of_columns(graph, bias, y):
        return False
    rows = prod(left.shape[:-1])
    return any(rows >= least and graph.density(b) <= most for least, most in _DENSEST.items())


def _is_image(type: TensorType) -> bool:
    return type.rank == 4 and type.shape[0] == 1


def _is_of_columns(graph: Graph, bias: str, y: TensorType) -> bool:
    """Whether it is constant, and a number or one for each column."""
    shift, columns = graph.constant(bias), y.shape[-1:]
    return shift is not None and shift.size in (1, *columns) and shift.shape[-1:] in ((), (1,), columns)
