"""Which poolings the kernel of the convolution before them can do."""

from __future__ import annotations

from weakref import WeakKeyDictionary

from packer.ir import DType, Graph, Node
from packer.ir.ops import Conv, Pool
from targets.cuda.geometry import POOLS

__all__ = ["conv_before", "pool_behind"]

_FOUND: WeakKeyDictionary[Graph, dict[str, tuple[str, Node]]] = WeakKeyDictionary()


def pool_behind(graph: Graph, node: Node, storage: DType) -> tuple[str, Node] | None:
    """The pooling of 2 x 2 pixels, which touch, that alone reads the output of a convolution, and its kind, one of
    POOLS. Where floats are stored as f16 it is the maximum, the same before rounding and after it."""
    if graph not in _FOUND:
        _FOUND[graph] = _found(graph)
    found = _FOUND[graph].get(node.outputs[0])
    return None if found is None or (storage is not DType.F32 and found[0] != "max") else found


def conv_before(graph: Graph, node: Node) -> Node | None:
    """The convolution whose output a node reads that pools 2 x 2 pixels, all of them in it."""
    op = node.op
    if not isinstance(op, Pool) or op.kernel != (2, 2) or op.strides != (2, 2) or op.dilations != (1, 1):
        return None
    if op.kind not in POOLS or any(op.pads) or len(node.outputs) > 1:
        return None
    made = graph.producers().get(node.inputs[0] or "")
    if made is None or not isinstance(made.op, Conv):
        return None
    read, kept = (graph.type(name or "").shape for name in (node.inputs[0], node.outputs[0]))
    return made if 0 not in kept and all(n // 2 == m for n, m in zip(read[2:], kept[2:], strict=True)) else None


def _found(graph: Graph) -> dict[str, tuple[str, Node]]:
    """By the value that it reads."""
    fixed = {*graph.outputs, *(name for extent in graph.extents for name in (extent.value, extent.count))}
    readers, found = graph.consumers(), {}
    for node in graph.nodes:
        name = node.inputs[0] if node.inputs else None
        if not isinstance(node.op, Pool) or name is None or conv_before(graph, node) is None:
            continue
        if name not in fixed and len(readers[name]) == 1:
            found[name] = node.op.kind, node
    return found
