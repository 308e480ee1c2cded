"""Every code block of the README does what it says."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from edgert.demo.train import MODEL
from tests.targets.cuda.driver import library

ROOT = Path(__file__).resolve().parents[2]
BLOCKS = re.findall(r"^```(\w+)\n(.*?)^```", (ROOT / "README.md").read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)


def block(language: str, containing: str) -> str:
    (found,) = [text for name, text in BLOCKS if name == language and containing in text]
    return found


@pytest.fixture
def workplace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a model and a digit, where `edgert` is a command."""
    for needed in ("onnx", "flatbuffers"):
        pytest.importorskip(needed)
    shutil.copyfile(MODEL, tmp_path / "model.onnx")
    np.save(tmp_path / "digit.npy", np.zeros((1, 1, 8, 8), np.float32))
    command = tmp_path / "bin" / "edgert"
    command.parent.mkdir()
    command.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m edgert "$@"\n')
    command.chmod(0o755)
    for folder in (Path(sys.executable).parent, command.parent):
        monkeypatch.setenv("PATH", str(folder), prepend=os.pathsep)
    monkeypatch.setenv("PYTHONPATH", str(ROOT), prepend=os.pathsep)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def shell(script: str) -> str:
    done = subprocess.run(["bash", "-euo", "pipefail", "-c", script], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, f"{script}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def test_no_block_is_forgotten() -> None:
    assert sorted(name for name, _ in BLOCKS) == ["c", "python", "sh", "sh", "sh", "sh", "sh", "sh"]


def test_the_two_commands() -> None:
    makefile = (ROOT / "Makefile").read_text()
    targets = re.findall(r"^make (\w+)", block("sh", "make demo"), re.MULTILINE)
    assert targets == ["demo", "test"]
    for target in targets:
        assert f"\n{target}: $(VENV)/.{target}\n" in makefile
    assert "make test" in (ROOT / ".ci" / "run").read_text()


def test_command_line(workplace: Path) -> None:
    text = shell(block("sh", "edgert selftest"))
    assert "PASS" in text
    assert "p50" in text
    with np.load(workplace / "out.npz") as saved:
        assert saved["probabilities"].sum() == pytest.approx(1, abs=1e-5)


def test_pruned_networks(workplace: Path) -> None:
    assert shell(block("sh", "--winograd off")).count("packed in") == 2


def test_several_cores(workplace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EDGERT_RECORDS", str(workplace / "records.sqlite"))
    script = block("sh", "edgert tune")
    assert "--budget 20s" in script
    text = shell(script.replace("--budget 20s", "--budget 2s"))
    assert "runner-up" in text
    assert "speed-up" in text
    assert (workplace / "records.sqlite").exists()


def test_gpu(workplace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EDGERT_CUDA_LIBRARY", library()._name)
    text = shell(block("sh", "--emulate"))
    assert "layers on sm_62" in text
    assert "probabilities" in text


def test_verbs_are_those_of_the_command_line() -> None:
    listed = re.findall(r"^\| `(\w+)` \|", (ROOT / "README.md").read_text(), re.MULTILINE)
    from edgert.cli import app

    verbs = [command.callback.__name__ for command in app.registered_commands if command.callback]
    assert sorted(listed) == sorted(verbs)


def test_python(workplace: Path) -> None:
    example = block("python", "edgert.load")
    assert len(example.strip().splitlines()) <= 12
    (workplace / "example.py").write_text(example)
    assert shell(f'"{sys.executable}" example.py').strip() == "{'probabilities': (1, 10)}"


@pytest.mark.slow
def test_c(workplace: Path) -> None:
    for tool in ("cmake", "pkg-config"):
        if shutil.which(tool) is None:
            pytest.skip(f"{tool} is not installed")
    example = block("c", "edgert_session_run")
    assert len(example.strip().splitlines()) <= 26
    (workplace / "main.c").write_text(example)
    (workplace / "runtime_c").symlink_to(ROOT / "runtime_c")
    shell("edgert pack model.onnx -o model.edge")
    assert "probabilities[0] = " in shell(block("sh", "cmake -S"))
