"""Where the time goes: per step, keyed by the names of ONNX nodes, and reconciled with the wall time."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from edgert.bench import bind_all, measure
from edgert.dtypes import Array
from edgert.session import Session, StepTime

__all__ = ["LayerTime", "Profile", "profile"]


@dataclass(frozen=True, slots=True)
class LayerTime:
    """One step: its kernel, its first ONNX node, and milliseconds per run: mean and median over the runs."""

    step: int
    kernel: str
    node: str
    mean_ms: float
    p50_ms: float


@dataclass(frozen=True, slots=True)
class Profile:
    """Mean milliseconds per run: `wall_ms` = `steps_ms` (sum over the layers) + `hook_ms` (between steps, reporting).

    `plain_ms` is the median of runs without a hook, what the network costs when nobody looks.
    """

    layers: tuple[LayerTime, ...]
    runs: int
    wall_ms: float
    steps_ms: float
    hook_ms: float
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
    spans = np.array([[e.end_ns - e.begin_ns for e in r] for r in rounds], float).reshape(runs, len(rounds[0])) / 1e6
    means, medians = spans.mean(0), np.median(spans, 0)
    layers = tuple(
        LayerTime(event.step, event.kernel, event.node, float(mean), float(median))
        for event, mean, median in zip(rounds[0], means, medians, strict=True)
    )
    total, steps = wall / runs * 1e3, float(means.sum())
    return Profile(layers, runs, total, steps, total - steps, plain * 1e3)
