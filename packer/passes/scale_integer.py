"""Scale sums of products of bytes, add a bias and clip where they are made.

Before: `y = relu(float(integer_conv(x, w, zero)) * (x_scale * scale) + bias)`, scale and bias constant. After:
`y = integer_conv(x, w, zero, x_scale, scale, bias)` with a relu, in float32 and with the same bits.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from packer.ir import DType, Graph, Node, Value
from packer.ir.ops import Activation, Binary, Cast, IntegerConv, IntegerMatMul, Op, Unary
from packer.passes.remove_dead import remove_dead
from packer.passes.rewrite import Uses, fresh

__all__ = ["scale_integer"]


def scale_integer(graph: Graph) -> Graph:
    """The graph with what follows integer convolutions and matrix products done by them, as far as they can."""
    if not any(isinstance(node.op, IntegerConv | IntegerMatMul) for node in graph.nodes):
        return graph
    rewriter = _Rewriter(graph)
    nodes = []
    for node in graph.nodes:
        found = rewriter.scaled(node) or rewriter.shifted(node) or rewriter.clipped(node)
        nodes.append(found or node)
        rewriter.made.update((name, nodes[-1]) for name in node.outputs)
    return remove_dead(graph.replaced(nodes, rewriter.values)) if rewriter.changed else graph


class _Rewriter:
    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.uses = Uses(graph)
        self.made: dict[str, Node] = {}
        self.unbiased: set[str] = set()  # outputs of products whose bias is zero
        self.values: list[Value] = []
        self.taken: set[str] = set()
        self.changed = False

    def scaled(self, node: Node) -> Node | None:
        """A product of sums, as floats, and scales."""
        if not isinstance(node.op, Binary) or node.op.kind != "mul" or node.op.activation is not None:
            return None
        for sums, factors in (node.inputs, node.inputs[::-1]):
            cast = self._sole(sums, node)
            maker = self._sole(cast.inputs[0], cast) if cast is not None and isinstance(cast.op, Cast) else None
            scales = self._scales(factors)
            if maker is None or not isinstance(maker.op, IntegerConv | IntegerMatMul) or scales is None:
                continue
            scale = self._by_channel(node, maker.op, scales[1])
            if len(maker.inputs) == 3 and scale is not None:
                bias = self._constant(f"{node.outputs[0]}:bias", np.zeros_like(scale))
                inputs = (*maker.inputs, scales[0], self._constant(f"{node.outputs[0]}:scale", scale), bias)
                self.unbiased.add(node.outputs[0])
                return self._node(node, maker.op, inputs, maker)
        return None

    def shifted(self, node: Node) -> Node | None:
        """A bias added to floats."""
        if not isinstance(node.op, Binary) or node.op.kind != "add" or node.op.activation is not None:
            return None
        for own, other in (node.inputs, node.inputs[::-1]):
            maker, data = self._sole(own, node), self.graph.constant(other)
            if maker is None or data is None or maker.outputs[0] not in self.unbiased:
                continue
            bias = self._by_channel(node, maker.op, data)
            if bias is not None:
                inputs = (*maker.inputs[:5], self._constant(f"{node.outputs[0]}:bias", bias))
                return self._node(node, maker.op, inputs, maker)
        return None

    def clipped(self, node: Node) -> Node | None:
        """A relu or clip."""
        if not isinstance(node.op, Unary) or node.op.kind not in ("relu", "clip"):
            return None
        maker = self._sole(node.inputs[0], node)
        if maker is None or not isinstance(maker.op, IntegerConv | IntegerMatMul):
            return None
        if len(maker.inputs) == 3 or maker.op.activation is not None:
            return None
        op = replace(maker.op, activation=Activation(node.op.kind, node.op.alpha, node.op.beta))
        return self._node(node, op, maker.inputs, maker)

    def _node(self, node: Node, op: Op, inputs: tuple[str | None, ...], maker: Node) -> Node:
        self.changed = True
        return Node(op, inputs, node.outputs, (*maker.sources, *node.sources))

    def _sole(self, name: str | None, node: Node) -> Node | None:
        """The node, as it is by now, that makes the value for `node` alone."""
        return None if self.uses.sole_producer(name, node) is None else self.made.get(name or "")

    def _scales(self, name: str | None) -> tuple[str, np.ndarray] | None:
        """A float32 scalar and the constant that it is multiplied with."""
        one = np.ones((), np.float32)
        data, maker = self.graph.constant(name), self.made.get(name or "")
        if data is not None:
            return self._constant(f"{name}:one", one), data
        if maker is not None and isinstance(maker.op, Binary) and maker.op.kind == "mul":
            for own, other in (maker.inputs, maker.inputs[::-1]):
                data = self.graph.constant(other)
                if data is not None and self._is_scalar(own):
                    return own or "", data
        return (name or "", one) if self._is_scalar(name) else None

    def _is_scalar(self, name: str | None) -> bool:
        type = self.graph.type(name or "")
        return type.dtype is DType.F32 and type.rank == 0

    def _by_channel(self, node: Node, op: Op, data: np.ndarray) -> np.ndarray | None:
        """One value for each channel of the node's output; None if the data is no such thing."""
        type = self.graph.type(node.outputs[0])
        channel = 1 if isinstance(op, IntegerConv) else type.rank - 1
        padded = data.reshape((1,) * (type.rank - data.ndim) + data.shape) if data.ndim <= type.rank else data
        alone = padded.ndim == type.rank and all(n == 1 for i, n in enumerate(padded.shape) if i != channel)
        if data.dtype != np.float32 or not alone or padded.shape[channel] not in (1, type.shape[channel]):
            return None
        return np.broadcast_to(padded.reshape(-1), (type.shape[channel],)).copy()

    def _constant(self, stem: str, data: np.ndarray) -> str:
        value = Value.constant(fresh(self.graph, stem, self.taken), data)
        self.values.append(value)
        return value.name
