"""Let transposed convolutions be convolutions of fewer taps and more filters, where that wastes nothing: kernels as
large as strides, whose taps do not overlap, and groups of few channels.

Before: `y = relu(conv_transpose(x) + bias)`. After: `y = shuffle(relu(conv(x) + bias))`: of every position a block of
outputs as large as the strides, which are moved from neighbouring channels to neighbouring positions, less the padding.
Sub-pixel convolution, W. Shi et al., "Real-Time Single Image and Video Super-Resolution Using an Efficient Sub-Pixel
Convolutional Neural Network", CVPR 2016.
"""

from __future__ import annotations

from itertools import chain
from math import prod

import numpy as np

from packer.ir import Graph, Node, Value
from packer.ir.ops import Conv, ConvTranspose, Reshape, Slice, Transpose
from packer.ir.ops.base import Op
from packer.passes.rewrite import fresh

__all__ = ["make_subpixel"]

_FEW = 4  # channels of a group, of which the other kernel computes 16


def make_subpixel(graph: Graph) -> Graph:
    """The graph with such transposed convolutions of constant weights as convolutions."""
    taken: set[str] = set()
    values: dict[str, Value] = {}
    nodes: list[Node] = []

    def constant(name: str, data: np.ndarray) -> str:
        made = fresh(graph, f"{name}.subpixel", taken)
        values[made] = Value.constant(made, data)
        return made

    def add(op: Op, inputs: tuple[str, ...], node: Node, y: str | None = None) -> str:
        if y is None:
            y = fresh(graph, f"{node.outputs[0]}.subpixel", taken)
            values[y] = Value(y, op.infer([values[n].type if n in values else graph.type(n) for n in inputs])[0])
        nodes.append(Node(op, inputs, (y,), node.sources))
        return y

    for node in graph.nodes:
        if not _gains(graph, node):
            nodes.append(node)
            continue
        op = node.op
        assert isinstance(op, ConvTranspose)
        x, w, bias = (*node.inputs, None)[:3]
        assert x is not None
        assert w is not None
        y, inside, strides = graph.type(node.outputs[0]), graph.type(x).shape[2:], op.strides
        weights, rank, ones = np.asarray(graph.constant(w)), len(strides), (1,) * len(strides)
        reach = _reach(weights.shape[2:], strides)
        operands: tuple[str, ...] = (x, constant(w, _filters(weights, strides, op.group)))
        if bias is not None:
            operands = (*operands, constant(bias, np.asarray(graph.constant(bias)).repeat(prod(strides))))
        pads = tuple(r - 1 for r in reach) * 2
        found = add(Conv(ones, pads, ones, op.group, op.activation), operands, node)
        places = tuple(n + r - 1 for n, r in zip(inside, reach, strict=True))
        blocks = add(Reshape((*y.shape[:2], *strides, *places)), (found,), node)
        order = chain((0, 1), *((2 + rank + i, 2 + i) for i in range(rank)))
        moved = add(Transpose(tuple(order)), (blocks,), node)
        whole = (*y.shape[:2], *(n * s for n, s in zip(places, strides, strict=True)))
        if whole == y.shape:
            add(Reshape(whole), (moved,), node, node.outputs[0])
        else:
            cut = Slice((0, 0, *op.pads[:rank]), (1,) * y.rank, y.shape)
            add(cut, (add(Reshape(whole), (moved,), node),), node, node.outputs[0])
    return graph.replaced(nodes, list(values.values())) if values else graph


def _reach(taps: tuple[int, ...], strides: tuple[int, ...]) -> tuple[int, ...]:
    """How many inputs an output reads, by dimension."""
    return tuple(-(-n // s) for n, s in zip(taps, strides, strict=True))


def _filters(weights: np.ndarray, strides: tuple[int, ...], group: int) -> np.ndarray:
    """Weights [C, K / group, taps] as filters [K strides, C / group, reach], the nearest input last."""
    rank, taps = len(strides), weights.shape[2:]
    reach = _reach(taps, strides)
    missing = [(0, r * s - n) for r, s, n in zip(reach, strides, taps, strict=True)]
    full = np.pad(weights, [(0, 0), (0, 0), *missing])
    pairs = full.reshape(group, -1, weights.shape[1], *chain(*zip(reach, strides, strict=True)))
    inputs, phases = range(3, 3 + 2 * rank, 2), range(4, 4 + 2 * rank, 2)
    found = np.flip(pairs.transpose(0, 2, *phases, 1, *inputs), tuple(range(-rank, 0)))
    return found.reshape(-1, weights.shape[0] // group, *reach)


def _gains(graph: Graph, node: Node) -> bool:
    op = node.op
    if not isinstance(op, ConvTranspose):
        return False
    _, w, bias = (*node.inputs, None)[:3]
    weights = graph.constant(w)
    if weights is None or weights.size == 0 or (bias is not None and graph.constant(bias) is None):
        return False
    taps, rank = weights.shape[2:], len(op.strides)
    if any(d > 1 and n > 1 for d, n in zip(op.dilations, taps, strict=True)):
        return False
    apart = taps == op.strides and not any((*op.pads, *op.output_padding))
    ends = zip(taps, op.output_padding, op.pads[rank:], _reach(taps, op.strides), op.strides, strict=True)
    few = op.group > 1 and weights.shape[0] // op.group <= _FEW
    return apart or (few and all(n + more - pad <= reach * stride for n, more, pad, reach, stride in ends))
