"""Remove nodes none of whose results is used.

Before: `y = relu(x); z = exp(x)`, output y. After: `y = relu(x)`.
"""

from __future__ import annotations

from packer.ir import Graph

__all__ = ["remove_dead"]


def remove_dead(graph: Graph) -> Graph:
    """The graph without nodes that contribute to no output."""
    needed = {*graph.outputs, *(extent.count for extent in graph.extents if extent.value in graph.outputs)}
    kept = []
    for node in reversed(graph.nodes):
        if any(name in needed for name in node.outputs):
            kept.append(node)
            needed.update(name for name in node.inputs if name is not None)
    return graph if len(kept) == len(graph.nodes) else graph.replaced(kept[::-1])
