"""`edgert pack --search policy`: plans timed on this machine, for as long as was allowed."""

from __future__ import annotations

import platform
import sys
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

import onnx
import pytest
from typer.testing import CliRunner

from edgert.cli import _searching, app
from edgert.cli._searching import measure_programs
from edgert.devices import this_machine
from edgert.reader import read
from edgert.selftest import selftest
from packer.bundle.model import Program
from packer.importers import import_onnx
from packer.passes import optimize
from packer.planner import make_plan, plan
from targets.base import resolve
from tests.edgert.networks import classifier

needs_torch = pytest.mark.skipif(find_spec("torch") is None, reason="needs PyTorch: pip install 'edgert[search]'")


def program(target: str = "cpu", cores: int = 1, search: str = "exact") -> Program:
    graph = optimize(import_onnx(classifier(), shapes={"image": (1, 3, 16, 8)}))
    return plan(graph, resolve(target), cores, search=search)


def pack(folder: Path, *options: object, code: int = 0) -> str:
    """What it says on stderr."""
    onnx.save(classifier(), folder / "model.onnx")
    arguments = ("pack", folder / "model.onnx", "-o", folder / "model.edge", "--shape", "image=1x3x16x8")
    result = CliRunner().invoke(app, [str(argument) for argument in (*arguments, *options)])
    assert result.exit_code == code, result.output
    return result.stderr


def test_programs_are_timed_together() -> None:
    programs = [program(), program(search="none"), program()]
    times = measure_programs(programs)
    assert times is not None
    assert len(times) == 3
    assert all(0 < seconds < 1 for seconds in times)


def test_programs_of_other_machines_cannot_be_timed() -> None:
    other = "cpu-aarch64" if platform.machine() == "x86_64" else "cpu-x86_64"
    assert measure_programs([program(other)]) is None
    assert measure_programs([replace(program(), cores=this_machine().cores + 1)]) is None


@needs_torch
def test_pack(tmp_path: Path) -> None:
    assert pack(tmp_path, "--search", "policy", "--budget", "0.1s", "--cores", 1) == ""
    assert [program.cores for program in read(tmp_path / "model.edge").programs] == [1]
    assert selftest(tmp_path / "model.edge", runs=1).passed


@needs_torch
def test_what_another_device_runs_is_not_timed_here(capsys: pytest.CaptureFixture[str]) -> None:
    graph = optimize(import_onnx(classifier(), shapes={"image": (1, 3, 16, 8)}))
    found = [
        make_plan(graph, resolve("cpu"), 1, search=search)
        for search in (_searching.policy(9.0, ["cpu"], (1,), "some board", lambda stage, fraction: None), "policy")
    ]
    assert found[0].solution == found[1].solution
    assert "searched by the cost model" in capsys.readouterr().err


@needs_torch
def test_programs_share_the_budget(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What cannot be measured is searched by the cost model, and that is said once."""
    clock, asked = [0.0], []

    def measure(programs: list[Program]) -> list[float] | None:
        clock[0] += 1.0
        asked.append(programs[0].cores)
        return [1e-3] * len(programs) if programs[0].cores < 3 else None

    from packer.planner import policy

    monkeypatch.setattr(_searching, "measure_programs", measure)
    monkeypatch.setattr(policy.time, "monotonic", lambda: clock[0])
    monkeypatch.setattr(policy, "ROUNDS", 1)
    told = pack(tmp_path, "--search", "policy", "--budget", "12s", "--cores", "1,2,3", "--no-golden")
    assert [asked.count(cores) for cores in (1, 2, 3)] == [4 + 1, 4 + 1, 1]
    assert told.splitlines() == ["cpu, cores: 3: searched by the cost model, it cannot be measured here"]
    assert [program.cores for program in read(tmp_path / "model.edge").programs] == [1, 2, 3]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--budget", "5s"), "--budget: it is for --search policy, got --search exact"),
        (("--search", "policy", "--budget", "0"), "--budget: expected a time above 0"),
        (("--search", "policy", "--budget", "soon"), "--budget: expected a time such as 60s"),
        (("--search", "guess"), "unknown search 'guess'; known: exact, none, rows, greedy, policy"),
    ],
)
def test_errors(tmp_path: Path, options: tuple[str, ...], message: str) -> None:
    assert message in pack(tmp_path, *options, code=2)


def test_without_pytorch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    monkeypatch.delitem(sys.modules, "packer.planner.policy", raising=False)
    assert "pip install 'edgert[search]'" in pack(tmp_path, "--search", "policy", code=2)
    assert not (tmp_path / "model.edge").exists()
