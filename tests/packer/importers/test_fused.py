"""Operators that onnxruntime fuses networks into: against onnxruntime; and whole networks that it saved optimised."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

import edgert
from packer.api import pack
from packer.errors import UnsupportedOperators
from packer.importers import import_onnx
from packer.importers.onnx import registry
from tests.packer.importers import test_contributed
from tests.packer.importers.test_contributed import DOMAIN, both, model

RNG = np.random.default_rng(11)


def floats(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype(np.float32)


X, W, B, Z = floats(1, 4, 7, 6), floats(6, 2, 3, 3), floats(6), floats(1, 6, 7, 6)
WINDOW = {"pads": [1, 1, 1, 1], "group": 2}
CASES: dict[str, tuple[str, list[np.ndarray | None], dict[str, object]]] = {
    "conv": ("FusedConv", [X, W, B, Z], {**WINDOW, "activation": "Relu"}),
    "conv without bias": ("FusedConv", [X, W], {**WINDOW, "activation": "LeakyRelu", "activation_params": [0.3]}),
    "conv within": ("FusedConv", [X, W, B], {**WINDOW, "activation": "Clip", "activation_params": [-0.5, 0.7]}),
    "conv, hard sigmoid": (
        "FusedConv",
        [X, W, B],
        {**WINDOW, "activation": "HardSigmoid", "activation_params": [0.3, 0.4]},
    ),
    "conv, tanh": ("FusedConv", [X, W, B], {**WINDOW, "activation": "Tanh"}),
    "gemm": ("FusedGemm", [floats(3, 5), floats(4, 5), floats(4)], {"transB": 1, "activation": "Relu"}),
    "gemm, leaky": (
        "FusedGemm",
        [floats(5, 3), floats(5, 4)],
        {"transA": 1, "alpha": 0.5, "activation": "LeakyRelu", "activation_alpha": 0.2},
    ),
    "product": ("FusedMatMul", [floats(2, 3, 5, 4), floats(2, 3, 5, 6)], {"transA": 1, "alpha": 0.25}),
    "product by its first name": ("TransposeMatMul", [floats(3, 5), floats(4, 5)], {"transB": 1}),
    "product turned": ("FusedMatMul", [floats(3, 4, 5), floats(3, 6, 5)], {"transB": 1}),
    "batch behind": (
        "FusedMatMul",
        [floats(4, 2, 3, 5), floats(6, 2, 3, 5)],
        {"transBatchA": 1, "transBatchB": 1, "transB": 1},
    ),
    "gelu": ("Gelu", [floats(3, 40)], {}),
    "gelu of a sum": ("BiasGelu", [floats(3, 40), floats(40)], {}),
    "fast gelu": ("FastGelu", [floats(3, 40), floats(40)], {}),
    "fast gelu alone": ("FastGelu", [floats(3, 40)], {}),
    "quick gelu": ("QuickGelu", [floats(3, 40)], {"alpha": 1.5}),
    "normalize": ("SkipLayerNormalization", [floats(2, 3, 8), floats(2, 3, 8), floats(8), floats(8), floats(8)], {}),
    "normalize without bias": (
        "SkipLayerNormalization",
        [floats(2, 3, 8), floats(2, 3, 8), floats(8)],
        {"epsilon": 0.1},
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_operators(case: str) -> None:
    op_type, operands, attributes = CASES[case]
    assert operands[0] is not None
    (want,), (got,) = both(model(op_type, operands, attributes), operands[0])
    assert (got.dtype, got.shape) == (want.dtype, want.shape)
    np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-5)


def test_every_operator_is_tested() -> None:
    tested = {op_type for op_type, *_ in (*CASES.values(), *test_contributed.CASES.values())}
    assert tested | {"DynamicQuantizeLSTM", "QLinearReduceMean"} == set(registry.known(DOMAIN))


def test_the_sum_that_is_normalised() -> None:
    operands: list[np.ndarray | None] = [floats(2, 3, 8) for _ in range(2)] + [floats(8), floats(8), floats(8)]
    built = model("SkipLayerNormalization", operands, {}, outputs=4)
    built.graph.node[0].output[:] = ["y0", "", "", "y3"]
    del built.graph.output[1:3]
    assert operands[0] is not None
    for want, got in zip(*both(built, operands[0]), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-5)


def test_what_is_refused() -> None:
    with pytest.raises(UnsupportedOperators, match="with the activation Mish"):
        import_onnx(model("FusedConv", [X, W], {**WINDOW, "activation": "Mish"}))
    operands: list[np.ndarray | None] = [floats(2, 3, 8), floats(2, 3, 8), floats(8)]
    with pytest.raises(UnsupportedOperators, match="mean and deviation"):
        import_onnx(model("SkipLayerNormalization", operands, {}, outputs=2))


def network() -> onnx.ModelProto:
    """Convolutions with activations and a residual, then a block of a transformer in plain operators."""
    weights = {
        "w0": floats(16, 3, 3, 3), "b0": floats(16), "w1": floats(16, 16, 3, 3), "b1": floats(16), "m": floats(16, 32),
        "b2": floats(32), "n": floats(32, 16), "root": np.float32(2**0.5), "one": np.float32(1),
        "half": np.float32(0.5), "scale": floats(16), "shift": floats(16), "g": floats(10, 16), "b3": floats(10),
    }  # fmt: skip
    weights["tokens"] = np.array([1, 16, 64], np.int64)

    def node(kind: str, inputs: str, output: str, **attributes: object) -> onnx.NodeProto:
        return helper.make_node(kind, inputs.split(), [output], f"node {output}", **attributes)

    nodes = [
        node("Conv", "x w0 b0", "c0", pads=[1, 1, 1, 1]), node("LeakyRelu", "c0", "a0", alpha=0.1),
        node("Conv", "a0 w1 b1", "c1", pads=[1, 1, 1, 1]), node("Add", "c1 a0", "s1"), node("Relu", "s1", "a1"),
        node("Reshape", "a1 tokens", "r"), node("Transpose", "r", "t", perm=[0, 2, 1]),
        node("MatMul", "t m", "p"), node("Add", "p b2", "q"),
        node("Div", "q root", "d"), node("Erf", "d", "e"), node("Add", "e one", "f"), node("Mul", "q f", "h"),
        node("Mul", "h half", "k"), node("MatMul", "k n", "u"), node("Add", "u t", "v"),
        node("LayerNormalization", "v scale shift", "l", axis=-1), node("ReduceMean", "l", "o", axes=[1], keepdims=0),
        node("Gemm", "o g b3", "z", transB=1), node("Relu", "z", "y"),
    ]  # fmt: skip
    graph = helper.make_graph(
        nodes,
        "network",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 3, 8, 8])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 10])],
        [numpy_helper.from_array(np.asarray(data), name) for name, data in weights.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def test_networks_that_were_saved_optimised(tmp_path: Path) -> None:
    onnx.save(network(), tmp_path / "plain.onnx")
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_EXTENDED
    options.optimized_model_filepath = str(tmp_path / "model.onnx")
    x = floats(1, 3, 8, 8)
    (want,) = onnxruntime.InferenceSession(str(tmp_path / "plain.onnx"), options).run(None, {"x": x})
    kinds = {node.op_type for node in onnx.load(tmp_path / "model.onnx").graph.node if node.domain == DOMAIN}
    assert {"FusedConv", "Gelu", "SkipLayerNormalization", "FusedGemm"} <= kinds
    for name in ("plain", "model"):
        pack(tmp_path / f"{name}.onnx", tmp_path / "model.edge", golden=False)
        with edgert.load(tmp_path / "model.edge") as session:
            np.testing.assert_allclose(session.run(x)["y"], want, rtol=0, atol=1e-5 * np.abs(want).max())
