"""Small ONNX networks, packed, that the session and command-line tests run."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from packer.api import pack

__all__ = ["classifier", "dynamic", "packed", "two_inputs"]


def _model(nodes: list[onnx.NodeProto], inputs: list, outputs: list, weights: dict[str, np.ndarray]) -> onnx.ModelProto:
    initializers = [numpy_helper.from_array(array, name) for name, array in weights.items()]
    graph = helper.make_graph(nodes, "small", inputs, outputs, initializers)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    onnx.checker.check_model(model)
    return model


def two_inputs() -> onnx.ModelProto:
    """sum = a + b, positive = relu(a + b); a f32 [2,3], b f32 [3]."""
    nodes = [
        helper.make_node("Add", ["a", "b"], ["sum"], "add"),
        helper.make_node("Relu", ["sum"], ["positive"], "relu"),
    ]
    inputs = [
        helper.make_tensor_value_info("a", TensorProto.FLOAT, [2, 3]),
        helper.make_tensor_value_info("b", TensorProto.FLOAT, [3]),
    ]
    outputs = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [2, 3]) for name in ("sum", "positive")]
    return _model(nodes, inputs, outputs, {})


def classifier() -> onnx.ModelProto:
    """image f32 [1,3,H,8] -> scores f32 [1,6]: convolution with half its weights zero, mean, softmax. H is symbolic."""
    rng = np.random.default_rng(0)
    weights = rng.standard_normal((6, 3, 3, 3)).astype(np.float32)
    weights[::2] = 0
    bias = rng.standard_normal(6).astype(np.float32)
    nodes = [
        helper.make_node("Conv", ["image", "w", "bias"], ["features"], "conv", pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["features"], ["active"], "relu"),
        helper.make_node("GlobalAveragePool", ["active"], ["pooled"], "mean"),
        helper.make_node("Flatten", ["pooled"], ["flat"], "flatten"),
        helper.make_node("Softmax", ["flat"], ["scores"], "softmax", axis=1),
    ]
    inputs = [helper.make_tensor_value_info("image", TensorProto.FLOAT, [1, 3, "H", 8])]
    outputs = [helper.make_tensor_value_info("scores", TensorProto.FLOAT, [1, 6])]
    return _model(nodes, inputs, outputs, {"w": weights, "bias": bias})


def dynamic() -> onnx.ModelProto:
    """where i64 [2,n] = the positions of the non-zero elements of x f32 [3,4]."""
    nodes = [helper.make_node("NonZero", ["x"], ["where"], "find")]
    inputs = [helper.make_tensor_value_info("x", TensorProto.FLOAT, [3, 4])]
    outputs = [helper.make_tensor_value_info("where", TensorProto.INT64, [2, "n"])]
    return _model(nodes, inputs, outputs, {})


def packed(model: onnx.ModelProto, folder: Path, **options: object) -> Path:
    """The model as `folder`/model.onnx, and the path of the bundle packed from it."""
    onnx.save(model, folder / "model.onnx")
    pack(folder / "model.onnx", folder / "model.edge", **options)  # type: ignore[arg-type]
    return folder / "model.edge"
