"""The benchmark networks, each with an input and what a float64 evaluation gives for it.

Most are generated, dense and with zeros, by the shared tool into benchmarks/.cache; some pruned ones are real.
"""

from __future__ import annotations

import math
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx
from onnx import numpy_helper, shape_inference

from packer.importers import import_onnx
from packer.ir.evaluate import evaluate

__all__ = ["CACHE", "NAMES", "PRUNED", "QUICK", "Network", "network", "network_file", "nonzero_flops"]

CACHE = Path(__file__).resolve().parent / ".cache"
SHARED = Path(__file__).resolve().parent.parent.parent / "shared"
TOOL = SHARED / "tools" / "make_models.py"

NAMES = (
    "alexnet",
    "densenet121",
    "inception_v1",
    "inception_v2",
    "mobilenet_v1",
    "mobilenet_v2",
    "resnet50",
    "shufflenet",
    "squeezenet",
    "vgg19",
    "yolov2_like",
    "zfnet512",
)
QUICK = ("mobilenet_v2", "resnet50", "squeezenet")
PRUNED = ("squeezenet_dc", "mp_face_detection_full_range_sparse", "lenet5_dns_sparse")  # with zeros of their own


@dataclass(frozen=True, slots=True, eq=False)
class Network:
    """An ONNX file, one input, its outputs in the order of the model, and the operations on weights other than zero.

    `zeros`: percent of the weights; None for the real ones.
    """

    name: str
    zeros: int | None
    onnx: Path
    x: np.ndarray
    outputs: tuple[np.ndarray, ...]
    flops: int


def network(name: str, zeros: int | None = 0) -> Network:
    """The named network, generated and evaluated if it was not yet."""
    path = network_file(name, zeros)
    known = CACHE / "reference" / _variant(zeros) / f"{name}.npz"
    if not known.exists() or known.stat().st_mtime < path.stat().st_mtime:
        graph = import_onnx(path, shapes={}, constants={})
        x = _input(path, graph.type(graph.inputs[0]).shape)
        found = evaluate(graph, {graph.inputs[0]: x}, np.float64)
        known.parent.mkdir(parents=True, exist_ok=True)
        np.savez(known, x, nonzero_flops(path), *(found[output] for output in graph.outputs))
    with np.load(known) as stored:
        x, flops, *outputs = (stored[f"arr_{i}"] for i in range(len(stored.files)))
        return Network(name, zeros, path, x, tuple(outputs), int(flops))


def network_file(name: str, zeros: int | None = 0) -> Path:
    """The network's ONNX file; exits with a message where the tool that makes it, or the real model, is absent."""
    if zeros is None:
        return _present(SHARED / "models" / "onnx" / f"{name}.onnx")
    variant = _variant(zeros)
    path = CACHE / variant / f"{name}.onnx"
    if not path.with_suffix(".io.json").exists():  # written last
        CACHE.mkdir(exist_ok=True)
        command = [sys.executable, str(_present(TOOL)), "--out", str(CACHE), "--variants", variant, "--models", name]
        subprocess.run(command, check=True)
    return path


def nonzero_flops(path: Path) -> int:
    """Floating-point operations of convolutions and matrix products on weights that are not zero."""
    model = shape_inference.infer_shapes(onnx.load(path))
    graph = model.graph
    shapes = {
        value.name: [dim.dim_value for dim in value.type.tensor_type.shape.dim]
        for value in (*graph.value_info, *graph.output)
    }
    constants = {tensor.name: tensor for tensor in graph.initializer}
    total = 0
    for node in graph.node:
        if node.op_type in ("Conv", "Gemm", "MatMul") and node.input[1] in constants:
            nonzeros = np.count_nonzero(numpy_helper.to_array(constants[node.input[1]]))
            shape = shapes[node.output[0]]
            positions = shape[:1] + shape[2:] if node.op_type == "Conv" else shape[:-1]
            total += 2 * int(nonzeros) * math.prod(positions)
    return total


def _variant(zeros: int | None) -> str:
    return "real" if zeros is None else "dense" if zeros == 0 else f"sparse{zeros}"


def _input(path: Path, shape: tuple[int, ...]) -> np.ndarray:
    """The input that comes with a model."""
    beside = path.with_suffix(".x.f32")
    if beside.exists():
        return np.fromfile(beside, np.float32).reshape(shape)
    stored = SHARED / "models" / "vectors" / path.stem / "test_data_set_0" / "input_0.pb"
    return np.asarray(numpy_helper.to_array(onnx.load_tensor(str(_present(stored)))))


def _present(path: Path) -> Path:
    if not path.exists():
        sys.exit(f"the benchmark networks need {path.name}; expected at {path}")
    return path
