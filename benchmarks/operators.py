"""Operators that move memory: networks of one operator, here and in onnxruntime, one thread, float32.

The floor is a copy that reads and writes as many bytes as the operator has to, timed in the same turns. Times include
the call, about 1 microsecond here and 2 in onnxruntime.
"""

from __future__ import annotations

import math
import tempfile
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
from onnx import ModelProto, TensorProto, helper, numpy_helper, shape_inference

import edgert
from benchmarks.report import geometric_mean, save, table
from packer.api import pack

__all__ = ["run"]

Shape = tuple[int, ...]
SECONDS = 0.15  # of a case


def run(quick: bool = False) -> None:
    """Print the table and save results/operators.json."""
    rows = {name: _measure(make(), SECONDS / 5 if quick else SECONDS) for name, make in _cases().items()}
    shown = [
        [name, *us.values(), us["edgert"] / us["copy"], us["onnxruntime"] / us["edgert"]] for name, us in rows.items()
    ]
    header = ["operator", "edgert", "onnxruntime", "copy", "edgert / copy", "onnxruntime / edgert"]
    table("operators, microseconds", header, shown)
    mean = geometric_mean([us["onnxruntime"] / us["edgert"] for us in rows.values()])
    print(f"onnxruntime / edgert, geometric mean: {mean:.2f}")
    save("operators", {"us": rows, "onnxruntime_over_edgert": mean})


def _network(
    op: str, shapes: Sequence[Shape], constants: Sequence[np.ndarray | None] = (), **attributes: Any
) -> ModelProto:
    """One node over inputs of these shapes, and after them constants; None is an operand left out."""
    inputs = [helper.make_tensor_value_info(f"x{i}", TensorProto.FLOAT, shape) for i, shape in enumerate(shapes)]
    names = ["" if c is None else f"c{i}" for i, c in enumerate(constants)]
    weights = [numpy_helper.from_array(c, name) for c, name in zip(constants, names, strict=True) if c is not None]
    node = helper.make_node(op, [i.name for i in inputs] + names, ["y"], **attributes)
    return _finish([node], inputs, weights)


def _finish(nodes: list[Any], inputs: list[Any], weights: list[Any]) -> ModelProto:
    outputs = [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)]
    graph = helper.make_graph(nodes, "operator", inputs, outputs, weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)
    return shape_inference.infer_shapes(model, strict_mode=True, data_prop=True)


