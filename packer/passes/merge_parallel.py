"""Let the sum of convolutions of one value be one convolution, whose kernel is the sum of theirs.

Before: `y = conv(x, v) + conv(x, w) + scale_shift(x, s, t)`. After: `y = conv(x, v + w + s)`, kernels lying where their
taps read the same. Structural re-parameterisation, X. Ding et al., "RepVGG: Making VGG-style ConvNets Great Again",
CVPR 2021, for networks that were exported with the branches they were trained with.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

import numpy as np

from packer.ir import Graph, Node, Value
from packer.ir.ops import Binary, Conv, ScaleShift
from packer.passes.affine import as_affine, narrowed
from packer.passes.rewrite import Uses, constants_for

__all__ = ["merge_parallel"]


@dataclass(frozen=True)
class _Branch:
    """A convolution without an activation: its operands in float64, and where it is from."""

    x: str
    weights: np.ndarray
    bias: np.ndarray
    op: Conv
    nodes: tuple[Node, ...]


def merge_parallel(graph: Graph) -> Graph:
    """The graph with each sum of two such branches, which it alone reads, as one that has no more taps than both."""
    uses = Uses(graph)
    taken: set[str] = set()
    values: list[Value] = []
    merged: dict[str, _Branch] = {}
    for node in graph.nodes:
        found = _merged(graph, uses, node, merged)
        if found is not None:
            merged[node.outputs[0]] = found
    if not merged:
        return graph
    absorbed = {made.outputs[0] for branch in merged.values() for made in branch.nodes[:-1]}
    nodes: list[Node] = []
    for node in graph.nodes:
        branch = merged.get(node.outputs[0])
        if node.outputs[0] in absorbed:
            continue
        if branch is None:
            nodes.append(node)
            continue
        narrow = {"weights": branch.weights.astype(np.float32), "bias": branch.bias.astype(np.float32)}
        constants = constants_for(graph, node, narrow, taken)
        values += constants
        sources = tuple(source for made in branch.nodes for source in made.sources)
        nodes.append(Node(branch.op, (branch.x, *(c.name for c in constants)), node.outputs, sources))
    return graph.replaced(nodes, values)


def _merged(graph: Graph, uses: Uses, node: Node, merged: dict[str, _Branch]) -> _Branch | None:
    """What a sum is as one convolution."""
    if not isinstance(node.op, Binary) or node.op.kind != "add":
        return None
    makers = [uses.sole_producer(name, node) for name in node.inputs]
    if any(graph.type(name or "") != graph.type(node.outputs[0]) for name in node.inputs):
        return None
    first, second = (None if maker is None else _conv(graph, maker, merged) for maker in makers)
    if first is None and second is None:
        return None
    if first is None:
        first, second = second, _diagonal(graph, makers[0], second)
    elif second is None:
        second = _diagonal(graph, makers[1], first)
    joined = _joined(graph, node, first, second) if first is not None and second is not None else None
    if joined is None or narrowed(weights=joined.weights, bias=joined.bias) is None:
        return None
    return joined


def _conv(graph: Graph, node: Node, merged: dict[str, _Branch]) -> _Branch | None:
    """A convolution, or what was made one, as a branch."""
    if node.outputs[0] in merged:
        return merged[node.outputs[0]] if merged[node.outputs[0]].op.activation is None else None
    op = node.op
    if not isinstance(op, Conv) or op.activation is not None or len(node.inputs) > 3:
        return None
    x, weights, bias = node.inputs[0], *(graph.constant(name) for name in (*node.inputs[1:], None)[:2])
    if x is None or weights is None or (bias is None and (*node.inputs, None)[2] is not None):
        return None
    shift = np.zeros(len(weights)) if bias is None else bias.astype(np.float64)
    return _Branch(x, weights.astype(np.float64), shift, op, (node,))


def _diagonal(graph: Graph, node: Node | None, other: _Branch | None) -> _Branch | None:
    """A scale and shift of each channel as a branch that has the groups of another one."""
    affine = as_affine(graph, node) if node is not None else None
    if node is None or other is None or affine is None or not isinstance(node.op, Binary | ScaleShift):
        return None
    x, scale, shift = affine
    filters, channels = other.weights.shape[:2]
    if node.op.activation is not None or filters != scale.size or channels * other.op.group != scale.size:
        return None
    spatial = len(other.op.strides)
    weights = np.zeros((filters, channels, *(1,) * spatial))
    weights[np.arange(filters), np.arange(filters) % channels] = scale.reshape(-1, *(1,) * spatial)
    ones = (1,) * spatial
    return _Branch(x, weights, shift, Conv(ones, (0,) * 2 * spatial, ones, other.op.group), (node,))


def _joined(graph: Graph, node: Node, a: _Branch, b: _Branch) -> _Branch | None:
    assert isinstance(node.op, Binary)
    if (
        a.x != b.x
        or a.op.group != b.op.group
        or a.op.strides != b.op.strides
        or a.weights.shape[:2] != b.weights.shape[:2]
    ):
        return None
    rank, strides = len(a.op.strides), a.op.strides
    kernels = (a.weights.shape[2:], b.weights.shape[2:])
    inside, outside = graph.type(a.x).shape[2:], graph.type(node.outputs[0]).shape[2:]
    begins, ends, dilations, kernel = [], [], [], []
    places: tuple[list[slice], list[slice]] = ([slice(None)] * 2, [slice(None)] * 2)
    for i in range(rank):
        steps = {branch.op.dilations[i] for branch, taps in zip((a, b), kernels, strict=True) if taps[i] > 1} or {1}
        step, begin = min(steps), max(a.op.pads[i], b.op.pads[i])
        before = [begin - branch.op.pads[i] for branch in (a, b)]
        if len(steps) > 1 or any(n % step for n in before):
            return None
        reach = [n // step + taps[i] for n, taps in zip(before, kernels, strict=True)]
        for place, n, taps in zip(places, before, kernels, strict=True):
            place.append(slice(n // step, n // step + taps[i]))
        begins.append(begin)
        dilations.append(step)
        kernel.append(max(reach))
        ends.append(max(0, (outside[i] - 1) * strides[i] + step * (max(reach) - 1) + 1 - inside[i] - begin))
    if prod(kernel) > sum(prod(taps) for taps in kernels):
        return None
    weights = np.zeros((*a.weights.shape[:2], *kernel))
    for branch, place in zip((a, b), places, strict=True):
        weights[tuple(place)] += branch.weights
    op = Conv(strides, (*begins, *ends), tuple(dilations), a.op.group, node.op.activation)
    joined = _Branch(a.x, weights, a.bias + b.bias, op, (*a.nodes, *b.nodes, node))
    return joined if _outputs(graph, joined) == outside else None


def _outputs(graph: Graph, branch: _Branch) -> tuple[int, ...]:
    """The extents of what a branch makes."""
    x, op = graph.type(branch.x).shape[2:], branch.op
    taps, rank = branch.weights.shape[2:], len(x)
    return tuple(
        (x[i] + op.pads[i] + op.pads[rank + i] - op.dilations[i] * (taps[i] - 1) - 1) // op.strides[i] + 1
        for i in range(rank)
    )
