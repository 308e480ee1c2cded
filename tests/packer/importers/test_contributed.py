"""Operators of onnxruntime's own domain: against onnxruntime, at most one level off; whole networks in bytes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import helper, numpy_helper
from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_dynamic, quantize_static

import edgert
from packer.api import pack
from packer.errors import UnsupportedOperators
from packer.importers import import_onnx
from packer.ir.evaluate import evaluate
from packer.passes import optimize
from targets.cpu.host import has_vnni
from tests.e2e.quantizable import SHAPE, network
from tests.precise import precise

DOMAIN = "com.microsoft"
Operand = np.ndarray | None
RNG = np.random.default_rng(5)


def levels(*shape: int) -> np.ndarray:
    return RNG.integers(0, 256, shape).astype(np.uint8)


def scale(value: float) -> np.ndarray:
    return np.array(value, np.float32)


def zero(value: int) -> np.ndarray:
    return np.array(value, np.uint8)


X, SCALE, ZERO = levels(2, 3, 6, 5), scale(0.03), zero(110)
FIRST, SECOND, LAST = (X, SCALE, ZERO), (levels(3, 1, 5), scale(0.02), zero(90)), (scale(0.05), zero(100))
CASES: dict[str, tuple[str, list[Operand], dict[str, object]]] = {
    "add": ("QLinearAdd", [*FIRST, *SECOND, *LAST], {}),
    "mul": ("QLinearMul", [*FIRST, *SECOND, *LAST], {}),
    "sigmoid": ("QLinearSigmoid", [*FIRST, scale(1 / 256), zero(0)], {}),
    "leaky": ("QLinearLeakyRelu", [*FIRST, *LAST], {"alpha": 0.2}),
    "average": (
        "QLinearAveragePool",
        [*FIRST, *LAST],
        {"kernel_shape": [3, 2], "strides": [2, 1], "pads": [1, 0, 1, 1]},
    ),
    "global": ("QLinearGlobalAveragePool", [*FIRST, *LAST], {"channels_last": 0}),
    "softmax": ("QLinearSoftmax", [*FIRST, scale(1 / 256), zero(0)], {"axis": 1, "opset": 13}),
    "softmax behind": ("QLinearSoftmax", [*FIRST, scale(1 / 256), zero(0)], {"axis": 2, "opset": 12}),
    "where": ("QLinearWhere", [RNG.random((2, 3, 6, 5)) < 0.5, *FIRST, *SECOND, *LAST], {}),
    "concat": ("QLinearConcat", [*LAST, *FIRST, levels(2, 4, 6, 5), scale(0.02), zero(90)], {"axis": 1}),
    "gemm": ("QGemm", [levels(4, 7), SCALE, ZERO, levels(7, 5), scale(0.01), zero(128), None, *LAST], {"alpha": 1.0}),
    "gemm turned": (
        "QGemm",
        [
            levels(7, 4),
            SCALE,
            ZERO,
            levels(5, 7),
            scale(0.01),
            zero(128),
            RNG.integers(-99, 99, 5).astype(np.int32),
            *LAST,
        ],
        {"transA": 1, "transB": 1, "alpha": 0.5},
    ),
    "gemm to floats": ("QGemm", [levels(4, 7), SCALE, ZERO, levels(7, 5), scale(0.01), zero(128)], {}),
    "quantize": ("QuantizeLinear", [RNG.standard_normal((3, 4)).astype(np.float32), SCALE, ZERO], {}),
    "dequantize": ("DequantizeLinear", [*FIRST], {}),
}


def model(op_type: str, operands: list[Operand], attributes: dict[str, object], outputs: int = 1) -> onnx.ModelProto:
    """One node; its first operand of several elements is the input, the others are constants."""
    names = ["" if data is None else f"c{i}" for i, data in enumerate(operands)]
    given = next(i for i, data in enumerate(operands) if data is not None and data.size > 1)
    constants = [
        numpy_helper.from_array(data, name)
        for i, (data, name) in enumerate(zip(operands, names, strict=True))
        if data is not None and i != given
    ]
    data = operands[given]
    assert data is not None
    node = helper.make_node(op_type, names, [f"y{i}" for i in range(outputs)], domain=DOMAIN, **attributes)
    info = helper.make_tensor_value_info(names[given], helper.np_dtype_to_tensor_dtype(data.dtype), data.shape)
    found = [helper.make_empty_tensor_value_info(f"y{i}") for i in range(outputs)]
    graph = helper.make_graph([node], "contributed", [info], found, constants)
    imports = [helper.make_opsetid("", 17), helper.make_opsetid(DOMAIN, 1)]
    return helper.make_model(graph, opset_imports=imports, ir_version=8)


def both(built: onnx.ModelProto, data: np.ndarray) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """What onnxruntime gives, and what we do."""
    name = built.graph.input[0].name
    options = precise()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    want = onnxruntime.InferenceSession(built.SerializeToString(), options).run(None, {name: data})
    return want, list(evaluate(optimize(import_onnx(built)), {name: data}).values())


@pytest.mark.parametrize("case", CASES)
def test_operators(case: str) -> None:
    op_type, operands, attributes = CASES[case]
    data = next(data for data in operands if data is not None and data.size > 1)
    (want,), (got,) = both(model(op_type, operands, attributes), data)
    assert (got.dtype, got.shape) == (want.dtype, want.shape)
    if got.dtype == np.uint8:
        assert np.abs(got.astype(int) - want.astype(int)).max() <= 1
    else:
        np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-5)


def test_a_mean_over_dimensions() -> None:
    """onnxruntime has no kernel for it."""
    for keepdims in (0, 1):
        built = model("QLinearReduceMean", [*FIRST, *LAST], {"axes": [1, -1], "keepdims": keepdims})
        (got,) = evaluate(import_onnx(built), {"c0": X}).values()
        mean = ((X.astype(float) - 110) * 0.03).mean(axis=(1, 3), keepdims=bool(keepdims))
        assert np.abs(np.rint(mean / 0.05) + 100 - got).max() <= 1


@pytest.mark.parametrize("per_channel", [False, True])
def test_an_lstm_that_quantises_itself(tmp_path: Path, per_channel: bool) -> None:
    """Ours does not round inputs and states: as far off as those are. Weights have 7 bits where there is no VNNI, as
    onnxruntime cuts sums off at 16 bits there."""
    sizes = {"w": (2, 48, 10), "r": (2, 48, 12), "b": (2, 96)}
    weights = [
        numpy_helper.from_array((RNG.standard_normal(shape) * 0.3).astype(np.float32), name)
        for name, shape in sizes.items()
    ]
    node = helper.make_node("LSTM", ["x", *sizes], ["y", "h"], hidden_size=12, direction="bidirectional")
    info = helper.make_tensor_value_info("x", 1, (7, 2, 10))
    outputs = [helper.make_empty_tensor_value_info(name) for name in ("y", "h")]
    graph = helper.make_graph([node], "lstm", [info], outputs, weights)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), tmp_path / "f.onnx")
    quantize_dynamic(
        tmp_path / "f.onnx", tmp_path / "q.onnx", per_channel=per_channel, reduce_range=not has_vnni(),
        weight_type=QuantType.QInt8,
    )  # fmt: skip
    built = onnx.load(tmp_path / "q.onnx")
    assert [n.op_type for n in built.graph.node] == ["DynamicQuantizeLSTM"]
    wanted, found = both(built, RNG.standard_normal((7, 2, 10)).astype(np.float32))
    for want, got in zip(wanted, found, strict=True):
        np.testing.assert_allclose(got, want, rtol=0, atol=0.03)


class Pictures(CalibrationDataReader):
    def __init__(self) -> None:
        self.left = [np.random.default_rng(seed).standard_normal(SHAPE).astype(np.float32) for seed in range(3)]

    def get_next(self) -> dict[str, np.ndarray] | None:
        return {"x": self.left.pop()} if self.left else None


def test_a_network_of_operators_in_bytes(tmp_path: Path) -> None:
    onnx.save(network(17), tmp_path / "floats.onnx")
    quantize_static(
        tmp_path / "floats.onnx", tmp_path / "model.onnx", Pictures(), quant_format=QuantFormat.QOperator,
        activation_type=QuantType.QUInt8, weight_type=QuantType.QInt8, per_channel=True,
    )  # fmt: skip
    assert any(node.domain == DOMAIN for node in onnx.load(tmp_path / "model.onnx").graph.node)
    kinds = {type(node.op).__name__ for node in optimize(import_onnx(tmp_path / "model.onnx")).nodes}
    assert not kinds & {"Conv", "MatMul", "Binary"}
    x = np.random.default_rng(9).standard_normal(SHAPE).astype(np.float32)
    (want,) = onnxruntime.InferenceSession(str(tmp_path / "model.onnx"), precise()).run(None, {"x": x})
    pack(tmp_path / "model.onnx", tmp_path / "model.edge", cores=(1,), golden=False)
    with edgert.load(tmp_path / "model.edge") as session:
        (got,) = session.run({"x": x}).values()
    np.testing.assert_allclose(got, want, rtol=0, atol=3 * np.abs(want).max() / 255)


@pytest.mark.parametrize(
    ("op_type", "operands", "attributes", "why"),
    [
        ("QLinearGlobalAveragePool", [*FIRST, *LAST], {"channels_last": 1}, "channels last"),
        ("QLinearAdd", [*FIRST, *SECOND, LAST[0]], {}, "without a zero point"),
        ("QAttention", [X], {}, "QAttention"),
    ],
)
def test_what_is_refused(op_type: str, operands: list[Operand], attributes: dict[str, object], why: str) -> None:
    with pytest.raises(UnsupportedOperators, match=why):
        import_onnx(model(op_type, operands, attributes))
