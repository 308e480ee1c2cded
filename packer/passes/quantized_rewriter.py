"""What passes over quantised networks share: levels of bytes, and a graph on its way to bytes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from packer.ir import DType, Graph, Node, TensorType, Value
from packer.ir.ops import DequantizeLinear, Op, QuantizedConv, QuantizeLinear, Unary
from packer.passes.rewrite import Uses, fresh

__all__ = ["ALL", "Levels", "Rewriter", "limits_of"]

ALL = (0, 255)
_NEAR = 8  # neighbours of a quotient that are tried


@dataclass(frozen=True, slots=True)
class Levels:
    """How a u8 value stands for floats: (value - zero) scale."""

    scale: np.float32
    zero: int

    def level(self, value: float) -> int:
        """The byte of a float."""
        return int(np.clip(np.rint(np.float32(value) / self.scale) + self.zero, 0, 255))

    def bytes(self, to: Levels, limits: tuple[int, int]) -> np.ndarray:
        """What each byte is in levels `to`, u8 [256], as floats give it."""
        found = self._distances() * self.scale
        with np.errstate(all="ignore"):
            found = np.rint(found / to.scale) + np.float32(to.zero)
        table: np.ndarray = np.clip(found, np.float32(limits[0]), np.float32(limits[1])).astype(np.uint8)
        return table

    def factor(self, to: Levels, limits: tuple[int, int]) -> np.float32 | None:
        """What the distance of each byte from the zero point times this, rounded and clipped, is that of `to`: the very
        bytes that floats give. None if there is no such number."""
        distances, want = self._distances(), self.bytes(to, limits).astype(np.float32) - np.float32(to.zero)
        low, high = (np.float32(limit - to.zero) for limit in limits)
        with np.errstate(all="ignore"):
            above = below = self.scale / to.scale
            for _ in range(_NEAR):
                for factor in (above, below):
                    if np.array_equal(np.rint(np.clip(distances * factor, low, high)), want):
                        return factor
                above, below = np.nextafter(above, np.float32(np.inf)), np.nextafter(below, np.float32(0))
        return None

    def _distances(self) -> np.ndarray:
        """Of all bytes from the zero point."""
        return np.arange(256, dtype=np.float32) - np.float32(self.zero)


def limits_of(op: Unary, levels: Levels, limits: tuple[int, int]) -> tuple[int, int] | None:
    """Limits of bytes that also do what a relu or clip does."""
    if op.kind not in ("relu", "clip"):
        return None
    low, high = (0.0, math.inf) if op.kind == "relu" else (op.alpha, op.beta)
    if not low <= high:
        return None
    least, most = levels.level(low), levels.level(high) if high < math.inf else 255
    found = max(limits[0], least), min(limits[1], most)
    return found if found[0] <= found[1] else None


class Rewriter:
    """One walk over the graph; `made` has the nodes as they are by now. What is no longer used stays, and is removed in
    the end."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.uses = Uses(graph)
        self.made: dict[str, Node] = {}
        self.nodes: list[Node] = []
        self.values: list[Value] = []
        self.types: dict[str, TensorType] = {}  # of values that this pass makes
        self.taken: set[str] = set()

    def append(self, node: Node) -> None:
        self.made.update((name, node) for name in node.outputs)
        self.nodes.append(node)

    def sole(self, name: str | None, node: Node) -> Node | None:
        maker = self.uses.sole_producer(name, node)
        return None if maker is None else self.made.get(maker.outputs[0])

    def levels(self, node: Node | None) -> Levels | None:
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
        return Levels(np.float32(scale.reshape(-1)[0]), int(zero.reshape(-1)[0]))

    def dequantized(self, name: str | None) -> tuple[str, Levels] | None:
        """The bytes that a float value stands for."""
        maker = self.made.get(name or "")
        levels = self.levels(maker) if maker is not None and isinstance(maker.op, DequantizeLinear) else None
        return None if maker is None or levels is None else (maker.inputs[0] or "", levels)

    def constant(self, stem: str, data: np.ndarray) -> str:
        value = Value.constant(fresh(self.graph, stem, self.taken), data)
        self.types[value.name] = value.type
        self.values.append(value)
        return value.name

    def ones(
        self,
        x: str,
        x_zero: int,
        levels: Levels,
        scale: np.float32,
        limits: tuple[int, int],
        sources: tuple[str, ...],
        windows: tuple[tuple[int, ...], ...],
        mean: bool,
    ) -> Node | None:
        """A depthwise convolution with weights of one over windows: a kernel, strides, pads and dilations; with `mean`
        divided by the elements that are there."""
        type = self.type(x)
        if type.shape[1:2] == (1,) and mean:
            return None
        if not 3 <= type.rank <= 5 or type.elements == 0 or not np.isfinite(scale):
            return None
        channels, (kernel, strides, pads, dilations) = type.shape[1], windows
        op = QuantizedConv(strides, pads, dilations, channels, x_zero, levels.zero, *limits, mean=mean)
        inputs = (
            x,
            self.constant(f"{x}:ones", np.ones((channels, 1, *kernel), np.int8)),
            self.constant(f"{x}:scale", np.full(channels, scale, np.float32)),
            self.constant(f"{x}:bias", np.zeros(channels, np.int32)),
        )
        return Node(op, inputs, (x,), sources)

    def emit(self, op: Op, inputs: Sequence[str | None], sources: tuple[str, ...]) -> str:
        """The first result of a new node."""
        (type, *_) = op.infer([None if name is None else self.type(name) for name in inputs])
        name = fresh(self.graph, f"{sources[-1] if sources else 'bytes'}:bytes", self.taken)
        self.types[name] = type
        self.values.append(Value(name, type))
        self.append(Node(op, tuple(inputs), (name,), sources))
        return name

    def type(self, name: str) -> TensorType:
        return self.types.get(name) or self.graph.type(name)
