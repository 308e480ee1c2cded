"""Timing a step, and the fingerprint under which its time is kept."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from edgert import _native, fingerprint, measure
from edgert.errors import NoProgramError
from edgert.fingerprint import fastest_cpus, this_device
from edgert.measure import LEVELS, StepMeasurement, measure_run, measure_step, with_bundle
from edgert.reader import read
from tests.edgert.networks import classifier, packed


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return packed(classifier(), tmp_path_factory.mktemp("measure"), shapes={"image": (1, 3, 64, 8)}, cores=(1,))


@pytest.fixture
def small_caches(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody waits for a large third cache to be emptied."""
    monkeypatch.setattr(measure, "_memory", lambda weights: np.zeros(len(weights)))


@pytest.mark.usefixtures("small_caches")
@pytest.mark.parametrize("weights", LEVELS)
def test_every_step_can_be_timed(bundle: Path, weights: str) -> None:
    for number in range(len(read(bundle).programs[0].steps)):
        found = measure_step(bundle, number, weights)
        assert 0 < found.seconds < 1
        assert found.spread >= 0
        assert found.runs >= 1
    assert with_bundle(measure_step, bundle.read_bytes(), 0, weights).seconds > 0


@pytest.mark.parametrize("threads", [1, 2])
def test_a_run_can_be_timed(bundle: Path, threads: int) -> None:
    assert 0 < measure_run(bundle, threads) < 1


def test_a_larger_step_takes_longer(tmp_path: Path) -> None:
    """A convolution of 64 times as many pixels: robust on the busiest machine."""
    found = []
    for height in (8, 512):
        (tmp_path / str(height)).mkdir()
        path = packed(classifier(), tmp_path / str(height), shapes={"image": (1, 3, height, 8)}, cores=(1,))
        steps = read(path).programs[0].steps
        step = next(i for i, step in enumerate(steps) if step.kernel.startswith("conv"))
        found.append(measure_step(path, step, "l2").seconds)
    assert found[1] > 4 * found[0]


def test_as_much_is_read_as_empties_the_caches(monkeypatch: pytest.MonkeyPatch) -> None:
    device = fingerprint.Device("", "", "", "", 1, ((1, 4096), (2, 8192), (3, 65536)))
    monkeypatch.setattr(measure, "this_device", lambda: device)
    measure._lines.cache_clear()
    assert [measure._memory(weights).size * 64 for weights in LEVELS] == [0, 2 * 8192, 2 * 65536]
    monkeypatch.setattr(measure, "this_device", lambda: fingerprint.Device("", "", "", "", 1, ((1, 4096), (2, 8192))))
    assert [measure._memory(weights).size * 64 for weights in LEVELS] == [0, 2 * 8192, 2 * 8192]


@pytest.mark.parametrize(
    ("seconds", "calm", "spent", "enough"),
    [
        ([], [], 0.0, False),
        ([1.0] * 5, [1.0] * 5, 0.0, True),
        ([1.0, 2.0, 3.0, 4.0, 5.0], [1.0, 2.0, 3.0, 4.0, 5.0], 0.0, False),
        ([1.0, 2.0, 3.0, 4.0, 5.0], [1.0, 2.0, 3.0, 4.0, 5.0], 0.5, True),  # patience ends
        ([1.0] * 5, [1.0] * 4, 0.0, False),  # disturbed ones do not count
        ([1.0, 1.0, 1.0, 9.0, 9.0], [9.0], 0.5, True),  # but the shortest, if they agree
        ([1.0, 2.0, 3.0, 9.0, 9.0], [9.0], 0.5, False),
        ([1.0, 2.0, 3.0, 9.0, 9.0], [9.0], 1.5, True),
        ([1.0], [], 0.5, False),
        ([1.0], [], 1.5, True),  # a step that takes long
        ([], [], 1.5, False),
    ],
)
def test_enough_runs(seconds: list[float], calm: list[float], spent: float, enough: bool) -> None:
    assert measure._enough(seconds, calm, spent) is enough


@pytest.mark.usefixtures("small_caches")
def test_only_the_fastest_cores_measure(bundle: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before, seen = os.sched_getaffinity(0), []
    one = {min(before)}
    monkeypatch.setattr(measure, "fastest_cpus", lambda: one)
    monkeypatch.setattr(measure, "_memory", lambda weights: seen.append(os.sched_getaffinity(0)) or np.zeros(1))
    measure_step(bundle, 0, "l2")
    assert seen == [one]
    assert os.sched_getaffinity(0) == before


def test_the_fastest_cpus_are_those_of_most_capacity(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {0, 1, 2, 3})
    monkeypatch.setattr(fingerprint, "_capacity", lambda cpu: 1024 if cpu in (1, 2) else 512)
    assert fastest_cpus() == {1, 2}
    monkeypatch.setattr(fingerprint, "_capacity", lambda cpu: 0)
    assert fastest_cpus() == {0, 1, 2, 3}


def test_a_bundle_for_another_machine_is_refused(tmp_path: Path) -> None:
    other = "cpu-aarch64" if this_device().arch == "x86_64" else "cpu-x86_64"
    path = packed(classifier(), tmp_path, shapes={"image": (1, 3, 8, 8)}, cores=(1,), targets=(other,))
    with pytest.raises(NoProgramError):
        measure_step(path, 0, "l2")


def test_measurements_travel() -> None:
    import pickle

    found = StepMeasurement(1e-3, 0.1, 5)
    assert pickle.loads(pickle.dumps(found)) == found
    assert pickle.loads(pickle.dumps(this_device())) == this_device()


def test_the_fingerprint_tells_processor_caches_and_kernels(tmp_path: Path) -> None:
    here = this_device()
    assert here.core == _native.isas()[0]
    assert all(f"L{level} {size >> 10}K" in here.fingerprint for level, size in here.caches)
    changed = tmp_path / "libedgert.so"
    changed.write_bytes(Path(_native.library()._name).read_bytes() + b"another")
    command = [sys.executable, "-c", "from edgert.fingerprint import *; print(this_device().fingerprint)"]
    root = Path(__file__).resolve().parents[2]

    def of(library: str) -> str:
        environment = {**os.environ, "EDGERT_LIBRARY": library}
        return subprocess.run(
            command, env=environment, cwd=root, check=True, capture_output=True, text=True
        ).stdout.strip()

    assert of(_native.library()._name) == here.fingerprint
    assert of(str(changed)).split("kernels")[0] == here.fingerprint.split("kernels")[0]
    assert of(str(changed)) != here.fingerprint
