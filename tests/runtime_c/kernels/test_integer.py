"""conv_integer, conv_depthwise_integer, linear_integer and dynamic_levels on every instruction set: the very numbers of
the reference."""

from __future__ import annotations

import numpy as np
import pytest

from packer.ir.ops import Activation, DynamicLevels, IntegerConv, IntegerMatMul
from packer.ir.types import DType, TensorType
from targets.base import Attribute, Layout, attributes_of
from targets.cpu.packing import quads
from targets.cpu.quantized import tap_quads
from tests.runtime_c.kernels.convolutions import choice
from tests.runtime_c.kernels.harness import Rejected, check_step, run_step

PLANAR, BLOCK16, WEIGHT16, DEPTH16 = Layout.PLANAR, Layout.BLOCK16, Layout.WEIGHT16, Layout.DEPTH16
F32 = np.float32


def levels(rng: np.random.Generator, filters: int) -> list[np.ndarray]:
    """x_scale, scales and biases."""
    scale = (rng.uniform(0.2, 2.0, filters) / 1000).astype(F32)
    return [np.asarray(rng.uniform(0.01, 0.1), F32), scale, rng.standard_normal(filters).astype(F32)]


def sums_of(w: np.ndarray) -> np.ndarray:
    return w.reshape(w.shape[0], -1).sum(axis=1, dtype=np.int64).astype(np.int32)


def operands(inputs: list[np.ndarray], packed: np.ndarray, w: np.ndarray) -> list[np.ndarray]:
    """A reference's inputs x, w, zero, ... as the kernel takes them; weights [K,...] packed."""
    shape = packed.shape[: packed.ndim - 1]
    channels = [data.reshape(shape) for data in (sums_of(w), *inputs[4:])]
    return [inputs[0], packed, channels[0], *inputs[2:4], *channels[1:]]


def check(kernel: str, op: IntegerConv, inputs: list[np.ndarray], layout: Layout) -> None:
    (want,), w = op.reference(*inputs), inputs[1]
    depthwise = kernel == "conv_depthwise_integer"
    packed = tap_quads(w, op.dilations[-1]) if depthwise else quads(w.reshape(op.group, -1, *w.shape[1:]))
    layouts = (layout, DEPTH16 if depthwise else WEIGHT16, BLOCK16, PLANAR, PLANAR, BLOCK16, BLOCK16)
    attributes = (*attributes_of(op), Attribute("kernel", ints=w.shape[2:]))
    outputs = [TensorType(DType.F32 if len(inputs) > 3 else DType.I32, want.shape)]
    given = operands(inputs, packed, w)
    check_step(kernel, given, [want], outputs, attributes, layouts=(*layouts[: len(given)], BLOCK16))


def random_case(rng: np.random.Generator, depthwise: bool) -> tuple[IntegerConv, list[np.ndarray]]:
    rank = choice(rng, 1, 2, 2, 3)
    group = choice(rng, 2, 16, 20) if depthwise else choice(rng, 1, 1, 2)
    channels, filters = (16, choice(rng, 16, 32)) if group > 1 else (choice(rng, 1, 3, 20, 70), choice(rng, 5, 33))
    channels, filters = (1, 1) if depthwise else (channels, filters)
    kernel = tuple(int(n) for n in rng.integers(1, 4, rank))
    pads = tuple(int(n) for n in rng.integers(0, 3, 2 * rank))
    strides, dilations = (tuple(int(n) for n in rng.integers(1, 3, rank)) for _ in range(2))
    x = rng.integers(0, 256, (2, group * channels, *rng.integers(5, 16, rank))).astype(np.uint8)
    w = rng.integers(-128, 128, (group * filters, channels, *kernel)).astype(np.int8)
    inputs = [x, w, np.asarray(rng.integers(0, 256), np.uint8)]
    activation = (None, Activation("relu"), Activation("clip", -0.5, 0.7))[rng.integers(3)]
    if rng.random() < 0.3:
        return IntegerConv(strides, pads, dilations, group), inputs
    return IntegerConv(strides, pads, dilations, group, activation), [*inputs, *levels(rng, group * filters)]


