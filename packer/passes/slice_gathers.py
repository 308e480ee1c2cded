"""Let what is gathered at known, evenly spaced places be a slice, which may be a view.

Before: `y = gather(x, 1)`, `y = gather(x, [2, 3, 4])`. After: `y = reshape(slice(x))`, `y = slice(x)`.
"""

from __future__ import annotations

import numpy as np

from packer.ir import Graph, Node, Value
from packer.ir.ops import Gather, Reshape, Slice
from packer.passes.rewrite import fresh

__all__ = ["slice_gathers"]


def slice_gathers(graph: Graph) -> Graph:
    """The graph with each Gather of constant indices that ascend by one step as a Slice."""
    taken: set[str] = set()
    values: list[Value] = []
    nodes: list[Node] = []
    changed = False
    for node in graph.nodes:
        cut = _slice(graph, node)
        if cut is None:
            nodes.append(node)
            continue
        changed = True
        x, y = node.inputs[0], graph.type(node.outputs[0])
        (type,) = cut.infer([graph.type(x or "")])
        if type == y:
            nodes.append(Node(cut, (x,), node.outputs, node.sources))
            continue
        values.append(Value(fresh(graph, f"{node.outputs[0]}.slice", taken), type))
        nodes.append(Node(cut, (x,), (values[-1].name,), node.sources))
        nodes.append(Node(Reshape(y.shape), (values[-1].name,), node.outputs, node.sources))
    return graph.replaced(nodes, values) if changed else graph


def _slice(graph: Graph, node: Node) -> Slice | None:
    """What gives the elements of a Gather in the same order."""
    indices = graph.constant(node.inputs[1]) if isinstance(node.op, Gather) else None
    if indices is None or indices.size == 0 or not isinstance(node.op, Gather):
        return None
    shape, axis = graph.type(node.inputs[0] or "").shape, node.op.axis
    places = indices.reshape(-1).astype(np.int64)
    places = np.where(places < 0, places + shape[axis], places)
    steps = np.unique(np.diff(places))
    step = int(steps[0]) if steps.size else 1
    if steps.size > 1 or step < 1 or places[0] < 0 or places[-1] >= shape[axis]:
        return None
    starts, by, sizes = [0] * len(shape), [1] * len(shape), list(shape)
    starts[axis], by[axis], sizes[axis] = int(places[0]), step, places.size
    return Slice(tuple(starts), tuple(by), tuple(sizes))
