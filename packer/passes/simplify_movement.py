"""Drop operators that change nothing or always choose the same, and merge chains of reshapes and of transposes.

Before: `a = reshape(x); b = reshape(a); y = transpose(transpose(b))`. After: `y = reshape(x)`.
"""

from __future__ import annotations

from dataclasses import replace

from packer.ir import Graph, Node
from packer.ir.ops import Binary, Cast, Concat, Expand, Pad, Reshape, ScaleShift, Slice, Tile, Transpose, Unary, Where
from packer.passes.affine import as_affine

__all__ = ["simplify_movement"]


def simplify_movement(graph: Graph) -> Graph:
    """The graph without data movement that leaves every element in its place."""
    renamed: dict[str, str] = {}
    made: dict[str, Node] = {}
    nodes: list[Node] = []
    changed = False
    for original in graph.nodes:
        node = replace(original, inputs=tuple(renamed.get(n, n) if n is not None else None for n in original.inputs))
        merged = _merged(graph, node, made)
        changed |= merged is not node
        node = merged
        if _is_identity(graph, node) and node.outputs[0] not in graph.outputs:
            renamed[node.outputs[0]] = node.inputs[0] or ""
            changed = True
            continue
        made.update((name, node) for name in node.outputs)
        nodes.append(node)
    nodes, lifted = _lift_outputs(graph, nodes)
    return graph.replaced(nodes) if changed or lifted else graph


def _merged(graph: Graph, node: Node, made: dict[str, Node]) -> Node:
    """`node` reading past a reshape or transpose in front of it; a transpose that moves only extents of 1 becomes a
    reshape, a choice that is always the same an expansion of what is chosen."""
    op = node.op
    if isinstance(op, Where):
        condition = graph.constant(node.inputs[0])
        if condition is not None and condition.size and condition.all() == condition.any():
            chosen = node.inputs[1 if condition.all() else 2]
            return replace(node, op=Expand(graph.type(node.outputs[0]).shape), inputs=(chosen,))
    if isinstance(op, Transpose):
        kept = [p for p in op.perm if graph.type(node.inputs[0] or "").shape[p] != 1]
        if kept == sorted(kept):
            return replace(node, op=Reshape(graph.type(node.outputs[0]).shape))
    before = made.get(node.inputs[0] or "") if node.inputs else None
    if before is None:
        return node
    if isinstance(op, Reshape) and isinstance(before.op, Reshape):
        return Node(op, before.inputs, node.outputs, before.sources + node.sources)
    if isinstance(op, Transpose) and isinstance(before.op, Transpose):
        perm = tuple(before.op.perm[p] for p in op.perm)
        return Node(Transpose(perm), before.inputs, node.outputs, before.sources + node.sources)
    return node


def _is_identity(graph: Graph, node: Node) -> bool:
    op = node.op
    if isinstance(op, Binary | ScaleShift):
        affine = as_affine(graph, node)
        same = affine is not None and affine[0] == node.inputs[0] and (affine[1] == 1).all() and not affine[2].any()
        return same and op.activation is None
    if (
        not isinstance(op, Cast | Concat | Expand | Pad | Reshape | Slice | Tile | Transpose | Unary)
        or node.inputs[0] is None
    ):
        return False
    if graph.type(node.inputs[0]) != graph.type(node.outputs[0]):
        return False
    if isinstance(op, Unary):
        return op.kind == "identity"
    if isinstance(op, Slice):
        return all(step == 1 for step in op.steps)
    if isinstance(op, Transpose):
        return op.perm == tuple(range(len(op.perm)))
    if isinstance(op, Pad):
        return not any(op.pads)
    return True  # the others keep type and order exactly when the types agree


def _lift_outputs(graph: Graph, nodes: list[Node]) -> tuple[list[Node], bool]:
    """Where an identity makes a graph output of another node's result, let that node make the output itself."""
    made = {name for node in nodes for name in node.outputs}
    alias: dict[str, str] = {}
    kept: list[Node] = []
    for node in nodes:
        source, result = (node.inputs[0] if node.inputs else None), node.outputs[0]
        free = source in made and source not in graph.outputs and source not in alias
        if (
            _is_identity(graph, node)
            and free
            and source is not None
            and not any(e.value == source or e.count == source for e in graph.extents)
        ):
            alias[source] = result
        else:
            kept.append(node)
    if not alias:
        return nodes, False
    return [
        replace(
            node,
            inputs=tuple(alias.get(n, n) if n is not None else None for n in node.inputs),
            outputs=tuple(alias.get(n, n) for n in node.outputs),
        )
        for node in kept
    ], True
