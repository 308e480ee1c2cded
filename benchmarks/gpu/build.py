"""Builds parts of the repository with cmake. Imports nothing of the project, so it can run before all else."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import sys
from pathlib import Path

__all__ = ["ROOT", "BuildError", "build"]

ROOT = Path(__file__).resolve().parents[2]
_PATH = f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', os.defpath)}"


class BuildError(Exception):
    """What is missing, or the end of what the compiler printed."""


def build(source: str, folder: Path, *settings: str, library: str) -> Path:
    """The library that the CMake project in `source`, a folder of the repository, makes in `folder`; what is up to date
    stays. Processes wait for each other. Raises BuildError."""
    cmake = shutil.which("cmake", path=_PATH)
    if cmake is None:
        raise BuildError("cmake is missing; install it: pip install cmake")
    folder.mkdir(parents=True, exist_ok=True)
    generator = ["-G", "Ninja"] if shutil.which("ninja", path=_PATH) else []
    known = [] if (folder / "CMakeCache.txt").exists() else generator
    with open(folder / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        configure = ["-S", str(ROOT / source), "-B", str(folder), *known, *settings]
        for command in (configure, ["--build", str(folder), "--parallel"]):
            environment = {**os.environ, "PATH": _PATH}
            done = subprocess.run([cmake, *command], env=environment, capture_output=True, text=True)
            if done.returncode:
                raise BuildError(f"cmake {' '.join(command)}: {(done.stdout + done.stderr)[-4000:]}")
    return folder / library
