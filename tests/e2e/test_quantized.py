"""A quantised network of all that is computed in bytes, after every stage: against onnxruntime, by every
instruction set.

Convolutions, matrix products, pools, moved and joined values have exact sums and onnxruntime's rounding, and so its
very bytes. Sums and means of windows round products by a quotient of scales; onnxruntime adds zero points to those, or
divides, before it rounds (and not alike on all processors): a result may lie one level off where it is as good as
halfway between two, and those that follow from it likewise.
"""

from __future__ import annotations

import platform
from pathlib import Path

import numpy as np
import onnxruntime
import pytest
from onnx import ModelProto, NodeProto, TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

import edgert
from edgert.devices import this_machine
from packer.api import pack
from packer.importers import import_onnx
from packer.ir.evaluate import evaluate
from packer.passes import optimize
from tests.precise import precise

SHAPE = (1, 3, 33, 31)
ARRAYS = dict[str, np.ndarray]


class Network:
    """A network in floats, node by node, with the weights that can be quantised known by name."""

    def __init__(self) -> None:
        self.rng = np.random.default_rng(11)
        self.nodes: list[NodeProto] = []
        self.weights: ARRAYS = {}

    def op(self, kind: str, *inputs: str, **attributes: object) -> str:
        self.nodes.append(helper.make_node(kind, inputs, [f"{kind}{len(self.nodes)}"], **attributes))
        return str(self.nodes[-1].output[0])

    def weight(self, *shape: int) -> str:
        name = f"w{len(self.weights)}"
        depth = max(int(np.prod(shape[1:])), 1)
        self.weights[name] = (self.rng.standard_normal(shape) / np.sqrt(depth)).astype(np.float32)
        return name

    def conv(self, x: str, filters: int, channels: int, kernel: int, **attributes: object) -> str:
        pads = [kernel // 2] * 4
        w, bias = self.weight(filters, channels, kernel, kernel), self.weight(filters)
        return self.op("Conv", x, w, bias, pads=pads, **attributes)


def network() -> tuple[Network, dict[str, str]]:
    """The network and the value after each stage."""
    n = Network()
    stages = {"conv": n.op("Relu", n.conv("x", 16, 3, 3, strides=[2, 2]))}
    stages["largest"] = n.op("MaxPool", stages["conv"], kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4)
    left = n.op("Relu", n.conv(stages["largest"], 16, 16, 1))
    right = n.op("Relu", n.conv(stages["largest"], 24, 16, 3))
    stages["joined"] = n.op("Concat", left, right, stages["largest"], axis=1)
    squeezed = n.conv(stages["joined"], 32, 56, 1)
    stages["depthwise"] = n.op("Relu", n.conv(squeezed, 32, 1, 3, group=32))
    stages["groups"] = n.conv(stages["depthwise"], 32, 16, 3, group=2)
    stages["residual"] = n.op("Add", squeezed, stages["groups"])
    stages["sum"] = n.op("Add", stages["residual"], stages["residual"])
    stages["mean"] = n.op("AveragePool", stages["sum"], kernel_shape=[2, 2])
    stages["dilated"] = n.conv(stages["mean"], 32, 1, 5, group=32, strides=[2, 1])
    stages["turned"] = n.op("Transpose", stages["dilated"], perm=[0, 1, 3, 2])
    stages["global"] = n.op("GlobalAveragePool", stages["turned"])
    flat = n.op("Flatten", stages["global"])
    stages["product"] = n.op("Gemm", flat, n.weight(32, 10), n.weight(10))
    return n, stages


EXACT = ("conv", "largest", "joined", "depthwise", "groups")
NETWORK, STAGES = network()


def model(nodes: list[NodeProto], outputs: list[str], weights: ARRAYS) -> ModelProto:
    graph = helper.make_graph(
        nodes,
        "quantised",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, SHAPE)],
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in outputs],
        [numpy_helper.from_array(data, name) for name, data in weights.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 19)], ir_version=9)


def picture(seed: int) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(SHAPE).astype(np.float32)


def ranges() -> dict[str, tuple[float, float]]:
    """The least and the largest of every value, over a few pictures."""
    names = [node.output[0] for node in NETWORK.nodes]
    runner = ReferenceEvaluator(model(NETWORK.nodes, names, NETWORK.weights))
    found = {"x": (-3.0, 3.0)}
    for seed in range(2):
        for name, value in zip(names, runner.run(None, {"x": picture(seed)}), strict=True):
            low, high = found.get(name, (0.0, 0.0))
            found[name] = min(low, float(value.min())), max(high, float(value.max()))
    return found


