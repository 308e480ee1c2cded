"""Remove channels that nobody reads, and the filters that make them.

Before: `c = conv(x, w); y = conv(c, v)` with column 3 of v all zero. After: w has no filter 3, and v no column 3.
Operators in between (activations, pools, additions, concatenations) lose the channel, too.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from packer.ir import Graph, Node, TensorType, Value
from packer.ir.ops import Binary, Conv, MatMul, Reshape, Resize, ScaleShift
from packer.ir.ops.base import Op
from packer.passes.read_channels import Masks, is_dense, is_depthwise, parameter_axis, read_channels
from packer.passes.rewrite import fresh

__all__ = ["remove_unread_channels"]


def remove_unread_channels(graph: Graph) -> Graph:
    """The graph without channels that only meet zero weights."""
    masks = read_channels(graph)
    if all(mask.all() for mask in masks.values()):
        return graph
    taken: set[str] = set()
    values = [
        Value(name, TensorType(value.type.dtype, (value.type.shape[0], int(mask.sum()), *value.type.shape[2:])))
        for name, mask in masks.items()
        if not mask.all() and (value := graph.values[name]).data is None
    ]
    nodes = []
    for node in graph.nodes:
        inputs = list(node.inputs)
        for i, data in _smaller(graph, node, masks):
            inputs[i] = fresh(graph, f"{node.outputs[0]}.{i}", taken)
            values.append(Value.constant(inputs[i] or "", data))
        nodes.append(replace(node, op=_smaller_op(graph, node, masks), inputs=tuple(inputs)))
    return graph.replaced(nodes, values)


def _smaller_op(graph: Graph, node: Node, masks: Masks) -> Op:
    """The operator over the channels that stay, where its attributes count them."""
    own = masks.get(node.outputs[0])
    if own is not None and not own.all():
        if isinstance(node.op, Conv) and node.op.group > 1:
            return replace(node.op, group=int(own.sum()))
        if isinstance(node.op, Reshape | Resize):
            return replace(node.op, shape=(node.op.shape[0], int(own.sum()), *node.op.shape[2:]))
    return node.op


def _smaller(graph: Graph, node: Node, masks: Masks) -> Iterator[tuple[int, np.ndarray]]:
    """The constant operands that change, without the channels that go."""
    own = masks.get(node.outputs[0])
    if isinstance(node.op, Conv):
        weights = graph.constant(node.inputs[1])
        read = masks.get(node.inputs[0] or "")
        dense = node.op.group == 1
        if weights is None or own is None or not (dense or is_depthwise(graph, node)):
            return
        if not own.all() or (dense and read is not None and not read.all()):
            weights = weights[own]
            yield 1, weights[:, read] if dense and read is not None else weights
        bias = graph.constant(node.inputs[2]) if len(node.inputs) > 2 else None
        if bias is not None and not own.all():
            yield 2, bias[own]
    elif isinstance(node.op, MatMul):
        read, weights = masks.get(node.inputs[0] or ""), graph.constant(node.inputs[1])
        if weights is None or own is None or not is_dense(graph, node):
            return
        rows = np.ones(len(weights), bool) if read is None else read
        if not (own.all() and rows.all()):
            yield 1, weights[np.ix_(rows, own)]
        for i, name in enumerate(node.inputs[2:], 2):
            bias = graph.constant(name)
            if bias is not None and bias.size > 1 and not own.all():
                yield i, bias[..., own]
    elif isinstance(node.op, Binary | ScaleShift) and own is not None and not own.all():
        for i, name in enumerate(node.inputs):
            axis = parameter_axis(graph, node, name)
            data = graph.constant(name)
            if data is not None and axis is not None and axis >= 0:
                yield i, np.compress(own, data, axis=axis)
