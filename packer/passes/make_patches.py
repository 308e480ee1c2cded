"""Let sparse convolutions of patches that do not overlap be convolutions of one tap, with the channels of a patch.

Before: `y = relu(conv(x) + bias)`, kernels as large as strides, most weights zero. After: `y = relu(conv(patches(x)) +
bias)`: what lies in neighbouring positions is moved to neighbouring channels, of which sparse kernels take any number.
Patches are what vision transformers begin with: A. Dosovitskiy et al., "An Image is Worth 16x16 Words", ICLR 2021.
"""

from __future__ import annotations

from itertools import chain
from math import prod

import numpy as np

from packer.ir import Graph, Node
from packer.ir.ops import Conv, Reshape, Slice, Transpose
from packer.passes.rewrite import Rewriting

__all__ = ["make_patches"]

_TAPS, _DENSEST = 16, 0.5  # least taps and largest share of non-zeros: measured, moving included


def make_patches(graph: Graph) -> Graph:
    """The graph with such convolutions of constant weights as pointwise ones."""
    made = Rewriting(graph, "patches")
    for node in graph.nodes:
        if not _gains(graph, node):
            made.nodes.append(node)
            continue
        op = node.op
        assert isinstance(op, Conv)
        x, w, *others = node.inputs
        assert x is not None
        assert w is not None
        weights, places, rank = np.asarray(graph.constant(w)), graph.type(node.outputs[0]).shape[2:], len(op.strides)
        shape, ones = graph.type(x).shape, (1,) * rank
        seen = (*shape[:2], *(n * s for n, s in zip(places, op.strides, strict=True)))
        if seen != shape:
            x = made.add(Slice((0,) * len(seen), (1,) * len(seen), seen), (x,), node)
        x = made.add(Reshape((*shape[:2], *chain(*zip(places, op.strides, strict=True)))), (x,), node)
        x = made.add(Transpose((0, 1, *range(3, 3 + 2 * rank, 2), *range(2, 2 + 2 * rank, 2))), (x,), node)
        x = made.add(Reshape((shape[0], shape[1] * prod(op.strides), *places)), (x,), node)
        flat = made.constant(w, weights.reshape(len(weights), -1, *ones))
        pointwise = Conv(ones, (0,) * (2 * rank), ones, 1, op.activation)
        made.add(pointwise, (x, flat, *others), node, node.outputs[0])
    return made.result()


def _gains(graph: Graph, node: Node) -> bool:
    op = node.op
    if not isinstance(op, Conv) or op.group > 1 or any(op.pads):
        return False
    weights = graph.constant(node.inputs[1])
    if weights is None or weights.shape[2:] != op.strides or prod(op.strides) < _TAPS:
        return False
    if any(d > 1 and n > 1 for d, n in zip(op.dilations, op.strides, strict=True)):
        return False
    return graph.type(node.outputs[0]).elements > 0 and graph.density(node.inputs[1]) <= _DENSEST
