"""Which tier of convolution the packer takes on which board."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from packer.api import compile_model
from packer.ir import DType, TensorType
from packer.ir.ops import MatMul
from targets.base import Work
from targets.cuda.board import BOARDS
from targets.cuda.cost import seconds

KERNELS = {"conv_0": "straight-line", "stream_conv": "streamed", "dense_conv": "dense"}


def kernel(target: str, shape: tuple[int, ...], size: int, density: float, precision: str = "f32", **op: object) -> str:
    """Which kernels a convolution with weights of this shape gets, over an input of size x size."""
    rng = np.random.default_rng(0)
    weights = (rng.standard_normal(shape) * (rng.random(shape) < density)).astype(np.float32)
    graph = helper.make_graph(
        [helper.make_node("Conv", ["x", "w"], ["y"], "conv", **op)],
        "one",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, shape[1], size, size])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(weights, "w")],
    )
    model: onnx.ModelProto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    options = {"placement": "device", "device_code": "ptx", "weight_rounding": "off", "precision": precision}
    program = compile_model(model, targets=[target], golden=False, **options).programs[0]  # type: ignore[arg-type]
    (step,) = (step for step in program.steps if step.kernel == "launch")
    entries = next(attribute.text for attribute in step.attributes if attribute.name == "entries")
    name = KERNELS[entries.split(",")[0]]
    return f"{name} in halves" if any("fma.rn.f16x2" in module.ptx for module in program.modules) else name


@pytest.mark.parametrize(
    ("target", "shape", "size", "density", "expected"),
    [
        ("jetson", (64, 64, 3, 3), 56, 0.1, "straight-line"),
        ("jetson", (512, 512, 3, 3), 7, 0.1, "streamed"),  # 2.5 MB of code for 49 pixels
        ("jetson", (512, 512, 3, 3), 7, 0.6, "dense"),
        ("jetson", (64, 64, 3, 3), 28, 0.9, "dense"),
        ("jetson", (1024, 1024, 1, 1), 28, 0.05, "straight-line"),
        ("jetson", (1024, 1024, 1, 1), 28, 0.1, "streamed"),  # 1.1 MB of code
        ("h200", (256, 256, 3, 3), 14, 0.1, "streamed"),
    ],
)
def test_the_cheapest_tier(target: str, shape: tuple[int, ...], size: int, density: float, expected: str) -> None:
    assert kernel(target, shape, size, density, pads=[shape[2] // 2] * 4) == expected


def test_zeros_of_fully_connected_layers_are_not_read() -> None:
    types = [TensorType(DType.F32, shape) for shape in ((1, 4096), (4096, 4096), (1, 4096))]
    board, inputs, outputs = BOARDS["jetson"], (types[0], types[1]), (types[2],)
    times = [
        seconds(board, Work(MatMul(), inputs, outputs, (False, True), density), "cuda", DType.F32)
        for density in (1.0, 0.1)
    ]
    assert times[1] < 0.25 * times[0]


@pytest.mark.parametrize(
    ("shape", "op"),
    [((8, 8, 1, 3), {"dilations": [1, 70], "pads": [0, 140, 0, 140]}), ((8, 8, 45, 45), {}), ((8, 2, 1, 140), {})],
)
def test_windows_too_large_to_stage_are_dense(shape: tuple[int, ...], op: dict[str, object]) -> None:
    assert kernel("jetson", shape, 150, 0.1, **op) == "dense"


def test_products_are_of_halves_where_that_is_asked_for_and_cheaper() -> None:
    assert kernel("jetson", (128, 128, 3, 3), 28, 0.4, "f16", pads=[1, 1, 1, 1]) == "straight-line in halves"
    assert kernel("jetson", (512, 512, 3, 3), 7, 0.1, "f16", pads=[1, 1, 1, 1]) == "streamed"
