"""Values seen through movement that an operator can do itself: transpositions, parts, and dimensions of extent 1."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from packer.ir import Box, Graph, Node, extents_of, whole
from packer.ir.ops import Binary, Reshape, Slice, Transpose
from packer.ir.ops.region import alike
from packer.passes.rewrite import Rewriting, Uses, number_of

__all__ = ["Seen", "factor_of", "ordered", "seen_before", "seen_behind", "stored"]

_Dims = tuple[int | None, ...]


@dataclass(frozen=True, slots=True)
class Seen:
    """What is seen of a value, times a factor: dimension i is dimension dims[i] of a box of it, or one of extent 1 that
    it does not have (None). The box has extent 1 along the dimensions that are not seen."""

    name: str
    dims: _Dims
    box: Box
    factor: float = 1.0

    @property
    def spare(self) -> list[int]:
        """The dimensions of the value that are not seen."""
        return [axis for axis in range(len(self.box)) if axis not in self.dims]

    @property
    def rank(self) -> int:
        """Of what is seen, with as many more dimensions of extent 1 before it as the value has to spare."""
        return max(len(self.dims), len(self.dims) + len(self.spare) - self.dims.count(None))


def seen_before(graph: Graph, producers: Mapping[str, Node], x: Seen, multiplied: bool) -> Seen:
    """The value that `x` was before it was last transposed, or if `multiplied` multiplied by a number."""
    found = x
    while (made := producers.get(x.name)) is not None:
        before = _before(graph, made, x)
        if before is None and multiplied:
            before = _before_factor(graph, made, x)
        if before is None:
            break
        x = before
        if not isinstance(made.op, Reshape | Slice):
            found = x
    return found


def seen_behind(graph: Graph, uses: Uses, x: Seen) -> tuple[Seen, tuple[Node, ...]]:
    """The value that `x`, all of it, is when it has been transposed, and the nodes between, if nobody else reads it."""
    found = x
    nodes: tuple[Node, ...] = ()
    passed: tuple[Node, ...] = ()
    while (reader := uses.sole_reader(x.name)) is not None:
        dims = _dims_behind(graph, reader, x.dims)
        if dims is None:
            break
        x = Seen(reader.outputs[0], dims, whole(graph.type(reader.outputs[0])))
        passed = (*passed, reader)
        if isinstance(reader.op, Transpose):
            found, nodes = x, passed
    return found, nodes


def ordered(x: Seen, rank: int) -> tuple[int, tuple[int, ...]]:
    """How many dimensions of extent 1 before its own the value of `x` needs to be seen with `rank` dimensions, and in
    which order all of them are seen then: those to spare stand for what there is none for, and before the others."""
    wide = (None,) * (rank - len(x.dims)) + x.dims
    missing = wide.count(None) - len(x.spare)
    spare = iter((*range(missing), *(axis + missing for axis in x.spare)))
    return missing, tuple(next(spare) if dim is None else dim + missing for dim in wide)


def stored(made: Rewriting, node: Node, x: Seen, rank: int) -> tuple[str, tuple[int, ...]]:
    """A value of `rank` dimensions that holds what is seen, made for `node`, and in which order they are seen."""
    missing, axes = ordered(x, rank)
    name, box = x.name, ((0, 1),) * missing + x.box
    if missing:
        name = made.add(Reshape((1,) * missing + made.type(name).shape), [name], node)
    if box != whole(made.type(name)):
        starts = tuple(begin for begin, _ in box)
        name = made.add(Slice(starts, (1,) * len(box), extents_of(box)), [name], node)
    return name, axes


def factor_of(graph: Graph, node: Node, name: str | None) -> float | None:
    """What a product or a quotient by a single number multiplies by, if that is what `node` is."""
    number = number_of(graph, name)
    if number is None or node.op == Binary("mul"):
        return number
    return 1.0 / number if node.op == Binary("div") and number and name == node.inputs[1] else None


def _before(graph: Graph, made: Node, x: Seen) -> Seen | None:
    source = made.inputs[0] if made.inputs else None
    if source is None:
        return None
    match made.op:
        case Transpose(perm):
            box = tuple(x.box[perm.index(axis)] for axis in range(len(perm)))
            return replace(x, name=source, dims=_through(x.dims, perm), box=box)
        case Slice(starts, steps, _) if set(steps) <= {1}:
            box = tuple((begin + at, end + at) for (begin, end), at in zip(x.box, starts, strict=True))
            return replace(x, name=source, box=box)
        case Reshape(shape):
            places = _places(shape, graph.type(source).shape)
            if places is None:
                return None
            box = tuple(
                x.box[places.index(axis)] if axis in places else (0, 1) for axis in range(graph.type(source).rank)
            )
            return replace(x, name=source, dims=_through(x.dims, places), box=box)
    return None


def _before_factor(graph: Graph, made: Node, x: Seen) -> Seen | None:
    for inner, other in (made.inputs, made.inputs[::-1]) if len(made.inputs) == 2 else ():
        factor = factor_of(graph, made, other)
        if factor is not None and inner is not None and graph.type(inner) == graph.type(x.name):
            return replace(x, name=inner, factor=x.factor * factor)
    return None


def _dims_behind(graph: Graph, reader: Node, dims: _Dims) -> _Dims | None:
    match reader.op:
        case Transpose(perm):
            return _through(dims, [perm.index(axis) for axis in range(len(perm))])
        case Reshape(shape):
            places = _places(graph.type(reader.inputs[0] or "").shape, shape)
            return None if places is None else _through(dims, places)
    return None


def _through(dims: _Dims, places: _Dims | list[int]) -> _Dims:
    return tuple(None if dim is None else places[dim] for dim in dims)


def _places(shape: tuple[int, ...], other: tuple[int, ...]) -> _Dims | None:
    """Where each dimension of `shape` is in `other`, if both are the same but for extents of 1, which are nowhere."""
    groups = list(alike(shape, other))
    if not all(whole for _, _, whole in groups):
        return None
    places = {axis: there for (axis, _), (there, _), _ in groups}
    return tuple(map(places.get, range(len(shape))))
