"""From 1 to more cores at batch 1 (method M2): our programs, onnxruntime and OpenVINO in turns; and what the cost model
predicts for the machine of the paper."""

from __future__ import annotations

import contextlib
import os
import statistics
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import deep
from benchmarks.networks import CACHE, network_file
from benchmarks.peers import Peer
from benchmarks.report import geometric_mean, save, table
from packer.importers import import_onnx
from packer.passes import optimize
from packer.planner import make_plan
from targets.base import resolve
from targets.machine import Machine

__all__ = ["run"]

NATIVE = ("alexnet", "vgg16", "vgg19", "resnet50", "resnet152", "yolov2_like", "mobilenet_v2")
LARGE = ("resnet50_any", "yolov2_like", "mobilenet_v2")  # networks that take any size
LARGE_SHAPE = (1, 3, 1088, 1920)  # 1080 rows rounded up to what five halvings divide
PAPER = {"vgg19": 5.6, "yolov2_like": 6.7}  # on 16 cores of a Xeon E5-2666 v3
ENGINES = ("edgert", "onnxruntime", "openvino")
SECONDS = 0.15  # of a turn


def run(quick: bool = False) -> None:
    """Print the tables and save results/scaling.json. On 4 cores and more, 4, 8 and 16 threads are measured as well."""
    counts = [n for n in (1, 2, 4, 8, 16) if n <= len(os.sched_getaffinity(0))]
    sizes: list[tuple[str, tuple[int, ...] | None]] = [
        (name, None) for name in (("mobilenet_v2", "resnet50") if quick else NATIVE)
    ]
    sizes += [] if quick else [(name, LARGE_SHAPE) for name in LARGE]
    rows = [_measure(name, shape, counts, turns=3 if quick or shape else 5) for name, shape in sizes]
    header = ["network", "input", *(f"{e} {n}c ms" for e in ENGINES for n in counts)]
    header += [f"{e} 1>{n}" for e in ENGINES for n in counts[1:]]
    shown = []
    for row in rows:
        cells: list[object] = [row["network"], row["input"]]
        cells += [row["ms"][e][n] for e in ENGINES for n in counts]
        cells += [row["ms"][e][1] / row["ms"][e][n] for e in ENGINES for n in counts[1:]]
        shown.append(cells)
    table("scaling at batch 1", header, shown)
    means = {
        engine: {n: geometric_mean([r["ms"][engine][1] / r["ms"][engine][n] for r in rows]) for n in counts[1:]}
        for engine in ENGINES
    }
    for engine, by_count in means.items():
        print(f"{engine}: " + ", ".join(f"{mean:.3f}x from 1 to {n} cores" for n, mean in by_count.items()))
    predicted = _predicted()
    save("scaling", {"rows": rows, "geometric_mean": means, "predicted": predicted})


def _file(name: str) -> Path:
    if name in deep.BUILDERS:
        return deep.write(name, CACHE / "deep")
    return network_file(name)


def _measure(name: str, shape: tuple[int, ...] | None, counts: list[int], turns: int) -> dict[str, Any]:
    """Median milliseconds by engine and number of cores; every engine and number has its turn in each round."""
    path = _file(name)
    if shape is not None:
        path = _resized(path, shape)
    graph = import_onnx(path, shapes={}, constants={})
    shape = graph.type(graph.inputs[0]).shape
    x = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
    shapes = [graph.type(name).shape for name in graph.outputs]
    with contextlib.ExitStack() as stack:
        peers = {
            (engine, n): stack.enter_context(Peer(engine, path, x, shapes, n)) for engine in ENGINES for n in counts
        }
        times: dict[tuple[str, int], list[float]] = {key: [] for key in peers}
        for _ in range(turns):
            for key, peer in peers.items():
                times[key] += peer.turn(SECONDS)
    ms: dict[str, dict[int, float]] = {}
    for (engine, n), seconds in times.items():
        ms.setdefault(engine, {})[n] = statistics.median(seconds) * 1e3
    return {"network": name, "input": "x".join(map(str, shape)), "ms": ms}


def _resized(path: Path, shape: tuple[int, ...]) -> Path:
    """The same network for another input size."""
    import onnx

    target = CACHE / "large" / path.name
    if not target.exists():
        target.parent.mkdir(parents=True, exist_ok=True)
        model = onnx.load(path)
        dims = model.graph.input[0].type.tensor_type.shape.dim
        for dim, extent in zip(dims, shape, strict=True):
            dim.dim_value = extent
        for output in model.graph.output:
            if len(output.type.tensor_type.shape.dim) == 4:
                output.type.tensor_type.ClearField("shape")
        del model.graph.value_info[:]
        onnx.save(model, target)
    return target


def _predicted() -> dict[str, dict[int, float]]:
    """Speed-up curves on the machine of the paper."""
    target = resolve("cpu").on(Machine.load("xeon-e5-2666v3"))
    counts = (1, 2, 4, 8, 16, 32, 64)
    found: dict[str, dict[int, float]] = {}
    for name in NATIVE:
        graph = optimize(import_onnx(_file(name), shapes={}, constants={}))
        seconds = {n: make_plan(graph, target, n).seconds for n in counts}
        found[name] = {n: seconds[1] / seconds[n] for n in counts}
    rows = [[name, *curve.values(), PAPER.get(name, "")] for name, curve in found.items()]
    table(
        "predicted speed-up on a Xeon E5-2666 v3 (18 cores; beyond them more of the same on the same memory)",
        ["network", *(f"{n} cores" for n in counts), "paper at 16"],
        rows,
    )
    return found
