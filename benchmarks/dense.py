"""Dense networks against onnxruntime, 1 and 2 threads: short turns of each in alternation, ratio of the medians."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable

import numpy as np
import onnxruntime

import edgert
from benchmarks.networks import NAMES, QUICK, Network, networks
from benchmarks.report import geometric_mean, save, table

__all__ = ["run"]

PAUSE = 0.02  # seconds between turns, so that the other engine's threads have gone to sleep


def run(quick: bool = False) -> None:
    """Print the table and save results/dense.json."""
    rows = []
    for network in networks(QUICK if quick else NAMES):
        for threads in (1, 2):
            rows.append(_measure(network, threads, turns=5 if quick else 9))
    shown = [
        [r["network"], r["threads"], r["onnxruntime_ms"], r["edgert_ms"], r["ratio"], f"{r['error']:.1e}"] for r in rows
    ]
    table(
        "dense networks, batch 1, float32",
        ["network", "threads", "onnxruntime ms", "edgert ms", "speed ratio", "max error"],
        shown,
    )
    means = {threads: geometric_mean([r["ratio"] for r in rows if r["threads"] == threads]) for threads in (1, 2)}
    print(
        "geometric mean of the ratios: "
        + ", ".join(f"{mean:.3f} at {threads} threads" for threads, mean in means.items())
    )
    save("dense", {"rows": rows, "geometric_mean": means})


def _measure(network: Network, threads: int, turns: int) -> dict[str, object]:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.log_severity_level = 3
    peer = onnxruntime.InferenceSession(network.onnx, options, providers=["CPUExecutionProvider"])
    with edgert.load(network.edge, threads=threads, integrity="metadata") as session:
        y = np.empty_like(network.y)
        session.bind({network.input_name: network.x}, {network.output_name: y})
        session.run()
        error = float(np.abs(y - network.y).max() / np.abs(network.y).max())
        ours, theirs = [], []
        for _ in range(turns):
            theirs += _turn(lambda: peer.run(None, {network.input_name: network.x}))
            ours += _turn(session.run)
    mine, other = statistics.median(ours) * 1e3, statistics.median(theirs) * 1e3
    return {
        "network": network.name,
        "threads": threads,
        "onnxruntime_ms": other,
        "edgert_ms": mine,
        "onnxruntime_min_ms": min(theirs) * 1e3,
        "edgert_min_ms": min(ours) * 1e3,
        "ratio": other / mine,
        "error": error,
    }


def _turn(call: Callable[[], object]) -> list[float]:
    """A few timed runs after an untimed one, in seconds; at least 3 and about 0.15 s."""
    time.sleep(PAUSE)
    call()
    times: list[float] = []
    while len(times) < 3 or sum(times) < 0.15:
        begin = time.perf_counter()
        call()
        times.append(time.perf_counter() - begin)
    return times
