"""Golden samples: inputs drawn once and for all, and what the network must answer, for the self-test on the device."""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from packer.bundle.model import Golden
from packer.errors import ModelError
from packer.ir import DType, Graph, TensorType
from packer.ir.evaluate import evaluate
from packer.ir.ops import NonMaxSuppression, TopK
from packer.ir.rounding import difference
from packer.planner.rounding import Rounding

__all__ = ["make_golden", "sample"]


def sample(name: str, type: TensorType, number: int = 0) -> np.ndarray:
    """Values for an input, the same on every machine: standard normal floats, integers 0 or 1. `number`: which of such
    samples."""
    random = np.random.Generator(np.random.PCG64(zlib.crc32(name.encode(), number)))
    if type.dtype is DType.F32:
        return random.standard_normal(type.shape).astype(np.float32)
    return random.integers(0, 2, type.shape).astype(type.dtype.numpy)


def make_golden(
    graph: Graph, atol: float, rtol: float | None, optimized: Graph, roundings: Sequence[Rounding] = ()
) -> tuple[Golden, tuple[float, ...]]:
    """A sample whose outputs are computed by the numpy reference in float64 and rounded once, so that every machine
    stores the same bits; and what each of the `roundings` of the `optimized` graph does to it: the largest
    ||y - exact y|| / ||exact y|| of an output.

    Outputs whose size depends on data hold the meaningful part only. Without `rtol` it is 1e-4; or, if that is more,
    `_MARGIN` times the most that any of the roundings moves a number, relative to the largest of its output, times its
    noise. The sample is one that float32 decides as float64 does, if there is one among the first few.
    Raises ModelError where numbers that are stored or used as float16 are too large for it.
    """
    inputs, results = _decided(graph)
    outputs = {}
    for name in graph.outputs:
        data = results[name]
        for extent in graph.extents:
            if extent.value == name:
                count = int(results[extent.count].reshape(-1)[0])
                data = data[(slice(None),) * extent.axis + (slice(count),)]
        with np.errstate(over="ignore"):  # what is too large for float32 is infinite there
            outputs[name] = np.ascontiguousarray(data.astype(graph.type(name).dtype.numpy))
    largest = 0.0
    known: list[tuple[Rounding, float, float]] = []
    for rounding in roundings:
        error, most = 0.0, 0.0
        same = next((k for k in known if rounding.same(k[0])), None)
        if same is not None:
            _, error, most = same
        elif rounding:
            moved = rounding.evaluate(optimized, inputs)
            if rounding.halves:
                _require_finite(moved, results, graph.outputs)
            error = max((_distance(moved[name], results[name]) for name in graph.outputs), default=0.0)
            most = max((difference(moved[name], results[name]) for name in graph.outputs), default=0.0)
        known.append((rounding, error, most))
        largest = max(largest, most * rounding.noise)
    golden = Golden(inputs, outputs, atol, max(_RTOL, _MARGIN * largest) if rtol is None else rtol)
    return golden, tuple(error for _, error, _ in known)


_RTOL = 1e-4
_MARGIN = 4.0  # other inputs than the sample's meet the same tolerance
_SAMPLES = 4  # of which one is taken
_NUDGE = 1e-6  # relative, of inputs: some roundings of float32
_STEADY = _RTOL / _MARGIN  # what floats move at most where nothing is decided otherwise


def _decided(graph: Graph) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
    """A sample, and the float64 values of the graph's outputs and of the counts of their parts. Where floats are
    compared to decide something, the one of a few that float32 moves least."""
    counts = tuple(extent.count for extent in graph.extents if extent.value in graph.outputs)
    wanted = replace(graph, outputs=(*graph.outputs, *counts))
    decides = any(graph.type(name).dtype is not DType.F32 for name in graph.outputs) or any(
        isinstance(node.op, (TopK, NonMaxSuppression)) for node in graph.nodes
    )
    found = []
    for number in range(_SAMPLES if decides else 1):
        inputs = {name: sample(name, graph.type(name), number) for name in graph.inputs}
        results, moved = evaluate(wanted, inputs, dtype=np.float64), 0.0
        if decides:
            got = evaluate(graph, {name: _nudged(data) for name, data in inputs.items()})
            moved = max((_moved(got[name], results[name]) for name in graph.outputs), default=0.0)
        found.append((moved, inputs, results))
        if moved <= _STEADY:
            break
    _, inputs, results = min(found, key=lambda sample: sample[0])
    return inputs, results


def _moved(got: np.ndarray, want: np.ndarray) -> float:
    """The largest difference relative to the largest magnitude; of integers, which have to be equal, infinity or 0."""
    if want.dtype.kind == "f":
        return difference(got, want)
    return 0.0 if np.array_equal(got, want) else np.inf


def _nudged(data: np.ndarray) -> np.ndarray:
    if data.dtype.kind != "f":
        return data
    noise = np.random.default_rng(0).standard_normal(data.shape)
    return (data * (1 + _NUDGE * noise)).astype(data.dtype)


def _require_finite(got: Mapping[str, np.ndarray], want: Mapping[str, np.ndarray], names: Sequence[str]) -> None:
    for name in names:
        if want[name].dtype.kind == "f" and (np.isfinite(want[name]) & ~np.isfinite(got[name])).any():
            raise ModelError(
                "numbers of the network are too large for float16, in which they are stored or used",
                where=f"output '{name}' of the sample",
                expected="finite numbers",
                got="infinite ones, or none",
                hint="pack without --activations f16, and without --precision f16",
            )


def _distance(got: np.ndarray, want: np.ndarray) -> float:
    """The Euclidean norm of the difference relative to that of what is wanted; 0 for integers."""
    if want.dtype.kind != "f":
        return 0.0
    finite = np.isfinite(want)
    size = float(np.linalg.norm(want[finite]))
    return float(np.linalg.norm(got[finite] - want[finite])) / size if size else 0.0
