"""Networks that the shared tool does not make: VGG-16, ResNet-152 and -50, batch-normalisation folded, weights by He's
rule; and the same with the smallest weights set to zero."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

__all__ = ["BUILDERS", "Builder", "pruned", "write"]

OPSET = 17


class Builder:
    """An ONNX network as it is built; random weights depend on its name and their order alone."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.random = np.random.default_rng(zlib.crc32(name.encode()))
        self.nodes: list[onnx.NodeProto] = []
        self.weights: list[onnx.TensorProto] = []

    def op(self, type: str, inputs: list[str], **attributes: object) -> str:
        output = f"t{len(self.nodes)}"
        self.nodes.append(helper.make_node(type, inputs, [output], name=f"{type}_{len(self.nodes)}", **attributes))
        return output

    def weight(self, *shape: int, scale: float) -> str:
        name = f"w{len(self.weights)}"
        data = (self.random.standard_normal(shape) * scale).astype(np.float32)
        self.weights.append(numpy_helper.from_array(data, name))
        return name

    def conv(
        self, x: str, channels: int, filters: int, kernel: int, stride: int = 1, relu: bool = True, group: int = 1
    ) -> str:
        depth, attributes = channels // group, {"group": group} if group > 1 else {}
        scale = float(np.sqrt(2.0 / (depth * kernel * kernel)))
        w, b = self.weight(filters, depth, kernel, kernel, scale=scale), self.weight(filters, scale=0.1)
        attributes |= {"strides": [stride] * 2, "pads": [(kernel - 1) // 2] * 4, "kernel_shape": [kernel] * 2}
        y = self.op("Conv", [x, w, b], **attributes)
        return self.op("Relu", [y]) if relu else y

    def dense(self, x: str, inputs: int, outputs: int, relu: bool = True) -> str:
        w = self.weight(outputs, inputs, scale=float(np.sqrt(2.0 / inputs)))
        y = self.op("Gemm", [x, w, self.weight(outputs, scale=0.1)], transB=1)
        return self.op("Relu", [y]) if relu else y

    def pool(self, x: str, kernel: int, pad: int = 0) -> str:
        return self.op("MaxPool", [x], kernel_shape=[kernel] * 2, strides=[2, 2], pads=[pad] * 4)

    def model(self, y: str, size: int = 224, classes: int = 1000) -> onnx.ModelProto:
        return self.between((1, 3, size, size), (1, classes))

    def between(self, given: Sequence[int], made: Sequence[int]) -> onnx.ModelProto:
        """The network from "input" of a shape to what was built last, which has another one."""
        self.nodes[-1].output[0] = "output"
        x = helper.make_tensor_value_info("input", TensorProto.FLOAT, given)
        out = helper.make_tensor_value_info("output", TensorProto.FLOAT, made)
        graph = helper.make_graph(self.nodes, self.name, [x], [out], self.weights)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=8)


def _vgg16() -> onnx.ModelProto:
    b, x, channels = Builder("vgg16"), "input", 3
    for filters, count in ((64, 2), (128, 2), (256, 3), (512, 3), (512, 3)):
        for _ in range(count):
            x, channels = b.conv(x, channels, filters, 3), filters
        x = b.pool(x, 2)
    x = b.op("Flatten", [x], axis=1)
    x = b.dense(b.dense(x, 25088, 4096), 4096, 4096)
    return b.model(b.op("Softmax", [b.dense(x, 4096, 1000, relu=False)], axis=1))


def _resnet(name: str, counts: tuple[int, ...]) -> onnx.ModelProto:
    b = Builder(name)
    x, channels = b.pool(b.conv("input", 3, 64, 7, 2), 3, 1), 64
    for stage, (width, count) in enumerate(zip((64, 128, 256, 512), counts, strict=True)):
        for block in range(count):
            stride = 2 if block == 0 and stage > 0 else 1
            y = b.conv(b.conv(x, channels, width, 1), width, width, 3, stride)
            y = b.conv(y, width, 4 * width, 1, relu=False)
            short = b.conv(x, channels, 4 * width, 1, stride, relu=False) if block == 0 else x
            x, channels = b.op("Relu", [b.op("Add", [y, short])]), 4 * width
    x = b.op("Flatten", [b.op("GlobalAveragePool", [x])], axis=1)
    return b.model(b.op("Softmax", [b.dense(x, channels, 1000, relu=False)], axis=1))


def _small() -> onnx.ModelProto:
    """One block of a residual network over a small image: what slow machines can do."""
    b = Builder("small")
    x = b.pool(b.conv("input", 3, 16, 3), 2)
    x = b.op("Relu", [b.op("Add", [b.conv(b.conv(x, 16, 16, 1), 16, 16, 3, relu=False), x])])
    x = b.op("Flatten", [b.op("GlobalAveragePool", [x])], axis=1)
    return b.model(b.op("Softmax", [b.dense(x, 16, 10, relu=False)], axis=1), 16, 10)


BUILDERS: dict[str, Callable[[], onnx.ModelProto]] = {
    "small": _small,
    "vgg16": _vgg16,
    "resnet152": lambda: _resnet("resnet152", (3, 8, 36, 3)),
    "resnet50_any": lambda: _resnet("resnet50_any", (3, 4, 6, 3)),  # takes images of any size
}


def pruned(model: onnx.ModelProto, share: float) -> onnx.ModelProto:
    """The model, in which this share of the weights of each layer, the smallest ones, is zero now."""
    for tensor in model.graph.initializer:
        if len(tensor.dims) > 1 and share:
            weights = np.array(numpy_helper.to_array(tensor))
            least = np.argpartition(np.abs(weights), int(share * weights.size), axis=None)
            weights.reshape(-1)[least[: int(share * weights.size)]] = 0
            tensor.CopyFrom(numpy_helper.from_array(weights, tensor.name))
    return model


def write(name: str, folder: Path) -> Path:
    """The network's ONNX file, made if it is not there yet."""
    path = folder / f"{name}.onnx"
    if not path.exists():
        folder.mkdir(parents=True, exist_ok=True)
        onnx.save(BUILDERS[name](), path)
    return path
