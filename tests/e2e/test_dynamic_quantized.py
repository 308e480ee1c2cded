"""A network quantised by onnxruntime with levels found at run time: against onnxruntime, by every instruction set."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import NodeProto, TensorProto, helper, numpy_helper
from onnxruntime.quantization import QuantType, quantize_dynamic

import edgert
from edgert.devices import this_machine
from packer.api import pack
from packer.importers import import_onnx
from packer.ir.evaluate import evaluate
from packer.passes import optimize

SHAPE = (1, 3, 21, 18)


def network() -> onnx.ModelProto:
    """Convolutions with one group, several and one for each channel; matrix products."""
    rng = np.random.default_rng(7)
    nodes: list[NodeProto] = []
    weights = []

    def op(kind: str, *inputs: str, **attributes: object) -> str:
        nodes.append(helper.make_node(kind, inputs, [f"v{len(nodes)}"], f"n{len(nodes)}", **attributes))
        return f"v{len(nodes) - 1}"

    def weight(*shape: int) -> str:
        depth = max(int(np.prod(shape[1:])), 1)
        data = (rng.standard_normal(shape) / np.sqrt(depth)).astype(np.float32)
        weights.append(numpy_helper.from_array(data, f"w{len(weights)}"))
        return f"w{len(weights) - 1}"

    x = op("Relu", op("Conv", "x", weight(20, 3, 3, 3), weight(20), strides=[2, 2], pads=[1] * 4))
    left = op("Conv", x, weight(20, 1, 3, 3), weight(20), group=20, pads=[1] * 4)
    right = op("Clip", op("Conv", x, weight(20, 5, 1, 1), group=4), weight_of(weights, -1.0), weight_of(weights, 1.5))
    x = op("Relu", op("Add", left, op("Concat", right, axis=1)))
    x = op("Flatten", op("Conv", x, weight(8, 20, 3, 3), weight(8), strides=[3, 3]))
    x = op("Relu", op("Add", op("MatMul", x, weight(72, 33)), weight(33)))
    x = op("MatMul", x, weight(33, 5))
    graph = helper.make_graph(
        nodes,
        "dynamic",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, SHAPE)],
        [helper.make_tensor_value_info(x, TensorProto.FLOAT, None)],
        weights,
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)


def weight_of(weights: list[TensorProto], value: float) -> str:
    weights.append(numpy_helper.from_array(np.float32(value), f"w{len(weights)}"))
    return f"w{len(weights) - 1}"


@pytest.mark.parametrize("per_channel", [False, True])
@pytest.mark.parametrize("kind", [QuantType.QInt8, QuantType.QUInt8])
def test_dynamic(tmp_path: Path, kind: QuantType, per_channel: bool) -> None:
    onnx.save(network(), tmp_path / "floats.onnx")
    quantize_dynamic(tmp_path / "floats.onnx", tmp_path / "model.onnx", weight_type=kind, per_channel=per_channel)
    x = np.random.default_rng(5).standard_normal(SHAPE).astype(np.float32)
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    (want,) = onnxruntime.InferenceSession(str(tmp_path / "model.onnx"), options).run(None, {"x": x})
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
