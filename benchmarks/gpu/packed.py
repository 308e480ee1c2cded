"""A network through edgert's loader, checked: what is compared with other engines, and with other plans."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import onnx

import edgert
from benchmarks.deep import pruned
from benchmarks.gpu.bench import Bench
from benchmarks.gpu.boards import board_of
from edgert.decisions import read_plan
from packer.api import pack
from packer.importers import import_onnx
from packer.ir import Graph
from packer.ir.evaluate import evaluate
from packer.passes import optimize
from packer.tune import Measured

__all__ = ["LIMITS", "Entrant", "Network", "code_kind", "error_of", "packed"]

LIMITS = {"f32": 1e-3, "f16": 1e-2}  # of the relative error, by storage


@dataclass(frozen=True, slots=True)
class Entrant:
    """`run` is a call on the host, `outputs` gives what the last one made, whose relative error is below `limit`;
    `launch`, if any, is a call on the device. `facts` are kept with the times."""

    run: Callable[[], object]
    outputs: Callable[[], list[np.ndarray]]
    limit: float
    launch: Callable[[], None] | None = None
    facts: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Network:
    """`zeros` is the share of its weights; `want` are the outputs, in float64."""

    name: str
    zeros: float
    model: onnx.ModelProto
    graph: Graph
    inputs: Mapping[str, np.ndarray]
    want: Sequence[np.ndarray]

    @classmethod
    def of(cls, name: str, zeros: float, dense: onnx.ModelProto) -> Network:
        """The dense model with so many of its weights zero, on random inputs."""
        model = pruned(dense, zeros)
        graph = optimize(import_onnx(model, shapes={}, constants={}))
        rng = np.random.default_rng(0)
        inputs = {i: rng.standard_normal(graph.type(i).shape, np.float32) for i in graph.inputs}
        return cls(name, zeros, model, graph, inputs, list(evaluate(graph, inputs, np.float64).values()))


def error_of(one: Entrant, want: Sequence[np.ndarray]) -> float:
    """The largest relative error of an output, in the norm of all its elements; raises ValueError beyond the limit."""
    one.run()
    pairs = zip(one.outputs(), want, strict=True)
    error = max(float(np.linalg.norm(y - exact) / np.linalg.norm(exact)) for y, exact in pairs)
    if not error < one.limit:
        raise ValueError(f"relative error {error:.2g}, expected less than {one.limit:g}")
    return error


def code_kind(bench: Bench) -> str:
    """In which code packed networks come."""
    return "cubin" if bench.modules.how == "ptxas" else "ptx"


def packed(bench: Bench, network: Network, stack: ExitStack, storage: str, measured: Measured | None = None) -> Entrant:
    """Planned by what was measured, or by the model alone; a fact is what the plan predicts."""
    path = Path(stack.enter_context(tempfile.TemporaryDirectory())) / "network.edge"
    board, emulated = board_of(bench), bench.session.emulated
    report = pack(
        network.model,
        path,
        targets=(board.name,),
        cores=(1,),
        activations=storage,
        placement="device",
        device_code=code_kind(bench),
        measured={} if measured is None else {board.name: measured},
        golden=False,
    )
    loaded = edgert.load(
        path,
        target=board.name,
        allow_native=True,
        cuda_library=None if emulated else bench.library,
        emulate=emulated,
    )
    session = stack.enter_context(loaded)
    outputs = {info.name: np.empty(info.shape, info.dtype) for info in session.outputs}
    session.bind(dict(network.inputs), outputs)
    bundle = edgert.read(path)
    predicted = read_plan(bundle, bundle.programs[0]).nanoseconds * 1e-9
    facts = {"predicted": predicted, "pack_seconds": report.seconds, "bundle_bytes": report.bytes}
    return Entrant(session.run, lambda: list(outputs.values()), LIMITS[storage], facts=facts)
