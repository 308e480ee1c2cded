"""Where the time goes: per step and per ONNX node, on each thread, and reconciled with the wall time."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from edgert.bench import bind_all, measure
from edgert.dtypes import Array
from edgert.session import ALL_CORES, Session, StepTime

__all__ = ["LayerTime", "Profile", "StepStatistics", "profile"]


@dataclass(frozen=True, slots=True)
class StepStatistics:
    """One step: the core that runs it (or ALL_CORES), its kernel and first ONNX node, and milliseconds per run."""

    step: int
    core: int
    kernel: str
    node: str
    mean_ms: float
    p50_ms: float


@dataclass(frozen=True, slots=True)
class LayerTime:
    """The steps of one ONNX node; those that stand for none, which change layouts, are taken together by kernel.

    Mean milliseconds per run: `thread_ms` in these steps by thread, what all cores share spread evenly; `span_ms` from
    the first begin to the last end, whatever else ran in between.
    """

    node: str
    kernel: str
    steps: tuple[int, ...]
    thread_ms: tuple[float, ...]
    span_ms: float


@dataclass(frozen=True, slots=True)
class Profile:
    """Mean milliseconds per run: `wall_ms` = `run_ms` (first begin to last end) + `hook_ms` (starting, reporting);
    `thread_ms` is how much of `run_ms` each thread was busy: for the rest it waited for the others.

    `plain_ms` is the median of runs without a hook, what the network costs when nobody looks.
    """

    layers: tuple[LayerTime, ...]
    steps: tuple[StepStatistics, ...]
    runs: int
    wall_ms: float
    run_ms: float
    hook_ms: float
    thread_ms: tuple[float, ...]
    plain_ms: float


def profile(
    session: Session,
    inputs: Mapping[str, Array] | None = None,
    warmup: int = 3,
    runs: int = 20,
    progress: Callable[[float], None] | None = None,
) -> Profile:
    """Times every step of `runs` (1 or more) runs of the session, on `inputs` or random ones, which it binds."""
    bind_all(session, inputs)
    if warmup:
        measure(session, runs=warmup)
    plain = float(np.median(measure(session, runs=runs)))
    events: list[StepTime] = []
    rounds: list[list[StepTime]] = []
    wall = 0.0
    session.profile(events.append)
    try:
        for run in range(runs):
            started = time.perf_counter()
            session.run()
            wall += time.perf_counter() - started
            rounds.append(events.copy())
            events.clear()
            if progress:
                progress((run + 1) / runs)
    finally:
        session.profile(None)
    return _summary(_Times.of(rounds, session.describe().threads), wall / runs * 1e3, plain * 1e3)


@dataclass(frozen=True, slots=True, eq=False)
class _Times:
    """The steps, when they began and ended, milliseconds since the first begin, and the work in them: [run, step]."""

    steps: list[StepTime]
    begin: Array
    end: Array
    busy: Array
    threads: int

    @classmethod
    def of(cls, rounds: list[list[StepTime]], threads: int) -> _Times:
        shape = len(rounds), len(rounds[0])
        begin = np.array([[e.begin_ns for e in r] for r in rounds], np.int64).reshape(shape)
        end = np.array([[e.end_ns for e in r] for r in rounds], np.int64).reshape(shape)
        busy = np.array([[e.busy_ns for e in r] for r in rounds], np.int64).reshape(shape)
        zero = begin.min(1, keepdims=True, initial=begin.max(initial=0))
        return cls(rounds[0], (begin - zero) / 1e6, (end - zero) / 1e6, busy / 1e6, threads)

    def by_thread(self, steps: list[int]) -> tuple[float, ...]:
        """Mean work in these steps on each thread."""
        work = [0.0] * self.threads
        for step in steps:
            core, mean = self.steps[step].core, float(self.busy[:, step].mean())
            threads = range(self.threads) if core == ALL_CORES else (core % self.threads,)
            for thread in threads:
                work[thread] += mean / len(threads)
        return tuple(work)

    def span(self, steps: list[int]) -> float:
        """Mean time from the first begin to the last end of those of these steps that took any."""
        begin, end = self.begin[:, steps], self.end[:, steps]
        idle = end <= begin
        first = np.where(idle, np.inf, begin).min(1, initial=np.inf)
        last = np.where(idle, -np.inf, end).max(1, initial=-np.inf)
        return float(np.where(last > first, last - first, 0.0).mean())


def _summary(times: _Times, wall: float, plain: float) -> Profile:
    groups: dict[tuple[str, str], list[int]] = {}
    for position, step in enumerate(times.steps):
        groups.setdefault((step.node, "" if step.node else step.kernel), []).append(position)
    layers = tuple(
        LayerTime(
            node,
            "+".join(dict.fromkeys(times.steps[i].kernel for i in steps)),
            tuple(times.steps[i].step for i in steps),
            times.by_thread(steps),
            times.span(steps),
        )
        for (node, _), steps in groups.items()
    )
    spent = times.end - times.begin
    steps = tuple(
        StepStatistics(s.step, s.core, s.kernel, s.node, float(spent[:, i].mean()), float(np.median(spent[:, i])))
        for i, s in enumerate(times.steps)
    )
    every = list(range(len(times.steps)))
    run = times.span(every)
    return Profile(layers, steps, len(spent), wall, run, wall - run, times.by_thread(every), plain)
