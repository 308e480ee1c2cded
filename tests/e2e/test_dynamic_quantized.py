"""A network quantised by onnxruntime with levels found at run time: against onnxruntime, by every instruction set."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from onnxruntime.quantization import QuantType, quantize_dynamic

import edgert
from edgert.devices import this_machine
from packer.api import pack
from packer.importers import import_onnx
from packer.ir.evaluate import evaluate
from packer.passes import optimize
from tests.e2e.quantizable import SHAPE, network
from tests.precise import precise


@pytest.mark.parametrize("per_channel", [False, True])
@pytest.mark.parametrize("kind", [QuantType.QInt8, QuantType.QUInt8])
def test_dynamic(tmp_path: Path, kind: QuantType, per_channel: bool) -> None:
    onnx.save(network(), tmp_path / "floats.onnx")
    quantize_dynamic(tmp_path / "floats.onnx", tmp_path / "model.onnx", weight_type=kind, per_channel=per_channel)
    x = np.random.default_rng(5).standard_normal(SHAPE).astype(np.float32)
    (want,) = onnxruntime.InferenceSession(str(tmp_path / "model.onnx"), precise()).run(None, {"x": x})
    graph = optimize(import_onnx(tmp_path / "model.onnx"))
    kinds = {type(node.op).__name__ for node in graph.nodes}
    assert {"IntegerConv", "IntegerMatMul"} <= kinds
    assert not kinds & {"Conv", "MatMul"}
    (reference,) = evaluate(graph, {"x": x}).values()
    np.testing.assert_allclose(reference, want, rtol=0, atol=1e-6 * np.abs(want).max())
    pack(tmp_path / "model.onnx", tmp_path / "model.edge", cores=(1, 2), golden=False)
    for isa in this_machine().isas:
        for threads in (1, 2):
            with edgert.load(tmp_path / "model.edge", isa=isa, threads=threads) as session:
                (got,) = session.run({"x": x}).values()
            assert got.tobytes() == reference.tobytes(), (isa, threads)
