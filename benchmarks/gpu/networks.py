"""Whole networks at batch 1 through edgert's loader, and the same in PyTorch and onnxruntime.

Times are those of a call on the host, whose memory holds input and output. `device` is what the device takes of it,
for peers. All are checked against an evaluation in float64.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import onnx

import edgert
from benchmarks.deep import BUILDERS, pruned
from benchmarks.gpu.bench import Bench
from benchmarks.gpu.boards import board_of
from benchmarks.gpu.session import LostError
from benchmarks.gpu.timing import Contender, walls
from benchmarks.report import table
from packer.api import pack
from packer.importers import import_onnx
from packer.ir import Graph
from packer.ir.evaluate import evaluate
from packer.passes import optimize

__all__ = ["NETWORKS", "Engines", "Entrant", "networks"]

# name and shares of zeros
NETWORKS = (("resnet50_any", (0.9, 0.0)), ("vgg16", (0.9,)))
_SMALL = (("small", (0.5,)),)
_LIMITS = {"f32": 1e-3, "f16": 1e-2}  # of the relative error, by storage
_SECONDS = 4.0  # of a network


@dataclass(frozen=True, slots=True)
class Entrant:
    """`run` is a call on the host, `outputs` gives what the last one made, whose relative error is below `limit`;
    `launch`, if any, is a call on the device. `facts` are kept with the times."""

    run: Callable[[], object]
    outputs: Callable[[], list[np.ndarray]]
    limit: float
    launch: Callable[[], None] | None = None
    facts: dict[str, Any] = field(default_factory=dict)


Engines = Iterator[tuple[str, Callable[[], Entrant]]]  # each by its name, made when it is asked for


@dataclass(frozen=True, slots=True)
class _Network:
    """`zeros` is the share of its weights; `want` are the outputs."""

    name: str
    zeros: float
    model: onnx.ModelProto
    graph: Graph
    inputs: Mapping[str, np.ndarray]
    want: Sequence[np.ndarray]

    @classmethod
    def of(cls, name: str, zeros: float) -> _Network:
        model = pruned(BUILDERS[name](), zeros)
        graph = optimize(import_onnx(model, shapes={}, constants={}))
        rng = np.random.default_rng(0)
        inputs = {i: rng.standard_normal(graph.type(i).shape, np.float32) for i in graph.inputs}
        return cls(name, zeros, model, graph, inputs, list(evaluate(graph, inputs, np.float64).values()))


_Group = Callable[[Bench, _Network, ExitStack], Engines]


def networks(bench: Bench) -> None:
    """Milliseconds of each network by each engine. Peers take as long for zeros as for other weights, so they are
    measured once for each network; what takes long to make comes last."""
    session, slow = bench.session, []
    for name, shares in _SMALL if session.emulated else NETWORKS:
        for zeros in shares:
            if not session.over(f"{name}, {zeros} zeros"):
                network = _Network.of(name, zeros)
                _measure(bench, network, (_ours, _onnxruntime, _pytorch) if zeros == shares[0] else (_ours,))
                slow += [network] if zeros == shares[0] else []
    for network in slow:
        _measure(bench, network, (_compiled,))
    rows = [[f"{r['network']} {r['zeros']}", r["engine"], r["median"] * 1e3] for r in session.rows("networks")]
    table("networks at batch 1, milliseconds on the host", ("network", "engine", "ms"), rows)


def _measure(bench: Bench, network: _Network, groups: Sequence[_Group]) -> None:
    """Makes the engines, and times them in turns."""
    session, what = bench.session, f"{network.name}, {network.zeros} zeros"
    with ExitStack() as stack:
        entrants, errors = dict[str, Entrant](), dict[str, float]()
        try:
            for group in groups:
                with session.attempt(f"{what}, {group.__name__}"):
                    for engine, make in group(bench, network, stack):
                        if not session.harmful(f"{what}, {engine}") and not session.over(f"{what}, {engine}"):
                            with session.attempt(f"{what}, {engine}"):
                                one = make()
                                errors[engine] = _error(one, network.want)
                                entrants[engine] = one
        except LostError:
            entrants.clear()
            raise
        finally:  # what there is when the time is over is timed, too
            _time(bench, network, entrants, errors)


def _time(bench: Bench, network: _Network, entrants: Mapping[str, Entrant], errors: Mapping[str, float]) -> None:
    """A row for each."""
    times = walls({engine: one.run for engine, one in entrants.items()}, _SECONDS, bench.session.emulated)
    for engine, one in entrants.items():
        device = None
        if one.launch is not None:
            device = bench.times({engine: Contender(one.launch)}, _SECONDS / 10)[engine].median
        row = {"network": network.name, "zeros": network.zeros, "engine": engine, "error": errors[engine]}
        bench.session.row(**row, device=device, **one.facts, **times[engine].asdict())
    bench.session.save()


def _error(one: Entrant, want: Sequence[np.ndarray]) -> float:
    """The largest relative error of an output, in the norm of all its elements; raises ValueError beyond the limit."""
    one.run()
    pairs = zip(one.outputs(), want, strict=True)
    error = max(float(np.linalg.norm(y - exact) / np.linalg.norm(exact)) for y, exact in pairs)
    if not error < one.limit:
        raise ValueError(f"relative error {error:.2g}, expected less than {one.limit:g}")
    return error


def _ours(bench: Bench, network: _Network, stack: ExitStack) -> Engines:
    """With activations stored as f32 and as f16."""
    for storage in _LIMITS:
        yield f"edgert {storage}", partial(_packed, bench, network, stack, storage)


def _packed(bench: Bench, network: _Network, stack: ExitStack, storage: str) -> Entrant:
    path = Path(stack.enter_context(tempfile.TemporaryDirectory())) / "network.edge"
    board, emulated = board_of(bench), bench.session.emulated
    code = "cubin" if bench.modules.how == "ptxas" else "ptx"
    report = pack(
        network.model,
        path,
        targets=(board.name,),
        cores=(1,),
        activations=storage,
        placement="device",
        device_code=code,
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
    facts = {"pack_seconds": report.seconds, "bundle_bytes": report.bytes}
    return Entrant(session.run, lambda: list(outputs.values()), _LIMITS[storage], facts=facts)


def _onnxruntime(bench: Bench, network: _Network, stack: ExitStack) -> Engines:
    """Only where it can use the device."""
    import onnxruntime

    provider = "CUDAExecutionProvider"
    if provider not in onnxruntime.get_available_providers():
        if not bench.session.emulated:
            bench.session.note("onnxruntime is one without CUDA")
        return

    def make() -> Entrant:
        session = onnxruntime.InferenceSession(network.model.SerializeToString(), providers=[provider])
        made: list[np.ndarray] = []

        def run() -> None:
            made[:] = session.run(None, dict(network.inputs))

        return Entrant(run, lambda: made, _LIMITS["f32"])

    yield "onnxruntime CUDA", make


def _pytorch(bench: Bench, network: _Network, stack: ExitStack) -> Engines:
    from benchmarks.gpu.torch_networks import engines

    return engines(network.graph, network.inputs, bench.stream, bench.session.emulated)


def _compiled(bench: Bench, network: _Network, stack: ExitStack) -> Engines:
    from benchmarks.gpu.torch_networks import compiled

    return iter(()) if bench.session.emulated else compiled(network.graph, network.inputs, bench.stream)