@pytest.mark.parametrize("seed", range(20))
def test_random_convolutions(seed: int) -> None:
    rng = np.random.default_rng(seed)
    check("conv_integer", *random_case(rng, False), (PLANAR, BLOCK16)[rng.integers(2)])


@pytest.mark.parametrize("seed", range(20))
def test_random_depthwise(seed: int) -> None:
    check("conv_depthwise_integer", *random_case(np.random.default_rng(100 + seed), True), BLOCK16)


def test_many_pixels_and_runs() -> None:
    rng = np.random.default_rng(2)
    x, w = (rng.integers(0, 256, (1, 130, 20, 40)).astype(np.uint8), rng.integers(-128, 128, (150, 130, 3, 3)))
    inputs = [x, w.astype(np.int8), np.asarray(77, np.uint8), *levels(rng, 150)]
    check("conv_integer", IntegerConv((1, 1), (1,) * 4, (1, 1)), inputs, BLOCK16)


@pytest.mark.parametrize(
    ("rows", "depth", "columns", "floats"),
    [(1, 64, 48, True), (1, 30, 17, True), (5, 33, 40, False), (30, 128, 100, True), (3, 0, 5, True)],
)
def test_linear(rows: int, depth: int, columns: int, floats: bool) -> None:
    rng = np.random.default_rng(rows)
    x, w = (rng.integers(0, 256, (rows, depth)).astype(np.uint8), rng.integers(-128, 128, (depth, columns)))
    inputs = [x, w.astype(np.int8), np.asarray(100, np.uint8), *(levels(rng, columns) if floats else ())]
    op = IntegerMatMul(Activation("relu") if floats else None)
    (want,) = op.reference(*inputs)
    rows_of = np.ascontiguousarray(inputs[1].T)
    given = operands(inputs, quads(rows_of.reshape(1, columns, depth)), rows_of)
    layouts = (PLANAR, WEIGHT16, BLOCK16, PLANAR, PLANAR, BLOCK16, BLOCK16)[: len(given)]
    outputs = [TensorType(DType.F32 if floats else DType.I32, want.shape)]
    check_step("linear_integer", given, [want], outputs, attributes_of(op), layouts=(*layouts, PLANAR))


@pytest.mark.parametrize("change", ["activation", "count", "zero", "output"])
def test_what_is_refused(change: str) -> None:
    rng = np.random.default_rng(3)
    x, w = rng.integers(0, 256, (1, 16, 8, 8)).astype(np.uint8), np.ones((16, 16, 1, 1), np.int8)
    op = IntegerConv((1, 1), (0,) * 4, (1, 1), 1, Activation("sigmoid" if change == "activation" else "relu"))
    zero = np.zeros(1 if change == "zero" else (), np.uint8)
    given = operands([x, w, zero, *levels(rng, 16)], quads(w[None]), w)
    layouts = (BLOCK16, WEIGHT16, BLOCK16, PLANAR, PLANAR, BLOCK16, BLOCK16)
    count = 6 if change == "count" else 7
    attributes = (*attributes_of(op), Attribute("kernel", ints=(1, 1)))
    output = TensorType(DType.I32 if change == "output" else DType.F32, x.shape)
    with pytest.raises(Rejected):
        run_step("conv_integer", given[:count], [output], attributes, (*layouts[:count], BLOCK16))


@pytest.mark.parametrize("shape", [(3, 5), (1, 20, 6, 7), (2, 16, 300), (1,), (2, 0, 3)])
def test_levels(shape: tuple[int, ...]) -> None:
    rng = np.random.default_rng(4)
    outputs = [TensorType(DType.F32, ()), TensorType(DType.U8, ())]
    for low, high in ((-1.0, 3.0), (0.5, 2.0), (-7.0, -2.0), (0.0, 0.0), (-1.0, np.inf)):
        x = rng.uniform(low, min(high, 1e9), shape).astype(F32)
        x.reshape(-1)[:1] = high
        x.reshape(-1)[1:2] = np.nan
        want = DynamicLevels().reference(x)
        for layout in (PLANAR, BLOCK16) if len(shape) > 2 else (PLANAR,):
            check_step("dynamic_levels", [x], want, outputs, (), layouts=(layout, PLANAR, PLANAR))
