"""Golden samples: inputs drawn once and for all, and what the network must answer, for the self-test on the device."""

from __future__ import annotations

import zlib
from dataclasses import replace

import numpy as np

from packer.bundle.model import Golden
from packer.ir import DType, Graph, TensorType
from packer.ir.evaluate import evaluate

__all__ = ["make_golden", "sample"]


def sample(name: str, type: TensorType) -> np.ndarray:
    """Values for an input, the same on every machine: standard normal floats, integers 0 or 1."""
    random = np.random.Generator(np.random.PCG64(zlib.crc32(name.encode())))
    if type.dtype is DType.F32:
        return random.standard_normal(type.shape).astype(np.float32)
    return random.integers(0, 2, type.shape).astype(type.dtype.numpy)


def make_golden(graph: Graph, atol: float, rtol: float) -> Golden:
    """A sample whose outputs are computed by the numpy reference in float64 and rounded once, so that every machine
    stores the same bits.

    Outputs whose size depends on data hold the meaningful part only.
    """
    inputs = {name: sample(name, graph.type(name)) for name in graph.inputs}
    counts = tuple(extent.count for extent in graph.extents if extent.value in graph.outputs)
    results = evaluate(replace(graph, outputs=(*graph.outputs, *counts)), inputs, dtype=np.float64)
    outputs = {}
    for name in graph.outputs:
        data = results[name]
        for extent in graph.extents:
            if extent.value == name:
                count = int(results[extent.count].reshape(-1)[0])
                data = data[(slice(None),) * extent.axis + (slice(count),)]
        with np.errstate(over="ignore"):  # what is too large for float32 is infinite there
            outputs[name] = np.ascontiguousarray(data.astype(graph.type(name).dtype.numpy))
    return Golden(inputs, outputs, atol, rtol)
