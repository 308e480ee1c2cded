"""Engines to measure against, each in a process and an environment of its own, run in turns with the others asleep.

A peer process loads one network, and for each line on its input runs it for a moment and prints the times as JSON.
"""

from __future__ import annotations

import json
import subprocess
import sys
import venv
from pathlib import Path

__all__ = ["PEERS", "Peer"]

CACHE = Path(__file__).resolve().parent / ".cache" / "peers"
PEERS = {"onnxruntime": ["onnxruntime"], "openvino": ["openvino"]}  # packages of each environment


class Peer:
    """One network loaded by one engine with a number of threads."""

    def __init__(self, engine: str, model: Path, shape: tuple[int, ...], threads: int) -> None:
        worker = Path(__file__).with_name("peer_worker.py")
        command = [_python(engine), worker, engine, model, json.dumps(shape), str(threads)]
        self.process = subprocess.Popen(
            [str(part) for part in command], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self._answer()

    def turn(self) -> list[float]:
        """Seconds of a few runs after an untimed one."""
        assert self.process.stdin is not None
        print("turn", file=self.process.stdin, flush=True)
        return [float(seconds) for seconds in self._answer()]

    def close(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait()

    def _answer(self) -> list[float]:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError(f"the peer process ended with code {self.process.wait()}")
        found: list[float] = json.loads(line)
        return found


def _python(engine: str) -> Path:
    """The interpreter of the engine's environment, made on first use."""
    home = CACHE / engine
    python = home / "bin" / "python"
    if not (home / ".ready").exists():
        print(f"setting up {engine} in an environment of its own", file=sys.stderr)
        venv.create(home, with_pip=True)
        subprocess.run([python, "-m", "pip", "install", "--quiet", "numpy", *PEERS[engine]], check=True)
        (home / ".ready").touch()
    return python
