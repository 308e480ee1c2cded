"""Measure what matters most for a network on one device, until nothing is left or the time is up.

Every measured time is stored at once, so that another campaign goes on where this one stopped.
"""

from __future__ import annotations

import math
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from edgert import __version__
from edgert.errors import EdgertError
from packer.bundle.writer import write_bundle
from packer.ir import Graph
from packer.ir.ops.base import ShapeError
from packer.planner import make_plans, prepared
from packer.tune.candidates import Candidate, Candidates
from packer.tune.measured import Measured, weights_from
from packer.tune.probe import APART, probe
from packer.tune.records import Record, Records
from targets.base import Target, TargetError

__all__ = ["Campaign", "CampaignReport", "Measure", "PlanTimes", "Timing"]


class Timing(Protocol):
    """A measured time: the median in seconds, the interquartile range as a part of it, the runs."""

    @property
    def seconds(self) -> float: ...

    @property
    def spread(self) -> float: ...

    @property
    def runs(self) -> int: ...


Measure = Callable[[Path, int, str], Timing]
"""Times the step of that number of the bundle at the path, its weights coming from "l2", "l3" or "memory"."""


@dataclass(frozen=True, slots=True)
class PlanTimes:
    """Predicted milliseconds of one run on so many cores: by what was known before a campaign, and after it."""

    cores: int
    before_ms: float
    after_ms: float


@dataclass(frozen=True, slots=True)
class CampaignReport:
    """What a campaign did: how many candidates it measured, found `recorded` already, has `left`, and could not measure
    (`failed`, for the reason of the first of them)."""

    device: str
    core: str
    target: str
    weights: str
    measured: int
    recorded: int
    left: int
    failed: int
    failure: str
    plans: tuple[PlanTimes, ...]


class Campaign:
    """Candidates of one network on one device; `run` may be called by several threads, each with its own way to
    measure on such a device. `apart` is what probes take (`probe`)."""

    def __init__(
        self,
        graph: Graph,
        target: Target,
        cores: Sequence[int],
        records: Records,
        device: str,
        core: str,
        apart: float = APART,
    ) -> None:
        known = Measured.load(records, device, core)
        self.graph, self.target, self.cores = prepared(graph, target), known.on(target), tuple(cores)
        self.records, self.device, self.core, self.apart = records, device, core, apart
        self.weights = weights_from(graph, self.target.machine)
        self.known = dict(known.of(graph, self.target))
        self.candidates = Candidates(self.graph, self.target, cores, self.known)
        self.recorded = self.total - self.left
        self.measured = self.failed = 0
        self.failure = ""
        self._before = self._predict()
        self._lock, self._stopped = threading.Lock(), threading.Event()

    @property
    def total(self) -> int:
        """How many candidates there are."""
        return len(self.candidates.all)

    @property
    def left(self) -> int:
        """How many of them nobody has begun to measure."""
        return self.candidates.left

    def run(
        self, measure: Measure, who: str, until: float = math.inf, progress: Callable[[], None] | None = None
    ) -> None:
        """Measure one candidate after another, until all are, or the monotonic clock shows `until`, or `stop`.

        `who` measures is noted with the times. What cannot be measured is counted and left to the model. If `measure`
        raises anything but an EdgertError or a MemoryError, `run` does, too, and the candidate is left for others.
        `progress` is called after each.
        """
        with tempfile.TemporaryDirectory(prefix="edgert-") as folder:
            while time.monotonic() < until and not self._stopped.is_set():
                with self._lock:
                    candidate = self.candidates.next()
                if candidate is None:
                    return
                try:
                    self._measure(candidate, measure, who, Path(folder) / "probe.edge")
                except BaseException:
                    with self._lock:
                        self.candidates.reopen(candidate)
                    raise
                if progress:
                    progress()

    def stop(self) -> None:
        """Let every `run` end after the candidate it is at."""
        self._stopped.set()

    def report(self) -> CampaignReport:
        """What was done so far."""
        after = self._predict()
        plans = tuple(map(PlanTimes, self.cores, self._before, after))
        return CampaignReport(
            self.device, self.core, self.target.name, self.weights,
            self.measured, self.recorded, self.left, self.failed, self.failure, plans,
        )  # fmt: skip

    def _measure(self, candidate: Candidate, measure: Measure, who: str, path: Path) -> None:
        """Measure a candidate and store its time."""
        try:
            made = probe(candidate.work, candidate.form, self.target, candidate.reader, self.apart)
            path.unlink(missing_ok=True)  # much faster than to replace it
            write_bundle(made.bundle, path, durable=False)
            timing = measure(path, made.step, self.weights if any(candidate.work.constant) else "l2")
        except (EdgertError, ShapeError, TargetError, MemoryError) as error:
            with self._lock:
                self.failed += 1
                self.failure = self.failure or f"{candidate.signature}: {error}"
            return
        self.records.store(
            Record(
                self.device, self.core, self.weights, candidate.signature,
                timing.seconds, timing.spread, timing.runs, f"edgert {__version__}, {who}",
            )
        )  # fmt: skip
        with self._lock:
            self.measured += 1
            self.known[candidate.signature] = timing.seconds
            self.candidates.learn(candidate, timing.seconds)

    def _predict(self) -> list[float]:
        """Milliseconds of one run of the best plan for each number of cores."""
        return [p.seconds * 1e3 for p in make_plans(self.graph, self.target, self.cores, records=self.known)]
