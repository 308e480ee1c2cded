"""Evaluate nodes whose inputs are all constant.

Before: `y = a + b`, a and b constant. After: constant y.
"""

from __future__ import annotations

import logging

import numpy as np

from packer.ir import Graph, Value

__all__ = ["fold_constants"]

LIMIT_BYTES = 1 << 31  # a larger result is cheaper to compute on the device than to store

log = logging.getLogger(__name__)


def fold_constants(graph: Graph) -> Graph:
    """The graph with every constant result computed now, by the numpy reference of its operator."""
    values: dict[str, Value] = {}
    kept = []

    def constant(name: str | None) -> np.ndarray | None:
        return values[name].data if name in values else graph.constant(name)

    for node in graph.nodes:
        known = [constant(name) for name in node.inputs]
        if (
            any(data is None and name is not None for data, name in zip(known, node.inputs, strict=True))
            or not node.inputs
        ):
            kept.append(node)
        elif sum(graph.type(name).bytes for name in node.outputs) > LIMIT_BYTES:
            log.debug("fold_constants: %s is larger than %d bytes, left to the device", node.label(), LIMIT_BYTES)
            kept.append(node)
        else:
            results = node.op.reference(*known)
            for name, data in zip(node.outputs, results, strict=False):
                values[name] = Value.constant(name, data.astype(graph.type(name).dtype.numpy, copy=False))
    return graph.replaced(kept, list(values.values())) if values else graph
