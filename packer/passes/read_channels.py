"""Which channels of each value somebody reads: what `remove_unread_channels` keeps."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from packer.ir import Graph, Node
from packer.ir.ops import Binary, Concat, Conv, MatMul, Pool, Reduce, Reshape, Resize, ScaleShift, Unary

__all__ = ["Masks", "is_dense", "is_depthwise", "parameter_axis", "read_channels"]

Masks = dict[str, np.ndarray]
"""By value of rank 2 or more: [C] bool, the channels (axis 1) that stay."""


def read_channels(graph: Graph) -> Masks:
    """The least masks in which every operator finds what it needs, found by going backwards until nothing changes."""
    computed = {name for node in graph.nodes for name in node.outputs}
    masks = {
        name: np.zeros(value.type.shape[1], bool)
        for name, value in graph.values.items()
        if name in computed and value.type.rank >= 2
    }

    def need(name: str | None, mask: np.ndarray | np.bool | bool) -> bool:
        """Adds channels to a value; whether that changed it."""
        if name not in masks:
            return False
        before = int(masks[name].sum())
        masks[name] |= mask
        return int(masks[name].sum()) > before

    for output in {*graph.outputs, *(extent.value for extent in graph.extents)}:
        need(output, True)
    changed = True
    while changed:
        changed = False
        for node in reversed(graph.nodes):
            rule = _RULES.get(type(node.op), _all) if len(node.outputs) == 1 else _all
            for name, mask in rule(graph, node, masks):
                changed |= need(name, mask)
        for mask in masks.values():
            if mask.size and not mask.any():  # no tensor is left without channels
                mask[0] = changed = True
    return masks


_Needs = Iterator[tuple[str | None, np.ndarray | np.bool | bool]]


def _all(graph: Graph, node: Node, masks: Masks) -> _Needs:
    yield from ((name, True) for name in (*node.inputs, *node.outputs))


def _conv(graph: Graph, node: Node, masks: Masks) -> _Needs:
    """Each filter by itself; an input channel only where a filter that stays has weights for it."""
    weights = graph.constant(node.inputs[1])
    bias = node.inputs[2] if len(node.inputs) > 2 else None
    own = masks.get(node.outputs[0])
    assert isinstance(node.op, Conv)
    if weights is None or own is None or node.op.group > 1 or (bias is not None and graph.constant(bias) is None):
        yield from _depthwise(graph, node, masks) if is_depthwise(graph, node) else _all(graph, node, masks)
        return
    yield node.inputs[0], _read(weights, own)
    for name in node.inputs[3:]:
        yield from _tied(masks, name, node.outputs[0])


def _read(weights: np.ndarray, own: np.ndarray) -> np.ndarray:
    """[C] bool: the input channels in which a filter of `own` has weights. Few filters tell, most of the time."""
    found = np.zeros(weights.shape[1], bool)
    filters = np.flatnonzero(own)
    for begin in range(0, len(filters), 64):
        some = weights[filters[begin : begin + 64]] != 0
        found |= some.any(axis=(0, *range(2, weights.ndim)))
        if found.all():
            break
    return found


def _matmul(graph: Graph, node: Node, masks: Masks) -> _Needs:
    """Rows of the matrix that a column which stays has weights in."""
    if not is_dense(graph, node):
        yield from _all(graph, node, masks)
        return
    weights = graph.constant(node.inputs[1])
    assert weights is not None
    yield node.inputs[0], _read(weights.T, masks[node.outputs[0]])


def is_dense(graph: Graph, node: Node) -> bool:
    """[N,C] times a constant matrix, with a constant bias of one number a column or for all."""
    weights = graph.constant(node.inputs[1])
    bias = node.inputs[2] if len(node.inputs) > 2 else None
    if weights is None or weights.ndim != 2 or graph.type(node.outputs[0]).rank != 2:
        return False
    return bias is None or parameter_axis(graph, node, bias) is not None


def is_depthwise(graph: Graph, node: Node) -> bool:
    weights = graph.constant(node.inputs[1])
    bias = node.inputs[2] if len(node.inputs) > 2 else None
    assert isinstance(node.op, Conv)
    return (
        weights is not None
        and weights.shape[:2] == (node.op.group, 1)
        and (bias is None or graph.constant(bias) is not None)
    )


def _depthwise(graph: Graph, node: Node, masks: Masks) -> _Needs:
    for name in (node.inputs[0], *node.inputs[3:]):
        yield from _tied(masks, name, node.outputs[0])


def _tied(masks: Masks, a: str | None, b: str) -> _Needs:
    """Two values that keep the same channels; all of them if one cannot be cut."""
    yield a, masks.get(b, True)
    yield b, masks.get(a or "", True)


def _channelwise(graph: Graph, node: Node, masks: Masks) -> _Needs:
    """Channel by channel: activations like the output, or parameters of a channel."""
    output = graph.type(node.outputs[0])
    for name in node.inputs:
        if name is None or output.rank < 2 or parameter_axis(graph, node, name) is not None:
            continue
        type = graph.type(name)
        if graph.constant(name) is not None or type.rank != output.rank or type.shape[1] != output.shape[1]:
            yield from _all(graph, node, masks)
        else:
            yield from _tied(masks, name, node.outputs[0])


def parameter_axis(graph: Graph, node: Node, name: str | None) -> int | None:
    """The axis of a constant operand along which it has a number a channel; -1: one number for all."""
    data, output = graph.constant(name), graph.type(node.outputs[0])
    if data is None:
        return None
    if data.size == 1:
        return -1
    axis = 0 if isinstance(node.op, ScaleShift) else data.ndim - output.rank + 1
    return axis if 0 <= axis < data.ndim and data.shape[axis] == output.shape[1] else None


def _reduce(graph: Graph, node: Node, masks: Masks) -> _Needs:
    assert isinstance(node.op, Reduce)
    if node.op.axes and min(node.op.axes) >= 2:
        yield from _tied(masks, node.inputs[0], node.outputs[0])
    else:
        yield from _all(graph, node, masks)


def _reshape(graph: Graph, node: Node, masks: Masks) -> _Needs:
    before, after = graph.type(node.inputs[0] or "").shape, graph.type(node.outputs[0]).shape
    if len(before) > 1 and len(after) > 1 and before[:2] == after[:2]:
        yield from _tied(masks, node.inputs[0], node.outputs[0])
    else:
        yield from _all(graph, node, masks)


def _resize(graph: Graph, node: Node, masks: Masks) -> _Needs:
    assert isinstance(node.op, Resize)
    own = len(node.op.shape) > 2 and node.op.scales[1] == 1.0 and node.op.coordinate != "tf_crop_and_resize"
    yield from (_channelwise if own else _all)(graph, node, masks)


def _concat(graph: Graph, node: Node, masks: Masks) -> _Needs:
    assert isinstance(node.op, Concat)
    if node.op.axis != 1:
        yield from _channelwise(graph, node, masks)
        return
    own, at = masks[node.outputs[0]], 0
    back = []
    for name in node.inputs:
        if name is None:
            continue
        extent = graph.type(name).shape[1]
        yield name, own[at : at + extent]
        back.append(masks.get(name, np.ones(extent, bool)))
        at += extent
    yield node.outputs[0], np.concatenate(back)


_RULES: dict[type, Callable[[Graph, Node, Masks], _Needs]] = {
    Binary: _channelwise,
    Concat: _concat,
    Conv: _conv,
    MatMul: _matmul,
    Pool: _channelwise,
    Reduce: _reduce,
    Reshape: _reshape,
    Resize: _resize,
    ScaleShift: _channelwise,
    Unary: _channelwise,
}
