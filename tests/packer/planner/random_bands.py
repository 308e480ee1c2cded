"""Random graphs of one image whose rows are cut between cores: all operators that read bands, channels that are
shuffled, joined and split, halos of several rows, and operators that read everything in between."""

from __future__ import annotations

import numpy as np

from packer.ir import DType, Graph, TensorType, Value
from packer.ir.ops import (
    Binary,
    Concat,
    Conv,
    Lrn,
    Op,
    Pad,
    Pool,
    Reduce,
    Reshape,
    Resize,
    ScaleShift,
    Slice,
    Softmax,
    Transpose,
    Unary,
)
from tests.packer.planner.random_views import Builder

__all__ = ["random_bands", "random_inputs"]


def random_bands(seed: int) -> Graph:
    return _Builder(np.random.default_rng(seed)).graph()


def random_inputs(graph: Graph, seed: int) -> dict[str, np.ndarray]:
    random = np.random.default_rng(seed)
    return {name: random.standard_normal(graph.type(name).shape, np.float32) for name in graph.inputs}


class _Builder(Builder):
    def graph(self) -> Graph:
        channels, rows, columns = (int(self.random.choice(n)) for n in ((8, 16, 24), (5, 9, 14), (3, 7, 13)))
        self.values["x"] = Value("x", TensorType(DType.F32, (1, channels, rows, columns)))
        self.made.append("x")
        steps = (
            self.convolve, self.convolve, self.convolve, self.depthwise, self.depthwise, self.shuffle, self.join,
            self.join, self.split, self.pointwise, self.pointwise, self.add_up, self.pool, self.across, self.resize,
            self.pad,
        )  # fmt: skip
        for _ in range(int(self.random.integers(8, 20))):
            steps[self.random.integers(len(steps))](self.pick())
        read = {name for node in self.nodes for name in node.inputs}
        outputs = [node.outputs[0] for node in self.nodes if node.outputs[0] not in read]
        graph = Graph("bands", ("x",), tuple(outputs), tuple(self.nodes), self.values)
        graph.validate()
        return graph

    def shape(self, name: str) -> tuple[int, ...]:
        return self.type(name).shape

    def inner(self, op: Op, *inputs: str) -> str:
        """A value that only the next operator reads."""
        self.add(op, *inputs)
        return self.made.pop()

    def convolve(self, x: str) -> None:
        kernel, channels = int(self.random.choice((1, 1, 3, 5))), int(self.random.choice((8, 16, 20)))
        weights = self.constant(channels, self.shape(x)[1], kernel, kernel, density=self.random.choice((1.0, 0.2)))
        op, operands = Conv((1, 1), (kernel // 2,) * 4, (1, 1)), [x, weights, self.constant(channels)]
        added = [name for name in self.made if self.shape(name) == (1, channels, *self.shape(x)[2:])]
        if added and self.random.random() < 0.5:
            operands.append(added[self.random.integers(len(added))])
        self.add(op, *operands)

    def depthwise(self, x: str) -> None:
        channels, stride = self.shape(x)[1], 1 + int(min(self.shape(x)[2:]) > 6 and self.random.random() < 0.2)
        self.add(Conv((stride, stride), (1, 1, 1, 1), (1, 1), channels), x, self.constant(channels, 1, 3, 3))

    def shuffle(self, x: str) -> None:
        _, channels, *plane = self.shape(x)
        groups = int(self.random.choice([n for n in (2, 4) if channels % n == 0] or [1]))
        apart = self.inner(Reshape((1, groups, channels // groups, *plane)), x)
        turned = self.inner(Transpose((0, 2, 1, 3, 4)), apart)
        self.add(Reshape((1, channels, *plane)), turned)

    def join(self, x: str) -> None:
        fitting = [name for name in self.made if self.shape(name)[2:] == self.shape(x)[2:]]
        parts = [fitting[-1 - self.random.integers(min(3, len(fitting)))] for _ in range(self.random.integers(1, 3))]
        if sum(self.shape(name)[1] for name in (x, *parts)) < 100:
            self.add(Concat(1), x, *parts)

    def split(self, x: str) -> None:
        """Halves of the channels, or now and then rows."""
        axis = 1 if self.random.random() < 0.7 else 2
        extent = self.shape(x)[axis]
        for begin, end in ((0, extent // 2), (extent // 2, extent)):
            if begin < end:
                starts, sizes = [0] * 4, list(self.shape(x))
                starts[axis], sizes[axis] = begin, end - begin
                self.add(Slice(tuple(starts), (1,) * 4, tuple(sizes)), x)

    def pointwise(self, x: str) -> None:
        channels = self.shape(x)[1]
        if self.random.random() < 0.5:
            self.add(Unary("relu"), x)
        else:
            self.add(ScaleShift(), x, self.constant(channels), self.constant(channels))

    def add_up(self, x: str) -> None:
        same = [name for name in self.made if self.shape(name) == self.shape(x)]
        self.add(Binary("add"), x, same[self.random.integers(len(same))])

    def pool(self, x: str) -> None:
        self.add(Pool(str(self.random.choice(("max", "average"))), (3, 3), (1, 1), (1, 1, 1, 1), (1, 1)), x)

    def across(self, x: str) -> None:
        """What reads all channels, or all rows."""
        kind = self.random.integers(3)
        if kind == 0:
            self.add(Lrn(3, 1e-2, 0.75, 1.0), x)
        elif kind == 1:
            self.add(Softmax("softmax", (1,)), x)
        else:
            mean = self.inner(Reduce("mean", (2, 3)), x)
            self.add(Binary("mul"), x, mean)

    def resize(self, x: str) -> None:
        _, channels, rows, columns = self.shape(x)
        if rows < 12:
            self.add(Resize((1, channels, 2 * rows, 2 * columns), (1.0, 1.0, 2.0, 2.0)), x)

    def pad(self, x: str) -> None:
        self.add(Pad((0, 0, 1, 0, 0, 0, 1, 2)), x)
