"""Remove the first and last taps of a convolution that meet nothing but padding.

Before: `y = conv(x, w)` with x [N,C,2,2], a kernel of 9x9 and pads of 4. After: `y = conv(x, v)` with v the 3x3 taps in
the middle of w, and pads of 1. Wide and dilated kernels on small maps lose most of their weights, and 3x3 kernels on
single pixels become 1x1.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from packer.ir import Graph, Node, Value
from packer.ir.ops import Conv, IntegerConv, QuantizedConv
from packer.passes.rewrite import fresh

__all__ = ["remove_outside_taps"]

Span = tuple[int, int]


def remove_outside_taps(graph: Graph) -> Graph:
    """The graph whose convolutions with constant weights have no tap at either end of a spatial dimension that only
    meets padding, as far as pads can make up for it: they are never negative."""
    taken: set[str] = set()
    made: dict[tuple[str | None, tuple[Span, ...]], Value] = {}  # by weights and taps: nodes may share them
    nodes: list[Node] = []
    for node in graph.nodes:
        nodes.append(node)
        weights = graph.constant(node.inputs[1]) if isinstance(node.op, Conv | IntegerConv | QuantizedConv) else None
        if weights is None:
            continue
        taps, pads = _reaching(graph, node, weights.shape[2:])
        own = weights[:, :, *(slice(*span) for span in taps)]
        if own.shape == weights.shape or not np.isfinite(weights).all():
            continue
        key = (node.inputs[1], taps)
        if key not in made:
            made[key] = Value.constant(fresh(graph, f"{node.outputs[0]}.weights", taken), own)
        nodes[-1] = _with(graph, node, made[key], pads)
    return graph.replaced(nodes, list(made.values())) if made else graph


def _reaching(graph: Graph, node: Node, kernel: tuple[int, ...]) -> tuple[tuple[Span, ...], tuple[int, ...]]:
    """The taps that stay in each spatial dimension, and the pads then."""
    op = node.op
    assert isinstance(op, Conv | IntegerConv | QuantizedConv)
    extents, outputs = (graph.type(name or "").shape[2:] for name in (node.inputs[0], node.outputs[0]))
    rows = zip(extents, outputs, kernel, op.strides, op.dilations, op.pads[: len(kernel)], strict=True)
    taps, begins, ends = zip(*(_along(*row) for row in rows), strict=True)
    return taps, (*begins, *ends)


def _along(extent: int, outputs: int, taps: int, stride: int, dilation: int, begin: int) -> tuple[Span, int, int]:
    """The same for one dimension that begins with so much padding: one tap at least, and the least end padding."""

    def reaches(tap: int) -> bool:
        """Whether `output * stride + offset` lies in x for any output."""
        offset = tap * dilation - begin
        first = max(0, -(offset // stride))
        return first < outputs and first * stride + offset < extent

    reaching = [tap for tap in range(taps) if reaches(tap)]
    before, after = (reaching[0], taps - 1 - reaching[-1]) if reaching else (taps - 1, taps - 1)
    before = min(before, begin // dilation)
    spare = outputs * stride - 1 - (extent + begin - (taps - 1) * dilation - 1)  # more would make room for an output
    after = min(after, taps - 1 - before, spare // dilation)
    begin -= before * dilation
    last = (outputs - 1) * stride - begin + (taps - 1 - before - after) * dilation
    return (before, taps - after), begin, max(0, last + 1 - extent)


def _with(graph: Graph, node: Node, weights: Value, pads: tuple[int, ...]) -> Node:
    """The node with other weights and pads, which gives as many outputs."""
    assert isinstance(node.op, Conv | IntegerConv | QuantizedConv)
    op = replace(node.op, pads=pads)
    types = [None if name is None else graph.type(name) for name in node.inputs]
    types[1] = weights.type
    assert op.infer(types) == (graph.type(node.outputs[0]),)
    return replace(node, op=op, inputs=(node.inputs[0], weights.name, *node.inputs[2:]))
