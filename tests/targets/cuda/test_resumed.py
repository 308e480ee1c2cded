"""Packing goes on where it was killed, and makes again what is damaged: by the compilations that are counted."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from packer.api import compile_model
from packer.bundle.model import Program
from targets.cuda import toolchain
from targets.cuda.toolchain import missing
from tests.targets.cuda.test_target import network

needs_compilers = pytest.mark.skipif(bool(missing()), reason=missing())

ROOT = Path(__file__).resolve().parents[3]
KILLED = """
import os, signal
from packer.api import compile_model
from tests.targets.cuda.test_target import network

def tell(stage, fraction):
    if stage == "assemble" and fraction > 0:
        os.kill(os.getpid(), signal.SIGKILL)

compile_model(network(), targets=["jetson"], golden=False, placement="device", progress=tell)
"""


@pytest.fixture
def assembled(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[Sequence[str]]:
    """The commands of assemblers that are run, with a cache of the test's own."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    found: list[Sequence[str]] = []
    run = toolchain._run
    monkeypatch.setattr(toolchain, "_run", lambda command, memory: (found.append(command), run(command, memory))[1])
    return found


def packed() -> Program:
    return compile_model(network(), targets=["jetson"], golden=False, placement="device").programs[0]


def results(folder: Path) -> list[Path]:
    """Files of the cache with results in them."""
    return [path for path in folder.rglob("*") if path.is_file() and not path.name.startswith("tmp")]


@needs_compilers
def test_a_pack_that_was_killed_goes_on_where_it_was(assembled: list[Sequence[str]], tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, "-c", KILLED], cwd=ROOT, check=False)
    assert done.returncode == -signal.SIGKILL
    kept = len(results(tmp_path))
    program = packed()
    assert 1 <= kept < len(program.modules)
    assert len(assembled) == len(program.modules) - kept
    assert all(module.cubin for module in program.modules)
    again = packed()
    assert [module.cubin for module in again.modules] == [module.cubin for module in program.modules]
    assert len(assembled) == len(program.modules) - kept


@needs_compilers
def test_damaged_results_are_made_again(assembled: list[Sequence[str]], tmp_path: Path) -> None:
    program = packed()
    first, second, *_ = results(tmp_path)
    whole = first.read_bytes()
    first.write_bytes(whole[:-1])
    second.write_bytes(second.read_bytes().replace(b'"registers": ', b'"registers": 1'))
    assert [module.cubin for module in packed().modules] == [module.cubin for module in program.modules]
    assert len(assembled) == len(program.modules) + 2
    assert first.read_bytes().endswith(whole.partition(b"}\n")[2])


def test_without_an_assembler_nothing_is_begun(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(toolchain, "find", lambda tool: None)
    told: list[str] = []
    with pytest.raises(toolchain.ToolchainError, match=r"^ptxas is missing; install it: pip install 'edgert\[cuda\]'$"):
        compile_model(network(), targets=["jetson"], golden=False, progress=lambda stage, _: told.append(stage))
    assert told == []


@needs_compilers
def test_the_cache_has_a_size(assembled: list[Sequence[str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = packed()
    whole = sum(path.stat().st_size for path in results(tmp_path))
    monkeypatch.setenv("EDGERT_CACHE_BYTES", str(whole // 2))
    assert [module.cubin for module in packed().modules] == [module.cubin for module in program.modules]
    assert sum(path.stat().st_size for path in results(tmp_path)) <= whole // 2
    assert len(assembled) == len(program.modules)
    assert all(module.cubin for module in packed().modules)
    assert len(assembled) > len(program.modules)
