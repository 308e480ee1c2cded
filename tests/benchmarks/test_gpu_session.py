"""The whole session, tiny, on the emulator: every section does its work, and what it finds is kept."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

from benchmarks.gpu.__main__ import SECTIONS
from benchmarks.gpu.correctness import PLACES, SMALL, TESTS
from edgert import _native
from tests.benchmarks.profiler import install
from tests.targets.cuda.driver import ROOT, library


@pytest.mark.slow
def test_all_sections(tmp_path: Path) -> None:
    environment = {
        **os.environ,
        "EDGERT_CUDA_LIBRARY": library()._name,
        "EDGERT_LIBRARY": _native.library()._name,
        "EDGERT_EMULATOR_THREADS": "2",
        "OMP_NUM_THREADS": "1",
        **install(tmp_path),
    }
    command = [sys.executable, "-m", "benchmarks.gpu", "--emulate", "--output", str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    print(done.stdout)
    assert done.returncode == 0, done.stdout + done.stderr
    result = json.loads((tmp_path / "gpu_emulated.json").read_text())
    assert result["emulated"], "such times must never pass for a device's"
    sections = result["sections"]
    assert list(sections) == list(SECTIONS)
    for name, section in sections.items():
        assert section["rows"], (name, section)
        assert not [note for note in section.get("notes", []) if "failed" in note.lower()], section["notes"]
    for row in sections["pictures"]["rows"]:
        ElementTree.parse(tmp_path / row["file"])
    assert all(row["failed"] == 0 < row["passed"] for row in sections["correctness"]["rows"])


def test_no_device(tmp_path: Path) -> None:
    environment = {
        **os.environ,
        "EDGERT_CUDA_LIBRARY": library()._name,
        "EDGERT_LIBRARY": _native.library()._name,
        "EDGERT_EMULATOR_DEVICE": "none",
    }
    command = [sys.executable, "-m", "benchmarks.gpu", "--output", str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    assert done.returncode == 1
    assert "no NVIDIA GPU can be used" in done.stderr
    assert "CUDA_ERROR_NO_DEVICE" in done.stderr
    assert not list(tmp_path.iterdir())


def test_the_page_on_gpus_tells_of_every_section() -> None:
    page = (ROOT / "docs" / "cuda.md").read_text(encoding="utf-8").partition("## Measuring a device")[2]
    told = re.findall(r"^\| `(\w+)` \|", page, re.MULTILINE)
    assert told == [name for name, share in SECTIONS.items() if share]


def test_the_tests_that_run_on_a_device_are_there() -> None:
    for place in (*PLACES, *SMALL):
        assert (ROOT / TESTS / place).exists(), place
