"""Fold what channels that are always the same contribute into the bias of whoever reads them.

Pruning leaves filters without weights: their output is one number, the bias behind its activation, at every position.

Before: `c = conv(x, w)` with filter 3 all zero; `y = conv(c, v)`. After: column 3 of v is zero, too, and the bias of y
holds what it added. Behind zero padding that sum is smaller at the borders: there one constant channel stays, whose
column stands for all of them. `remove_unread_channels` then drops the channels that nobody reads.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from packer.ir import Graph, Node, Value
from packer.ir.ops import Binary, Concat, Conv, MatMul, Pool, Reduce, Reshape, ScaleShift, Unary
from packer.ir.ops.pointwise import activate
from packer.passes.affine import narrowed
from packer.passes.rewrite import fresh

__all__ = ["fold_constant_channels"]

_Known = dict[str, np.ndarray]
"""By value: [C] float32, the number that a channel (axis 1) is full of, NaN where it is not known to be constant."""


def fold_constant_channels(graph: Graph) -> Graph:
    """The graph with zero weights, and another bias, where convolutions and matrix products read constant channels."""
    known: _Known = {}
    taken: set[str] = set()
    values: list[Value] = []
    nodes: list[Node] = []
    for node in graph.nodes:
        _learn(graph, node, known)
        folded = _folded(graph, node, known.get(node.inputs[0] or "")) if node.inputs else None
        if folded is not None:
            names = [fresh(graph, f"{node.outputs[0]}.{part}", taken) for part in ("weights", "bias")]
            values += map(Value.constant, names, folded)
            node = replace(node, inputs=(node.inputs[0], *names, *node.inputs[3:]))
        nodes.append(node)
    return graph.replaced(nodes, values) if values else graph


def _learn(graph: Graph, node: Node, known: _Known) -> None:
    """Adds the first output, if any of its channels is constant."""
    rule = _RULES.get(type(node.op))
    output = graph.type(node.outputs[0])
    if rule is None or output.rank < 2 or not output.dtype.is_float or output.elements == 0:
        return
    with np.errstate(all="ignore"):
        found = rule(graph, node, known)
    if found is not None and np.isfinite(found).any():
        known[node.outputs[0]] = np.where(np.isfinite(found), found, np.nan).astype(np.float32)


def _product(graph: Graph, node: Node, known: _Known) -> np.ndarray | None:
    """Filters without weights give their bias and the residual."""
    assert isinstance(node.op, Conv | MatMul)
    weights, bias = graph.constant(node.inputs[1]), _bias(graph, node)
    if weights is None or bias is None or (isinstance(node.op, MatMul) and not _is_matrix(graph, node)):
        return None
    dead = ~weights.any(axis=0 if isinstance(node.op, MatMul) else tuple(range(1, weights.ndim)))
    value = np.where(dead, bias, np.nan)
    if len(node.inputs) > 3 and node.inputs[3] is not None:
        value = value + known.get(node.inputs[3], np.nan)
    return activate(node.op.activation, value.astype(np.float32))


def _pointwise(graph: Graph, node: Node, known: _Known) -> np.ndarray | None:
    """The operator itself, on one position, if its operands are activations of the output's shape and parameters."""
    output = graph.type(node.outputs[0])
    ones = (1,) * (output.rank - 2)
    operands = []
    for name in node.inputs:
        data = graph.constant(name)
        if data is not None and (isinstance(node.op, ScaleShift) or data.ndim == 0):
            operands.append(data)
        elif data is not None and data.ndim <= output.rank:
            data = data.reshape((1,) * (output.rank - data.ndim) + data.shape)
            if data.size != data.shape[1]:
                return None
            operands.append(data)
        elif name is None or graph.type(name).shape != output.shape or name not in known:
            return None
        else:
            operands.append(known[name].reshape(1, -1, *ones))
    unknown = np.any([np.isnan(known[name]) for name in node.inputs if name in known], axis=0)
    result = np.asarray(node.op.reference(*operands)[0], np.float32)
    return np.where(unknown, np.nan, np.broadcast_to(result, (1, output.shape[1], *ones)).reshape(-1))


def _pool(graph: Graph, node: Node, known: _Known) -> np.ndarray | None:
    """Windows of one number, which padding does not change."""
    assert isinstance(node.op, Pool)
    counted = node.op.count_include_pad and any(node.op.pads)
    same = node.op.kind == "max" or (node.op.kind == "average" and not counted)
    return known.get(node.inputs[0] or "") if same else None


