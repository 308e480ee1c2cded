"""Small figures that users feel: import time, the cost of a call from Python, the size of the library."""

from __future__ import annotations

import ctypes
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

import edgert
from benchmarks.report import save, table
from edgert import _native
from packer.api import pack

__all__ = ["run"]


def run(quick: bool = False) -> None:
    """Print the table and save results/overhead.json."""
    result = {"import_ms_beyond_numpy": _import_ms(), **_calls_us(), "library_kb": _library_kb()}
    table("overhead", ["what", "figure"], [[k, v] for k, v in result.items()])
    save("overhead", result)


def _import_ms() -> float:
    """What `import edgert; edgert.load` takes after `import numpy`, median of 15 processes."""
    code = "import numpy, time; t = time.perf_counter(); import edgert; edgert.load; print(time.perf_counter() - t)"
    runs = [subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True) for _ in range(15)]
    return statistics.median(float(done.stdout) for done in runs) * 1e3


def _calls_us() -> dict[str, float]:
    """session.run(array), and session.run() with bound buffers, less the C call that runs the network."""
    from onnx import TensorProto, helper

    info = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [4]) for name in "xy"]
    graph = helper.make_graph([helper.make_node("Relu", ["x"], ["y"])], "relu", info[:1], info[1:])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "relu.edge"
        pack(model, path)
        with edgert.load(path, threads=1) as session:
            run, handle, x = _native.library().edgert_session_run, session._handle, np.zeros(4, np.float32)
            fresh, nothing = _per_call(lambda: session.run(x)), _per_call(lambda: None)
            session.bind({"x": x}, {"y": np.zeros(4, np.float32)})
            call = _per_call(lambda: run(handle)) - nothing
            return {
                "call_overhead_us": (_per_call(session.run) - call) * 1e6,
                "array_overhead_us": (fresh - nothing - call) * 1e6,
            }


def _per_call(call: object) -> float:
    assert callable(call)
    best = float("inf")
    for _ in range(20):
        begin = time.perf_counter()
        for _ in range(2000):
            call()
        best = min(best, (time.perf_counter() - begin) / 2000)
    return best


def _library_kb() -> float:
    """The shared library, stripped."""
    source = Path(_native.library()._name)
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / source.name
        shutil.copy(source, copy)
        subprocess.run(["strip", copy], check=True)
        ctypes.CDLL(str(copy))
        return copy.stat().st_size / 1024
