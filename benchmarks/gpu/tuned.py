"""What the plans of a network may consist of, each timed on the device, and kept as records for another plan."""

from __future__ import annotations

import multiprocessing
import os
import tempfile
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from benchmarks.gpu.bench import Bench
from benchmarks.gpu.boards import board_of
from benchmarks.gpu.packed import Network, code_kind
from edgert import __version__
from edgert.measure import StepMeasurement, measure_launches
from packer.bundle.writer import write_bundle
from packer.ir.ops import Conv
from packer.tune import Campaign, Measured, Record, Records
from packer.tune.candidates import Candidate
from packer.tune.probe import APART, probe
from targets.base import Layout, Target, Work, resolve

__all__ = ["STORAGE", "Timed", "Tuner"]

STORAGE = "f32"  # how floats are stored


@dataclass(frozen=True, slots=True)
class Timed:
    """A candidate for the step of that number: what the model predicts, and what it takes; in seconds."""

    step: int
    operator: str
    shape: str
    algorithm: str
    predicted: float
    measured: float


class Tuner:
    """Processes write probes, with machine code as in a packed network; this one measures. As a context, so that
    neither they nor the records stay."""

    def __init__(self, bench: Bench) -> None:
        name = board_of(bench).name
        self.target = resolve(name, activations=STORAGE, placement="device", device_code=code_kind(bench))
        self._bench, self._device = bench, (bench.device.name, STORAGE)
        self._folder = tempfile.TemporaryDirectory()
        self._records = Records(Path(self._folder.name) / "records.sqlite", create=True)
        workers = max(1, len(os.sched_getaffinity(0)) * 3 // 4)
        self._pool = ProcessPoolExecutor(workers, multiprocessing.get_context("spawn"))

    def timed(self, network: Network, seconds: float) -> Iterator[Timed]:
        """What was not measured for a network before, what matters most first, in about so many seconds."""
        session, until = self._bench.session, self._bench.session.left() - seconds
        campaign = Campaign(network.graph, self.target, (1,), self._records, *self._device)
        found = [one for one in iter(campaign.candidates.next, None) if Layout.PLANES in one.form.inputs]
        folder = Path(tempfile.mkdtemp(dir=self._folder.name))  # what is left out may still be written
        paths = [folder / f"{number}.edge" for number in range(len(found))]
        apart = 0.0 if session.emulated else APART
        waiting = [self._pool.submit(_write, self.target, *one, apart) for one in zip(found, paths, strict=True)]
        steps: dict[tuple[Work, tuple[Layout, ...]], int] = {}
        try:
            for number, (one, path, written) in enumerate(zip(found, paths, waiting, strict=True)):
                if session.left() < until:
                    session.note(f"{network.name}, {network.zeros} zeros: no time for {len(found) - number} candidates")
                    break
                what = f"{network.name}, {network.zeros} zeros: {_words(one.work)}, {one.form.implementation}"
                if session.harmful(what):
                    continue
                with session.attempt(what):
                    written.result()
                    time = measure_launches(path, session.emulated)
                    path.unlink()
                    self._keep(one, campaign.weights, time)
                    step = steps.setdefault((one.work, one.form.outputs), len(steps))
                    named = type(one.work.op).__name__, _words(one.work), one.form.implementation
                    yield Timed(step, *named, self.target.seconds(one.work, one.form, (), 0, 1), time.seconds)
        finally:
            for written in waiting:
                written.cancel()

    def _keep(self, one: Candidate, weights: str, time: StepMeasurement) -> None:
        facts = one.signature, time.seconds, time.spread, time.runs, f"edgert {__version__}, benchmarks.gpu"
        self._records.store(Record(*self._device, weights, *facts))

    def measured(self) -> Measured:
        """All that was timed so far."""
        return Measured.load(self._records, *self._device)

    def __enter__(self) -> Tuner:
        return self

    def __exit__(self, *error: object) -> None:
        self._pool.shutdown(cancel_futures=True)
        self._records.close()
        self._folder.cleanup()


def _write(target: Target, candidate: Candidate, path: Path, apart: float) -> None:
    """Write the probe of a candidate."""
    write_bundle(probe(candidate.work, candidate.form, target, candidate.reader, apart).bundle, path, durable=False)


def _words(work: Work) -> str:
    """The shape of what is computed."""
    x, w = (work.inputs[0], work.inputs[1]) if isinstance(work.op, Conv) else (None, None)
    if x is None or w is None:
        return " ".join(str(type) for type in work.inputs if type is not None)
    window, size = ("x".join(map(str, shape[2:])) for shape in (w.shape, x.shape))
    stride = f" /{work.op.strides[0]}" if work.op.strides[0] > 1 else ""
    groups = f" groups {work.op.group}" if work.op.group > 1 else ""
    return f"{window} {x.shape[1]}>{w.shape[0]} at {size}{stride}{groups}, batch {x.shape[0]}"
