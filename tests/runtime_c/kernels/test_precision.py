"""Weights in f16 and bf16, and products of bf16, on every instruction set: the reference's of rounded operands."""

from __future__ import annotations

import numpy as np
import pytest

from packer.ir.ops import Conv, MatMul
from packer.ir.types import DType, TensorType
from targets.base import Attribute, Layout, attributes_of
from targets.cpu.packing import lines
from targets.cpu.precision import rounded
from targets.cpu.winograd import TILES, transformed
from tests.runtime_c.kernels.convolutions import (
    ACTIVATIONS,
    Case,
    cases_in_parts,
    choice,
    empty_cases,
    exact,
    far_conv,
    random_case,
    random_conv,
    weights,
)
from tests.runtime_c.kernels.harness import Rejected, check_step, random_array, run_step

PLANAR, BLOCK16, WEIGHT16 = Layout.PLANAR, Layout.BLOCK16, Layout.WEIGHT16
REDUCED = (DType.F16, DType.BF16)


def bf16(x: np.ndarray) -> np.ndarray:
    """The nearest bf16 as float32, ties to even."""
    bits = x.view(np.uint32)
    return ((bits + 0x7FFF + (bits >> 16 & 1)) & 0xFFFF0000).astype(np.uint32).view(np.float32)


def widened(w: np.ndarray, dtype: DType) -> np.ndarray:
    return bf16(w) if dtype is DType.BF16 else w.astype(np.float16).astype(np.float32)


def test_rounding_is_to_the_nearest_and_ties_to_even() -> None:
    one = np.float32(1.0)
    row = np.full(32, one)
    row[:6] = [1 + 2**-9, 1 + 2**-8, 1 + 3 * 2**-8, -(1 + 3 * 2**-8), 2.0**-130, 0.0]
    pairs = rounded(row, DType.BF16).reshape(1, 16, 2)  # two rows side by side
    got = (pairs.astype(np.uint32) << 16).view(np.float32)
    np.testing.assert_array_equal(got[0, :6, 0], [1, 1, 1 + 2**-6, -(1 + 2**-6), 2.0**-130, 0])
    np.testing.assert_array_equal(got[0, :, 1], 1)
    assert rounded(np.float32([1 + 2**-11, 2.0**-24]), DType.F16).tolist() == [1.0, 2.0**-24]


@pytest.mark.parametrize("rank", [1, 2, 3])
@pytest.mark.parametrize("kernel", ["conv-f16", "conv-bf16", "conv_bf16-bf16"])
def test_conv(rank: int, kernel: str) -> None:
    rng = np.random.default_rng(rank)
    name, _, stored = kernel.partition("-")
    dtype = DType[stored.upper()]
    for i in range(30):
        group, channels, filters = choice(rng, 1, 1, 2, 3), choice(rng, 2, 8, 16, 32, 34), choice(rng, 5, 16, 40, 70)
        op, spatial, kernel_shape = (far_conv if i % 3 == 0 else random_conv)(rng, rank, group)
        x = random_array(rng, (choice(rng, 1, 2), group * channels, *spatial), DType.F32)
        case = random_case(rng, op, x, weights(rng, group * filters, channels, *kernel_shape))
        x_as_read, w_as_read = bf16(x) if name == "conv_bf16" else x, widened(case.w, dtype)
        want = exact(op, x_as_read, w_as_read, case.bias, case.residual)
        y_layout = Layout(rng.integers(2))
        layouts = [BLOCK16 if name == "conv_bf16" else Layout(rng.integers(2)), WEIGHT16, BLOCK16, y_layout, y_layout]
        check_step(
            name, [x, *case.grouped, case.residual], [want], [case.output], attributes_of(op), 2e-5,
            layouts=layouts, weights=dtype,
        )  # fmt: skip


def check_lines(case: Case, y: Layout) -> None:
    """Products of bf16 over planar inputs are the reference's of rounded operands, but for what order sums have."""
    op, (w, bias) = case.op, case.grouped
    want = exact(op, bf16(case.x), bf16(case.w), case.bias, case.residual)
    attributes = (*attributes_of(op), Attribute("kernel", ints=case.w.shape[2:]))
    check_step(
        "conv_bf16", [case.x, lines(w, op.dilations[-1]), bias, case.residual], [want], [case.output], attributes,
        2e-5, layouts=(PLANAR, WEIGHT16, BLOCK16, y, y), weights=DType.BF16,
    )  # fmt: skip


@pytest.mark.parametrize("rank", [1, 2, 3])
def test_planar_inputs(rank: int) -> None:
    rng = np.random.default_rng(rank)
    for _ in range(60):
        group, channels, filters = choice(rng, 1, 1, 1, 2, 3), choice(rng, 1, 2, 3, 3, 4, 5, 16, 21), choice(rng, 5, 64)
        op, spatial, kernel = random_conv(rng, rank, group)
        x = random_array(rng, (choice(rng, 1, 2), group * channels, *spatial), DType.F32)
        case = random_case(rng, op, x, weights(rng, group * filters, channels, *kernel))
        check_lines(case, Layout(rng.integers(2)))


