"""A small network of floats for onnxruntime's quantisers."""

from __future__ import annotations

import numpy as np
import onnx
from onnx import NodeProto, TensorProto, helper, numpy_helper

__all__ = ["SHAPE", "network"]

SHAPE = (1, 3, 21, 18)


def network(opset: int = 13) -> onnx.ModelProto:
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
    right = op("Clip", op("Conv", x, weight(20, 5, 1, 1), group=4), _constant(weights, -1.0), _constant(weights, 1.5))
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
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8 if opset < 21 else 10)


def _constant(weights: list[TensorProto], value: float) -> str:
    weights.append(numpy_helper.from_array(np.float32(value), f"w{len(weights)}"))
    return f"w{len(weights) - 1}"
