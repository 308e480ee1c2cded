"""Memory, files and threads refused in turn, while bundles of every kernel are opened, run and closed."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.edgert.device_bundles import affine, two_runs, write
from tests.fuzz.seeds import write_seeds
from tests.runtime_c.test_native import BUILD, build, needs_tools, run
from tests.targets.cuda.driver import library


@needs_tools
@pytest.mark.slow
def test_every_operation_refused(tmp_path: Path) -> None:
    kernels = write_seeds(tmp_path)
    assert len(kernels) > 40
    bundles = (path for path in sorted(tmp_path.glob("*.edge")) if not path.name.startswith("device-"))
    printed = run(build(BUILD, targets=("faults",)) / "tests" / "faults" / "faults", *bundles)
    assert "clean errors" in printed


@needs_tools
@pytest.mark.slow
def test_every_operation_of_programs_for_devices_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EDGERT_CUDA_LIBRARY", library()._name)
    monkeypatch.setenv("EDGERT_EMULATOR_DRIVER", "12090")
    monkeypatch.setenv("EDGERT_CACHE_DIR", os.fspath(tmp_path / "cache"))
    bundles = write(tmp_path / "affine.edge", affine().program()), write(tmp_path / "two.edge", two_runs().program())
    printed = run(build(BUILD, targets=("faults",)) / "tests" / "faults" / "faults", *bundles)
    assert "clean errors" in printed
