"""A network as a PyTorch module: each node of the packer's graph becomes the operation of PyTorch that is the same."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import fx
from torch.nn import functional as F

from packer.ir import Graph
from packer.ir.ops import Activation, Binary, Concat, Conv, MatMul, Op, Pool, Reduce, Reshape, Softmax, Unary

__all__ = ["module_of"]

_POINTWISE: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "relu": F.relu,
    "sigmoid": torch.sigmoid,
    "tanh": torch.tanh,
    "silu": F.silu,
}
_BINARY = {"add": torch.add, "sub": torch.sub, "mul": torch.mul, "div": torch.div, "max": torch.maximum}


def module_of(graph: Graph) -> fx.GraphModule:
    """The network over its inputs in their order; what is constant is a buffer. Raises NotImplementedError for an
    operator that is not one of those of common classifiers."""
    return _Translation(graph).module()


class _Translation:
    def __init__(self, graph: Graph) -> None:
        self._from, self._to, self._root = graph, fx.Graph(), torch.nn.Module()
        self._values: dict[str, fx.Node] = {}

    def module(self) -> fx.GraphModule:
        for number, name in enumerate(self._from.inputs):
            self._values[name] = self._to.placeholder(f"input_{number}")
        for node in self._from.nodes:
            inputs = [None if name is None else self._value(name) for name in node.inputs]
            self._values[node.outputs[0]] = self._node(node.op, inputs)
        self._to.output(tuple(self._values[name] for name in self._from.outputs))
        return fx.GraphModule(self._root, self._to)

    def _value(self, name: str) -> fx.Node:
        if name not in self._values:
            data = self._from.constant(name)
            assert data is not None
            attribute = f"constant_{len(self._values)}"
            self._root.register_buffer(attribute, torch.from_numpy(data.copy()))
            self._values[name] = self._to.get_attr(attribute)
        return self._values[name]

    def _node(self, op: Op, inputs: Sequence[fx.Node | None]) -> fx.Node:
        x = inputs[0]
        match op:
            case Conv() if len(op.strides) == 2:
                return self._conv(op, inputs)
            case MatMul():
                y = self._call(torch.matmul, x, inputs[1])
                y = y if len(inputs) < 3 or inputs[2] is None else self._call(torch.add, y, inputs[2])
                return self._activated(op.activation, y)
            case Pool() if op.kind in ("max", "average") and len(op.kernel) == 2:
                return self._pool(op, x)
            case Reduce() if op.kind == "mean":
                return self._call(torch.mean, x, op.axes, op.keepdims)
            case Reshape():
                return self._call(torch.reshape, x, op.shape)
            case Softmax() if op.kind == "softmax" and len(op.axes) == 1:
                return self._call(torch.softmax, x, op.axes[0])
            case Concat():
                return self._call(torch.cat, tuple(inputs), op.axis)
            case Binary() if op.kind in _BINARY:
                return self._activated(op.activation, self._call(_BINARY[op.kind], x, inputs[1]))
            case Unary():
                return self._activated(Activation(op.kind, op.alpha, op.beta), x)
        raise NotImplementedError(f"{op} in PyTorch")

    def _conv(self, op: Conv, inputs: Sequence[fx.Node | None]) -> fx.Node:
        x, w, bias, residual = (*inputs, None, None)[:4]
        x, pads = self._padded(x, op.pads, 0.0)
        y = self._call(F.conv2d, x, w, bias, op.strides, pads, op.dilations, op.group)
        y = y if residual is None else self._call(torch.add, y, residual)
        return self._activated(op.activation, y)

    def _pool(self, op: Pool, x: fx.Node | None) -> fx.Node:
        if op.kind == "max":
            most = tuple(size // 2 for size in op.kernel)
            x, pads = self._padded(x, op.pads, -math.inf, most)
            return self._call(F.max_pool2d, x, op.kernel, op.strides, pads, op.dilations, op.ceil_mode)
        if op.pads[:2] != op.pads[2:] or op.dilations != (1, 1):
            raise NotImplementedError(f"{op} in PyTorch")
        return self._call(F.avg_pool2d, x, op.kernel, op.strides, op.pads[:2], op.ceil_mode, op.count_include_pad)

    def _padded(
        self, x: fx.Node | None, pads: tuple[int, ...], value: float, most: tuple[int, ...] = (1 << 30,) * 2
    ) -> tuple[fx.Node | None, tuple[int, ...]]:
        """The input, padded before where the operator itself cannot: with pads that differ, or are beyond `most`."""
        (top, left, bottom, right) = pads
        if (top, left) == (bottom, right) and top <= most[0] and left <= most[1]:
            return x, (top, left)
        return self._call(F.pad, x, (left, right, top, bottom), "constant", value), (0, 0)

    def _activated(self, activation: Activation | None, x: fx.Node | None) -> fx.Node:
        assert x is not None
        if activation is None or activation.kind == "identity":
            return x
        if activation.kind == "clip":
            return self._call(torch.clamp, x, activation.alpha, activation.beta)
        if activation.kind == "leaky_relu":
            return self._call(F.leaky_relu, x, activation.alpha)
        if activation.kind == "hard_swish" and math.isclose(activation.alpha * 6, 1) and activation.beta == 0.5:
            return self._call(F.hardswish, x)
        if activation.kind in _POINTWISE and not (activation.kind == "silu" and activation.alpha != 1):
            return self._call(_POINTWISE[activation.kind], x)
        raise NotImplementedError(f"{activation} in PyTorch")

    def _call(self, function: Callable[..., Any], *arguments: Any) -> fx.Node:
        return self._to.call_function(function, arguments)
