"""Programs for devices, run by the library through the emulator."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import edgert
from edgert.errors import DeviceError, OutOfMemoryError
from tests.edgert.device_bundles import WEIGHTS, affine, answer, two_runs, write, x_of
from tests.edgert.emulated import emulator  # noqa: F401


def test_a_program_of_the_device_only(tmp_path: Path) -> None:
    path = write(tmp_path / "affine.edge", affine().program())
    with edgert.load(path, allow_native=True) as session:
        for seed in range(3):
            x = x_of(seed)
            np.testing.assert_array_equal(session.run(x)["y"], x * WEIGHTS + np.float32(1))
        found = session.describe()
    assert (found.device, found.device_bytes) == ("NVIDIA Tegra X2 (emulated)", 3 * 1216)


@pytest.mark.parametrize("driver", ["10000", "10020", "12090"])  # without graphs, with the older ones, with today's
@pytest.mark.parametrize("device", ["jetson-tx2", "h200"])  # shares the host's memory, has its own
def test_steps_of_the_processor_in_between(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, device: str, driver: str
) -> None:
    monkeypatch.setenv("EDGERT_EMULATOR_DEVICE", device)
    monkeypatch.setenv("EDGERT_EMULATOR_DRIVER", driver)
    path = write(tmp_path / "two.edge", two_runs().program())
    with edgert.load(path, allow_native=True) as session:
        for seed in range(3):
            x = x_of(seed)
            results = session.run(x)
            for name, want in answer(x).items():
                np.testing.assert_array_equal(results[name], want)


@pytest.mark.parametrize(
    ("driver", "function"), [("10020", "cuGraphInstantiate"), ("12090", "cuGraphInstantiateWithFlags")]
)
def test_each_run_is_one_graph(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, driver: str, function: str) -> None:
    path = write(tmp_path / "two.edge", two_runs().program())
    monkeypatch.setenv("EDGERT_EMULATOR_DRIVER", driver)
    monkeypatch.setenv(
        "EDGERT_EMULATOR_FAIL", f"{function}:3:CUDA_ERROR_UNKNOWN,cuGraphLaunch:4:CUDA_ERROR_INVALID_VALUE"
    )
    with edgert.load(path, allow_native=True) as session:  # two runs, so two graphs
        session.run(x_of())
        with pytest.raises(DeviceError, match=r"steps 5 to 8\ncuGraphLaunch: CUDA_ERROR_INVALID_VALUE \(1\)"):
            session.run(x_of())
        session.run(x_of())
    monkeypatch.setenv("EDGERT_EMULATOR_FAIL", f"{function}:2:CUDA_ERROR_OUT_OF_MEMORY")
    with pytest.raises(OutOfMemoryError, match=rf"graph of steps 5 to 8\n{function}: CUDA_ERROR_OUT_OF_MEMORY"):
        edgert.load(path, allow_native=True)


def test_without_graphs_entries_are_launched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(tmp_path / "two.edge", two_runs().program())
    monkeypatch.setenv("EDGERT_EMULATOR_DRIVER", "10000")
    monkeypatch.setenv(
        "EDGERT_EMULATOR_FAIL", "cuGraphLaunch:0:CUDA_ERROR_UNKNOWN,cuLaunchKernel:14:CUDA_ERROR_INVALID_VALUE"
    )
    with edgert.load(path, allow_native=True) as session:  # eight entries
        session.run(x_of())
        with pytest.raises(DeviceError, match=r"step 6, launch, node 'product', entry 0\ncuLaunchKernel"):
            session.run(x_of())
