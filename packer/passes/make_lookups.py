"""Functions of one byte become tables, however many operators they were.

Before: `y = quantize(d * sigmoid(d))`, d being dequantize(x). After: `y = lookup(x, table)`. So is what follows from y
alone, byte by byte, from x.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from packer.ir import DType, Graph, Node
from packer.ir.ops import Binary, Cast, DequantizeLinear, Lookup, QuantizedBinary, QuantizeLinear, Unary, Where
from packer.passes.rewrite import Rewriting

__all__ = ["make_lookups"]

_EACH = Binary | Cast | DequantizeLinear | Lookup | QuantizedBinary | QuantizeLinear | Unary | Where
Known = tuple[str | None, np.ndarray]  # what a value is for each byte of another one, or always
_BYTES = np.arange(256, dtype=np.uint8)


def make_lookups(graph: Graph) -> Graph:
    """The graph with every byte that follows from one other, of the same place, looked up by it."""
    if not any(isinstance(node.op, QuantizeLinear | QuantizedBinary) for node in graph.nodes):
        return graph
    rewriting = Rewriting(graph, "table")
    known: dict[str, Known] = {}
    for node in graph.nodes:
        found = _of_one_byte(graph, node, known) if isinstance(node.op, _EACH) else None
        if found is not None:
            known[node.outputs[0]] = found
        if found is None or found[0] is None or not _is_worth(graph, node, found[0]):
            rewriting.nodes.append(node)
            continue
        table = rewriting.constant(node.outputs[0], found[1])
        rewriting.add(Lookup(), (found[0], table), node, node.outputs[0])
    return rewriting.result()


def _is_worth(graph: Graph, node: Node, source: str) -> bool:
    """Whether bytes are made of others, but for a table's that are."""
    bytes = graph.type(node.outputs[0]).dtype is DType.U8 and not isinstance(node.op, Unary)
    return bytes and not (isinstance(node.op, Lookup) and node.inputs[0] == source)


def _of_one_byte(graph: Graph, node: Node, known: Mapping[str, Known]) -> Known | None:
    """The value whose bytes decide the node's result, element by element, and the result for all 256; or none, and the
    number that it always is."""
    inputs = [_input(graph, name, known) for name in node.inputs if name is not None]
    if isinstance(node.op, Lookup):
        inputs[1] = None, graph.constant(node.inputs[1])
    sources = {source for source, _ in inputs if source is not None}
    y = graph.type(node.outputs[0])
    if len(sources) > 1 or any(graph.type(source).shape != y.shape for source in sources):
        return None
    if any(value is None for _, value in inputs) or (not sources and y.elements != 1):
        return None
    with np.errstate(all="ignore"):
        (result,) = node.op.reference(*(value for _, value in inputs))
    return (sources.pop() if sources else None), result


def _input(graph: Graph, name: str, known: Mapping[str, Known]) -> tuple[str | None, np.ndarray | None]:
    """What an input is, if it is known: a number has no dimensions."""
    if name in known:
        return known[name]
    data = graph.constant(name)
    if data is not None:
        return None, data.reshape(()) if data.size == 1 else None
    return (name, _BYTES) if graph.type(name).dtype is DType.U8 else (None, None)
