"""Opening time and peak memory against onnxruntime, each in a process of its own."""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import textwrap

from benchmarks.networks import NAMES, QUICK, Network, networks
from benchmarks.report import geometric_mean, save, table

__all__ = ["run"]

_PEER = """
    import onnxruntime
    options = onnxruntime.SessionOptions(); options.intra_op_num_threads = 2; options.log_severity_level = 3
    begin = time.perf_counter()
    session = onnxruntime.InferenceSession({onnx!r}, options, providers=["CPUExecutionProvider"])
    opened = time.perf_counter() - begin
    session.run(None, {{{input!r}: x}})
"""
_OURS = """
    import edgert
    edgert.Session
    begin = time.perf_counter()
    session = edgert.load({edge!r}, threads=2, integrity={integrity!r})
    opened = time.perf_counter() - begin
    session.run({{{input!r}: x}})
"""
_FRAME = """
    import json, re, time
    import numpy as np
    x = np.zeros({shape!r}, np.float32)
    {body}
    first = time.perf_counter() - begin
    peak = re.search(r"VmHWM:\\s+(\\d+)", open("/proc/self/status").read())[1]
    print(json.dumps([opened * 1e3, first * 1e3, int(peak) / 1024]))
"""


def run(quick: bool = False) -> None:
    """Print the table and save results/footprint.json."""
    rows = []
    for network in networks(QUICK if quick else NAMES):
        measured = {"network": network.name}
        for label, body, integrity in (
            ("onnxruntime", _PEER, ""),
            ("metadata", _OURS, "metadata"),
            ("full", _OURS, "full"),
        ):
            results = [_process(network, body, integrity) for _ in range(3 if quick else 5)]
            for column, key in enumerate(("open_ms", "open_and_first_ms", "peak_mb")):
                measured[f"{label}_{key}"] = statistics.median(result[column] for result in results)
        rows.append(measured)
    columns = [f"{who} {what}" for what in ("open_ms", "peak_mb") for who in ("onnxruntime", "metadata", "full")]
    shown = [[r["network"], *(r[c.replace(" ", "_")] for c in columns)] for r in rows]
    table("opening and peak memory of a process (2 threads)", ["network", *columns], shown)
    means = {
        integrity: geometric_mean([r["onnxruntime_open_ms"] / r[f"{integrity}_open_ms"] for r in rows])
        for integrity in ("metadata", "full")
    }
    least = {
        integrity: min(r["onnxruntime_open_ms"] / r[f"{integrity}_open_ms"] for r in rows)
        for integrity in ("metadata", "full")
    }
    print(
        "opening, times faster than onnxruntime: "
        + ", ".join(f"{k} {means[k]:.1f} (least {least[k]:.1f})" for k in means)
    )
    save("footprint", {"rows": rows, "open_ratio": means, "least_open_ratio": least})


def _process(network: Network, body: str, integrity: str) -> list[float]:
    """[open ms, open and first run ms, peak MB] of a fresh process; the files are in the page cache."""
    call = (
        textwrap.dedent(body)
        .strip()
        .format(onnx=str(network.onnx), edge=str(network.edge), input=network.input_name, integrity=integrity)
    )
    code = textwrap.dedent(_FRAME).format(shape=network.x.shape, body=call)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    result: list[float] = json.loads(done.stdout)
    return result
