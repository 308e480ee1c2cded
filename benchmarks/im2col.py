"""Convolution with contiguous memory access (Wu & Wu), their study repeated: batch 10, 64 kernels, padding 1, stride 1.

Time of Caffe's scheme (patches as columns, copied element by element) over the contiguous scheme (channels last,
patches as rows, contiguous copies), both with the same matrix product; and both over the runtime's own choice.
"""

from __future__ import annotations

import tempfile
import time
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
IMPLEMENTATIONS = ("im2col-caffe", "im2col-nhwc", None)


def run(quick: bool = False) -> None:
    """Print both tables and save results/im2col.json."""
    sizes = [(c, size, 3) for size in SIZES for c in CHANNELS]
    kernels = [(32, 64, k) for k in KERNELS]
    if quick:
        sizes = [(c, size, k) for c, size, k in sizes if c in (3, 32) and size <= 64]
    rows = {case: _measure(*case) for case in dict.fromkeys(sizes + kernels)}
    header = ["case", "caffe ms", "contiguous ms", "ours ms", "contiguous/caffe", "ours/contiguous"]

    def show(title: str, cases: list[tuple[int, int, int]]) -> None:
        shown = []
        for c, size, k in cases:
            caffe, contiguous, ours = rows[c, size, k]
            shown.append(
                [f"[10,{c},{size},{size}] {k}x{k}", caffe, contiguous, ours, caffe / contiguous, contiguous / ours]
            )
        table(title, header, shown)

    show("by channels and size (speed-ups: larger is better)", sizes)
    show("by kernel size", kernels)
    by_size = {
        size: geometric_mean([rows[case][0] / rows[case][1] for case in sizes if case[1] == size])
        for size in SIZES
        if any(case[1] == size for case in sizes)
    }
    ours = geometric_mean([contiguous / mine for _, contiguous, mine in rows.values()])
    shown = [[f"{size}x{size}", SIZES[size], speedup] for size, speedup in by_size.items()]
    table("contiguous over Caffe's, mean by size", ["size", "paper", "here"], shown)
    print(f"ours over contiguous, geometric mean of all cases: {ours:.2f}")
    cases = [{"channels": c, "size": s, "kernel": k, "ms": ms} for (c, s, k), ms in rows.items()]
    save("im2col", {"cases": cases, "contiguous_over_caffe": by_size, "ours_over_contiguous": ours})


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


def _measure(channels: int, size: int, kernel: int) -> list[float]:
    """Least milliseconds of each implementation, run in turns on one thread; all must agree."""
    model = _model(channels, size, kernel)
    x = np.random.default_rng(1).standard_normal((10, channels, size, size)).astype(np.float32)
    with tempfile.TemporaryDirectory() as folder:
        sessions, results = [], []
        for number, implementation in enumerate(IMPLEMENTATIONS):
            path = Path(folder) / f"{number}.edge"
            pack(model, path, implementation=implementation, golden=False)
            session = edgert.load(path, threads=1)
            y = np.empty(session.outputs[0].shape, np.float32)
            session.bind({"x": x}, {"y": y})
            session.run()
            sessions.append(session)
            results.append(y)
        for y in results[1:]:
            np.testing.assert_allclose(y, results[0], rtol=0, atol=1e-4 * float(np.abs(results[0]).max()))
        best = [float("inf")] * len(sessions)
        started = time.perf_counter()
        for turn in range(20):
            for i, session in enumerate(sessions):
                begin = time.perf_counter()
                session.run()
                best[i] = min(best[i], (time.perf_counter() - begin) * 1e3)
            if turn >= 2 and time.perf_counter() - started > 1.0:
                break
        for session in sessions:
            session.close()
    return best