def _shuffle(channels: int, size: int, groups: int) -> ModelProto:
    shapes = (groups, channels // groups, size, size), (channels, size, size)
    weights = [numpy_helper.from_array(np.array((1, *s), np.int64), f"s{i}") for i, s in enumerate(shapes)]
    nodes = [
        helper.make_node("Reshape", ["x0", "s0"], ["a"]),
        helper.make_node("Transpose", ["a"], ["b"], perm=[0, 2, 1, 3, 4]),
        helper.make_node("Reshape", ["b", "s1"], ["y"]),
    ]
    return _finish(nodes, [helper.make_tensor_value_info("x0", TensorProto.FLOAT, (1, channels, size, size))], weights)


def _cases() -> dict[str, Callable[[], ModelProto]]:
    cases: dict[str, Callable[[], ModelProto]] = {}

    def add(name: str, op: str, *shapes: Shape, constants: Sequence[np.ndarray | None] = (), **attributes: Any) -> None:
        where = " ".join("x".join(map(str, shape[1:])) for shape in shapes)
        cases[f"{name} {where}"] = partial(_network, op, shapes, constants, **attributes)

    def pool(kind: str, kernel: int, stride: int, pad: int, *shapes: Shape, **more: Any) -> None:
        sizes: dict[str, Any] = {"kernel_shape": [kernel] * 2, "strides": [stride] * 2, "pads": [pad] * 4}
        for c, size in shapes:
            add(f"{kind} {kernel}/{stride}", kind, (1, c, size, size), **sizes, **more)

    pool("MaxPool", 3, 2, 1, (64, 112))
    pool("MaxPool", 3, 2, 0, (96, 55), (256, 27), (256, 13))
    pool("MaxPool", 2, 2, 0, (64, 224), (512, 28), (512, 14))
    pool("MaxPool", 3, 1, 1, (192, 28), (512, 14), (832, 7))
    pool("MaxPool", 5, 1, 2, (512, 13))
    pool("MaxPool", 13, 1, 6, (512, 13))
    pool("AveragePool", 3, 1, 1, (192, 28), (512, 14), (832, 7))
    pool("AveragePool", 2, 2, 0, (128, 56), (256, 28), (512, 14))
    pool("AveragePool", 3, 2, 1, (24, 56), (240, 28), (480, 14))
    pool("AveragePool", 5, 3, 0, (512, 14))
    for c, size in (1024, 7), (2048, 7), (480, 14), (96, 56):
        add("GlobalAveragePool", "GlobalAveragePool", (1, c, size, size))
    add("ReduceMean", "ReduceMean", (1, 1280, 7, 7), constants=[np.array([2, 3])], keepdims=0)
    add("ReduceMax", "ReduceMax", (1, 512, 14, 14), constants=[np.array([2, 3])])
    for c, size in (64, 56), (96, 55), (256, 27), (192, 13):
        add("LRN", "LRN", (1, c, size, size), size=5, alpha=1e-4, beta=0.75, bias=1.0)
    for shape in (240, 28, 3), (480, 14, 3), (960, 7, 3), (116, 28, 2):
        cases["shuffle {0}x{1}x{1}".format(*shape)] = partial(_shuffle, *shape)
    for c, size in (3, 224), (64, 56), (256, 14), (255, 13):
        add("Transpose to channels last", "Transpose", (1, c, size, size), perm=[0, 2, 3, 1])
        add("Transpose to channels first", "Transpose", (1, size, size, c), perm=[0, 3, 1, 2])
    add("Transpose heads", "Transpose", (1, 197, 12, 64), perm=[0, 2, 1, 3])
    add("Transpose keys", "Transpose", (1, 197, 12, 64), perm=[0, 2, 3, 1])
    add("Softmax", "Softmax", (1, 1000), axis=1)
    add("Softmax", "Softmax", (1, 12, 197, 197), axis=3)
    add("Softmax", "Softmax", (1, 21, 128, 128), axis=1)
    up = np.array([1, 1, 2, 2], np.float32)
    grid = "coordinate_transformation_mode"
    nearest = {"mode": "nearest", grid: "asymmetric", "nearest_mode": "floor"}
    add("Resize nearest", "Resize", (1, 256, 26, 26), constants=[None, up], **nearest)
    add("Resize linear", "Resize", (1, 256, 26, 26), constants=[None, up], mode="linear")
    add(
        "Resize linear 4",
        "Resize",
        (1, 21, 64, 64),
        constants=[None, up * up],
        mode="linear",
        **{grid: "align_corners"},
    )
    add("DepthToSpace", "DepthToSpace", (1, 64, 56, 56), blocksize=2)
    add("SpaceToDepth", "SpaceToDepth", (1, 64, 56, 56), blocksize=2)
    big = (1, 256, 56, 56)
    add("Concat", "Concat", big, (1, 64, 56, 56), axis=1)
    add("Pad", "Pad", (1, 64, 56, 56), constants=[np.array([0, 0, 1, 1, 0, 0, 1, 1])])
    add("Add", "Add", big, big)
    add("Add", "Add", (1, 1024, 14, 14), (1, 1024, 14, 14))
    add("Mul by channel", "Mul", big, (1, 256, 1, 1))
    add("Mul by channel", "Mul", (1, 960, 7, 7), (1, 960, 1, 1))
    add("Mul by pixel", "Mul", big, (1, 1, 56, 56))
    add("Add to last", "Add", (1, 197, 768), (768,))
    parameters = [np.linspace(0.5, 1.5, 256, dtype=np.float32)] * 4
    add("BatchNormalization", "BatchNormalization", big, constants=parameters)
    add("LayerNormalization", "LayerNormalization", (1, 197, 768), constants=[np.ones(768, np.float32)] * 2)
    for op in (
        "Relu",
        "LeakyRelu",
        "Clip",
        "Sigmoid",
        "HardSwish",
        "Tanh",
        "Exp",
        "Erf",
        "Gelu",
        "Elu",
        "Softplus",
        "Mish",
    ):
        limits = [np.array(v, np.float32) for v in (0, 6)] if op == "Clip" else []
        add(op, op, (1, 64, 56, 56), constants=limits)
    return cases


def _measure(model: ModelProto, seconds: float) -> dict[str, float]:
    """Least microseconds of each, in turns; outputs must agree."""
    rng = np.random.default_rng(0)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    peer = onnxruntime.InferenceSession(model.SerializeToString(), options, ["CPUExecutionProvider"])
    inputs = {i.name: rng.standard_normal(i.shape, dtype=np.float32) for i in peer.get_inputs()}
    y, theirs = (np.empty(peer.get_outputs()[0].shape, np.float32) for _ in range(2))
    binding = peer.io_binding()
    for name, value in inputs.items():
        binding.bind_cpu_input(name, value)
    binding.bind_output("y", "cpu", 0, np.float32, y.shape, theirs.ctypes.data)
    bytes_moved = y.nbytes + sum(value.nbytes for value in inputs.values())
    source, target = (np.ones(bytes_moved // 2, np.uint8) for _ in range(2))
    with tempfile.TemporaryDirectory() as folder:
        pack(model, Path(folder) / "operator.edge", golden=False)
        with edgert.load(Path(folder) / "operator.edge", threads=1) as session:
            session.bind(inputs, {"y": y})
            runs: dict[str, Callable[[], Any]] = {
                "edgert": session.run,
                "onnxruntime": lambda: peer.run_with_iobinding(binding),
                "copy": lambda: np.copyto(target, source),
            }
            best = dict.fromkeys(runs, math.inf)
            for call in runs.values():
                call()
            np.testing.assert_allclose(y, theirs, rtol=2e-5, atol=2e-5)
            begin = time.perf_counter()
            while time.perf_counter() - begin < seconds:
                for name, call in runs.items():
                    for _ in range(5):
                        started = time.perf_counter()
                        call()
                        best[name] = min(best[name], (time.perf_counter() - started) * 1e6)
    return best
