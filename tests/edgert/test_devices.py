"""Programs for devices, run by the library through the emulator."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import edgert
from tests.edgert.device_bundles import WEIGHTS, affine, answer, two_runs, write, x_of
from tests.targets.cuda.driver import library


@pytest.fixture(autouse=True)
def emulator(monkeypatch: pytest.MonkeyPatch) -> None:
    """The emulator as the driver that programs find."""
    monkeypatch.setenv("EDGERT_CUDA_LIBRARY", library()._name)
    for name in ("DEVICE", "DRIVER", "FAIL", "REFUSE_CUBIN", "MEMORY"):
        monkeypatch.delenv(f"EDGERT_EMULATOR_{name}", raising=False)


@pytest.fixture(autouse=True)
def nothing_left() -> object:
    """After a test all that its sessions had of the driver has been given back."""
    yield
    import gc

    gc.collect()
    assert (library().edgertEmulatorObjects(), library().edgertEmulatorBytes()) == (0, 0)


def test_a_program_of_the_device_only(tmp_path: Path) -> None:
    path = write(tmp_path / "affine.edge", affine().program())
    with edgert.load(path, allow_native=True) as session:
        for seed in range(3):
            x = x_of(seed)
            np.testing.assert_array_equal(session.run(x)["y"], x * WEIGHTS + np.float32(1))
        found = session.describe()
    assert (found.device, found.device_bytes) == ("NVIDIA Tegra X2 (emulated)", 3 * 1216)


def test_steps_of_the_processor_in_between(tmp_path: Path) -> None:
    path = write(tmp_path / "two.edge", two_runs().program())
    with edgert.load(path, allow_native=True) as session:
        for seed in range(3):
            x = x_of(seed)
            results = session.run(x)
            for name, want in answer(x).items():
                np.testing.assert_array_equal(results[name], want)
