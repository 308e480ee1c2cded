"""Golden samples: inputs drawn once and for all, and what the network must answer, for the self-test on the device."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from packer.bundle.model import Golden
from packer.ir import DType, Graph, TensorType
from packer.ir.evaluate import evaluate
from packer.ir.ops import Conv, MatMul

__all__ = ["make_golden", "sample"]


def sample(name: str, type: TensorType) -> np.ndarray:
    """Values for an input, the same on every machine: standard normal floats, integers 0 or 1."""
    random = np.random.Generator(np.random.PCG64(zlib.crc32(name.encode())))
    if type.dtype is DType.F32:
        return random.standard_normal(type.shape).astype(np.float32)
    return random.integers(0, 2, type.shape).astype(type.dtype.numpy)


Rounding = Callable[[np.ndarray], np.ndarray]


def make_golden(
    graph: Graph, atol: float, rtol: float | None, optimized: Graph, roundings: Sequence[Rounding] = ()
) -> Golden:
    """A sample whose outputs are computed by the numpy reference in float64 and rounded once, so that every machine
    stores the same bits.

    Outputs whose size depends on data hold the meaningful part only. Without `rtol` it is 1e-4; or, if that is more,
    `_MARGIN` times the most that any of the `roundings` of the weights of the `optimized` graph does to the sample's
    outputs.
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
        for rounding in roundings:
            other = _with_rounded(optimized, rounding)
            if other is optimized:
                continue
            moved = evaluate(other, inputs, dtype=np.float64)
            rtol = max(
                rtol, _MARGIN * max((_difference(moved[name], results[name]) for name in graph.outputs), default=0)
            )
    return Golden(inputs, outputs, atol, rtol)


_RTOL = 1e-4
_MARGIN = 4.0  # inputs may be rounded too, and other inputs than the sample's meet the same tolerance


def _with_rounded(graph: Graph, rounding: Rounding) -> Graph:
    """The graph with the weights of its convolutions and matrix products rounded; the graph itself if none changes."""
    names = {node.inputs[1] for node in graph.nodes if isinstance(node.op, Conv | MatMul)}
    changed = {}
    for name in names:
        value = None if name is None else graph.values[name]
        if value is None or value.data is None or value.type.dtype is not DType.F32:
            continue
        data = rounding(value.data)
        if data is not value.data:
            changed[value.name] = replace(value, data=data)
    return replace(graph, values={**graph.values, **changed}) if changed else graph


def _difference(got: np.ndarray, want: np.ndarray) -> float:
    """The largest difference of numbers relative to the largest magnitude wanted; 0 for integers."""
    if want.dtype.kind != "f":
        return 0.0
    finite = np.isfinite(got) & np.isfinite(want)
    got, want = got[finite], want[finite]
    return float(np.abs(got - want).max(initial=0) / max(np.abs(want).max(initial=0), 1e-30))
