"""The convolutions of ResNet-50 one by one, with more and more zeros: as the planner runs them, and by force sparse or
dense; what part of the processor's peak the operations on weights other than zero reach, and where sparse overtakes.

Each distinct shape is a network of one layer, on one thread, its data as near as the runs before left them. Sums over
the network count each shape as often as it occurs.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import math
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np
from onnx import ModelProto, TensorProto, helper, numpy_helper

import edgert
from benchmarks.machine import peak_gflops
from benchmarks.networks import network_file
from benchmarks.report import save, table
from edgert.bench import bind_all
from packer.api import compile_model
from packer.bundle.writer import write_bundle
from packer.importers import import_onnx
from packer.ir.ops import Conv
from packer.passes import optimize
from targets.base import TargetError

__all__ = ["Layer", "add_arguments", "crossover", "main", "run"]

ZEROS = (0, 25, 50, 70, 80, 90, 95)
DENSE = ("packed", "winograd2", "winograd4", "winograd6")
FORMS = ("planner", "sparse", *DENSE)
TOLERANCE = 1e-4  # of the largest output, between forms
PASSES = 2  # over all layers, of which the faster counts: what disturbs the machine lasts for seconds


@dataclass(frozen=True, slots=True)
class Layer:
    """A convolution of a batch of one, and how often the network has it."""

    channels: int
    filters: int
    size: int
    kernel: int
    stride: int
    pad: int
    count: int

    @property
    def name(self) -> str:
        stride = f" /{self.stride}" if self.stride > 1 else ""
        return f"{self.kernel}x{self.kernel} {self.channels}>{self.filters} at {self.size}{stride}"

    @property
    def positions(self) -> int:
        """Elements of an output channel."""
        extent: int = (self.size + 2 * self.pad - self.kernel) // self.stride + 1
        return extent * extent


@dataclass(frozen=True, slots=True)
class Measured:
    """A layer with so many percent of zeros in one form: the kernel, the least milliseconds, the part of the peak."""

    layer: str
    count: int
    zeros: int
    form: str
    kernel: str
    ms: float
    floor_ms: float


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--zeros", nargs="+", type=int, default=list(ZEROS), help="percent of the weights")
    parser.add_argument("--forms", nargs="+", default=list(FORMS), help="planner, or what implementations are called")
    parser.add_argument("--layers", default="", help="only those with this in their names, such as '3x3' or 'at 14'")
    parser.add_argument("--seconds", type=float, default=0.06, help="for a layer with so many zeros in one form")
    parser.add_argument("--output", type=Path, help="where the result goes; needed if not everything is measured")


def run(quick: bool = False) -> None:
    """Measure everything, or a little of it."""
    parser = argparse.ArgumentParser()
    add_arguments(parser)
    main(parser.parse_args(["--layers", "at 14", "--zeros", "0", "90"] if quick else []))


def main(options: argparse.Namespace) -> None:
    """Print the tables and save results/layers.json."""
    peak = peak_gflops()
    print(f"peak of one core: {peak:.1f} GFLOP/s")
    found: dict[tuple[str, int, str], Measured] = {}
    cases = [(layer, zeros) for layer in _layers() if options.layers in layer.name for zeros in options.zeros]
    for layer, zeros in cases * PASSES:
        for row in _measure(layer, zeros, options.forms, options.seconds, peak):
            key = row.layer, row.zeros, row.form
            found[key] = min(found.get(key, row), row, key=lambda measured: measured.ms)
    rows = list(found.values())
    if not rows:
        raise SystemExit(f"no layer has {options.layers!r} in its name: {', '.join(layer.name for layer in _layers())}")
    best = _with_best_dense(rows)
    forms = list(dict.fromkeys(row.form for row in best))
    _show_layers(best, forms, options.zeros)
    curve = _show_curve(best, forms, options.zeros)
    overtakes = _show_crossover(best)
    whole = not options.layers and tuple(options.zeros) == ZEROS and tuple(options.forms) == FORMS
    if whole or options.output:
        result = {"peak_gflops": peak, "rows": list(map(asdict, rows)), "curve": curve, "crossover": overtakes}
        save("layers", result, options.output)
    else:
        print("\nonly a part was measured: not saved (--output FILE)")


def _layers() -> list[Layer]:
    """The distinct convolutions of ResNet-50, in order."""
    graph = optimize(import_onnx(network_file("resnet50"), shapes={}, constants={}))
    found: Counter[tuple[int, int, int, int, int, int]] = Counter()
    for node in graph.nodes:
        if isinstance(node.op, Conv):
            x, w = graph.type(node.inputs[0] or "").shape, graph.type(node.inputs[1] or "").shape
            found[w[1], w[0], x[2], w[2], node.op.strides[0], node.op.pads[0]] += 1
    return [Layer(*key, count) for key, count in found.items()]


# ---- measuring ----


def _model(layer: Layer, zeros: int) -> tuple[ModelProto, int]:
    """The layer with a bias and ReLU as a network, and the number of its weights that are not zero."""
    random = np.random.default_rng(0)
    shape = (layer.filters, layer.channels, layer.kernel, layer.kernel)
    weights = random.standard_normal(math.prod(shape)).astype(np.float32) / math.sqrt(math.prod(shape[1:]))
    weights[random.permutation(weights.size)[: weights.size * zeros // 100]] = 0
    bias = random.standard_normal(layer.filters).astype(np.float32)
    out = math.isqrt(layer.positions)
    conv = helper.make_node("Conv", ["x", "w", "b"], ["c"], strides=[layer.stride] * 2, pads=[layer.pad] * 4)
    graph = helper.make_graph(
        [conv, helper.make_node("Relu", ["c"], ["y"])],
        "layer",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, layer.channels, layer.size, layer.size])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, layer.filters, out, out])],
        [numpy_helper.from_array(weights.reshape(shape), "w"), numpy_helper.from_array(bias, "b")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    return model, int(np.count_nonzero(weights))


def _measure(layer: Layer, zeros: int, forms: Sequence[str], seconds: float, peak: float) -> list[Measured]:
    """Each form that the layer can run in, in turns; their outputs must agree."""
    model, nonzeros = _model(layer, zeros)
    floor = 2 * nonzeros * layer.positions / peak * 1e-6
    sessions: dict[str, edgert.Session] = {}
    kernels: dict[str, str] = {}
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
        for form in forms:
            try:
                bundle = compile_model(
                    model, cores=(1,), golden=False, implementation=None if form == "planner" else form
                )
            except TargetError:
                continue  # not offered to this layer
            path = Path(folder) / f"{form}.edge"
            write_bundle(bundle, path, durable=False)
            kernels[form] = "+".join(step.kernel for step in bundle.programs[0].steps)
            sessions[form] = stack.enter_context(edgert.load(path, threads=1, integrity="metadata"))
            bind_all(sessions[form])
        _expect_agreement(sessions, layer)
        best = dict.fromkeys(sessions, math.inf)
        until = time.perf_counter() + seconds * len(sessions)
        while time.perf_counter() < until:
            for form, session in sessions.items():
                session.run()
                for _ in range(3):
                    begin = time.perf_counter()
                    session.run()
                    best[form] = min(best[form], time.perf_counter() - begin)
    return [
        Measured(layer.name, layer.count, zeros, form, kernels[form], took * 1e3, floor) for form, took in best.items()
    ]


def _expect_agreement(sessions: dict[str, edgert.Session], layer: Layer) -> None:
    results = {form: next(iter(session.run().values())) for form, session in sessions.items()}
    first = next(iter(results.values()))
    for form, y in results.items():
        off = float(np.abs(y - first).max() / np.abs(first).max())
        if not off <= TOLERANCE:
            raise AssertionError(f"{layer.name} as {form} is off by {off:.1e} of the largest output")


# ---- what it amounts to ----


def _with_best_dense(rows: Sequence[Measured]) -> list[Measured]:
    """The dense forms of each layer replaced by the fastest of them, as the form "dense"."""
    best: dict[tuple[str, int], Measured] = {}
    for row in rows:
        key = (row.layer, row.zeros)
        if row.form in DENSE and (key not in best or row.ms < best[key].ms):
            best[key] = replace(row, form="dense")
    return [*(row for row in rows if row.form not in DENSE), *best.values()]


def _show_layers(rows: Sequence[Measured], forms: Sequence[str], zeros: Sequence[int]) -> None:
    names = list(dict.fromkeys((row.layer, row.count) for row in rows))
    for share in zeros:
        own = {(row.layer, row.form): row for row in rows if row.zeros == share}
        shown: list[list[object]] = []
        for name, count in names:
            cells = [own.get((name, form)) for form in forms]
            chosen = own.get((name, "planner"))
            shown.append(
                [
                    name,
                    count,
                    *("-" if cell is None else f"{cell.ms:.3f}" for cell in cells),
                    *("-" if cell is None else f"{cell.floor_ms / cell.ms:.0%}" for cell in cells),
                    "" if chosen is None else chosen.kernel,
                ]
            )
        header = ["layer", "times", *(f"{form} ms" for form in forms), *(f"{form} of peak" for form in forms), "kernel"]
        table(f"{share} % zeros", header, shown)


def _show_curve(rows: Sequence[Measured], forms: Sequence[str], zeros: Sequence[int]) -> list[dict[str, object]]:
    """By zeros and form: milliseconds of all layers, the part of the peak that the non-zeros reach, the least of a
    layer."""
    curve: list[dict[str, object]] = []
    layers = {row.layer for row in rows}
    for share in zeros:
        for form in forms:
            own = [row for row in rows if (row.zeros, row.form) == (share, form)]
            if {row.layer for row in own} != layers:
                continue  # a sum over fewer layers would tell nothing
            ms = sum(row.count * row.ms for row in own)
            reached = sum(row.count * row.floor_ms for row in own) / ms
            worst = min(own, key=lambda row: row.floor_ms / row.ms)
            least = worst.floor_ms / worst.ms
            curve.append(
                {"zeros": share, "form": form, "ms": ms, "of_peak": reached, "least": least, "at": worst.layer}
            )
    shown = [[c["zeros"], c["form"], c["ms"], f"{c['of_peak']:.1%}", f"{c['least']:.1%}", c["at"]] for c in curve]
    table("all layers", ["zeros %", "form", "ms", "of non-zero peak", "least of a layer", "which"], shown)
    return curve


def _show_crossover(rows: Sequence[Measured]) -> dict[str, float | None]:
    """By layer: the percentage of zeros from which sparse is faster than dense; None if nowhere measured."""
    found: dict[str, float | None] = {}
    shown = []
    for name in dict.fromkeys(row.layer for row in rows):
        ms = {(row.zeros, row.form): row.ms for row in rows if row.layer == name}
        points = [(z, ms[z, "sparse"] / ms[z, "dense"]) for z, form in ms if form == "sparse" and (z, "dense") in ms]
        if points:
            at = found[name] = crossover(points)
            first = at == min(points)[0]
            shown.append([name, "never" if at is None else f"{at:.0f}{' or less' if first else ''}"])
    if shown:
        table("sparse overtakes dense", ["layer", "from % zeros"], shown)
    return found


def crossover(points: Sequence[tuple[float, float]]) -> float | None:
    """Where a ratio given at increasing places falls to one, by straight lines between them; None if it does not."""
    ordered = sorted(points)
    if ordered[0][1] <= 1:
        return ordered[0][0]
    for (x, a), (y, b) in itertools.pairwise(ordered):
        if b <= 1:
            return x + (y - x) * (a - 1) / (a - b)
    return None
