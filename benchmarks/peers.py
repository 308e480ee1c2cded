"""Engines to measure, edgert and its peers: each in a process and an environment of its own, run in turns while the
others are stopped.

A process loads one network, and for each line on its input runs it for a moment and prints the times as JSON.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from types import TracebackType
from typing import Any

import numpy as np

from packer.api import pack

__all__ = ["ENGINES", "Engine", "Peer", "PeerError", "converted"]

ROOT = Path(__file__).resolve().parent
CACHE = ROOT / ".cache"
SOURCES = ("packer", "targets", "edgert")  # what a bundle depends on
CORES = (1, 2, 4, 8, 16)


class PeerError(RuntimeError):
    """A peer cannot be set up, cannot convert a network, or fails to run it."""


@dataclass(frozen=True, slots=True)
class Environment:
    """Packages that are installed apart from everything else."""

    packages: tuple[str, ...]
    newest_python: tuple[int, int] | None = None


@dataclass(frozen=True, slots=True)
class Engine:
    """How a peer runs: by which function of peer_worker.py, in which environment, with which further settings.

    `form`: what it loads, of the keys of _CONVERSIONS or "onnx". `reduced`: computes in less than float32.
    """

    worker: str
    environment: str
    form: str = "onnx"
    settings: Mapping[str, str] = field(default_factory=dict)
    reduced: bool = False


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

ENGINES = {
    "edgert": Engine("edgert", "", "edge", {"integrity": "metadata"}),
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
        self.model = converted(engine, model)
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
        command = [str(_python(kind.environment)), str(ROOT / "peer_worker.py"), json.dumps(specification)]
        environment = os.environ if kind.environment else {**os.environ, "PYTHONPATH": str(ROOT.parent)}
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
        return sum(path.stat().st_size for path in _parts(self.model))

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
            raise PeerError(f"{self.engine} ended with code {code}: {_last(printed)}")
        return line


def converted(engine: str, model: Path) -> Path:
    """The file that the engine loads, converted from the ONNX model if that is newer. Raises PeerError."""
    form = ENGINES[engine].form
    if form == "onnx":
        return model
    suffix, convert = _CONVERSIONS[form]
    path = CACHE / "converted" / form / model.parent.name / f"{model.stem}{suffix}"
    if not path.exists() or path.stat().st_mtime < _changed(form, model):
        path.parent.mkdir(parents=True, exist_ok=True)
        convert(model, path)
    return path


def _changed(form: str, model: Path) -> float:
    """When the model changed, or for bundles also what makes them."""
    sources = [path for folder in SOURCES for path in (ROOT.parent / folder).rglob("*.py")] if form == "edge" else []
    return max(path.stat().st_mtime for path in (model, *sources))


def _parts(path: Path) -> list[Path]:
    return [path, path.with_suffix(".bin")] if path.suffix == ".param" else [path]


def _pack(model: Path, path: Path) -> None:
    usable = len(os.sched_getaffinity(0))
    pack(model, path, cores=tuple(n for n in CORES if n <= usable), golden=False)


def _convert_ncnn(model: Path, path: Path) -> None:
    """pnnx writes beside its input, among other files, those that ncnn loads."""
    with TemporaryDirectory(prefix="benchmarks-", dir=path.parent) as name:
        folder = Path(name)
        (folder / "model.onnx").symlink_to(model.resolve())
        _convert("ncnn", [_python("ncnn").with_name("pnnx"), "model.onnx", "fp16=0"], folder, "model.ncnn.param")
        for part in _parts(folder / "model.ncnn.param"):
            part.rename(path.with_suffix(part.suffix))


def _convert_mnn(model: Path, path: Path, *options: str) -> None:
    """By the converter's C entry point: the package's command-line wrappers install other packages when they are
    run."""
    code = "import sys, _tools; _tools.mnnconvert(sys.argv)"
    with TemporaryDirectory(prefix="benchmarks-", dir=path.parent) as name:
        files = ["--modelFile", str(model.resolve()), "--MNNModel", "model.mnn"]
        command = ["-c", code, "-f", "ONNX", *files, "--bizCode", "benchmark", *options]
        _convert("mnn", command, Path(name), "model.mnn")
        (Path(name) / "model.mnn").rename(path)


def _convert_tflite(model: Path, path: Path) -> None:
    """onnx2tf broadcasts constants wrongly that onnxsim folds, and tries its result on pictures that it fetches unless
    they are there."""
    with TemporaryDirectory(prefix="benchmarks-", dir=path.parent) as name:
        folder = Path(name)
        pictures = np.random.default_rng(0).random((20, 128, 128, 3), np.float32)
        np.save(folder / "calibration_image_sample_data_20x128x128x3_float32.npy", pictures)
        (folder / "model.onnx").symlink_to(model.resolve())
        program = _python("onnx2tf").with_name("onnx2tf")
        _convert("onnx2tf", ["-m", "onnxsim", "model.onnx", "simple.onnx"], folder, "simple.onnx")
        options = ["-i", "simple.onnx", "-o", ".", "-n", "-v", "error"]
        _convert("onnx2tf", [program, *options], folder, "simple_float32.tflite")
        (folder / "simple_float32.tflite").rename(path)


_CONVERSIONS: dict[str, tuple[str, Callable[[Path, Path], None]]] = {
    "edge": (".edge", _pack),
    "ncnn": (".param", _convert_ncnn),
    "mnn": (".mnn", _convert_mnn),
    "mnn-sparse": (".mnn", lambda model, path: _convert_mnn(model, path, "--detectSparseSpeedUp")),
    "tflite": (".tflite", _convert_tflite),
}


def _convert(environment: str, command: Sequence[str | Path], folder: Path, result: str) -> None:
    """Run a converter in a folder where it has to leave `result`."""
    done = subprocess.run([_python(environment), *command], cwd=folder, capture_output=True, text=True)
    if done.returncode or not (folder / result).exists():
        raise PeerError(f"the converter ended with code {done.returncode}: {_last(done.stderr or done.stdout)}")


def _python(name: str) -> Path:
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
                raise PeerError(f"{name} cannot be set up: {_last(done.stderr)}")
        ready.write_text(wanted)
    return python


def _last(printed: str) -> str:
    """The end of what a program printed, where errors say what is wrong."""
    return " | ".join(printed.strip().splitlines()[-3:])[-300:]
