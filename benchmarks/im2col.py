"""Convolution with contiguous memory access (Wu & Wu), their study repeated: batch 10, 64 kernels, padding 1, stride 1.

Time of Caffe's scheme (patches as columns, copied element by element), of the contiguous scheme (channels last, patches
as rows, contiguous copies), both with the same matrix product, of the other algorithms, and of the one that `pack`
chooses by cost: ours.
"""

from __future__ import annotations

import contextlib
import math
import tempfile
import time
from collections.abc import Iterable
from pathlib import Path

import numpy as np
from onnx import ModelProto, TensorProto, helper, numpy_helper

import edgert
from benchmarks.report import geometric_mean, save, table
from packer.api import pack

__all__ = ["run"]

CHANNELS = (3, 8, 16, 32, 64, 96, 128)
SIZES = {32: 1.500, 64: 1.435, 128: 1.932, 224: 1.306}  # with the average speed-up that the paper reports
KERNELS = (2, 3, 4, 5, 6, 7)
ALGORITHMS = {
    "caffe": "im2col-caffe",
    "contiguous": "im2col-nhwc",
    "packed": "packed",
    "direct": "direct",
    "ours": None,
}


def run(quick: bool = False) -> None:
    """Print the tables and save results/im2col.json."""
    sizes = [(c, size, 3) for size in SIZES for c in CHANNELS]
    kernels = [(32, 64, k) for k in KERNELS]
    if quick:
        sizes = [(c, size, k) for c, size, k in sizes if c in (3, 32) and size <= 64]
    rows = {case: _measure(*case) for case in dict.fromkeys(sizes + kernels)}
    header = ["case", *(f"{name} ms" for name in ALGORITHMS), "contiguous/caffe", "ours/contiguous"]

    def show(title: str, cases: list[tuple[int, int, int]]) -> None:
        shown = []
        for c, size, k in cases:
            ms = rows[c, size, k]
            ratios = ms["caffe"] / ms["contiguous"], ms["contiguous"] / ms["ours"]
            shown.append([f"[10,{c},{size},{size}] {k}x{k}", *ms.values(), *ratios])
        table(title, header, shown)

    def mean(name: str, cases: Iterable[tuple[int, int, int]], over: str = "contiguous") -> float:
        return geometric_mean([rows[case][over] / rows[case][name] for case in cases])

    show("by channels and size (speed-ups: larger is better)", sizes)
    show("by kernel size", kernels)
    by_size = {
        size: mean("contiguous", own, over="caffe") for size in SIZES if (own := [c for c in sizes if c[1] == size])
    }
    shown = [[f"{size}x{size}", SIZES[size], speedup] for size, speedup in by_size.items()]
    table("contiguous over Caffe's, mean by size", ["size", "paper", "here"], shown)
    over = {name: mean(name, rows) for name in ALGORITHMS}
    table("over contiguous, geometric mean of all cases", list(over), [list(over.values())])
    cases = [{"channels": c, "size": s, "kernel": k, "ms": ms} for (c, s, k), ms in rows.items()]
    save("im2col", {"cases": cases, "contiguous_over_caffe": by_size, "over_contiguous": over})


def _model(channels: int, size: int, kernel: int) -> ModelProto:
    pad = 1 if kernel > 1 else 0
    out = size + 2 * pad - kernel + 1
    weights = np.random.default_rng(0).standard_normal((64, channels, kernel, kernel)).astype(np.float32)
    node = helper.make_node("Conv", ["x", "w"], ["y"], pads=[pad] * 4)
    graph = helper.make_graph(
        [node],
        "conv",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [10, channels, size, size])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [10, 64, out, out])],
        [numpy_helper.from_array(weights, "w")],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def _measure(channels: int, size: int, kernel: int) -> dict[str, float]:
    """Least milliseconds of each algorithm, run in turns on one thread; all must agree."""
    model = _model(channels, size, kernel)
    x = np.random.default_rng(1).standard_normal((10, channels, size, size)).astype(np.float32)
    best = dict.fromkeys(ALGORITHMS, math.inf)
    results: list[np.ndarray] = []
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
        sessions: dict[str, edgert.Session] = {}
        for name, implementation in ALGORITHMS.items():
            path = Path(folder) / f"{name}.edge"
            pack(model, path, implementation=implementation, golden=False)
            sessions[name] = session = stack.enter_context(edgert.load(path, threads=1))
            y = np.empty(session.outputs[0].shape, np.float32)
            session.bind({"x": x}, {"y": y})
            session.run()
            results.append(y)
        for y in results[1:]:
            np.testing.assert_allclose(y, results[0], rtol=0, atol=1e-4 * float(np.abs(results[0]).max()))
        started = time.perf_counter()
        for turn in range(20):
            for name, session in sessions.items():
                begin = time.perf_counter()
                session.run()
                best[name] = min(best[name], (time.perf_counter() - begin) * 1e3)
            if turn >= 2 and time.perf_counter() - started > 1.0:
                break
    return best
