"""Find attention, so that its scores need not go through memory.

Before: `y = softmax(scale * (q @ k^T) + mask) @ v`, or `y^T = v^T @ softmax(...)^T`; q, k, v and y may be transposed,
q and k be multiplied by numbers, the mask be a choice of scores, others being replaced by a number far below zero, and
weights that are no numbers be replaced by zeros.
After: `y = attention(q, k, v, mask)`, which reads what these were made of and writes what y was transposed to.

Of few rows nothing is made: for those it is not worth to pack the keys and values.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from packer.ir import Graph, Node, whole
from packer.ir.ops import Attention, Binary, MatMul, Reshape, Softmax, Transpose, Unary, Where
from packer.passes.remove_dead import remove_dead
from packer.passes.rewrite import Rewriting, Uses
from packer.passes.seen import Seen, factor_of, ordered, seen_before, seen_behind, stored

__all__ = ["recognise_attention"]

_FEW = 8  # rows
_MOST = 4  # operators between the product and the softmax
_BELOW = -1e9  # no score is so far below others unless it is meant to have no weight


def recognise_attention(graph: Graph) -> Graph:
    """The graph with each attention as one operator, if nobody else reads its scores."""
    uses = Uses(graph)
    found = [_attention(graph, uses, node) for node in graph.nodes if isinstance(node.op, Softmax)]
    ends = {attention.y.name: attention for attention in found if attention is not None}
    if not ends:
        return graph
    made = Rewriting(graph, "attention")
    for node in graph.nodes:
        attention = ends.get(node.outputs[0])
        if attention is None:
            made.nodes.append(node)
        else:
            attention.add_to(made)
    return remove_dead(made.result())


@dataclass(frozen=True, slots=True)
class _Attention:
    """The operands as they are seen in it, and the nodes that it stands for."""

    q: Seen
    k: Seen
    v: Seen
    y: Seen
    scale: float
    mask: str | np.ndarray | None
    zeroed: bool
    node: Node

    def add_to(self, made: Rewriting) -> None:
        """Add the operator, with views of its operands that have as many dimensions as the one that has most."""
        rank = max(operand.rank for operand in (self.q, self.k, self.v, self.y))
        (q, q_axes), (k, k_axes), (v, v_axes) = (stored(made, self.node, x, rank) for x in (self.q, self.k, self.v))
        missing, y_axes = ordered(self.y, rank)
        op = Attention(self.scale * self.q.factor * self.k.factor, q_axes, k_axes, v_axes, y_axes, self.zeroed)
        mask = made.constant(self.y.name, self.mask) if isinstance(self.mask, np.ndarray) else self.mask
        inputs = (q, k, v) if mask is None else (q, k, v, mask)
        if not missing:
            made.add(op, inputs, self.node, self.y.name)
        else:
            y = made.add(op, inputs, self.node)
            made.add(Reshape(made.type(self.y.name).shape), [y], self.node, self.y.name)


@dataclass(frozen=True, slots=True)
class _Scores:
    """scale * (q @ k) + mask, a value or a new constant, of these nodes."""

    q: str
    k: str
    scale: float
    mask: str | np.ndarray | None
    nodes: tuple[Node, ...]


def _attention(graph: Graph, uses: Uses, softmax: Node) -> _Attention | None:
    """The attention that the node is part of."""
    type = graph.type(softmax.outputs[0])
    if type.rank < 2 or softmax.op != Softmax("softmax", (type.rank - 1,)):
        return None
    scores, product = _scores(graph, uses, softmax, softmax.inputs[0]), _product(graph, uses, softmax)
    if scores is None or product is None:
        return None
    names = scores.q, scores.k, product.v, product.nodes[-1].outputs[0]
    types, axes = [graph.type(name) for name in names], product.axes
    if graph.type(scores.nodes[0].outputs[0]) != type or any(t.rank != type.rank or not t.elements for t in types):
        return None
    if type.shape[-2] < _FEW or tuple(types[-1].shape[axis] for axis in axes)[:-1] != type.shape[:-1]:
        return None  # the values have more batches
    orders = tuple(range(type.rank)), _swapped(type.rank), axes, axes
    q, k, v, y = (Seen(name, order, whole(of)) for name, order, of in zip(names, orders, types, strict=True))
    y, behind = seen_behind(graph, uses, y)
    sources = tuple(source for node in (*scores.nodes, softmax, *product.nodes, *behind) for source in node.sources)
    return _Attention(
        seen_before(graph, uses.producer, q, multiplied=True),
        seen_before(graph, uses.producer, k, multiplied=True),
        seen_before(graph, uses.producer, v, multiplied=False),
        y, scores.scale, scores.mask, product.zeroed, Node(softmax.op, softmax.inputs, (y.name,), sources),
    )  # fmt: skip


def _swapped(rank: int) -> tuple[int, ...]:
    return (*range(rank - 2), rank - 1, rank - 2)


@dataclass(frozen=True, slots=True)
class _Product:
    """weights @ v, v and the product seen in an order of dimensions, made by these nodes behind the softmax."""

    v: str
    axes: tuple[int, ...]
    zeroed: bool
    nodes: tuple[Node, ...]


def _product(graph: Graph, uses: Uses, softmax: Node) -> _Product | None:
    """What multiplies the softmax and v."""
    rank = graph.type(softmax.outputs[0]).rank
    axes: tuple[int, ...] = tuple(range(rank))
    nodes = _zeroing(graph, uses, softmax.outputs[0])
    zeroed, weights = bool(nodes), (softmax, *nodes)[-1].outputs[0]
    reader = uses.sole_reader(weights)
    if reader is not None and reader.op == Transpose(_swapped(rank)):
        axes, nodes, weights = _swapped(rank), (*nodes, reader), reader.outputs[0]
        reader = uses.sole_reader(weights)
    if reader is None or reader.op != MatMul() or len(reader.inputs) != 2:
        return None
    first, v = reader.inputs if axes[-1] == rank - 1 else reader.inputs[::-1]
    if first != weights or v is None or graph.constant(v) is not None:
        return None
    return _Product(v, axes, zeroed, (*nodes, reader))


def _zeroing(graph: Graph, uses: Uses, name: str) -> tuple[Node, ...]:
    """The nodes that make zeros of what is no number in a value, if it is read for nothing else."""
    readers = uses.consumers[name]
    test = next((node for node in readers if node.op == Unary("is_nan")), None)
    choice = uses.sole_reader(test.outputs[0]) if test is not None else None
    if test is None or choice is None or len(readers) != 2 or choice not in readers or name in uses.outputs:
        return ()
    zero = graph.constant(choice.inputs[1]) if isinstance(choice.op, Where) else None
    if zero is None or zero.any() or choice.inputs != (test.outputs[0], choice.inputs[1], name):
        return ()
    return (test, choice) if graph.type(choice.outputs[0]) == graph.type(name) else ()


def _scores(graph: Graph, uses: Uses, reader: Node, name: str | None, most: int = _MOST) -> _Scores | None:
    """What the value `name`, which `reader` alone reads, is of, if by at most so many operators behind the product."""
    made = uses.sole_producer(name, reader)
    if made is None or most < 0:
        return None
    if isinstance(made.op, MatMul) and made.op.activation is None:
        q, k, *bias = made.inputs
        if q is None or k is None or graph.constant(k) is not None:
            return None
        return _Scores(q, k, 1.0, bias[0] if bias else None, (made,))
    if isinstance(made.op, Where):
        mask, inner = _mask_of(graph, made)
        found = None if mask is None else _scores(graph, uses, made, inner, most - 1)
        if found is None or found.mask is not None:
            return None
        return replace(found, mask=mask, nodes=(*found.nodes, made))
    for inner, other in (made.inputs, made.inputs[::-1]) if isinstance(made.op, Binary) else ():
        found, factor = _scores(graph, uses, made, inner, most - 1), factor_of(graph, made, other)
        if found is None or found.mask is not None:
            continue
        if factor is not None:
            return replace(found, scale=found.scale * factor, nodes=(*found.nodes, made))
        if made.op == Binary("add"):
            return replace(found, mask=other, nodes=(*found.nodes, made))
    return None


def _mask_of(graph: Graph, choice: Node) -> tuple[np.ndarray | None, str | None]:
    """What can be added instead of choosing, and what to: if some score of every row is chosen, and the number for the
    others gives them no weight beside it."""
    condition, *values = choice.inputs
    chosen, (one, other) = graph.constant(condition), (graph.constant(name) for name in values)
    if chosen is None or not chosen.ndim or not chosen.size:
        return None, None
    inner, below, chosen = (values[0], other, chosen) if one is None else (values[1], one, ~chosen)
    if below is None or below.size != 1 or not below.max() <= _BELOW or not chosen.any(-1).all():
        return None, None
    return np.where(chosen, np.float32(0), below.reshape(-1)[0]), inner
