"""Times on the device by events: contenders take turns, each turn a few replays; the median of the turns counts."""

from __future__ import annotations

import ctypes
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from benchmarks.gpu.driver import Event

__all__ = ["Contender", "Times", "interleaved", "walls"]

TURN = 1e-3  # seconds of a turn at least: launches of a replay must not count
MOST = 1000  # replays of a turn
_FEWEST, _USUAL = 3, 15  # turns
_WARM, _TOGETHER, _MOST_TURNS = 10, 10, 50  # of calls that are timed by the host: to warm up, in a turn; turns


@dataclass(frozen=True, slots=True)
class Contender:
    """`launch` gives `calls` calls of what is measured to the stream."""

    launch: Callable[[], None]
    calls: int = 1


@dataclass(frozen=True, slots=True)
class Times:
    """Seconds of a call: median, tenth and ninetieth percentile over so many turns."""

    median: float
    low: float
    high: float
    turns: int

    def asdict(self) -> dict[str, Any]:
        return asdict(self)


def interleaved(
    contenders: Mapping[str, Contender], stream: ctypes.c_void_p, seconds: float, emulated: bool = False
) -> dict[str, Times]:
    """The times of each in about so many seconds altogether; on the emulator one turn, which says nothing of speed."""
    begin, end = Event(), Event()

    def turn(one: Contender, replays: int) -> float:
        begin.record(stream)
        for _ in range(replays):
            one.launch()
        end.record(stream)
        return end.seconds_since(begin) / (replays * one.calls)

    if emulated:
        return {name: _summary([turn(one, 1)]) for name, one in contenders.items()}
    replays = {}
    for name, one in contenders.items():
        turn(one, 1)  # warms up
        least = min(turn(one, 1), turn(one, 1)) * one.calls
        replays[name] = int(min(MOST, max(1, np.ceil(TURN / max(least, 1e-7)))))
    samples: dict[str, list[float]] = {name: [] for name in contenders}
    began = time.monotonic()
    for number in range(_USUAL):
        if number >= _FEWEST and time.monotonic() - began > seconds:
            break
        for name, one in contenders.items():
            samples[name].append(turn(one, replays[name]))
    return {name: _summary(own) for name, own in samples.items()}


def walls(work: Mapping[str, Callable[[], object]], seconds: float, emulated: bool = False) -> dict[str, Times]:
    """The same by the host's clock, of calls that wait for their results."""

    def turn(one: Callable[[], object], calls: int) -> list[float]:
        found = []
        for _ in range(calls):
            began = time.perf_counter()
            one()
            found.append(time.perf_counter() - began)
        return found

    if emulated:
        return {name: _summary(turn(one, 1)) for name, one in work.items()}
    samples: dict[str, list[float]] = {name: [] for name in work}
    for one in work.values():
        turn(one, _WARM)
    began = time.monotonic()
    for number in range(_MOST_TURNS):
        if number >= _FEWEST and time.monotonic() - began > seconds:
            break
        for name, one in work.items():
            turn(one, 1)  # the caches are another's
            samples[name] += turn(one, _TOGETHER)
    return {name: _summary(own) for name, own in samples.items()}


def _summary(samples: list[float]) -> Times:
    low, median, high = np.percentile(samples, (10, 50, 90))
    return Times(float(median), float(low), float(high), len(samples))