class Quantizer:
    """The network with every value quantised and dequantised, weights by channel, as quantisers do."""

    def __init__(self) -> None:
        self.nodes: list[NodeProto] = []
        self.weights: ARRAYS = {}
        self.scales: dict[str, np.float32] = {}
        self.ranges = ranges()

    def levels(self, name: str, like: str = "") -> None:
        """`name`, as it is so far, becomes bytes and `name.q` what they stand for: in the levels of another one, or in
        some that fit."""
        source = like or name
        low, high = self.ranges[source]
        scale = self.scales[name] = np.float32((high - low) / 255)
        parameters = f"{name}.scale", f"{name}.zero"
        self.weights.update(zip(parameters, (scale, np.uint8(np.rint(-low / scale))), strict=True))
        self.ranges[name] = low, high
        self.nodes.append(helper.make_node("QuantizeLinear", [name, *parameters], [f"{name}.b"]))
        self.nodes.append(helper.make_node("DequantizeLinear", [f"{name}.b", *parameters], [f"{name}.q"]))

    def weight(self, name: str, axis: int) -> str:
        data = NETWORK.weights[name]
        others = tuple(i for i in range(data.ndim) if i != axis)
        scale = (np.abs(data).max(axis=others) / 127).astype(np.float32)
        along = scale.reshape([-1 if i == axis else 1 for i in range(data.ndim)])
        self.weights[f"{name}.b"] = np.rint(data / along).astype(np.int8)
        return self.dequantized(name, scale, axis)

    def bias(self, name: str, scale: np.ndarray) -> str:
        self.weights[f"{name}.b"] = np.rint(NETWORK.weights[name] / scale).astype(np.int32)
        return self.dequantized(name, scale, 0)

    def dequantized(self, name: str, scale: np.ndarray, axis: int) -> str:
        self.weights[f"{name}.scale"] = scale
        zero = np.zeros(scale.shape, self.weights[f"{name}.b"].dtype)
        self.weights[f"{name}.zero"] = zero
        inputs = [f"{name}.b", f"{name}.scale", f"{name}.zero"]
        self.nodes.append(helper.make_node("DequantizeLinear", inputs, [f"{name}.q"], axis=axis))
        return f"{name}.q"

    def run(self, stage: str) -> ModelProto:
        """The network up to a stage."""
        self.levels("x")
        followed = {node.input[0]: node.output[0] for node in NETWORK.nodes if node.op_type == "Relu"}
        for node in NETWORK.nodes:
            x, *others = node.input
            inputs = [x if node.op_type == "Relu" else f"{x}.q"]
            if node.op_type in ("Conv", "Gemm"):
                axis = 0 if node.op_type == "Conv" else 1
                inputs.append(self.weight(others[0], axis))
                inputs.append(self.bias(others[1], self.scales[x] * self.weights[f"{others[0]}.scale"]))
            else:
                inputs += [f"{name}.q" for name in others]
            copy = NodeProto()
            copy.CopyFrom(node)
            copy.input[:] = inputs
            self.nodes.append(copy)
            name = node.output[0]
            if name not in followed:
                moved = node.op_type in ("MaxPool", "Transpose", "Flatten")
                self.levels(name, x if moved else "")
            if name == stage:
                return model(self.nodes, [f"{name}.q"], self.weights)
        raise AssertionError(stage)


@pytest.mark.parametrize("stage", STAGES)
def test_stages(tmp_path: Path, stage: str) -> None:
    quantizer = Quantizer()
    network = quantizer.run(STAGES[stage])
    x, scale = picture(5), quantizer.scales[STAGES[stage]]
    (want,) = onnxruntime.InferenceSession(network.SerializeToString(), precise()).run(None, {"x": x})
    graph = optimize(import_onnx(network))
    floats = {
        node.label for node in graph.nodes if type(node.op).__name__ in ("Conv", "MatMul", "Pool", "Binary", "Reduce")
    }
    assert all(graph.type(node.inputs[0] or "").dtype.name == "U8" for node in graph.nodes if node.label in floats)
    (reference,) = evaluate(graph, {"x": x}).values()
    off = np.rint((reference - want) / scale)
    assert np.abs(off).max() <= (0 if stage in EXACT else 1), f"{np.count_nonzero(off)} of {off.size}"
    pack(network, tmp_path / "model.edge", cores=(1, 2), golden=False)
    for isa in this_machine().isas:
        for threads in (1, 2):
            with edgert.load(tmp_path / "model.edge", isa=isa, threads=threads) as session:
                (got,) = session.run({"x": x}).values()
            assert got.tobytes() == reference.tobytes(), (isa, threads)


@pytest.mark.skipif(platform.machine() != "x86_64", reason="only x86-64 has AVX-512")
def test_pruned(tmp_path: Path) -> None:
    """By the weights that are not zero: the very bytes of the reference, on any instruction set, however many cores."""
    network = Quantizer().run(STAGES["product"])
    for tensor in network.graph.initializer:
        if tensor.data_type == TensorProto.INT8 and len(tensor.dims) == 4:
            data = numpy_helper.to_array(tensor)
            kept = np.random.default_rng(len(data)).random(data.shape) < 0.12
            tensor.CopyFrom(numpy_helper.from_array(np.where(kept, data, 0).astype(np.int8), tensor.name))
    x = picture(5)
    (reference,) = evaluate(optimize(import_onnx(network)), {"x": x}).values()
    path = tmp_path / "model.edge"
    pack(network, path, targets=["cpu-x86_64-avx512"], cores=(1, 2, 3), implementation="unrolled", golden=False)
    for program in edgert.read(path).programs:
        assert sum(step.kernel == "conv_unrolled_quantized" for step in program.steps) >= 3
    for isa in this_machine().isas:
        for threads in (1, 2, 3):
            with edgert.load(path, isa=isa, threads=threads) as session:
                (got,) = session.run({"x": x}).values()
            assert got.tobytes() == reference.tobytes(), (isa, threads)
