"""Random graphs full of concats and slices along all axes, nested and shared, with what reads and writes views and
what does not."""

from __future__ import annotations

import numpy as np

from packer.ir import DType, Graph, Node, TensorType, Value
from packer.ir.ops import Binary, Concat, Conv, Gather, Op, Pool, Reshape, Slice, Transpose, Unary

__all__ = ["Builder", "random_views"]


def random_views(seed: int) -> Graph:
    return Builder(np.random.default_rng(seed)).graph()


class Builder:
    def __init__(self, random: np.random.Generator) -> None:
        self.random = random
        self.values: dict[str, Value] = {}
        self.nodes: list[Node] = []
        self.made: list[str] = []

    def graph(self) -> Graph:
        batch, channels, rows, columns = (
            int(self.random.choice(n)) for n in ((1, 1, 2, 3), (16, 32, 24, 5), (4, 6), (3, 5))
        )
        inputs = ("x0", "x1")[: self.one(1, 2)]
        for name in inputs:
            self.values[name] = Value(name, TensorType(DType.F32, (batch, channels, rows, columns)))
            self.made.append(name)
        for _ in range(self.one(4, 14)):
            self.node()
        read = {name for node in self.nodes for name in node.inputs}
        outputs = [node.outputs[0] for node in self.nodes if node.outputs[0] not in read or self.random.random() < 0.1]
        graph = Graph("views", inputs, tuple(outputs), tuple(self.nodes), self.values)
        graph.validate()
        return graph

    def one(self, low: int, high: int) -> int:
        """From low to high, both included."""
        return int(self.random.integers(low, high + 1))

    def pick(self) -> str:
        """A value, most likely a late one."""
        return self.made[-1 - min(int(self.random.exponential(2.0)), len(self.made) - 1)]

    def type(self, name: str) -> TensorType:
        return self.values[name].type

    def add(self, op: Op, *inputs: str) -> None:
        name = f"v{len(self.nodes)}"
        (type,) = op.infer([self.type(n) for n in inputs])[:1]
        self.values[name] = Value(name, type)
        self.nodes.append(Node(op, inputs, (name,), (name,)))
        self.made.append(name)

    def constant(self, *shape: int, density: float = 1.0) -> str:
        name = f"w{len(self.values)}"
        data = (self.random.integers(-8, 9, shape) / 8 * (self.random.random(shape) < density)).astype(np.float32)
        self.values[name] = Value.constant(name, data)
        return name

    def node(self) -> None:
        x = self.pick()
        shape = self.type(x).shape
        kind = self.one(0, 15)
        if kind < 4 and self.type(x).elements < 20_000:
            self.concat(x)
        elif kind < 7:
            self.slice(x)
        elif kind < 10 and len(shape) == 4:
            self.conv(x, int(self.random.choice((16, 16, 32, 8, 24))))
        elif kind == 10 and len(shape) == 4:
            self.add(Pool("max", (3, 3), (1, 1), (1, 1, 1, 1), (1, 1)), x)
        elif kind == 11:
            same = [name for name in self.made if self.type(name).shape == shape]
            self.add(Binary("add"), x, same[self.one(0, len(same) - 1)])
        elif kind == 12:
            self.add(Reshape((shape[0], -(-self.type(x).elements // max(shape[0], 1)))), x)
        elif kind == 13:
            self.add(Transpose((*range(len(shape) - 2), len(shape) - 1, len(shape) - 2)), x)
        elif kind == 14:
            axis = self.one(0, len(shape) - 1)
            name = f"w{len(self.values)}"
            self.values[name] = Value.constant(name, self.random.integers(0, shape[axis], shape[axis]))
            self.add(Gather(axis), x, name)
        else:
            self.add(Unary(("relu", "abs", "neg")[self.one(0, 2)]), x)

    def concat(self, x: str) -> None:
        shape, axis = self.type(x).shape, self.one(0, 4)
        axis = min(axis if axis < 4 else 1, len(shape) - 1)
        if len(shape) == 4 and axis == 1 and self.random.random() < 0.6:
            for _ in range(self.one(1, 3)):
                self.conv(x, int(self.random.choice((16, 32, 16, 8))))
        fitting = [
            name for name in self.made
            if len(self.type(name).shape) == len(shape)
            and all(a == b or i == axis for i, (a, b) in enumerate(zip(self.type(name).shape, shape, strict=True)))
        ]  # fmt: skip
        parts = [x, *(fitting[-1 - self.one(0, min(3, len(fitting) - 1))] for _ in range(self.one(1, 3)))]
        if self.random.random() < 0.1:
            parts.append(self.constant(*shape))
        self.random.shuffle(parts)
        self.add(Concat(axis), *parts)

    def slice(self, x: str) -> None:
        """Both halves, or any range along one axis, now and then every second entry."""
        shape = self.type(x).shape
        axis = min((1, 1, 0, 2, 3)[self.one(0, 4)], len(shape) - 1)
        extent, step = shape[axis], 1
        spans = [(0, extent // 2), (extent // 2, extent - extent // 2)]
        if self.random.random() < 0.4 or extent < 2:
            begin = self.one(0, extent - 1)
            step = self.one(1, 2)
            spans = [(begin, self.one(1, (extent - begin + step - 1) // step))]
        for begin, size in spans:
            starts, steps, sizes = [0] * len(shape), [1] * len(shape), list(shape)
            starts[axis], steps[axis], sizes[axis] = begin, step, size
            self.add(Slice(tuple(starts), tuple(steps), tuple(sizes)), x)

    def conv(self, x: str, channels: int) -> None:
        kernel = (1, 3)[self.one(0, 1)]
        weights = self.constant(channels, self.type(x).shape[1], kernel, kernel, density=(1.0, 0.15)[self.one(0, 1)])
        self.add(Conv((1, 1), (kernel // 2,) * 4, (1, 1)), x, weights)
