"""Time one step of a program, its weights as far away as in the network it is from; or a run as a whole."""

from __future__ import annotations

import functools
import os
import resource
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import numpy as np

from edgert.bench import bind_all
from edgert.dtypes import Array
from edgert.fingerprint import fastest_cpus, this_device
from edgert.session import Session, StepTime, load

__all__ = ["LEVELS", "StepMeasurement", "measure_launches", "measure_run", "measure_step", "with_bundle"]

LEVELS = ("l2", "l3", "memory")  # where weights can come from
_LEAST, _MOST = 5, 100  # runs
_SHORTEST = 3  # runs that count where all are disturbed
_PRECISION = 0.01  # of the median, that is enough
_PATIENCE, _MOST_PATIENCE = 0.3, 1.0  # seconds, after which less will do
_LINE = 64  # bytes

_T = TypeVar("_T")
_alone = threading.Lock()  # measurements of one process do not disturb each other


@dataclass(frozen=True, slots=True)
class StepMeasurement:
    """The median time of a step, and the interquartile range of its runs as a part of that."""

    seconds: float
    spread: float
    runs: int


def measure_step(path: str | os.PathLike[str], step: int, weights: str) -> StepMeasurement:
    """Times step number `step` of the bundle's program on one thread, on random inputs.

    `weights` is one of LEVELS: before each run as much memory is read as pushes everything out of the caches before
    that level. On machines of unequal cores it runs on a fastest one. Runs that another process interrupted do not
    count; where there are hardly any others, the shortest do.
    """
    with _alone, _on_the_fastest_core(), load(path, threads=1, integrity="metadata") as session:
        bind_all(session)
        events: list[StepTime] = []
        pushing = _memory(weights)

        def once() -> float:
            pushing.sum()
            events.clear()
            session.run()
            event = next(event for event in events if event.step == step)
            return (event.end_ns - event.begin_ns) * 1e-9

        session.profile(events.append)
        return _measured(once, resource.RUSAGE_THREAD)


def measure_launches(path: str | os.PathLike[str], emulate: bool = False) -> StepMeasurement:
    """Times the step that the bundle's program for "often" has more times than the one for "once", on a device or its
    emulator: the difference of their runs, divided by that of their steps. Whoever calls made the code, which is
    consent to run it."""
    with _alone, ExitStack() as stack:
        sessions = [
            stack.enter_context(load(path, name, 1, integrity="metadata", allow_native=True, emulate=emulate))
            for name in ("once", "often")
        ]
        for session in sessions:
            bind_all(session)
        fewest, most = (session.describe().steps for session in sessions)
        times = most - fewest

        def took(session: Session) -> float:
            began = time.perf_counter()
            session.run()
            return time.perf_counter() - began

        def once() -> float:
            few, many = map(took, sessions)
            return (many - few) / times if many > few else many / (times + 1)  # disturbed: with all that is around it

        return _measured(once, resource.RUSAGE_SELF)


def measure_run(path: str | os.PathLike[str], threads: int) -> float:
    """Seconds that a run of the bundle takes on so many threads, on random inputs: the median, as measure_step has
    it."""
    with _alone, load(path, threads=threads, integrity="metadata") as session:
        bind_all(session)

        def once() -> float:
            began = time.perf_counter()
            session.run()
            return time.perf_counter() - began

        return _measured(once, resource.RUSAGE_SELF).seconds


def _measured(once: Callable[[], float], whose: int) -> StepMeasurement:
    """What `once` returns, over enough runs, of which those count in which no thread (`whose`: of this process, or this
    one) had to give way to another process."""
    seconds: list[float] = []
    calm: list[float] = []
    once()  # maps the pages
    began = time.perf_counter()
    while not _enough(seconds, calm, time.perf_counter() - began):
        before = resource.getrusage(whose).ru_nivcsw
        seconds.append(once())
        calm += seconds[-1:] if resource.getrusage(whose).ru_nivcsw == before else []
    counted = calm if len(calm) >= _LEAST else sorted(seconds)[:_SHORTEST]
    return StepMeasurement(float(np.median(counted)), _spread(counted), len(counted))


def with_bundle(measure: Callable[..., _T], bundle: bytes, *arguments: object) -> _T:
    """measure_step or measure_run of a bundle that came over a network."""
    with tempfile.TemporaryDirectory(prefix="edgert-") as folder:
        path = Path(folder) / "probe.edge"
        path.write_bytes(bundle)
        return measure(path, *arguments)


def _enough(seconds: list[float], calm: list[float], spent: float) -> bool:
    """Whether the median is known well: its standard error by the interquartile range, as of normal noise; or whether
    the shortest runs agree, after some patience for better ones."""
    if spent > _MOST_PATIENCE:
        return len(seconds) > 0
    if len(calm) >= _LEAST:
        error = 0.93 * _spread(calm) / len(calm) ** 0.5
        return error < _PRECISION or len(calm) >= _MOST or spent > _PATIENCE
    return spent > _PATIENCE and len(seconds) >= _LEAST and _spread(sorted(seconds)[:_SHORTEST]) < _PRECISION


def _spread(seconds: list[float]) -> float:
    low, middle, high = np.percentile(seconds, (25, 50, 75)).tolist()
    return float((high - low) / middle) if middle > 0 else 0.0


def _memory(weights: str) -> Array:
    """One number of each cache line of twice the caches that are to be emptied."""
    caches = dict(this_device().caches)
    outermost = max(caches.values())
    size = {"l2": 0, "l3": 2 * caches.get(2, outermost), "memory": 2 * outermost}[weights]
    return _lines(size)


@functools.lru_cache(maxsize=1)
def _lines(size: int) -> Array:
    return np.ones(size // 8, np.int64)[:: _LINE // 8]


@contextmanager
def _on_the_fastest_core() -> Iterator[None]:
    before = os.sched_getaffinity(0)
    fastest = fastest_cpus()
    if fastest == before:
        yield
        return
    os.sched_setaffinity(0, fastest)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)
