"""What a launch costs, by a kernel that does nothing: in a graph, alone, and waited for on the host."""

from __future__ import annotations

import time
from functools import partial

import numpy as np

from benchmarks.gpu import probes
from benchmarks.gpu.bench import Bench
from benchmarks.gpu.driver import Buffer, Graph, call, launch
from benchmarks.gpu.timing import Contender
from benchmarks.report import table

__all__ = ["launches"]

_LAUNCHES = 100  # in a graph
_WAITS = 200
_SECONDS = 0.5


def launches(bench: Bench) -> None:
    """Microseconds of one launch."""
    function = bench.modules.load(probes.nothing()).module.function("nothing")
    unused = Buffer(256)
    one = partial(launch, function, (1,), (32,), unused, unused, unused, stream=bench.stream)

    def many() -> None:
        for _ in range(_LAUNCHES):
            one()

    graph = Graph(bench.stream, many)
    ways = {
        "in a graph": Contender(partial(graph.launch, bench.stream), _LAUNCHES),
        "alone": Contender(many, _LAUNCHES),
    }
    found = {name: (t.median, t.low, t.high) for name, t in bench.times(ways, _SECONDS).items()}
    graph.free()
    waits = []
    for _ in range(3 if bench.session.emulated else _WAITS):
        began = time.perf_counter()
        one()
        call("cuStreamSynchronize", bench.stream)
        waits.append(time.perf_counter() - began)
    low, median, high = map(float, np.percentile(waits, (10, 50, 90)))
    found["and wait, on the host"] = (median, low, high)
    for name, seconds in found.items():
        median, low, high = (value * 1e6 for value in seconds)
        bench.session.row(name=name, unit="us", median=median, low=low, high=high)
    table(
        "a launch, microseconds",
        ("how", "median", "low", "high"),
        [[n, *(1e6 * v for v in f)] for n, f in found.items()],
    )
    unused.free()
