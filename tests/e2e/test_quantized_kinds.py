"""Networks quantised by onnxruntime to other types than the usual ones, and with zero points of weights: in bytes where
those fit, else in floats."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_static

import edgert
from edgert.devices import this_machine
from packer.api import pack
from packer.importers import import_onnx
from packer.passes import optimize
from tests.e2e.quantizable import SHAPE, network
from tests.precise import precise


def picture(seed: int) -> dict[str, np.ndarray]:
    return {"x": np.random.default_rng(seed).standard_normal(SHAPE).astype(np.float32)}


class Pictures(CalibrationDataReader):
    def __init__(self) -> None:
        self.left = [picture(seed) for seed in range(3)]

    def get_next(self) -> dict[str, np.ndarray] | None:
        return self.left.pop() if self.left else None


@pytest.mark.parametrize("symmetric", [True, False], ids=["symmetric", "asymmetric"])
@pytest.mark.parametrize("per_channel", [False, True], ids=["one", "channels"])
@pytest.mark.parametrize(
    ("activations", "weights", "bytes"),
    [("QUInt8", "QUInt8", True), ("QInt8", "QInt8", True), ("QUInt8", "QInt4", True), ("QUInt8", "QUInt4", True),
     ("QUInt16", "QInt8", False), ("QInt16", "QInt16", False)],
)  # fmt: skip
def test_kinds(tmp_path: Path, activations: str, weights: str, bytes: bool, per_channel: bool, symmetric: bool) -> None:
    onnx.save(network(21), tmp_path / "floats.onnx")
    quantize_static(
        tmp_path / "floats.onnx", tmp_path / "model.onnx", Pictures(), quant_format=QuantFormat.QDQ,
        activation_type=QuantType[activations], weight_type=QuantType[weights], per_channel=per_channel,
        extra_options={"WeightSymmetric": symmetric},
    )  # fmt: skip
    options = precise()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    (want,) = onnxruntime.InferenceSession(str(tmp_path / "model.onnx"), options).run(None, picture(9))
    kinds = {type(node.op).__name__ for node in optimize(import_onnx(tmp_path / "model.onnx")).nodes}
    assert any(kind.startswith("Quantized") for kind in kinds) == bytes
    pack(tmp_path / "model.onnx", tmp_path / "model.edge", cores=(1,), golden=False)
    with edgert.load(tmp_path / "model.edge") as session:
        (got,) = session.run(picture(9)).values()
    levels = 255 if bytes else 65535  # a sum as good as halfway between two levels may become either
    np.testing.assert_allclose(got, want, rtol=0, atol=4 * np.abs(want).max() / levels)


def test_products_whose_results_stay_floats(tmp_path: Path) -> None:
    """As training that is aware of bytes leaves them: only what is multiplied is quantised."""
    onnx.save(network(21), tmp_path / "floats.onnx")
    products = ["Conv", "MatMul", "Gemm"]
    quantize_static(
        tmp_path / "floats.onnx", tmp_path / "model.onnx", Pictures(), quant_format=QuantFormat.QDQ,
        activation_type=QuantType.QUInt8, weight_type=QuantType.QInt8, per_channel=True, op_types_to_quantize=products,
        extra_options={"OpTypesToExcludeOutputQuantization": products},
    )  # fmt: skip
    kinds = {type(node.op).__name__ for node in optimize(import_onnx(tmp_path / "model.onnx")).nodes}
    assert {"IntegerConv", "IntegerMatMul"} <= kinds
    assert not kinds & {"Conv", "MatMul"}
    (want,) = onnxruntime.InferenceSession(str(tmp_path / "model.onnx"), precise()).run(None, picture(9))
    pack(tmp_path / "model.onnx", tmp_path / "model.edge", cores=(1, 2), golden=False)
    for isa in this_machine().isas:
        with edgert.load(tmp_path / "model.edge", isa=isa, threads=2) as session:
            (got,) = session.run(picture(9)).values()
        np.testing.assert_allclose(got, want, rtol=0, atol=2 * np.abs(want).max() / 255, err_msg=isa)
