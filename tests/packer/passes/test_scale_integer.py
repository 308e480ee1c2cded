"""scale_integer: scales, biases and limits of integer products are done by them; the same bits."""

from __future__ import annotations

import numpy as np
import pytest

from packer.ir import DType, Graph, Node, TensorType, Value
from packer.ir.evaluate import evaluate
from packer.ir.ops import Binary, Cast, IntegerConv, IntegerMatMul, Op, Unary
from packer.passes.scale_integer import scale_integer

F32 = np.float32


class Sketch:
    """A graph from x u8, and from the scalars `zero` u8 and `scale` f32."""

    def __init__(self, *shape: int) -> None:
        self.rng = np.random.default_rng(1)
        self.inputs = {
            "x": self.rng.integers(0, 256, shape).astype(np.uint8),
            "zero": np.asarray(77, np.uint8),
            "scale": np.asarray(0.013, F32),
        }
        self.values = [Value(name, TensorType(_dtype(data), data.shape)) for name, data in self.inputs.items()]
        self.nodes: list[Node] = []

    def constant(self, data: np.ndarray) -> str:
        self.values.append(Value.constant(f"c{len(self.values)}", data))
        return self.values[-1].name

    def add(self, op: Op, *inputs: str) -> str:
        known = {value.name: value.type for value in self.values}
        name = f"v{len(self.values)}"
        self.values.append(Value(name, op.infer([known[i] for i in inputs])[0]))
        self.nodes.append(Node(op, inputs, (name,), (name,)))
        return name

    def floats(self, *shape: int) -> str:
        return self.constant(self.rng.uniform(0.5, 1.5, shape).astype(F32))

    def product(self) -> str:
        """Sums as floats."""
        w = self.constant(self.rng.integers(-128, 128, (8, 5, 3, 3)).astype(np.int8))
        return self.add(Cast(DType.F32), self.add(IntegerConv((1, 1), (1,) * 4, (1, 1)), "x", w, "zero"))

    def check(self, output: str, *kinds: type[Op]) -> Graph:
        values = {value.name: value for value in self.values}
        before = Graph("g", tuple(self.inputs), (output,), tuple(self.nodes), values)
        before.validate()
        after = scale_integer(before)
        after.validate()
        assert [type(node.op) for node in after.nodes] == list(kinds)
        want, got = (evaluate(graph, self.inputs)[output] for graph in (before, after))
        np.testing.assert_array_equal(got, want)
        return after


def _dtype(data: np.ndarray) -> DType:
    return next(d for d in DType if d.numpy == data.dtype)


@pytest.mark.parametrize("shape", [(), (1,), (8, 1, 1), (1, 8, 1, 1)])
def test_a_convolution(shape: tuple[int, ...]) -> None:
    s = Sketch(1, 5, 6, 7)
    scaled = s.add(Binary("mul"), s.product(), s.add(Binary("mul"), "scale", s.floats(*shape)))
    shifted = s.add(Binary("add"), s.floats(1, 8, 1, 1), scaled)
    s.check(s.add(Unary("relu"), shifted), IntegerConv)


def test_a_matrix_product_without_bias() -> None:
    s = Sketch(2, 3, 20)
    w = s.constant(s.rng.integers(-128, 128, (20, 7)).astype(np.int8))
    sums = s.add(Cast(DType.F32), s.add(IntegerMatMul(), "x", w, "zero"))
    scaled = s.add(Binary("mul"), sums, s.add(Binary("mul"), "scale", s.floats(7)))
    s.check(s.add(Unary("clip", -1.0, 2.0), scaled), IntegerMatMul)


def test_one_scale() -> None:
    s = Sketch(1, 5, 6, 7)
    s.check(s.add(Binary("mul"), s.product(), "scale"), IntegerConv)
    s = Sketch(1, 5, 6, 7)
    s.check(s.add(Binary("mul"), s.product(), s.floats(8, 1, 1)), IntegerConv)


def test_what_stays() -> None:
    """A scale of each column; a bias of each pixel; an activation without limits; sums that someone else reads."""
    s = Sketch(1, 5, 6, 7)
    s.check(s.add(Binary("mul"), s.product(), s.floats(7)), IntegerConv, Cast, Binary)
    s = Sketch(1, 5, 6, 7)
    s.check(s.add(Binary("add"), s.add(Binary("mul"), s.product(), "scale"), s.floats(6, 7)), IntegerConv, Binary)
    s = Sketch(1, 5, 6, 7)
    s.check(s.add(Unary("sigmoid"), s.add(Binary("mul"), s.product(), "scale")), IntegerConv, Unary)
    s = Sketch(1, 5, 6, 7)
    sums = s.product()
    s.check(s.add(Binary("add"), s.add(Binary("mul"), sums, "scale"), sums), IntegerConv, Cast, Binary, Binary)
