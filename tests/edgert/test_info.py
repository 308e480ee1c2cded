"""`edgert info`."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from edgert import load
from edgert.decisions import read_plan
from edgert.reader import read
from tests.edgert.command import fail, succeed

ROOT = Path(__file__).resolve().parents[2]


def test_info(bundle: Path) -> None:
    text = succeed("info", bundle)
    assert "program cpu, 1 core" in text
    assert "image: float32[1,3,10,8]" in text
    assert "conv" in text
    assert "50.0%" in text
    programs = read(bundle).programs
    rows = [line.split() for line in text.splitlines() if line.startswith("  cpu ")]
    assert [(int(row[2]), int(row[3]), int(row[4])) for row in rows] == [
        (p.cores, len(p.steps), p.steps[-1].phase + 1) for p in programs
    ]
    assert len(rows) > 1
    assert text.count("conv + relu") == 1
    for program, found in zip(programs, json.loads(succeed("info", bundle, "--json"))["programs"], strict=True):
        convolution = next(layer for layer in found["layers"] if layer["weights"])
        assert (convolution["weights"], convolution["nonzeros"]) == (6 * 3 * 3 * 3, 3 * 3 * 3 * 3)
        assert "conv" in convolution["nodes"]
        assert found["sparsity"] == pytest.approx(0.5)
        assert found["arena_bytes"] >= found["arena_floor"] > 0
        assert found["cores"] == program.cores
    assert json.loads(succeed("info", bundle, "--json"))["bytes"] == bundle.stat().st_size


def test_info_of_one_of_several_programs(bundle: Path, folder: Path, tmp_path: Path) -> None:
    cores = [program.cores for program in read(bundle).programs]
    for count in cores:
        assert f"program cpu, {count} core" in succeed("info", bundle, "--cores", count)
        assert f"plan of the program for cpu, {count} core" in succeed("info", bundle, "--plan", "--cores", count)
    known = ", ".join(map(str, cores))
    assert f"--cores: the bundle has programs of cpu for {known}; got 3" in fail("info", bundle, "--cores", 3)
    assert "--target: expected one of cpu, got 'moon'" in fail("info", bundle, "--target", "moon")
    foreign = "cpu-aarch64" if read(bundle).programs[0].arch == "x86_64" else "cpu-x86_64"
    out, targets = tmp_path / "two.edge", ("--target", foreign, "--target", "cpu")
    succeed("pack", folder / "model.onnx", "-o", out, "--shape", "image=1x3x10x8", *targets, "--cores", "2")
    assert "program cpu, 2 cores" in succeed("info", out)
    assert f"program {foreign}, 2 cores" in succeed("info", out, "--target", foreign)


def test_info_shows_the_plan_that_runs_here(bundle: Path) -> None:
    with load(bundle) as session:
        cores = session.describe().cores
    assert json.loads(succeed("info", bundle, "--plan", "--json"))["cores"] == cores
    with load(bundle, threads=1) as session:
        assert session.describe().cores == 1
    text = succeed("info", bundle, "--plan", "--cores", 1)
    row = next(line for line in text.splitlines() if line.startswith("  conv "))
    plan = read_plan(read(bundle), read(bundle).programs[0])
    assert row.split()[1:5] == ["Conv", plan.decisions[0].algorithm, plan.decisions[0].layouts, plan.decisions[0].split]
    assert "us computing" in row
    assert f"predicted {plan.nanoseconds / 1e6:.3f} ms" in text
    assert "measured" not in text


def test_info_with_measured_times(bundle: Path, tmp_path: Path) -> None:
    for threads in (1, 2):
        profile = tmp_path / f"{threads}.json"
        profile.write_text(succeed("profile", bundle, "--threads", threads, "--runs", 3, "--json"))
        options = ("info", bundle, "--plan", "--cores", threads, "--profile", profile)
        assert "measured-us" in succeed(*options)
        found = json.loads(succeed(*options, "--json"))
        measured, layers = found["measured"], json.loads(profile.read_text())["layers"]
        assert len(measured["decisions"]) == len(found["plan"]["decisions"])
        assert measured["run"] > 0
        timed = [d["nodes"] for d, ns in zip(found["plan"]["decisions"], measured["decisions"], strict=True) if ns]
        assert {layer["node"] for layer in layers if sum(layer["thread_ms"]) and layer["node"]} <= {n[0] for n in timed}
    other = ("info", bundle, "--plan", "--cores", 1, "--profile", tmp_path / "2.json")
    assert "the profile is of another program than cpu, cores 1" in fail(*other)
    for text in ("no JSON", "[]", "{}", '{"steps": [{}], "plain_ms": 1}', '{"steps": [], "plain_ms": "x"}'):
        (tmp_path / "bad.json").write_text(text)
        assert "bad.json: expected what `edgert profile --json` prints" in fail(
            "info", bundle, "--profile", tmp_path / "bad.json"
        )
    assert "absent.json" in fail("info", bundle, "--profile", tmp_path / "absent.json")


def test_info_draws_the_plan(bundle: Path, tmp_path: Path) -> None:
    page = tmp_path / "plan.html"
    assert succeed("info", bundle, "--plan", "--cores", 2, "--html", page) == ""
    assert succeed("info", bundle, "--plan", "--cores", 2, "--html", "-") == page.read_text(encoding="utf-8") + "\n"
    assert "No such file" in fail("info", bundle, "--html", tmp_path / "absent" / "plan.html")


def test_info_of_a_bundle_without_plans() -> None:
    old = ROOT / "tests" / "golden" / "format-1.0.edge"
    assert "program " in succeed("info", old)
    assert "does not tell what the planner decided" in fail("info", old, "--plan")


def test_info_needs_no_library(bundle: Path) -> None:
    environment = os.environ | {"EDGERT_LIBRARY": "/nowhere.so"}
    command = [sys.executable, "-m", "edgert"]
    found = subprocess.run([*command, "info", bundle], cwd=ROOT, env=environment, capture_output=True, text=True)
    assert found.returncode == 0
    assert "program cpu" in found.stdout
    found = subprocess.run([*command, "run", bundle], cwd=ROOT, env=environment, capture_output=True, text=True)
    assert found.returncode == 2
    assert "/nowhere.so could not be loaded" in found.stderr
    assert len(found.stderr.splitlines()) <= 4
