"""How the values of a graph lie in device memory: what a value needs as a halo follows from all that read it."""

from __future__ import annotations

from collections.abc import Iterator
from weakref import WeakKeyDictionary

from packer.ir import DType, Graph, Node
from packer.ir.ops import Concat, Conv, Slice
from targets.cuda.array import Array
from targets.cuda.layer import Planes

__all__ = ["Halo", "State"]

Halo = tuple[int, ...]  # above, left, below and right of each plane; (): none

_HALOS: WeakKeyDictionary[Graph, dict[str, Halo]] = WeakKeyDictionary()


class State:
    """The values of a graph as the device has them, floats stored as `storage`."""

    def __init__(self, graph: Graph, storage: DType = DType.F32) -> None:
        self.graph, self.storage = graph, storage
        self._halos = _HALOS.get(graph) or _HALOS.setdefault(graph, _halos(graph))

    def halo(self, name: str) -> Halo:
        """The halo of a value."""
        return self._halos.get(name, ())

    def dtype(self, name: str) -> DType:
        """How the elements of a value are stored."""
        own = self.graph.type(name).dtype
        return self.storage if own is DType.F32 else own

    def planes(self, name: str) -> Planes:
        """A value [N, C, H, W] as convolutions see it."""
        _, channels, height, width = self.graph.type(name).shape
        top, left, bottom, right = self.halo(name) or (0, 0, 0, 0)
        return Planes.of(channels, height, width, (top, left, bottom, right), self.dtype(name))

    def array(self, name: str) -> Array:
        """A value as other operators see it."""
        type = self.graph.type(name)
        if self.graph.constant(name) is not None:
            return Array.dense(type.dtype, type.shape)
        if type.rank != _RANK:
            return Array.dense(self.dtype(name), type.shape)
        return self.planes(name).array(type.shape[0])


_RANK = 4


def _halos(graph: Graph) -> dict[str, Halo]:
    """The largest pads of the convolutions that read each value, or one that may lie in the same memory."""
    found: dict[str, Halo] = {}
    for node in graph.nodes:
        x = node.inputs[0] if node.inputs else None
        if not isinstance(node.op, Conv) or x is None or graph.type(x).rank != _RANK or graph.constant(x) is not None:
            continue
        pads = tuple(max(0, pad) for pad in node.op.pads)
        if any(pads):
            found[x] = tuple(map(max, zip(pads, found.get(x, pads), strict=True)))
    while True:  # joined values share a halo: until nothing changes
        changed = False
        for a, b in (pair for node in graph.nodes for pair in _joined(graph, node)):
            both = [found[name] for name in (a, b) if name in found]
            if not both:
                continue
            most = tuple(map(max, zip(*both, strict=True)))
            changed |= found.get(a) != most or found.get(b) != most
            found[a] = found[b] = most
        if not changed:
            return found


def _joined(graph: Graph, node: Node) -> Iterator[tuple[str, str]]:
    """Values that may lie one in the other: the inputs of a Concat of channels, what a Slice cuts out of them."""
    output = graph.type(node.outputs[0])
    if output.rank != _RANK or output.shape[0] != 1:
        return
    if isinstance(node.op, Concat) and node.op.axis == 1:
        yield from ((name, node.outputs[0]) for name in node.inputs if name is not None)
    if isinstance(node.op, Slice) and node.inputs[0] is not None:
        whole = graph.type(node.inputs[0]).shape
        if whole[0] == 1 and whole[2:] == output.shape[2:] and set(node.op.steps) == {1}:
            yield node.inputs[0], node.outputs[0]
