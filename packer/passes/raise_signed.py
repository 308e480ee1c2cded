"""Signed bytes that are only quantised to be dequantised again, or constants, become unsigned ones.

Before: `y = dequantize(quantize(x))` by i8. After: the same by u8, zero points 128 higher.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from packer.ir import DType, Graph, Node, TensorType, Value
from packer.ir.ops import DequantizeLinear, QuantizeLinear
from packer.passes.rewrite import fresh

__all__ = ["raise_signed"]


def raise_signed(graph: Graph) -> Graph:
    """Values i8 that DequantizeLinear alone reads as u8, zero points 128 higher: those that a QuantizeLinear makes, and
    constants of one scale."""
    consumers, producers = graph.consumers(), graph.producers()
    values: list[Value] = []
    taken: set[str] = set()
    zeros: dict[str, str] = {}  # of i8, by name

    def free(name: str | None) -> bool:
        maker = producers.get(name or "")
        if name is None or name in graph.outputs or graph.type(name).dtype is not DType.I8:
            return False
        readers = consumers[name]
        if graph.constant(name) is not None:
            known = all(graph.type(n.inputs[1] or "").elements == 1 for n in readers if n.inputs[1:])
        elif maker is None or not isinstance(maker.op, QuantizeLinear):
            return False
        else:
            known = graph.constant(maker.inputs[2]) is not None
        return known and all(
            isinstance(n.op, DequantizeLinear)
            and n.inputs.count(name) == 1
            and (len(n.inputs) < 3 or graph.constant(n.inputs[2]) is not None)
            for n in readers
        )

    def raised(name: str | None, like: str) -> str:
        data = np.zeros(graph.type(like).shape, np.int8) if name is None else graph.constant(name)
        assert data is not None
        key = name or f"{like}:none"
        if key not in zeros:
            zeros[key] = fresh(graph, f"{key}:u8", taken)
            values.append(Value.constant(zeros[key], (data.astype(np.int16) + 128).astype(np.uint8)))
        return zeros[key]

    nodes: list[Node] = []
    for node in graph.nodes:
        made = node.outputs[0] if isinstance(node.op, QuantizeLinear) else node.inputs[0] if node.inputs else None
        if isinstance(node.op, QuantizeLinear | DequantizeLinear) and free(made):
            if isinstance(node.op, QuantizeLinear):
                values.append(Value(made or "", TensorType(DType.U8, graph.type(made or "").shape)))
            x = node.inputs[0] if graph.constant(node.inputs[0]) is None else raised(node.inputs[0], "")
            zero = node.inputs[2] if len(node.inputs) > 2 else None
            node = replace(node, inputs=(x, node.inputs[1], raised(zero, node.inputs[1] or "")))
        nodes.append(node)
    return graph.replaced(nodes, values) if values else graph
