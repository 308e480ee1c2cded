"""Which of our starts counts, on made-up times."""

from __future__ import annotations

import itertools
import time
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from benchmarks import cpu
from benchmarks.networks import Network

NET = Network("none", 0, Path("none.onnx"), np.zeros(1), (), 1)


class Traffic:
    """Slow or not, in the order in which it is asked."""

    def __init__(self, *states: bool) -> None:
        self._states = iter(states)

    def slow(self) -> bool:
        return next(self._states)


@pytest.fixture(autouse=True)
def starts(monkeypatch: pytest.MonkeyPatch) -> None:
    """The second is faster than the first, and so on; without waiting in between."""
    numbers = itertools.count()

    def peer(engine: str, net: Network, threads: int, integrity: str = "") -> AbstractContextManager[Any]:
        number = float(next(numbers))
        start = {"open_ms": 50.0 - number, "first_ms": 1.0, "page_in_ms": number}
        return nullcontext(SimpleNamespace(start=start))

    monkeypatch.setattr(cpu, "_peer", peer)
    monkeypatch.setattr(time, "sleep", lambda seconds: None)


def test_the_fastest_start_counts_with_the_least_of_paging_in_and_hashing() -> None:
    assert cpu._start(NET, 1, 2, None, 0.0) == {
        "open_ms": 48.0,  # 50 and 48, hashed 49 and 47
        "first_ms": 1.0,
        "page_in_ms": 0.0,
        "hashed_open_ms": 47.0,
        "slow": False,
    }


def test_a_start_in_slow_traffic_counts_only_where_there_is_no_other() -> None:
    late = 0.0  # whatever the traffic, they count
    mixed = cpu._start(NET, 2, 2, Traffic(False, False, True), late)  # type: ignore[arg-type]
    assert (mixed["slow"], mixed["open_ms"]) == (False, 50.0)
    none = cpu._start(NET, 2, 2, Traffic(False, True, True), late)  # type: ignore[arg-type]
    assert (none["slow"], none["open_ms"]) == (True, 44.0)


def test_early_starts_in_slow_traffic_are_made_again() -> None:
    found = cpu._start(NET, 2, 1, Traffic(True, False, True, False, False), time.monotonic() + 3600)  # type: ignore[arg-type]
    assert (found["slow"], found["open_ms"]) == (False, 49.0)
