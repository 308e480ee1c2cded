"""Golden samples: inputs drawn once and for all, and what the network must answer, for the self-test on the device."""

from __future__ import annotations

import zlib
from dataclasses import replace

import numpy as np

from packer.bundle.model import Golden
from packer.ir import DType, Graph, TensorType
from packer.ir.evaluate import evaluate
from packer.ir.ops import Conv, MatMul
from packer.ir.rounding import nearest

__all__ = ["make_golden", "sample"]


def sample(name: str, type: TensorType) -> np.ndarray:
    """Values for an input, the same on every machine: standard normal floats, integers 0 or 1."""
    random = np.random.Generator(np.random.PCG64(zlib.crc32(name.encode())))
    if type.dtype is DType.F32:
        return random.standard_normal(type.shape).astype(np.float32)
    return random.integers(0, 2, type.shape).astype(type.dtype.numpy)


def make_golden(graph: Graph, atol: float, rtol: float | None, optimized: Graph, weights: DType = DType.F32) -> Golden:
    """A sample whose outputs are computed by the numpy reference in float64 and rounded once, so that every machine
    stores the same bits.

    Outputs whose size depends on data hold the meaningful part only. Without `rtol` it is 1e-4; or, if that is more,
    `_MARGIN` times what rounding the weights of the `optimized` graph to `weights` does to the sample's outputs.
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
    if rtol is None:
        rtol = _RTOL
        if weights is not DType.F32:
            moved = evaluate(_with_rounded(optimized, weights), inputs, dtype=np.float64)
            rtol = max(
                rtol, _MARGIN * max((_difference(moved[name], results[name]) for name in graph.outputs), default=0)
            )
    return Golden(inputs, outputs, atol, rtol)


_RTOL = 1e-4
_MARGIN = 4.0  # inputs may be rounded too, and other inputs than the sample's meet the same tolerance


def _with_rounded(graph: Graph, dtype: DType) -> Graph:
    """The graph with the weights of its convolutions and matrix products rounded to `dtype`."""
    names = {node.inputs[1] for node in graph.nodes if isinstance(node.op, Conv | MatMul)}
    values = {
        name: replace(value, data=nearest(value.data, dtype))
        if name in names and value.data is not None and value.type.dtype is DType.F32
        else value
        for name, value in graph.values.items()
    }
    return replace(graph, values=values)


def _difference(got: np.ndarray, want: np.ndarray) -> float:
    """The largest difference of numbers relative to the largest magnitude wanted; 0 for integers."""
    if want.dtype.kind != "f":
        return 0.0
    finite = np.isfinite(got) & np.isfinite(want)
    got, want = got[finite], want[finite]
    return float(np.abs(got - want).max(initial=0) / max(np.abs(want).max(initial=0), 1e-30))
