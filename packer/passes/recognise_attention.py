"""Find attention, so that its scores need not go through memory.

Before: `y = softmax(scale * (q @ k^T) + mask) @ v`, or `y^T = v^T @ softmax(...)^T`; q, k, v and y may be transposed,
and q and k be multiplied by numbers.
After: `y = attention(q, k, v, mask)`, which reads what these were made of and writes what y was transposed to.

Of few rows nothing is made: for those it is not worth to pack the keys and values.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from packer.ir import Graph, Node
from packer.ir.ops import Attention, Binary, MatMul, Softmax, Transpose
from packer.passes.remove_dead import remove_dead
from packer.passes.rewrite import Uses

__all__ = ["recognise_attention"]

_FEW = 8  # rows


def recognise_attention(graph: Graph) -> Graph:
    """The graph with each attention as one operator, if nobody else reads its scores."""
    uses = Uses(graph)
    found = [_attention(graph, uses, node) for node in graph.nodes if isinstance(node.op, Softmax)]
    made = {node.outputs[0]: node for node in found if node is not None}
    if not made:
        return graph
    return remove_dead(graph.replaced([made.get(node.outputs[0], node) for node in graph.nodes]))


@dataclass(frozen=True, slots=True)
class _Seen:
    """A value times a number; dimension i of what is seen is dimension axes[i] of the value."""

    name: str
    axes: tuple[int, ...]
    factor: float = 1.0


@dataclass(frozen=True, slots=True)
class _Scores:
    """scale * (q @ k) + mask, of these nodes."""

    q: str
    k: str
    scale: float
    mask: str | None
    nodes: tuple[Node, ...]


def _attention(graph: Graph, uses: Uses, softmax: Node) -> Node | None:
    """The operator that makes what becomes of the products of `softmax`, if it is part of an attention."""
    type = graph.type(softmax.outputs[0])
    if type.rank < 2 or softmax.op != Softmax("softmax", (type.rank - 1,)):
        return None
    scores = _scores(graph, uses, softmax, softmax.inputs[0])
    product = _product(uses, softmax, type.rank)
    if scores is None or product is None:
        return None
    nodes, v, y = product
    types = [graph.type(name) for name in (scores.q, scores.k, v.name, y.name)]
    if graph.type(scores.nodes[0].outputs[0]) != type or any(t.rank != type.rank or not t.elements for t in types):
        return None
    if type.shape[-2] < _FEW or tuple(types[-1].shape[axis] for axis in y.axes)[:-1] != type.shape[:-1]:
        return None  # the values have more batches
    swap = _swapped(type.rank)
    q = _before(graph, uses, _Seen(scores.q, tuple(range(type.rank))))
    k = _before(graph, uses, _Seen(scores.k, swap))
    v, (y, behind) = _before(graph, uses, v, multiplied=False), _behind(uses, y)
    op = Attention(scores.scale * q.factor * k.factor, q.axes, k.axes, v.axes, y.axes)
    inputs = (q.name, k.name, v.name, *((scores.mask,) if scores.mask is not None else ()))
    sources = (source for node in (*scores.nodes, softmax, *nodes, *behind) for source in node.sources)
    return Node(op, inputs, (y.name,), tuple(sources))


def _swapped(rank: int) -> tuple[int, ...]:
    return (*range(rank - 2), rank - 1, rank - 2)


def _product(uses: Uses, softmax: Node, rank: int) -> tuple[tuple[Node, ...], _Seen, _Seen] | None:
    """What multiplies the softmax and v, and how v and y are seen there."""
    reader = _sole_reader(uses, softmax.outputs[0])
    axes: tuple[int, ...] = tuple(range(rank))
    between: tuple[Node, ...] = ()
    if reader is not None and reader.op == Transpose(_swapped(rank)):
        axes, between, reader = _swapped(rank), (reader,), _sole_reader(uses, reader.outputs[0])
    if reader is None or reader.op != MatMul() or len(reader.inputs) != 2:
        return None
    powers, v = reader.inputs[::-1] if between else reader.inputs
    if v is None or powers != (*between, softmax)[0].outputs[0]:
        return None
    return (*between, reader), _Seen(v, axes), _Seen(reader.outputs[0], axes)


def _scores(graph: Graph, uses: Uses, reader: Node, name: str | None) -> _Scores | None:
    """What the value `name`, which `reader` alone reads, is of."""
    made = uses.sole_producer(name, reader)
    if made is None:
        return None
    if isinstance(made.op, MatMul) and made.op.activation is None:
        q, k, *bias = made.inputs
        if q is None or k is None or graph.constant(k) is not None:
            return None
        return _Scores(q, k, 1.0, bias[0] if bias else None, (made,))
    for inner, other in (made.inputs, made.inputs[::-1]) if isinstance(made.op, Binary) else ():
        found, factor = _scores(graph, uses, made, inner), _factor(graph, made, other)
        if found is None or found.mask is not None:
            continue
        if factor is not None:
            return replace(found, scale=found.scale * factor, nodes=(*found.nodes, made))
        if made.op == Binary("add"):
            return replace(found, mask=other, nodes=(*found.nodes, made))
    return None


def _factor(graph: Graph, node: Node, name: str | None) -> float | None:
    """What a product or a quotient by a single number multiplies by, if that is what `node` is."""
    data = graph.constant(name)
    if data is None or data.size != 1:
        return None
    number = float(data.reshape(-1)[0])
    if node.op == Binary("mul"):
        return number
    return 1.0 / number if node.op == Binary("div") and number and name == node.inputs[1] else None


def _before(graph: Graph, uses: Uses, x: _Seen, multiplied: bool = True) -> _Seen:
    """What a value is a transposition of, or if `multiplied` a multiple too."""
    made = uses.producer.get(x.name)
    if made is not None and isinstance(made.op, Transpose) and made.inputs[0] is not None:
        axes = tuple(made.op.perm[axis] for axis in x.axes)
        return _before(graph, uses, replace(x, name=made.inputs[0], axes=axes), multiplied)
    for inner, other in (made.inputs, made.inputs[::-1]) if made is not None and len(made.inputs) == 2 else ():
        factor = _factor(graph, made, other) if multiplied and made is not None else None
        if factor is not None and inner is not None and graph.type(inner).rank == len(x.axes):
            return _before(graph, uses, replace(x, name=inner, factor=x.factor * factor))
    return x


def _behind(uses: Uses, y: _Seen) -> tuple[_Seen, tuple[Node, ...]]:
    """What alone becomes of a value, transpositions of it, and by which nodes."""
    reader = _sole_reader(uses, y.name)
    if reader is None or not isinstance(reader.op, Transpose):
        return y, ()
    axes = tuple(reader.op.perm.index(axis) for axis in y.axes)
    found, nodes = _behind(uses, _Seen(reader.outputs[0], axes))
    return found, (reader, *nodes)


def _sole_reader(uses: Uses, name: str) -> Node | None:
    """The node that alone reads a value, once."""
    readers = uses.consumers[name]
    return readers[0] if len(readers) == 1 and uses.only_use(name, readers[0]) else None
