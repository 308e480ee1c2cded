"""Let what is gathered at known, evenly spaced places be a slice, which may be a view.

Before: `y = gather(x, [2, 3, 4])`, `z = gather(x, 1)`. After: `y = slice(x)`, `z = slice(reshape(x))`, where the
dimension that disappears is one with the next.
"""

from __future__ import annotations

import numpy as np

from packer.ir import Graph, Node, TensorType, Value
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
        places = _places(graph, node)
        if places is None or not isinstance(node.op, Gather):
            nodes.append(node)
            continue
        changed = True
        x, axis, y = node.inputs[0] or "", node.op.axis, graph.type(node.outputs[0])
        type = graph.type(x)
        if graph.type(node.inputs[1] or "").rank == 0 and axis + 1 < type.rank:
            after = type.shape[axis + 1]
            joined = (*type.shape[:axis], type.shape[axis] * after, *type.shape[axis + 2 :])
            type = TensorType(type.dtype, joined)
            places = range(places.start * after, (places.start + 1) * after)
            values.append(Value(fresh(graph, f"{node.outputs[0]}.joined", taken), type))
            nodes.append(Node(Reshape(joined), (x,), (values[-1].name,), node.sources))
            x = values[-1].name
        cut = _slice(type.shape, axis, places)
        if cut.sizes == y.shape:
            nodes.append(Node(cut, (x,), node.outputs, node.sources))
            continue
        values.append(Value(fresh(graph, f"{node.outputs[0]}.slice", taken), TensorType(type.dtype, cut.sizes)))
        nodes.append(Node(cut, (x,), (values[-1].name,), node.sources))
        nodes.append(Node(Reshape(y.shape), (values[-1].name,), node.outputs, node.sources))
    return graph.replaced(nodes, values) if changed else graph


def _places(graph: Graph, node: Node) -> range | None:
    """The places that a Gather reads, if they are known and ascend by one step."""
    indices = graph.constant(node.inputs[1]) if isinstance(node.op, Gather) else None
    if indices is None or indices.size == 0 or not isinstance(node.op, Gather):
        return None
    extent = graph.type(node.inputs[0] or "").shape[node.op.axis]
    places = indices.reshape(-1).astype(np.int64)
    places = np.where(places < 0, places + extent, places)
    steps = np.unique(np.diff(places))
    step = int(steps[0]) if steps.size else 1
    if steps.size > 1 or step < 1 or places[0] < 0 or places[-1] >= extent:
        return None
    return range(int(places[0]), int(places[-1]) + 1, step)


def _slice(shape: tuple[int, ...], axis: int, places: range) -> Slice:
    starts, steps, sizes = [0] * len(shape), [1] * len(shape), list(shape)
    starts[axis], steps[axis], sizes[axis] = places.start, places.step, len(places)
    return Slice(tuple(starts), tuple(steps), tuple(sizes))
