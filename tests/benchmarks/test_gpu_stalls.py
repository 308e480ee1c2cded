"""What a profiler counts becomes shares; where it counts nothing, the report says why."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.gpu import stalls
from benchmarks.gpu.counted import CountersError, read_counters
from benchmarks.gpu.placed import TEMPLATE
from edgert import _native
from targets.cuda.toolchain import missing
from tests.benchmarks.profiler import STATES, install, printed
from tests.targets.cuda.driver import ROOT, library


def test_shares_of_what_was_counted() -> None:
    first, second = read_counters(printed(["conv", "conv_1"]))
    assert (first.name, second.name, first.grid, first.issuing) == ("conv", "conv_1", "(3, 1, 1)", 0.25)
    assert first.seconds == pytest.approx(1.024e-6)
    assert first.shares == pytest.approx({state: warps / 10 for state, warps in STATES.items()})
    assert sum(first.shares.values()) == pytest.approx(1)
    row = json.loads(json.dumps(first.asdict()))
    assert (row["kernel"], row["shares"]["no_instruction"]) == ("conv", pytest.approx(0.25))


@pytest.mark.parametrize(("unit", "seconds"), [("ns", 1.024e-6), ("usecond", 1.024e-3), ("second", 1024.0)])
def test_units(unit: str, seconds: float) -> None:
    assert read_counters(printed(["k"], unit))[0].seconds == pytest.approx(seconds)


def test_numbers_with_thousands_and_empty_ones() -> None:
    text = printed(["k"]).replace('"1024.000000"', '"1,024"').replace('"0.250000"', '""')
    (kernel,) = read_counters(text)
    assert kernel.seconds == pytest.approx(1.024e-6)
    assert kernel.issuing is None


FORBIDDEN = """==PROF== Connected to process 5 (/usr/bin/python3)
==ERROR== ERR_NVGPUCTRPERM - The user does not have permission to access NVIDIA GPU Performance Counters on the target
device 0. For instructions on enabling permissions see https://developer.nvidia.com/ERR_NVGPUCTRPERM
==WARNING== No kernels were profiled.
"""


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (FORBIDDEN, r"^only the superuser may read the counters here \(ERR_NVGPUCTRPERM\)$"),
        ("==PROF== a\n==ERROR== LibraryNotLoaded\n", "^ncu: LibraryNotLoaded$"),
        ("==PROF== a\n==WARNING== No kernels were profiled.\n", "^ncu: No kernels were profiled.$"),
        ("", "^ncu printed no table$"),
        (printed([]), "^no states of warps were counted. ncu printed no table$"),
        (printed(["k"]).replace("issue_stalled", "other"), "^no states of warps were counted"),
    ],
)
def test_why_nothing_was_counted(text: str, message: str) -> None:
    with pytest.raises(CountersError, match=message):
        read_counters(text)


def test_where_the_profiler_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    toolkits = [tmp_path / name for name in ("2024.1", "2025.3")]
    monkeypatch.setattr(stalls, "_PLACES", (str(tmp_path / "20*"),))
    monkeypatch.setenv("PATH", str(tmp_path))
    assert stalls.find_profiler() is None
    for folder in toolkits:
        folder.mkdir()
        install(folder)
    assert stalls.find_profiler() == str(toolkits[1] / "ncu")
    install(tmp_path)
    assert stalls.find_profiler() == str(tmp_path / "ncu")


def section(tmp_path: Path, **environment: str) -> dict:
    """The section, run on the emulator."""
    (tmp_path / "gpu.json").write_text('{"emulated": true, "sections": {}}')
    command = [sys.executable, "-m", "benchmarks.gpu.section", "stalls", str(tmp_path / "gpu.json"), "100"]
    own = {"EDGERT_CUDA_LIBRARY": library()._name, "EDGERT_LIBRARY": _native.library()._name}
    done = subprocess.run([*command, library()._name], cwd=ROOT, env={**os.environ, **own, **environment}, text=True)
    assert done.returncode == 0
    found: dict = json.loads((tmp_path / "gpu.json").read_text())["sections"]["stalls"]
    return found


def test_all_kernels_of_a_layer_are_counted(tmp_path: Path) -> None:
    found = section(tmp_path, **install(tmp_path))
    straight = [row for row in found["rows"] if "bytes" in row]
    assert [(row["bytes"], row["warps"], row["kernel"]) for row in straight] == [
        (4096, warps, "multiply_adds") for warps in stalls.WARPS
    ]
    own = {(row["form"], row["sparsity"]) for row in found["rows"] if "form" in row}
    expected = {(form, sparsity) for form in ("t1", "t1c", "t1h", "t2") for sparsity in stalls.SPARSITIES}
    expected |= {("t3", 0.0)} | (set() if missing(False) else {(TEMPLATE, s) for s in stalls.SPARSITIES})
    assert own == expected
    assert all(row["shares"]["no_instruction"] == 0.25 for row in found["rows"])
    assert not [note for note in found.get("notes", []) if "NVRTC" not in note]


def test_a_profiler_that_may_not_count(tmp_path: Path) -> None:
    (tmp_path / "ncu").write_text("#!/bin/sh\necho '==ERROR== ERR_NVGPUCTRPERM - no permission'\nexit 1\n")
    (tmp_path / "ncu").chmod(0o755)
    found = section(tmp_path, PATH=f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    assert found["rows"] == []
    (note,) = found["notes"]
    assert note.startswith("left out: ")
    assert "ERR_NVGPUCTRPERM" in note
