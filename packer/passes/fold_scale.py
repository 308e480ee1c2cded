"""Fold a per-channel scale and shift into the weights of the operator in front of it (batch normalisation folding).

Before: `c = conv(x, w); y = scale_shift(c, s, t)`. After: `y = conv(x, w * s, bias=t)`.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from packer.ir import Graph, Node, Value
from packer.ir.ops import Binary, Conv, ConvTranspose, MatMul, ScaleShift
from packer.passes.affine import as_affine, narrowed
from packer.passes.rewrite import Uses, constants_for

__all__ = ["fold_scale"]


def fold_scale(graph: Graph) -> Graph:
    """The graph with affine operators folded into convolutions and matrix products with constant weights."""
    uses = Uses(graph)
    taken: set[str] = set()
    absorbed: set[str] = set()
    values: list[Value] = []
    nodes: list[Node] = []
    for node in graph.nodes:
        found = _absorbing(graph, uses, node)
        if found is None or found[0].outputs[0] in absorbed:
            nodes.append(node)
            continue
        maker, scale, shift = found
        assert isinstance(maker.op, Conv | ConvTranspose | MatMul)
        assert isinstance(node.op, Binary | ScaleShift)
        weights = graph.constant(maker.inputs[1])
        assert weights is not None
        bias = graph.constant(maker.inputs[2]) if len(maker.inputs) > 2 and maker.inputs[2] is not None else None
        old = (
            np.zeros(scale.size) if bias is None else np.broadcast_to(bias.reshape(-1), scale.shape).astype(np.float64)
        )
        parameters = narrowed(weights=_scaled(maker, weights, scale), bias=old * scale + shift)
        if parameters is None:
            nodes.append(node)
            continue
        constants = constants_for(graph, node, parameters, taken)
        values += constants
        absorbed.add(maker.outputs[0])
        op = replace(maker.op, activation=node.op.activation)
        nodes.append(
            Node(op, (maker.inputs[0], *(c.name for c in constants)), node.outputs, maker.sources + node.sources)
        )
    if not absorbed:
        return graph
    return graph.replaced([n for n in nodes if n.outputs[0] not in absorbed], values)


def _absorbing(graph: Graph, uses: Uses, node: Node) -> tuple[Node, np.ndarray, np.ndarray] | None:
    """What can scale and shift its outputs as `node` does, and by what."""
    for axis in dict.fromkeys((1, graph.type(node.outputs[0]).rank - 1)):
        affine = as_affine(graph, node, axis)
        maker = uses.sole_producer(affine[0], node) if affine is not None else None
        if affine is not None and maker is not None and _can_absorb(graph, maker, axis):
            return maker, *affine[1:]
    return None


def _can_absorb(graph: Graph, maker: Node, axis: int) -> bool:
    """Whether it has constant weights, and its channels along `axis`."""
    op = maker.op
    if not isinstance(op, Conv | ConvTranspose | MatMul) or op.activation is not None or len(maker.inputs) > 3:
        return False
    weights = graph.constant(maker.inputs[1])
    if weights is None or weights.dtype != np.float32:
        return False
    if axis != (graph.type(maker.outputs[0]).rank - 1 if isinstance(op, MatMul) else 1):
        return False
    if isinstance(op, MatMul) and weights.ndim != 2:
        return False
    if len(maker.inputs) < 3 or maker.inputs[2] is None:
        return True
    bias = graph.constant(maker.inputs[2])
    return (
        bias is not None
        and bias.size in (1, graph.type(maker.outputs[0]).shape[axis])
        and bias.shape[-1:] in ((), (bias.size,))
    )


def _scaled(maker: Node, weights: np.ndarray, scale: np.ndarray) -> np.ndarray:
    """The weights with each output channel multiplied by its scale, in float64."""
    if isinstance(maker.op, MatMul):
        return np.asarray(weights * scale)
    if isinstance(maker.op, Conv):
        return np.asarray(weights * scale.reshape(-1, *[1] * (weights.ndim - 1)))
    assert isinstance(maker.op, ConvTranspose)  # [C, K/group, kernel...]: a block of C rows a group
    group, per_group = maker.op.group, weights.shape[1]
    blocks = weights.reshape(group, weights.shape[0] // group, *weights.shape[1:])
    return np.asarray(blocks * scale.reshape(group, 1, per_group, *[1] * (weights.ndim - 2))).reshape(weights.shape)
