"""Compute equal things once.

Before: `a = f(x); b = f(x); y = a + b`. After: `a = f(x); y = a + a`.
"""

from __future__ import annotations

from dataclasses import replace

from packer.ir import Graph, Node

__all__ = ["merge_duplicates"]


def merge_duplicates(graph: Graph) -> Graph:
    """The graph without nodes that repeat an earlier one; nodes that make graph outputs stay."""
    seen: dict[tuple[object, ...], Node] = {}
    renamed: dict[str, str] = {}
    kept = []
    for node in graph.nodes:
        node = replace(node, inputs=tuple(renamed.get(n, n) if n is not None else None for n in node.inputs))
        key = (node.op, node.inputs, len(node.outputs))
        earlier = seen.setdefault(key, node)
        if earlier is node or any(name in graph.outputs for name in node.outputs) or _has_extent(graph, node):
            kept.append(node)
        else:
            renamed.update(zip(node.outputs, earlier.outputs, strict=True))
    return graph.replaced(kept) if renamed else graph


def _has_extent(graph: Graph, node: Node) -> bool:
    return any(extent.value in node.outputs or extent.count in node.outputs for extent in graph.extents)
