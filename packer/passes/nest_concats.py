"""Join what is joined or whole already, so that the planner can let one lie in the other.

Before: `a = concat(x, y); b = concat(x, y, z)`, as DenseNets are written at every layer. After: `b = concat(a, z)`.
Before: `l = x[:n]; r = x[n:]; b = concat(l, r, z)`, as in CSP networks. After: `b = concat(x, z)`.
"""

from __future__ import annotations

from dataclasses import replace

from packer.ir import Graph, Node
from packer.ir.ops import Concat, Slice

__all__ = ["nest_concats"]

Names = tuple[str | None, ...]


def nest_concats(graph: Graph) -> Graph:
    """The graph whose concats read whole values, and the results of earlier concats, instead of their parts."""
    sliced: dict[str, Node] = {}
    joined: dict[tuple[int, str | None], list[Node]] = {}  # by axis and first input
    nodes = []
    changed = False
    for node in graph.nodes:
        if isinstance(node.op, Slice):
            sliced[node.outputs[0]] = node
        elif isinstance(node.op, Concat):
            inputs = _with_whole(graph, node.op.axis, node.inputs, sliced)
            original = replace(node, inputs=inputs)
            inputs = _with_joined(node.op.axis, inputs, joined)
            joined.setdefault((node.op.axis, original.inputs[0]), []).append(original)
            changed |= inputs != node.inputs
            node = replace(node, inputs=inputs)
        nodes.append(node)
    return graph.replaced(nodes) if changed else graph


def _with_joined(axis: int, inputs: Names, joined: dict[tuple[int, str | None], list[Node]]) -> Names:
    """The longest earlier concats in place of their inputs."""
    found: list[str | None] = []
    at = 0
    while at < len(inputs):
        earlier = joined.get((axis, inputs[at]), ())
        fitting = [
            a for a in earlier if 1 < len(a.inputs) < len(inputs) and inputs[at : at + len(a.inputs)] == a.inputs
        ]
        longest = max(fitting, key=lambda a: len(a.inputs), default=None)
        found.append(inputs[at] if longest is None else longest.outputs[0])
        at += 1 if longest is None else len(longest.inputs)
    return tuple(found)


def _with_whole(graph: Graph, axis: int, inputs: Names, sliced: dict[str, Node]) -> Names:
    """A value in place of all its slices in their order."""
    found: list[str | None] = []
    at = 0
    while at < len(inputs):
        count = _slices_of_all(graph, axis, inputs[at:], sliced)
        found.append(sliced[inputs[at] or ""].inputs[0] if count else inputs[at])
        at += max(count, 1)
    return tuple(found)


def _slices_of_all(graph: Graph, axis: int, inputs: Names, sliced: dict[str, Node]) -> int:
    """How many of the first inputs are, one after the other, all of one value; 0: they are not."""
    source, end = None, 0
    for count, name in enumerate(inputs, 1):
        node = sliced.get(name or "")
        if node is None or source not in (None, node.inputs[0]) or node.inputs[0] is None:
            return 0
        source, op, shape = node.inputs[0], node.op, graph.type(node.inputs[0]).shape
        assert isinstance(op, Slice)
        starts = tuple(end if i == axis else 0 for i in range(len(shape)))
        others = all(size == extent or i == axis for i, (size, extent) in enumerate(zip(op.sizes, shape, strict=True)))
        if op.starts != starts or set(op.steps) != {1} or not others:
            return 0
        end += op.sizes[axis]
        if end == shape[axis]:
            return count
    return 0
