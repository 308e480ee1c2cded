"""Move elements once where a reshape lies between two transposes.

Before: `a = reshape(transpose(x)); y = transpose(a)`, as transformers split and join the heads of their attention.
After: `y = reshape(transpose(reshape(x)))`, dimensions being the factors that the shapes of the reshape have in common.
"""

from __future__ import annotations

from itertools import accumulate, pairwise
from math import prod
from operator import mul

from packer.ir import Graph, Node, TensorType, Value
from packer.ir.ops import Reshape, Transpose
from packer.passes.rewrite import Uses, fresh

__all__ = ["merge_transposes"]

_MOST = 8  # dimensions of a value in a bundle
_RUN = 16  # elements that are neighbours in x, and in y: with fewer, one transpose may take longer than two


def merge_transposes(graph: Graph) -> Graph:
    """The graph with each transpose of a reshaped transpose, which nobody else reads, as one between two reshapes."""
    uses = Uses(graph)
    taken: set[str] = set()
    values: list[Value] = []
    nodes: list[Node] = []
    changed = False
    for node in graph.nodes:
        chain = _chain(uses, node)
        found = _merged(graph, chain) if chain is not None else None
        if chain is None or found is None:
            nodes.append(node)
            continue
        changed = True
        x, (split, perm) = chain[0].inputs[0] or "", found
        dtype, sources = graph.type(x).dtype, tuple(source for made in chain for source in made.sources)
        for op, shape in ((Reshape(split), split), (Transpose(perm), tuple(split[p] for p in perm))):
            values.append(Value(fresh(graph, f"{node.outputs[0]}.merged", taken), TensorType(dtype, shape)))
            nodes.append(Node(op, (x,), (values[-1].name,), sources))
            x = values[-1].name
        nodes.append(Node(Reshape(graph.type(node.outputs[0]).shape), (x,), node.outputs, sources))
    return graph.replaced(nodes, values) if changed else graph


def _chain(uses: Uses, node: Node) -> tuple[Node, Node, Node] | None:
    """The transpose, the reshape and the transpose that end with `node`."""
    middle = uses.sole_producer(node.inputs[0], node) if isinstance(node.op, Transpose) else None
    first = uses.sole_producer(middle.inputs[0], middle) if middle and isinstance(middle.op, Reshape) else None
    return (first, middle, node) if first and middle and isinstance(first.op, Transpose) else None


def _merged(graph: Graph, chain: tuple[Node, Node, Node]) -> tuple[tuple[int, ...], tuple[int, ...]] | None:
    """The shape that x is seen in, and how its dimensions change places."""
    before, after = (node.op for node in (chain[0], chain[2]))
    assert isinstance(before, Transpose)
    assert isinstance(after, Transpose)
    shapes = [graph.type(node.outputs[0]).shape for node in chain[:2]]
    bounds = sorted({bound for shape in shapes for bound in accumulate(shape, mul)} | {1})
    if bounds[0] < 1 or any(b % a for a, b in pairwise(bounds)):
        return None
    factors = [b // a for a, b in pairwise(bounds)]
    first, second = (_groups(shape, bounds) for shape in shapes)
    places = [place for axis in range(len(first)) for place in first[before.perm.index(axis)]]
    order = [place for axis in after.perm for place in second[axis]]
    if len(places) > _MOST or not places or min(factors[places[-1]], factors[order[-1]]) < _RUN:
        return None
    return tuple(factors[place] for place in places), tuple(places.index(place) for place in order)


def _groups(shape: tuple[int, ...], bounds: list[int]) -> list[list[int]]:
    """The factors, numbered, that make up each dimension."""
    groups = []
    for axis in range(len(shape)):
        begin, end = bounds.index(prod(shape[:axis])), bounds.index(prod(shape[: axis + 1]))
        groups.append(list(range(begin, end)))
    return groups
