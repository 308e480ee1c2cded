"""Where peers are installed: each in an environment of its own under benchmarks/.cache, made on first use."""

from __future__ import annotations

import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

__all__ = ["CACHE", "ENVIRONMENTS", "Environment", "PeerError", "end_of", "python_of"]

ROOT = Path(__file__).resolve().parents[1]
CACHE = ROOT / "benchmarks" / ".cache"


class PeerError(RuntimeError):
    """A peer cannot be set up, cannot convert a network, or fails to run it."""


@dataclass(frozen=True, slots=True)
class Environment:
    """Packages that are installed apart from everything else."""

    packages: tuple[str, ...]
    newest_python: tuple[int, int] | None = None


ENVIRONMENTS = {
    "onnxruntime": Environment(("numpy", "onnxruntime==1.31.1")),
    "openvino": Environment(("numpy", "openvino==2026.4.0")),
    "ncnn": Environment(("numpy", "ncnn==1.0.20261020", "pnnx==20261020")),
    "mnn": Environment(("numpy", "MNN==3.6.1")),
    # The last version with an engine in it. Licensed for evaluation only: never part of continuous integration.
    "deepsparse": Environment(("deepsparse==1.8.0",), newest_python=(3, 11)),
    "litert": Environment(("numpy", "ai-edge-litert==2.3.0")),
    "onnx2tf": Environment(
        (
            "onnx2tf==1.28.8",
            "tensorflow==2.21.0",
            "tf-keras==2.21.0",
            "onnx==1.20.1",
            "onnxruntime==1.31.1",
            "onnxsim",
            "onnx-graphsurgeon",
            "sng4onnx",
            "ai-edge-litert==2.3.0",
            "psutil",
            "simple-onnx-processing-tools",
        )
    ),
}


def python_of(name: str) -> Path:
    """The interpreter of an environment, made on first use; this one for no name."""
    if not name:
        return Path(sys.executable)
    environment, home = ENVIRONMENTS[name], CACHE / "peers" / name
    python, ready = home / "bin" / "python", home / ".ready"
    wanted = "\n".join(environment.packages)
    if not ready.exists() or ready.read_text() != wanted:
        print(f"setting up {name} in an environment of its own", file=sys.stderr)
        base = sys.executable
        if environment.newest_python and sys.version_info[:2] > environment.newest_python:
            base = shutil.which("python{}.{}".format(*environment.newest_python)) or ""
            if not base:
                raise PeerError(f"{name} needs Python {'.'.join(map(str, environment.newest_python))} or older")
        install = [str(python), "-m", "pip", "install", "--quiet", *environment.packages]
        for command in ([base, "-m", "venv", str(home)], install):
            done = subprocess.run(command, capture_output=True, text=True)
            if done.returncode:
                raise PeerError(f"{name} cannot be set up: {end_of(done.stderr)}")
        ready.write_text(wanted)
    return python


def end_of(printed: str) -> str:
    """The end of what a program printed, where errors say what is wrong: without the frames of a traceback, which are
    indented, and with paths relative to the project."""
    told = [line for line in printed.splitlines() if line.strip() and not line[0].isspace()]
    return " | ".join(told[-3:]).replace(f"{ROOT}/", "")[-300:]
