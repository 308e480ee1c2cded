"""Find the convolutions and matrix products of bytes that quantised networks spell out in floats.

Before: `y = quantize(relu(conv(dequantize(x), dequantize(w), dequantize(b))))`, x and y u8, w constant. After:
`y = quantized_conv(x, w, scale, b)`, exact sums of integers. Of bytes that are only quantised to be dequantised again,
i8 become u8 first.

Then also: `y = quantize(relu(dequantize(c) + dequantize(r)))`, c made by a quantized_conv, becomes its residual; and
`quantize(f(dequantize(x)))` of the same scale and zero point `f(x)` for f that only moves or compares.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from packer.ir import DType, Graph, Node, TensorType, Value
from packer.ir.ops import (
    Binary,
    Conv,
    DequantizeLinear,
    MatMul,
    Op,
    Pool,
    QuantizedConv,
    QuantizedMatMul,
    QuantizeLinear,
    Reshape,
    Transpose,
    Unary,
)
from packer.ir.ops.quantized import MOST_TERMS
from packer.passes.remove_dead import remove_dead
from packer.passes.rewrite import Uses, fresh

__all__ = ["recognise_quantized"]

_SUMS = float(1 << 31)


def recognise_quantized(graph: Graph) -> Graph:
    """The graph with what bytes can compute computed in bytes; the rest stays as it is."""
    if not any(isinstance(node.op, QuantizeLinear) for node in graph.nodes):
        return graph
    return _Recogniser(_unsigned(graph)).run(graph)


# ---- signed activations ----


def _unsigned(graph: Graph) -> Graph:
    """Values i8 that a QuantizeLinear makes for DequantizeLinear alone as u8, zero points 128 higher."""
    consumers, producers = graph.consumers(), graph.producers()
    values: list[Value] = []
    taken: set[str] = set()
    zeros: dict[str, str] = {}  # of i8, by name

    def free(name: str | None) -> bool:
        maker = producers.get(name or "")
        if name is None or maker is None or not isinstance(maker.op, QuantizeLinear) or name in graph.outputs:
            return False
        readers = consumers[name]
        known = graph.constant(maker.inputs[2]) is not None and graph.type(name).dtype is DType.I8
        return known and all(
            isinstance(n.op, DequantizeLinear)
            and n.inputs.count(name) == 1
            and (len(n.inputs) < 3 or graph.constant(n.inputs[2]) is not None)
            for n in readers
        )

    def raised(name: str | None, like: str) -> str:
        data = np.zeros(graph.type(like).shape, np.int8) if name is None else graph.constant(name)
        assert data is not None
        key = name or f"{like}:none"
        if key not in zeros:
            zeros[key] = fresh(graph, f"{key}:u8", taken)
            values.append(Value.constant(zeros[key], (data.astype(np.int16) + 128).astype(np.uint8)))
        return zeros[key]

    nodes: list[Node] = []
    for node in graph.nodes:
        made = node.outputs[0] if isinstance(node.op, QuantizeLinear) else node.inputs[0] if node.inputs else None
        if isinstance(node.op, QuantizeLinear | DequantizeLinear) and free(made):
            if isinstance(node.op, QuantizeLinear):
                values.append(Value(made or "", TensorType(DType.U8, graph.type(made or "").shape)))
            zero = node.inputs[2] if len(node.inputs) > 2 else None
            node = replace(node, inputs=(*node.inputs[:2], raised(zero, node.inputs[1] or "")))
        nodes.append(node)
    return graph.replaced(nodes, values) if values else graph


# ---- patterns ----


@dataclass(frozen=True, slots=True)
class _Levels:
    """How a u8 value stands for floats: (value - zero) scale."""

    scale: np.float32
    zero: int

    def level(self, value: float) -> int:
        """The byte of a float."""
        return int(np.clip(np.rint(np.float32(value) / self.scale) + self.zero, 0, 255))


@dataclass(frozen=True, slots=True, eq=False)
class _Weights:
    """Constant weights as signed bytes with a scale for all or each output channel, which are dimension `axis`."""

    data: np.ndarray
    scale: np.ndarray


class _Recogniser:
    """One walk over the graph; `made` has the nodes as they are by now."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.uses = Uses(graph)
        self.made: dict[str, Node] = {}
        self.absorbed: set[str] = set()
        self.values: list[Value] = []
        self.taken: set[str] = set()

    def run(self, original: Graph) -> Graph:
        nodes: list[Node] = []
        changed = self.graph is not original
        for node in self.graph.nodes:
            found = self.recognised(node) if isinstance(node.op, QuantizeLinear) else None
            changed |= found is not None
            node = found or node
            self.made.update((name, node) for name in node.outputs)
            nodes.append(node)
        nodes = [node for node in nodes if node.outputs[0] not in self.absorbed]
        return remove_dead(self.graph.replaced(nodes, self.values)) if changed else original

    def recognised(self, node: Node) -> Node | None:
        levels = self.levels(node)
        maker = self.sole(node.inputs[0], node)
        if levels is None or maker is None or self.graph.type(node.outputs[0]).dtype is not DType.U8:
            return None
        limits, sources = (0, 255), (*maker.sources, *node.sources)
        if isinstance(maker.op, Unary) and maker.op.kind in ("relu", "clip"):
            low, high = (0.0, math.inf) if maker.op.kind == "relu" else (maker.op.alpha, maker.op.beta)
            if low > high:
                return None
            limits = levels.level(low), levels.level(high) if high < math.inf else 255
            maker = self.sole(maker.inputs[0], maker)
            sources = (*maker.sources, *sources) if maker is not None else sources
        if maker is None:
            return None
        if isinstance(maker.op, Conv | MatMul):
            return self.product(node, maker, levels, limits, sources)
        if isinstance(maker.op, Binary):
            return self.sum(node, maker, levels, limits, sources)
        return self.moved(node, maker, levels, sources) if limits == (0, 255) else None

    def sole(self, name: str | None, node: Node) -> Node | None:
        maker = self.uses.sole_producer(name, node)
        return None if maker is None else self.made.get(maker.outputs[0])

    def levels(self, node: Node | None) -> _Levels | None:
        """Of a (de)quantisation with one constant scale and zero point for all, bytes without a sign."""
        if node is None or not isinstance(node.op, QuantizeLinear | DequantizeLinear):
            return None
        quantized = node.outputs[0] if isinstance(node.op, QuantizeLinear) else node.inputs[0] or ""
        scale = self.graph.constant(node.inputs[1])
        zero = np.uint8(0) if len(node.inputs) < 3 or node.inputs[2] is None else self.graph.constant(node.inputs[2])
        if self.graph.type(quantized).dtype is not DType.U8 or scale is None or zero is None:
            return None
        if scale.size != 1 or zero.size != 1 or not 0 < float(scale.reshape(-1)[0]) < math.inf:
            return None
        return _Levels(np.float32(scale.reshape(-1)[0]), int(zero.reshape(-1)[0]))

    def dequantized(self, name: str | None) -> tuple[str, _Levels] | None:
        """The bytes that a float value stands for."""
        maker = self.made.get(name or "")
        levels = self.levels(maker) if maker is not None and isinstance(maker.op, DequantizeLinear) else None
        return None if maker is None or levels is None else (maker.inputs[0] or "", levels)

    # ---- products ----

    def product(
        self, node: Node, maker: Node, levels: _Levels, limits: tuple[int, int], sources: tuple[str, ...]
    ) -> Node | None:
        op = maker.op
        if op.activation is not None or len(maker.inputs) > 3:  # type: ignore[attr-defined]
            return None
        x, columns = self.dequantized(maker.inputs[0]), 0 if isinstance(op, Conv) else 1
        weights = self.weights(maker.inputs[1], columns)
        if x is None or weights is None:
            return None
        outputs = weights.data.shape[columns]
        both = np.broadcast_to(x[1].scale * weights.scale, (outputs,)).astype(np.float32)
        scale = (both / levels.scale).astype(np.float32)
        bias = self.bias(maker.inputs[2] if len(maker.inputs) > 2 else None, both, columns)
        largest = 255 * np.abs(weights.data.astype(np.int64)).sum(axis=tuple({*range(weights.data.ndim)} - {columns}))
        if bias is None or weights.data.size > outputs * MOST_TERMS or not np.isfinite(scale).all():
            return None
        if (largest + np.abs(bias)).max(initial=0) >= _SUMS:
            return None
        made: Op
        if isinstance(op, Conv):
            made = QuantizedConv(op.strides, op.pads, op.dilations, op.group, x[1].zero, levels.zero, *limits)
            filters, channels = weights.data.shape[0] // op.group, weights.data.shape[1]
            if op.group > 1 and (filters % 16 or channels % 16):
                return None
        else:
            made = QuantizedMatMul(x[1].zero, levels.zero, *limits)
            if weights.data.ndim != 2:
                return None
        name = node.outputs[0]
        inputs = (
            x[0],
            self.constant(f"{name}:weights", weights.data),
            self.constant(f"{name}:scale", scale),
            self.constant(f"{name}:bias", bias.astype(np.int32)),
        )
        return Node(made, inputs, node.outputs, sources)

    def constant(self, stem: str, data: np.ndarray) -> str:
        name = fresh(self.graph, stem, self.taken)
        self.values.append(Value.constant(name, data))
        return name

    def weights(self, name: str | None, axis: int) -> _Weights | None:
        """Weights of a product whose output channels are dimension `axis`, read through transposes."""
        maker = self.made.get(name or "")
        if maker is None:
            return None
        if isinstance(maker.op, Transpose):
            perm = maker.op.perm
            found = self.weights(maker.inputs[0], perm[axis])
            return None if found is None else _Weights(np.ascontiguousarray(found.data.transpose(perm)), found.scale)
        if not isinstance(maker.op, DequantizeLinear):
            return None
        data, scale = self.graph.constant(maker.inputs[0]), self.graph.constant(maker.inputs[1])
        zero = self.graph.constant(maker.inputs[2]) if len(maker.inputs) > 2 else np.int8(0)
        if data is None or scale is None or zero is None or data.dtype not in (np.int8, np.uint8):
            return None
        along = [1] * data.ndim
        if scale.size > 1 or zero.size > 1:
            if maker.op.axis != axis:
                return None
            along[axis] = -1
        centred = data.astype(np.int16) - np.asarray(zero).astype(np.int16).reshape(along)
        if centred.size and (centred.min() < -128 or centred.max() > 127):
            return None
        return _Weights(centred.astype(np.int8), scale.reshape(-1))

    def bias(self, name: str | None, scale: np.ndarray, columns: int) -> np.ndarray | None:
        """A constant, one value an output channel, in units of the sums; float64 with whole numbers."""
        if name is None:
            return np.zeros(scale.size)
        maker, data = self.made.get(name), self.graph.constant(name)
        if maker is not None and isinstance(maker.op, DequantizeLinear):
            parts = [self.graph.constant(n) for n in maker.inputs]
            if any(part is None for part in parts) or maker.inputs[0] is None:
                return None
            levels, own, *zero = (np.asarray(part, np.float64) for part in parts)
            data = (levels - (zero[0] if zero else 0.0)) * own
        if data is None or data.size != scale.size or (columns and data.shape[-1:] != (scale.size,)):
            return None
        with np.errstate(all="ignore"):
            found = np.rint(data.reshape(-1).astype(np.float64) / scale.astype(np.float64))
        return found if np.isfinite(found).all() and np.abs(found).max(initial=0) < _SUMS else None

    # ---- sums ----

    def sum(
        self, node: Node, add: Node, levels: _Levels, limits: tuple[int, int], sources: tuple[str, ...]
    ) -> Node | None:
        """A residual of the convolution that makes one operand, the later one if both are made by some."""
        if not isinstance(add.op, Binary) or add.op.kind != "add" or add.op.activation is not None:
            return None
        order = {name: i for i, name in enumerate(self.made)}
        found: tuple[int, Node, str, _Levels, _Levels] | None = None
        for own, other in (add.inputs, add.inputs[::-1]):
            mine, theirs, back = self.dequantized(own), self.dequantized(other), self.sole(own, add)
            if mine is None or theirs is None or back is None:
                continue
            conv = self.sole(mine[0], back)
            alike = self.graph.type(mine[0]) == self.graph.type(theirs[0]) == self.graph.type(node.outputs[0])
            if conv is None or not isinstance(conv.op, QuantizedConv) or conv.op.sum_scales or not alike:
                continue
            if found is None or order[mine[0]] > found[0]:
                found = order[mine[0]], conv, theirs[0], mine[1], theirs[1]
        if found is None:
            return None
        _, conv, residual, mine_levels, their_levels = found
        assert isinstance(conv.op, QuantizedConv)
        scales = tuple(float(np.float32(one.scale / levels.scale)) for one in (mine_levels, their_levels))
        op = replace(conv.op, sum_scales=scales, sum_levels=(their_levels.zero, levels.zero, *limits))
        if mine_levels.zero != conv.op.y_zero or residual == conv.outputs[0]:
            return None
        self.absorbed.add(conv.outputs[0])
        return Node(op, (*conv.inputs, residual), node.outputs, (*conv.sources, *sources))

    # ---- moves ----

    def moved(self, node: Node, maker: Node, levels: _Levels, sources: tuple[str, ...]) -> Node | None:
        """What keeps or picks values, on the bytes."""
        movable = isinstance(maker.op, Reshape | Transpose) or (
            isinstance(maker.op, Pool) and maker.op.kind == "max" and len(maker.outputs) == 1
        )
        x = self.dequantized(maker.inputs[0]) if movable else None
        if x is None or x[1] != levels:
            return None
        return Node(maker.op, (x[0], *maker.inputs[1:]), node.outputs, sources)