def _reduce(graph: Graph, node: Node, known: _Known) -> np.ndarray | None:
    assert isinstance(node.op, Reduce)
    same = node.op.kind in ("max", "min", "mean") and all(axis >= 2 for axis in node.op.axes)
    return known.get(node.inputs[0] or "") if same else None


def _reshape(graph: Graph, node: Node, known: _Known) -> np.ndarray | None:
    """[N,C,spatial] to [N,C * positions] or to other spatial dimensions."""
    found = known.get(node.inputs[0] or "")
    before, after = graph.type(node.inputs[0] or "").shape, graph.type(node.outputs[0]).shape
    if found is None or before[0] != after[0] or after[1] % before[1] or (len(after) > 2 and after[1] != before[1]):
        return None
    return np.repeat(found, after[1] // before[1])


def _concat(graph: Graph, node: Node, known: _Known) -> np.ndarray | None:
    assert isinstance(node.op, Concat)
    if node.op.axis != 1:
        return None
    parts = [name for name in node.inputs if name is not None]
    return np.concatenate([known.get(name, np.full(graph.type(name).shape[1], np.nan)) for name in parts])


_RULES: dict[type, Callable[[Graph, Node, _Known], np.ndarray | None]] = {
    Binary: _pointwise,
    Concat: _concat,
    Conv: _product,
    MatMul: _product,
    Pool: _pool,
    Reduce: _reduce,
    Reshape: _reshape,
    ScaleShift: _pointwise,
    Unary: _pointwise,
}


def _bias(graph: Graph, node: Node) -> np.ndarray | None:
    """One number an output channel; None if it is not known."""
    name = node.inputs[2] if len(node.inputs) > 2 else None
    outputs = graph.type(node.outputs[0]).shape[1]
    bias = np.zeros(1, np.float32) if name is None else graph.constant(name)
    if bias is None or bias.size not in (1, outputs) or bias.shape[-1:] not in ((), (bias.size,)):
        return None
    return np.broadcast_to(bias.reshape(-1), (outputs,))


def _is_matrix(graph: Graph, node: Node) -> bool:
    """[N,C] times a constant matrix."""
    weights = graph.constant(node.inputs[1])
    return weights is not None and weights.ndim == 2 and graph.type(node.outputs[0]).rank == 2


def _folded(graph: Graph, node: Node, found: np.ndarray | None) -> list[np.ndarray] | None:
    """Weights and bias without the constant channels of the first input; None if that changes nothing."""
    weights = graph.constant(node.inputs[1]) if found is not None and len(node.inputs) > 1 else None
    if found is None or weights is None or weights.dtype != np.float32 or not isinstance(node.op, Conv | MatMul):
        return None
    if isinstance(node.op, MatMul):
        if not _is_matrix(graph, node):
            return None
        groups, padded = 1, False
        columns = weights.T.reshape(1, weights.shape[1], weights.shape[0], 1).astype(np.float64)
    else:
        groups, padded = node.op.group, any(node.op.pads)
        columns = weights.reshape(groups, len(weights) // groups, weights.shape[1], -1).astype(np.float64)
    bias = _bias(graph, node)
    if bias is None:
        return None
    each = found.reshape(groups, -1).astype(np.float64)
    added = np.zeros(columns.shape[:2])
    changed = False
    for group, own in enumerate(each):
        read = columns[group].any(axis=(0, 2)) & ~np.isnan(own)
        kept = np.flatnonzero(read & (own != 0))[:1] if padded else np.empty(0, int)
        gone = read.copy()
        gone[kept] = False
        if not gone.any():
            continue
        changed = True
        sums = np.einsum("kct,c->kt", columns[group][:, gone], own[gone])
        columns[group][:, gone] = 0
        for channel in kept:
            columns[group][:, channel] += sums / own[channel]
        if not len(kept):
            added[group] = sums.sum(axis=1)
    if not changed:
        return None
    packed = columns.reshape(weights.T.shape).T if isinstance(node.op, MatMul) else columns.reshape(weights.shape)
    narrow = narrowed(weights=packed, bias=bias + added.reshape(-1))
    return None if narrow is None else list(narrow.values())
