"""Let a convolution do the zero padding in front of it.

Before: `p = pad(x, spatial, 0); y = conv(p, w)`. After: `y = conv(x, w)` with larger pads.
"""

from __future__ import annotations

from dataclasses import replace

from packer.ir import Graph, Node
from packer.ir.ops import Conv, Pad
from packer.passes.rewrite import Uses

__all__ = ["fuse_pad"]


def fuse_pad(graph: Graph) -> Graph:
    """The graph with constant-zero padding of spatial dimensions merged into the convolutions that alone read it."""
    uses = Uses(graph)
    absorbed: set[str] = set()
    nodes: list[Node] = []
    for node in graph.nodes:
        pad = uses.sole_producer(node.inputs[0], node) if isinstance(node.op, Conv) else None
        if pad is None or not isinstance(pad.op, Pad) or not _is_spatial_zero(graph, pad):
            nodes.append(node)
            continue
        assert isinstance(node.op, Conv)
        rank = len(pad.op.pads) // 2
        added = pad.op.pads[2:rank] + pad.op.pads[rank + 2 :]
        op = replace(node.op, pads=tuple(a + b for a, b in zip(node.op.pads, added, strict=True)))
        absorbed.add(pad.outputs[0])
        nodes.append(Node(op, (pad.inputs[0], *node.inputs[1:]), node.outputs, pad.sources + node.sources))
    return graph.replaced([n for n in nodes if n.outputs[0] not in absorbed]) if absorbed else graph


def _is_spatial_zero(graph: Graph, node: Node) -> bool:
    op = node.op
    assert isinstance(op, Pad)
    rank = len(op.pads) // 2
    if op.mode != "constant" or min(op.pads) < 0 or any(op.pads[d] or op.pads[rank + d] for d in (0, 1)):
        return False
    if len(node.inputs) < 2 or node.inputs[1] is None:
        return True
    value = graph.constant(node.inputs[1])
    return value is not None and not value.any()
