"""Engines to measure, edgert and its peers: each in a process and an environment of its own, run in turns while the
others are stopped.

A process loads one network, and for each line on its input runs it for a moment and prints the times as JSON.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from types import TracebackType
from typing import Any

import numpy as np

from benchmarks.conversions import converted, parts
from benchmarks.environments import PeerError, end_of, python_of

__all__ = ["ENGINES", "Engine", "Peer"]

ROOT = Path(__file__).resolve().parent


@dataclass(frozen=True, slots=True)
class Engine:
    """How a peer runs: by which function of peer_worker.py, in which environment (ours in none), with which further
    settings.

    `form`: what it loads, "onnx" or what conversions.py converts that to. `reduced`: computes in less than float32.
    """

    worker: str
    environment: str
    form: str = "onnx"
    settings: Mapping[str, str] = field(default_factory=dict)
    reduced: bool = False


ENGINES = {
    "edgert": Engine("edgert", "", "edge", {"integrity": "metadata"}),
    "edgert-dense": Engine("edgert", "", "edge", {"integrity": "metadata"}),  # on the same network without zeros
    "edgert-bf16": Engine("edgert", "", "edge-bf16", {"integrity": "metadata"}, reduced=True),
    "onnxruntime": Engine("onnxruntime", "onnxruntime"),
    "openvino": Engine("openvino", "openvino", settings={"precision": "f32"}),
    "openvino-bf16": Engine("openvino", "openvino", settings={"precision": "bf16"}, reduced=True),
    "ncnn": Engine("ncnn", "ncnn", "ncnn"),
    "mnn": Engine("mnn", "mnn", "mnn"),
    "mnn-sparse": Engine("mnn", "mnn", "mnn-sparse"),
    "deepsparse": Engine("deepsparse", "deepsparse"),
    "litert": Engine("litert", "litert", "tflite"),
}


class Peer:
    """One network loaded by one engine with a number of threads. Stopped except during its turns.

    `start`: milliseconds to open and of the first run, peak memory after it in 1e6 bytes. `outputs`: of that run.
    Raises PeerError.
    """

    def __init__(
        self,
        engine: str,
        model: Path,
        x: np.ndarray,
        shapes: list[tuple[int, ...]],
        threads: int,
        settings: Mapping[str, str] | None = None,
    ) -> None:
        kind = ENGINES[engine]
        self.engine = engine
        self.model = converted(kind.form, model)
        self._folder = TemporaryDirectory(prefix="benchmarks-")
        folder = Path(self._folder.name)
        np.save(folder / "x.npy", x)
        specification = {
            "engine": kind.worker,
            "model": str(self.model),
            "threads": threads,
            "x": str(folder / "x.npy"),
            "y": str(folder / "y.npz"),
            "shapes": shapes,
            **kind.settings,
            **(settings or {}),
        }
        command = [str(python_of(kind.environment)), str(ROOT / "peer_worker.py"), json.dumps(specification)]
        environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1"}  # its threads would keep cores busy at the first run
        if not kind.environment:
            environment["PYTHONPATH"] = str(ROOT.parent)
        with open(folder / "errors", "w") as errors:
            self._process = subprocess.Popen(
                command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, text=True
            )
        try:
            self.start: dict[str, Any] = json.loads(self._answer())
            with np.load(folder / "y.npz") as stored:
                self.outputs = tuple(stored[f"arr_{i}"] for i in range(len(stored.files)))
        except BaseException:
            self.close()
            raise
        self._process.send_signal(signal.SIGSTOP)

    def turn(self, seconds: float) -> list[float]:
        """Seconds of each run of about so many seconds, after one run that is not timed."""
        assert self._process.stdin is not None
        self._process.send_signal(signal.SIGCONT)
        print(seconds, file=self._process.stdin, flush=True)
        times: list[float] = json.loads(self._answer())
        self._process.send_signal(signal.SIGSTOP)
        return times

    def bytes(self) -> int:
        """Of the files that it loads."""
        return sum(path.stat().st_size for path in parts(self.model))

    def close(self) -> None:
        self._process.kill()
        self._process.communicate()
        self._folder.cleanup()

    def __enter__(self) -> Peer:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None, /
    ) -> None:
        self.close()

    def _answer(self) -> str:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            code = self._process.wait()
            printed = (Path(self._folder.name) / "errors").read_text(errors="replace")
            raise PeerError(f"{self.engine} ended with code {code}: {end_of(printed)}")
        return line