@pytest.mark.parametrize("stride", [1, 2, 3, 4])
@pytest.mark.parametrize("channels", [1, 3, 4])
def test_first_layers(channels: int, stride: int) -> None:
    rng = np.random.default_rng(stride)
    for width in (3, 7, 11):
        op = Conv((stride, stride), (width // 2,) * 4, (1, 1), 1, ACTIVATIONS[1])
        x = random_array(rng, (1, channels, 41, 67), DType.F32)
        check_lines(random_case(rng, op, x, weights(rng, 64, channels, width, width)), BLOCK16)


def test_parts_of_planar_rows_and_nothing() -> None:
    for case in (*cases_in_parts(np.random.default_rng(6)), *empty_cases()):
        check_lines(case, BLOCK16)


@pytest.mark.parametrize("tile", TILES)
@pytest.mark.parametrize("dtype", REDUCED)
def test_winograd_of_weights_that_a_run_transforms(dtype: DType, tile: int) -> None:
    rng = np.random.default_rng(tile)
    for _ in range(15):
        group = choice(rng, 1, 1, 2)
        channels, filters = (32, choice(rng, 16, 48)) if group > 1 else (choice(rng, 2, 16, 70), choice(rng, 5, 33, 70))
        op = Conv((1, 1), (1, 0, 1, 2), (1, 1), group, ACTIVATIONS[rng.integers(len(ACTIVATIONS))])
        x = random_array(rng, (choice(rng, 1, 2), group * channels, *rng.integers(3, 20, 2)), DType.F32)
        case = random_case(rng, op, x, weights(rng, group * filters, channels, 3, 3))
        check_step(
            "conv_winograd", [x, *case.grouped, case.residual],
            [exact(op, x, widened(case.w, dtype), case.bias, case.residual)], [case.output],
            (*attributes_of(op), Attribute("tile", ints=(tile,))), 1e-4 if tile == 6 else 2e-5,
            layouts=(BLOCK16, WEIGHT16, BLOCK16, BLOCK16, BLOCK16), weights=dtype,
        )  # fmt: skip


@pytest.mark.parametrize("dtype", REDUCED)
def test_linear(dtype: DType) -> None:
    rng = np.random.default_rng(40)
    for _ in range(40):
        rows, depth, columns = choice(rng, 1, 1, 3, 14, 130), choice(rng, 2, 16, 100, 512), choice(rng, 1, 5, 33, 300)
        x, w = random_array(rng, (rows, depth), DType.F32), weights(rng, columns, depth)
        bias = random_array(rng, (columns,), DType.F32)
        op = MatMul(ACTIVATIONS[rng.integers(len(ACTIVATIONS))])
        want = exact(op, x, widened(w, dtype).T, bias)
        check_step(
            "linear", [x, w[None], bias], [want], [TensorType(DType.F32, want.shape)], attributes_of(op), 2e-5,
            layouts=(PLANAR, WEIGHT16, BLOCK16, PLANAR), weights=dtype,
        )  # fmt: skip


def test_operands_are_proven() -> None:
    op, y = Conv((1, 1), (0, 1, 0, 0), (1, 1)), TensorType(DType.F32, (1, 16, 5, 5))

    def run(kernel: str, channels: int, dtype: DType, layout: Layout = BLOCK16) -> None:
        x, w = np.ones((1, channels, 5, 5), np.float32), np.ones((1, 16, channels, 1, 2), np.float32)
        run_step(kernel, [x, w], [y], attributes_of(op), (layout, WEIGHT16, BLOCK16), weights=dtype)

    run("conv", 3, DType.F16)
    run("conv_bf16", 4, DType.BF16)
    for kernel, channels, dtype, layout, message in (
        ("conv", 3, DType.BF16, BLOCK16, "an even number"),
        ("conv_bf16", 4, DType.F32, BLOCK16, "bf16"),
        ("conv_bf16", 4, DType.F16, BLOCK16, "bf16"),
        ("conv_bf16", 4, DType.BF16, PLANAR, "the input's"),
        ("conv_bf16", 4, DType.BF16, WEIGHT16, "planar"),
    ):
        with pytest.raises(Rejected, match=message):
            run(kernel, channels, dtype, layout)

    def run_lines(*shape: int, kernel: tuple[int, ...] = (1, 2), inputs: int = 3) -> None:
        attributes = (*attributes_of(op), Attribute("kernel", ints=kernel))
        x = np.ones((1, inputs, 5, 5), np.float32)
        run_step("conv_bf16", [x, np.ones(shape, np.float32)], [y], attributes, layouts, weights=DType.BF16)

    layouts = (PLANAR, WEIGHT16, BLOCK16)
    run_lines(1, 16, 6, 1)
    for shape, how, message in (
        ((1, 16, 6), {}, "rank of the weights"),
        ((1, 16, 4, 1), {}, "1,16,6,1"),
        ((1, 16, 6, 2), {}, "1,16,6,1"),
        ((1, 16, 7, 2), {}, "an even number"),
        ((1, 16, 6, 1), {"kernel": (1, 3)}, "output extent"),
        ((1, 16, 6, 1), {"kernel": (1, 2, 1)}, "kernel"),
        ((1, 16, 6, 1), {"kernel": (1, 0)}, "kernel"),
    ):
        with pytest.raises(Rejected, match=message):
            run_lines(*shape, **how)  # type: ignore[arg-type]

    layouts, w = (BLOCK16, WEIGHT16, BLOCK16), transformed(np.ones((16, 4, 3, 3), np.float32), 4)
    attributes = (*attributes_of(Conv((1, 1), (1, 1, 1, 1), (1, 1))), Attribute("tile", ints=(4,)))
    with pytest.raises(Rejected, match="f32"):
        run_step("conv_winograd", [np.ones((1, 4, 5, 5), np.float32), w], [y], attributes, layouts, weights=DType.BF16)
