"""The convolution algorithms that can be asked for: all compute the same, on every instruction set."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from onnx import ModelProto, TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

import edgert
from edgert.devices import this_machine
from packer.api import pack
from targets.base import TargetError

CASES = [
    # x, weights, attributes
    ((2, 3, 9, 7), (5, 3, 3, 3), {"pads": [1, 1, 1, 1]}),
    ((1, 17, 6, 6), (33, 17, 1, 1), {}),
    ((3, 6, 11, 8), (4, 3, 3, 2), {"group": 2, "strides": [2, 1], "pads": [0, 2, 1, 0]}),
    ((1, 4, 12, 12), (8, 4, 3, 3), {"dilations": [2, 3], "pads": [3, 2, 1, 4]}),
    ((1, 8, 5, 5), (8, 1, 3, 3), {"group": 8, "pads": [1, 1, 1, 1]}),
    ((2, 5, 13), (6, 5, 4), {"strides": [3], "pads": [2, 1]}),
    ((1, 2, 4, 5, 6), (3, 2, 2, 3, 2), {"pads": [1, 0, 1, 0, 1, 1], "strides": [1, 2, 1]}),
    ((1, 512, 4, 4), (9, 512, 1, 1), {}),
]


def model(
    x: tuple[int, ...], weights: tuple[int, ...], attributes: dict[str, object], activation: str = "Relu"
) -> ModelProto:
    """activation(conv(x) + bias + conv(x)): bias, residual and activation are fused into the second convolution."""
    random = np.random.default_rng(0)
    values = {
        "w": random.standard_normal(weights).astype(np.float32),
        "v": random.standard_normal(weights).astype(np.float32),
        "b": random.standard_normal(weights[0]).astype(np.float32),
    }
    nodes = [
        helper.make_node("Conv", ["x", "w", "b"], ["c"], **attributes),
        helper.make_node("Conv", ["x", "v", "b"], ["d"], **attributes),
        helper.make_node("Add", ["c", "d"], ["s"]),
        helper.make_node(activation, ["s"], ["y"]),
    ]
    graph = helper.make_graph(
        nodes,
        "convolutions",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, x)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [None] * len(x))],
        [numpy_helper.from_array(data, name) for name, data in values.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


@pytest.mark.parametrize("implementation", ["direct", "im2col-caffe", "im2col-nhwc"])
@pytest.mark.parametrize("case", CASES, ids=lambda case: "x".join(map(str, case[0])))
def test_same_result(
    tmp_path: Path, case: tuple[tuple[int, ...], tuple[int, ...], dict[str, object]], implementation: str
) -> None:
    if implementation == "direct" and case[2].get("group") == case[0][1]:
        pytest.skip("depthwise convolutions have no direct form")
    network = model(*case)
    x = np.random.default_rng(1).standard_normal(case[0]).astype(np.float32)
    (want,) = ReferenceEvaluator(network).run(None, {"x": x})
    path = tmp_path / "model.edge"
    pack(network, path, implementation=implementation, golden=False)
    kernels = {step.kernel for step in edgert.read(path).programs[0].steps}
    assert kernels == {"conv_" + implementation.replace("-", "_")}
    for isa in this_machine().isas:
        for threads in (1, 2):
            with edgert.load(path, isa=isa, threads=threads) as session:
                got = session.run({"x": x})["y"]
            np.testing.assert_allclose(got, want, rtol=0, atol=1e-5 * float(np.abs(want).max()), err_msg=isa)


# More weights than a second-level cache keeps beside everything else: they pass by in turns.
MANY_WEIGHTS = [
    ((1, 400, 3, 4), (64, 400, 3, 3), {"pads": [1, 1, 1, 1]}),
    ((2, 1400, 2, 5), (72, 700, 1, 5), {"group": 2, "pads": [0, 2, 0, 2]}),
    ((1, 130, 12, 9), (24, 130, 7, 5), {"strides": [2, 1], "pads": [3, 0, 2, 3], "dilations": [1, 2]}),
    ((1, 2400, 2, 1), (100, 2400, 2, 1), {"pads": [1, 0, 0, 0]}),  # of two threads, each computes one position
    ((1, 240, 2, 3, 3), (48, 240, 2, 3, 3), {"pads": [1, 1, 1, 0, 1, 1]}),
]


@pytest.mark.parametrize("activation", ["Relu", "Tanh"])
@pytest.mark.parametrize("implementation", ["packed", "packed-f16", "packed-bf16", "bf16"])
@pytest.mark.parametrize("case", MANY_WEIGHTS, ids=lambda case: "x".join(map(str, case[0])))
def test_many_weights(
    tmp_path: Path,
    case: tuple[tuple[int, ...], tuple[int, ...], dict[str, object]],
    implementation: str,
    activation: str,
) -> None:
    network = model(*case, activation)
    x = np.random.default_rng(1).standard_normal(case[0]).astype(np.float32)
    x *= 0.01 if activation == "Tanh" else 1.0
    (want,) = ReferenceEvaluator(network).run(None, {"x": x})
    path = tmp_path / "model.edge"
    precision, tolerance = {
        "packed": ("f32", 1e-5),
        "packed-f16": ("f16", 1e-3),
        "packed-bf16": ("bf16", 1e-2),
        "bf16": ("bf16", 1e-2),
    }[implementation]
    pack(network, path, implementation=implementation, precision=precision, golden=False)
    kernels = {step.kernel for step in edgert.read(path).programs[0].steps}
    assert kernels - {"reorder"} == {"conv_bf16" if implementation == "bf16" else "conv"}
    for isa in this_machine().isas:
        got = []
        for threads in (1, 2):
            with edgert.load(path, isa=isa, threads=threads) as session:
                got.append(session.run({"x": x})["y"])
        np.testing.assert_allclose(got[0], want, rtol=0, atol=tolerance * float(np.abs(want).max()), err_msg=isa)
        np.testing.assert_array_equal(got[0], got[1], err_msg=isa)


def test_an_unknown_implementation_names_the_known_ones(tmp_path: Path) -> None:
    with pytest.raises(TargetError, match="direct, im2col-caffe, im2col-nhwc, packed"):
        pack(model(*CASES[0]), tmp_path / "model.edge", implementation="winograd")
    assert not list(tmp_path.iterdir())
