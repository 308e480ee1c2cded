"""Builds the C library and what tests it with cmake, in folders that are kept: only what changed is compiled again."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BUILD = ROOT / "build" / "native"
# pip puts cmake and ninja beside Python.
PATH = f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', os.defpath)}"


def run(*command: str | Path, **environment: str) -> str:
    """The output of a command that must succeed."""
    program = shutil.which(str(command[0]), path=PATH)
    assert program is not None, command[0]
    done = subprocess.run(
        [program, *map(str, command[1:])],
        cwd=ROOT,
        env={**os.environ, "PATH": PATH, **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert done.returncode == 0, done.stdout[-4000:]
    return done.stdout


def build(folder: Path, *options: str, targets: tuple[str, ...] = ()) -> Path:
    """Builds the library and its tests in `folder`; one process at a time, for tests that run in parallel."""
    folder.mkdir(parents=True, exist_ok=True)
    with open(folder / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        run("cmake", "-S", "runtime_c", "-B", folder, "-G", "Ninja", "-DEDGERT_WERROR=ON", *options)
        run("cmake", "--build", folder, *(f"--target={name}" for name in targets))
    return folder
