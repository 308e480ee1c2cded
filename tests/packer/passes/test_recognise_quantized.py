"""recognise_quantized: what bytes can compute is computed in bytes, the rest stays."""

from __future__ import annotations

import numpy as np
import pytest

from packer.ir import DType, Graph, Node, TensorType, Value
from packer.ir.evaluate import evaluate
from packer.ir.ops import (
    Activation,
    Binary,
    Concat,
    Conv,
    DequantizeLinear,
    IntegerConv,
    IntegerMatMul,
    Lookup,
    MatMul,
    Op,
    Pool,
    QuantizedBinary,
    QuantizedConv,
    QuantizedMatMul,
    QuantizeLinear,
    Reduce,
    Resize,
    Slice,
    Transpose,
    Unary,
)
from packer.passes.recognise_quantized import recognise_quantized
from packer.passes.remove_dead import remove_dead


class Sketch:
    """A graph of bytes from x u8 [1,16,6,6], or of another type."""

    def __init__(self, shape: tuple[int, ...] = (1, 16, 6, 6), dtype: DType = DType.U8) -> None:
        self.rng = np.random.default_rng(1)
        self.values = [Value("x", TensorType(dtype, shape))]
        self.nodes: list[Node] = []

    def constant(self, data: object, dtype: object) -> str:
        self.values.append(Value.constant(f"c{len(self.values)}", np.asarray(data, dtype)))
        return self.values[-1].name

    def add(self, op: Op, *inputs: str) -> str:
        known = {value.name: value.type for value in self.values}
        name = f"v{len(self.values)}"
        self.values.append(Value(name, op.infer([known[i] for i in inputs])[0]))
        self.nodes.append(Node(op, inputs, (name,), (name,)))
        return name

    def floats(self, name: str, scale: float = 0.02, zero: int = 120, dtype: object = np.uint8) -> str:
        return self.add(DequantizeLinear(0), name, self.constant(scale, np.float32), self.constant(zero, dtype))

    def bytes(self, name: str, scale: float = 0.05, zero: int = 100, dtype: object = np.uint8) -> str:
        return self.add(QuantizeLinear(0), name, self.constant(scale, np.float32), self.constant(zero, dtype))

    def weights(self, *shape: int, axis: int = 0, dtype: type = np.int8) -> str:
        info = np.iinfo(dtype)
        data = self.constant(self.rng.integers(info.min, info.max + 1, shape), dtype)
        zero = 0 if dtype is np.int8 else 128
        scale = self.constant(self.rng.uniform(0.001, 0.01, shape[axis]), np.float32)
        return self.add(DequantizeLinear(axis), data, scale, self.constant(np.full(shape[axis], zero), dtype))

    def conv(self, x: str, group: int = 1, filters: int = 16, dtype: type = np.int8) -> str:
        w = self.weights(filters, 16 // group, 3, 3, dtype=dtype)
        return self.add(Conv((1, 1), (1, 1, 1, 1), (1, 1), group), x, w)

    def graph(self, output: str) -> Graph:
        graph = Graph("g", ("x",), (output,), tuple(self.nodes), {value.name: value for value in self.values})
        graph.validate()
        return graph


def check(sketch: Sketch, output: str, kinds: tuple[type[Op], ...]) -> Graph:
    """The pass leaves operators of these kinds, and outputs are at most one level off those in floats."""
    before = sketch.graph(output)
    after = remove_dead(recognise_quantized(before))
    after.validate()
    assert sorted(type(node.op).__name__ for node in after.nodes) == sorted(kind.__name__ for kind in kinds)
    type_ = before.type("x")
    info = np.iinfo(type_.dtype.numpy)
    x = sketch.rng.integers(info.min, info.max + 1, type_.shape).astype(type_.dtype.numpy)
    want, got = (evaluate(graph, {"x": x})[output].astype(int) for graph in (before, after))
    assert np.abs(want - got).max() <= 1
    return after


@pytest.mark.parametrize("dtype", [np.int8, np.uint8])
def test_a_convolution(dtype: type) -> None:
    s = Sketch()
    check(s, s.bytes(s.conv(s.floats("x"), dtype=dtype)), (QuantizedConv,))


@pytest.mark.parametrize("clip", [Unary("relu"), Unary("clip", -0.7, 2.3)])
def test_limits_are_levels(clip: Unary) -> None:
    s = Sketch()
    after = check(s, s.bytes(s.add(clip, s.conv(s.floats("x")))), (QuantizedConv,))
    (node,) = after.nodes
    assert isinstance(node.op, QuantizedConv)
    assert (node.op.lo, node.op.hi) == ((100, 255) if clip.kind == "relu" else (86, 146))


def test_a_bias_in_floats() -> None:
    s = Sketch()
    w = s.weights(8, 16, 1, 1)
    bias = s.constant(s.rng.standard_normal(8), np.float32)
    check(s, s.bytes(s.add(Conv((1, 1), (0,) * 4, (1, 1)), s.floats("x"), w, bias)), (QuantizedConv,))


def test_a_matrix_product() -> None:
    s = Sketch((3, 20))
    check(s, s.bytes(s.add(MatMul(), s.floats("x"), s.weights(20, 7, axis=1))), (QuantizedMatMul,))


def test_a_residual() -> None:
    s = Sketch()
    back = s.floats(s.bytes(s.conv(s.floats("x"))), 0.05, 100)
    total = s.add(Unary("relu"), s.add(Binary("add"), back, s.floats("x")))
    check(s, s.bytes(total, 0.04, 3), (QuantizedConv,))


def test_the_largest_of_windows() -> None:
    s = Sketch()
    pool = Pool("max", (2, 2), (2, 2), (0,) * 4, (1, 1), False, False, 2, False)
    check(s, s.bytes(s.add(pool, s.floats("x")), 0.02, 120), (Pool,))


def test_the_nearest_of_a_smaller_picture() -> None:
    s = Sketch()
    resize = Resize((1, 16, 12, 9), (1.0, 1.0, 2.0, 1.5), "nearest", "asymmetric", "floor")
    check(s, s.bytes(s.add(resize, s.floats("x")), 0.02, 120), (Resize,))
    s = Sketch()
    check(s, s.bytes(s.add(resize, s.floats("x")), 0.03, 100), (Lookup, Resize))


def test_filters_of_one_channel() -> None:
    s = Sketch()
    check(s, s.bytes(s.add(Unary("relu"), s.conv(s.floats("x"), group=16))), (QuantizedConv,))


def test_a_sum_of_what_no_convolution_makes() -> None:
    s = Sketch()
    total = s.add(Binary("add"), s.floats("x"), s.floats("x", 0.05, 17))
    check(s, s.bytes(total, 0.06, 99), (QuantizedBinary,))


@pytest.mark.parametrize("kind", ["add", "sub", "mul"])
def test_pairs(kind: str) -> None:
    """Of one element for many, within limits, in either order; a constant is an operand like others."""
    for shape in ((1, 16, 1, 1), (6,), (1, 16, 6, 6)):
        for swapped in (False, True):
            s = Sketch()
            other = s.floats(s.constant(s.rng.integers(0, 256, shape), np.uint8), 0.03, 99)
            pair = [s.floats("x"), other]
            total = s.add(Unary("relu"), s.add(Binary(kind), *(pair[::-1] if swapped else pair)))
            (node,) = check(s, s.bytes(total, 0.06, 99), (QuantizedBinary,)).nodes
            assert isinstance(node.op, QuantizedBinary)
            assert node.op.lo == 99


def test_a_pair_with_a_signed_constant() -> None:
    s = Sketch()
    other = s.constant(s.rng.integers(-128, 128, (16, 1, 1)), np.int8)
    total = s.add(Binary("mul"), s.floats("x"), s.floats(other, 0.03, -3, np.int8))
    check(s, s.bytes(total, 0.06, 99), (QuantizedBinary,))


def test_a_pair_whose_scale_is_out_of_all_proportion() -> None:
    s = Sketch()
    total = s.add(Binary("add"), s.floats("x"), s.floats("x", 0.05, 17))
    check(s, s.bytes(total, 1e-20, 99), (DequantizeLinear, DequantizeLinear, Binary, QuantizeLinear))


MEANS = {
    "global": Reduce("mean", (2, 3)),
    "windows": Pool("average", (2, 2), (2, 2), (0,) * 4, (1, 1)),
    "padded": Pool("average", (3, 3), (1, 1), (1,) * 4, (1, 1), False, True),
}


@pytest.mark.parametrize("op", MEANS.values(), ids=MEANS)
def test_means(op: Op) -> None:
    s = Sketch()
    check(s, s.bytes(s.add(op, s.floats("x")), 0.01, 90), (QuantizedConv,))


def test_means_of_fewer_elements_at_the_border() -> None:
    s = Sketch()
    pool = Pool("average", (3, 3), (2, 1), (1,) * 4, (1, 1))
    (node,) = check(s, s.bytes(s.add(pool, s.floats("x")), 0.01, 90), (QuantizedConv,)).nodes
    assert isinstance(node.op, QuantizedConv)
    assert node.op.mean
    s = Sketch()
    pool = Pool("average", (3, 3), (2, 1), (1,) * 4, (1, 1), True)
    check(s, s.bytes(s.add(pool, s.floats("x"))), (DequantizeLinear, Pool, QuantizeLinear))


@pytest.mark.parametrize("group", [2, 4, 8])
def test_groups_of_odd_channels(group: int) -> None:
    """Together, with weights of zero between them."""
    s = Sketch()
    (node,) = check(s, s.bytes(s.conv(s.floats("x"), group, 24)), (QuantizedConv,)).nodes
    assert isinstance(node.op, QuantizedConv)
    assert node.op.group == 1


def test_moves_of_other_levels() -> None:
    """Levels change before values move: the convolution that makes them does it, or a table."""
    s = Sketch()
    (node, *_) = check(
        s,
        s.bytes(s.add(Transpose((0, 1, 3, 2)), s.floats(s.bytes(s.conv(s.floats("x"))), 0.05, 100)), 0.07, 80),
        (QuantizedConv, Transpose),
    ).nodes
    assert len(node.op.sum_scales) == 1
    s = Sketch()
    check(s, s.bytes(s.add(Slice((0, 3, 0, 0), (1, 9, 6, 6), (1,) * 4), s.floats("x")), 0.07, 80), (Lookup, Slice))


def test_joined_values_of_unequal_levels() -> None:
    """Bytes of the joined value exactly, whichever convolution makes them, after a relu, or as they were."""
    s = Sketch()
    first = s.floats(s.bytes(s.conv(s.floats("x")), 0.03, 7), 0.03, 7)
    second = s.add(Unary("relu"), s.floats("x", 0.031, 99))
    joined = s.add(Concat(1), first, second, s.floats("x", 0.0413, 10))
    check(s, s.bytes(joined, 0.0413, 10), (QuantizedConv, Lookup, Concat))


def test_what_others_read_keeps_its_levels() -> None:
    s = Sketch()
    made = s.floats(s.bytes(s.conv(s.floats("x")), 0.03, 7), 0.03, 7)
    both = s.add(Concat(1), s.floats(s.bytes(s.add(Concat(1), made), 0.05, 9), 0.05, 9), made)
    check(s, s.bytes(both, 0.05, 9), (QuantizedConv, Lookup, Concat, Concat, Lookup))


@pytest.mark.parametrize("seed", range(20))
def test_other_levels_are_those_that_floats_give(seed: int) -> None:
    """All bytes, exactly."""
    rng = np.random.default_rng(seed)
    s = Sketch((1, 16, 4, 4))
    scales, zeros = rng.uniform(0.01, 0.2, 2).round(9 if seed % 3 else 2), rng.integers(0, 256, 2).tolist()
    output = s.bytes(s.floats("x", scales[0], zeros[0]), scales[1], zeros[1])
    before = s.graph(output)
    after = recognise_quantized(before)
    assert [type(node.op) for node in after.nodes] == [Lookup]
    x = np.arange(256, dtype=np.uint8).reshape(1, 16, 4, 4)
    want, got = (evaluate(graph, {"x": x})[output] for graph in (before, after))
    np.testing.assert_array_equal(got, want)


def test_signed_activations() -> None:
    s = Sketch(dtype=DType.U8)
    signed = s.bytes(s.floats("x"), 0.05, -20, np.int8)
    after = check(s, s.bytes(s.conv(s.floats(signed, 0.05, -20, np.int8))), (Lookup, QuantizedConv))
    assert all(after.type(node.outputs[0]).dtype is not DType.I8 for node in after.nodes)


def floats_of(sketch: Sketch, output: str, kinds: tuple[type[Op], ...]) -> Graph:
    """The pass leaves operators of these kinds, and the same floats but for rounding."""
    before = sketch.graph(output)
    after = remove_dead(recognise_quantized(before))
    after.validate()
    assert sorted(type(node.op).__name__ for node in after.nodes) == sorted(kind.__name__ for kind in kinds)
    x = sketch.rng.integers(0, 256, before.type("x").shape).astype(np.uint8)
    want, got = (evaluate(graph, {"x": x})[output] for graph in (before, after))
    np.testing.assert_allclose(got, want, rtol=0, atol=1e-5 * np.abs(want).max())
    return after


@pytest.mark.parametrize(("group", "filters"), [(1, 24), (2, 32), (4, 20), (16, 16)])
def test_convolutions_whose_results_stay_floats(group: int, filters: int) -> None:
    s = Sketch()
    x = s.floats(s.bytes(s.floats("x"), 0.05, 100), 0.05, 100)
    w = s.weights(filters, 16 // group, 3, 3)
    bias = s.constant(s.rng.standard_normal(filters), np.float32)
    conv = s.add(Conv((1, 1), (1, 1, 1, 1), (1, 1), group), x, w, bias)
    floats_of(s, s.add(Unary("sigmoid"), conv), (Lookup, IntegerConv, Unary))


def test_products_whose_results_stay_floats() -> None:
    s = Sketch((3, 20))
    x, w = s.floats(s.bytes(s.floats("x"), 0.05, 100), 0.05, 100), s.weights(20, 7, axis=1)
    bias = s.add(DequantizeLinear(0), s.constant(s.rng.integers(-999, 999, 7), np.int32), s.constant(0.003, np.float32))
    floats_of(s, s.add(MatMul(), x, w, bias), (Lookup, IntegerMatMul))


def test_products_of_many_zeros_stay_floats() -> None:
    """Floats leave them out."""
    s = Sketch()
    x = s.floats(s.bytes(s.floats("x"), 0.05, 100), 0.05, 100)
    data = np.where(s.rng.random((16, 16, 3, 3)) < 0.1, s.rng.integers(-99, 99, (16, 16, 3, 3)), 0)
    w = s.add(DequantizeLinear(0), s.constant(data, np.int8), s.constant(0.01, np.float32))
    conv = s.add(Conv((1, 1), (1, 1, 1, 1), (1, 1)), x, w)
    floats_of(s, conv, (Lookup, DequantizeLinear, DequantizeLinear, Conv))


def test_what_stays() -> None:
    """Many groups of few channels; an activation that has no limits; floats that someone else reads."""
    s = Sketch()
    wide = s.conv(s.floats("x"), group=16, filters=32)
    check(s, s.bytes(wide), (DequantizeLinear, DequantizeLinear, Conv, QuantizeLinear))
    s = Sketch()
    w = s.weights(16, 16, 3, 3)
    conv = s.add(Conv((1, 1), (1,) * 4, (1, 1), 1, Activation("sigmoid")), s.floats("x"), w)
    check(s, s.bytes(conv), (DequantizeLinear, DequantizeLinear, Conv, QuantizeLinear))
    s = Sketch()
    check(s, s.bytes(s.add(Unary("sigmoid"), s.floats("x")), 0.01, 0), (DequantizeLinear, Unary, QuantizeLinear))
