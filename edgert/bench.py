"""Measure a bundle on this machine: time to open, first run, steady latency, memory."""

from __future__ import annotations

import os
import resource
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from edgert._arrays import empty_array
from edgert._native import library
from edgert.dtypes import Array
from edgert.samples import random_inputs
from edgert.session import Session, SessionDescription, load

__all__ = ["BenchResult", "Latency", "bench", "bind_all", "measure", "peak_memory"]


@dataclass(frozen=True, slots=True)
class Latency:
    """Percentiles of the wall time of single runs, milliseconds; `p` percent of runs took at most that long."""

    runs: int
    mean_ms: float
    min_ms: float
    p50_ms: float
    p90_ms: float
    p99_ms: float
    max_ms: float

    @classmethod
    def of(cls, seconds: list[float]) -> Latency:
        """The statistics of one or more runs."""
        ms = np.array(seconds) * 1e3
        p50, p90, p99 = np.percentile(ms, (50, 90, 99), method="higher").tolist()
        return cls(len(seconds), float(ms.mean()), float(ms.min()), p50, p90, p99, float(ms.max()))


@dataclass(frozen=True, slots=True)
class BenchResult:
    """What `bench` measured. `peak_bytes` is the most memory that the process had resident before the counted runs,
    which take none; Python and numpy are included. `grown_bytes` is how much of it came with opening and running the
    bundle."""

    session: SessionDescription
    open_ms: float
    first_ms: float
    latency: Latency
    peak_bytes: int
    grown_bytes: int


def bench(
    path: str | os.PathLike[str],
    target: str | None = None,
    threads: int = 0,
    isa: str | None = None,
    integrity: str = "full",
    inputs: Mapping[str, Array] | None = None,
    warmup: int = 5,
    runs: int = 0,
    duration: float = 2.0,
    progress: Callable[[float], None] | None = None,
    allow_native: bool = False,
    emulate: bool = False,
    code_cache: str | None = None,
) -> BenchResult:
    """Opens the bundle and times runs on bound buffers: `runs` of them, or if 0 as many as fit in `duration` seconds.

    `inputs`: arrays by name, by default random ones. `warmup` runs, the first of them timed apart, are not counted.
    `allow_native`, `emulate` and `code_cache` as for `load`.
    `progress` is told the fraction done.
    """
    library()  # loaded once for each process, whatever it opens
    before = peak_memory()
    started = time.perf_counter()
    with load(
        path, target, threads, isa, integrity, allow_native=allow_native, emulate=emulate, code_cache=code_cache
    ) as session:
        opened = time.perf_counter() - started
        bind_all(session, inputs)
        first = measure(session, runs=1)[0]
        if warmup > 1:
            measure(session, runs=warmup - 1)
        peak = peak_memory()
        steady = Latency.of(measure(session, runs, duration, progress))
        return BenchResult(session.describe(), opened * 1e3, first * 1e3, steady, peak, peak - before)


def bind_all(session: Session, inputs: Mapping[str, Array] | None = None) -> None:
    """Binds a buffer to every input and output: copies of `inputs`, random values for the names it lacks."""
    bound = {}
    for name, given in {**random_inputs(session.inputs), **(inputs or {})}.items():
        values = np.asarray(given)
        bound[name] = empty_array(values.shape, values.dtype)
        bound[name][...] = values
    session.bind(bound, {output.name: empty_array(output.shape, output.dtype) for output in session.outputs})


def measure(
    session: Session, runs: int = 0, duration: float = 2.0, progress: Callable[[float], None] | None = None
) -> list[float]:
    """Seconds that each run took on bound buffers: `runs` runs, or if 0 at least one and for `duration` seconds."""
    clock, seconds = time.perf_counter, []
    begin = told = clock()
    while True:
        started = clock()
        session.run()
        ended = clock()
        seconds.append(ended - started)
        done = len(seconds) / runs if runs else (ended - begin) / duration if duration > 0 else 1.0
        if progress and (ended - told > 0.05 or done >= 1):
            progress(min(done, 1.0))
            told = ended
        if done >= 1:
            return seconds


def peak_memory() -> int:
    """The most memory this process ever had resident, bytes."""
    try:
        with open("/proc/self/status", encoding="ascii", errors="replace") as file:
            for line in file:  # unlike getrusage, not inherited from the program that started this one
                if line.startswith("VmHWM:"):
                    return int(line.split()[1]) * 1024
    except OSError:
        pass
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
