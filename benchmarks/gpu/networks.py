"""Whole networks at batch 1 through edgert's loader, and the same in PyTorch and onnxruntime.

Times are those of a call on the host, whose memory holds input and output. `device` is what the device takes of it,
for peers. All are checked against an evaluation in float64.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from functools import partial

import numpy as np

from benchmarks.deep import BUILDERS
from benchmarks.gpu.bench import Bench
from benchmarks.gpu.packed import LIMITS, Entrant, Network, error_of, packed
from benchmarks.gpu.session import LostError
from benchmarks.gpu.timing import Contender, walls
from benchmarks.report import table

__all__ = ["NETWORKS", "Engines", "networks"]

# name and shares of zeros
NETWORKS = (("resnet50_any", (0.9, 0.0)), ("vgg16", (0.9,)))
_SMALL = (("small", (0.5,)),)
_SECONDS = 4.0  # of a network

Engines = Iterator[tuple[str, Callable[[], Entrant]]]  # each by its name, made when it is asked for
_Group = Callable[[Bench, Network, ExitStack], Engines]


def networks(bench: Bench) -> None:
    """Milliseconds of each network by each engine. Peers take as long for zeros as for other weights, so they are
    measured once for each network; what takes long to make comes last."""
    session, slow = bench.session, []
    for name, shares in _SMALL if session.emulated else NETWORKS:
        for zeros in shares:
            if not session.over(f"{name}, {zeros} zeros"):
                network = Network.of(name, zeros, BUILDERS[name]())
                _measure(bench, network, (_ours, _onnxruntime, _pytorch) if zeros == shares[0] else (_ours,))
                slow += [network] if zeros == shares[0] else []
    for network in slow:
        _measure(bench, network, (_compiled,))
    rows = [[f"{r['network']} {r['zeros']}", r["engine"], r["median"] * 1e3] for r in session.rows("networks")]
    table("networks at batch 1, milliseconds on the host", ("network", "engine", "ms"), rows)


def _measure(bench: Bench, network: Network, groups: Sequence[_Group]) -> None:
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
                                errors[engine] = error_of(one, network.want)
                                entrants[engine] = one
        except LostError:
            entrants.clear()
            raise
        finally:  # what there is when the time is over is timed, too
            _time(bench, network, entrants, errors)


def _time(bench: Bench, network: Network, entrants: Mapping[str, Entrant], errors: Mapping[str, float]) -> None:
    """A row for each."""
    times = walls({engine: one.run for engine, one in entrants.items()}, _SECONDS, bench.session.emulated)
    for engine, one in entrants.items():
        device = None
        if one.launch is not None:
            device = bench.times({engine: Contender(one.launch)}, _SECONDS / 10)[engine].median
        row = {"network": network.name, "zeros": network.zeros, "engine": engine, "error": errors[engine]}
        bench.session.row(**row, device=device, **one.facts, **times[engine].asdict())
    bench.session.save()


def _ours(bench: Bench, network: Network, stack: ExitStack) -> Engines:
    """With activations stored as f32 and as f16."""
    for storage in LIMITS:
        yield f"edgert {storage}", partial(packed, bench, network, stack, storage)


def _onnxruntime(bench: Bench, network: Network, stack: ExitStack) -> Engines:
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

        return Entrant(run, lambda: made, LIMITS["f32"])

    yield "onnxruntime CUDA", make


def _pytorch(bench: Bench, network: Network, stack: ExitStack) -> Engines:
    from benchmarks.gpu.torch_networks import engines

    return engines(network.graph, network.inputs, bench.stream, bench.session.emulated)


def _compiled(bench: Bench, network: Network, stack: ExitStack) -> Engines:
    from benchmarks.gpu.torch_networks import compiled

    return iter(()) if bench.session.emulated else compiled(network.graph, network.inputs, bench.stream)
