"""conv, conv_depthwise, conv_transpose, linear and matmul on every instruction set against their references."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from packer.ir.ops import Conv, ConvTranspose, MatMul
from packer.ir.types import DType, TensorType
from targets.base import Layout, attributes_of
from tests.runtime_c.kernels.convolutions import (
    ACTIVATIONS,
    Operand,
    agree,
    cases_in_parts,
    choice,
    empty_cases,
    exact,
    expect_proven,
    far_conv,
    random_case,
    random_conv,
    residual_cases,
    weights,
)
from tests.runtime_c.kernels.harness import Box, Rejected, random_array, run_step

Geometry = Callable[[np.random.Generator, int, int], tuple[Conv, tuple[int, ...], tuple[int, ...]]]
PLANAR, BLOCK16, WEIGHT16, DEPTH16 = Layout.PLANAR, Layout.BLOCK16, Layout.WEIGHT16, Layout.DEPTH16


def check_conv(
    rng: np.random.Generator, rank: int, group: int, channels: int, filters: int, geometry: Geometry = random_conv
) -> None:
    op, spatial, kernel = geometry(rng, rank, group)
    x = random_array(rng, (choice(rng, 1, 1, 2), group * channels, *spatial), DType.F32)
    case = random_case(rng, op, x, weights(rng, group * filters, channels, *kernel))
    w, bias, residual, want = case.w, case.bias, case.residual, case.want
    depthwise = channels == filters == 1
    for x_layout, y_layout in ((BLOCK16, BLOCK16), (Layout(rng.integers(2)), Layout(rng.integers(2)))):
        inputs: list[Operand] = [(x, x_layout)]
        if depthwise:
            inputs.append((w[:, 0], DEPTH16))
            inputs.append(None if bias is None else (bias, BLOCK16))
        else:
            grouped, grouped_bias = case.grouped
            inputs.append((grouped, WEIGHT16))
            inputs.append(None if grouped_bias is None else (grouped_bias, BLOCK16))
        inputs.append(None if residual is None else (residual, y_layout))
        agree("conv_depthwise" if depthwise else "conv", op, inputs, want, y_layout)
    for kernel, weight in (("conv_im2col_caffe", w), ("conv_im2col_nhwc", np.moveaxis(w, 1, -1))):
        agree(kernel, op, [None if a is None else (a, PLANAR) for a in (x, weight, bias, residual)], want)


@pytest.mark.parametrize("rank", [1, 2, 3])
def test_conv(rank: int) -> None:
    rng = np.random.default_rng(rank)
    for _ in range(40):
        group = choice(rng, 1, 1, 1, 2, 3)
        channels, filters = choice(rng, 1, 2, 3, 7, 16, 17, 32, 40), choice(rng, 2, 5, 16, 17, 32, 40, 70)
        check_conv(rng, rank, group, channels, filters)


@pytest.mark.parametrize("rank", [1, 2, 3])
def test_conv_far_taps(rank: int) -> None:
    rng = np.random.default_rng(5 + rank)
    for _ in range(25):
        channels, filters = choice(rng, 3, 8, 17, 40), choice(rng, 5, 16, 40, 90)
        check_conv(rng, rank, choice(rng, 1, 1, 2), channels, filters, far_conv)


@pytest.mark.parametrize("rank", [1, 2, 3])
def test_conv_depthwise(rank: int) -> None:
    rng = np.random.default_rng(10 + rank)
    for _ in range(40):
        check_conv(rng, rank, choice(rng, 1, 3, 16, 17, 40), 1, 1)


@pytest.mark.parametrize("width", [1, 2, 3, 5, 7, 8, 14, 15, 28, 29, 43])
def test_conv_depthwise_rows(width: int) -> None:
    """Kernels of any width over rows narrower than one, of one tile and of several, some taps outside at both ends."""
    rng = np.random.default_rng(width)
    for taps in range(1, 10):
        for stride, dilation in ((1, 1), (2, 1), (3, 1), (1, 2), (2, 3)):
            pad = (taps - 1) * dilation // 2
            op = Conv((1, stride), (1, pad, 1, (taps - 1) * dilation - pad), (1, dilation), 16)
            x, w = random_array(rng, (1, 16, 3, width), DType.F32), weights(rng, 16, 1, 3, taps)
            agree("conv_depthwise", op, [(x, BLOCK16), (w[:, 0], DEPTH16)], exact(op, x, w), BLOCK16)


def test_conv_cut_into_parts_of_rows() -> None:
    for case in cases_in_parts(np.random.default_rng(20)):
        for layout in (PLANAR, BLOCK16):
            agree("conv", case.op, [(case.x, layout), (case.w[None], WEIGHT16)], case.want, layout)


def test_conv_residual_in_place() -> None:
    for case in residual_cases(np.random.default_rng(21)):
        for layout in (PLANAR, BLOCK16):
            inputs = [(case.x, BLOCK16), (case.grouped[0], WEIGHT16), None, (case.residual, layout)]
            agree("conv", case.op, inputs, case.want, layout, inplace=3)


def test_conv_of_nothing() -> None:
    for case in empty_cases():
        for layout in (PLANAR, BLOCK16):
            agree("conv", case.op, [(case.x, layout), (case.w[None], WEIGHT16)], case.want, layout)


@pytest.mark.parametrize("rank", [1, 2, 3])
def test_conv_transpose(rank: int) -> None:
    rng = np.random.default_rng(30 + rank)
    for _ in range(30):
        group, channels, filters = choice(rng, 1, 1, 2, 3), choice(rng, 1, 3, 16, 17, 40), choice(rng, 1, 5, 16, 33, 70)
        kernel = tuple(choice(rng, 1, 2, 3, 4, 5) if rank < 3 else choice(rng, 1, 2, 3) for _ in range(rank))
        strides, dilations = (tuple(choice(rng, 1, 2, 2, 3, 5) for _ in range(rank)) for _ in range(2))
        slack = tuple(choice(rng, 0, 0, 1, 2) for _ in range(rank))
        pads = tuple(choice(rng, 0, 0, 1, 2) for _ in range(2 * rank))
        op = ConvTranspose(strides, pads, dilations, slack, group, ACTIVATIONS[rng.integers(len(ACTIVATIONS))])
        spatial = tuple(choice(rng, 5, 7, 14) if rank < 3 else choice(rng, 4, 5) for _ in range(rank))
        x = random_array(rng, (choice(rng, 1, 2), group * channels, *spatial), DType.F32)
        w = weights(rng, group * channels, filters, *kernel)
        bias = random_array(rng, (group * filters,), DType.F32) if rng.random() < 0.6 else None
        inputs = [(x, PLANAR), (w, PLANAR), None if bias is None else (bias, PLANAR)]
        agree("conv_transpose", op, inputs, exact(op, x, w, bias))


def test_linear() -> None:
    rng = np.random.default_rng(40)
    leads: tuple[tuple[int, ...], ...] = ((), (1,), (1,), (3,), (7,), (14,), (2, 3), (130,), (0,))
    for _ in range(60):
        depth, columns = choice(rng, 0, 1, 3, 16, 17, 100, 512, 1024), choice(rng, 0, 1, 5, 16, 33, 130, 300)
        x = random_array(rng, (*leads[rng.integers(len(leads))], depth), DType.F32)
        w = weights(rng, columns, depth)
        bias = random_array(rng, (columns,), DType.F32) if rng.random() < 0.6 else None
        op = MatMul(ACTIVATIONS[rng.integers(len(ACTIVATIONS))])
        inputs = [(x, PLANAR), (w[None], WEIGHT16), None if bias is None else (bias, BLOCK16)]
        agree("linear", op, inputs, exact(op, x, w.T, bias))


BATCHES: tuple[tuple[tuple[int, ...], tuple[int, ...]], ...] = (
    ((), ()), ((2,), (2,)), ((3,), (1,)), ((), (2, 3)), ((2, 1), (3,)), ((2, 3), ()), ((0,), (1,)),
)  # fmt: skip


@pytest.mark.parametrize("dtype", [DType.F32, DType.I32, DType.I64, DType.U32, DType.U64])
def test_matmul(dtype: DType) -> None:
    rng = np.random.default_rng(50)
    for _ in range(60 if dtype is DType.F32 else 15):
        m, k, n = choice(rng, 0, 1, 2, 7, 33), choice(rng, 0, 1, 3, 16, 50, 512), choice(rng, 0, 1, 5, 16, 33, 130)
        a_batch, b_batch = BATCHES[rng.integers(len(BATCHES))]
        a = random_array(rng, (k,) if rng.random() < 0.1 else (*a_batch, m, k), dtype)
        b = random_array(rng, (k,) if rng.random() < 0.1 else (*b_batch, k, n), dtype)
        if dtype is DType.F32:
            b = (b / np.sqrt(max(k, 1))).astype(np.float32)
        op = MatMul(ACTIVATIONS[rng.integers(len(ACTIVATIONS))] if dtype is DType.F32 else None)
        shape = op.infer([TensorType(dtype, a.shape), TensorType(dtype, b.shape)])[0].shape
        bias = None
        if rng.random() < 0.5:
            bias = random_array(rng, [d if rng.random() < 0.7 else 1 for d in shape][choice(rng, 0, 1) :], dtype)
        want = exact(op, a, b, bias) if dtype is DType.F32 else op.reference(a, b, bias)[0]
        inputs = [(a, PLANAR), (b, PLANAR), None if bias is None else (bias, PLANAR)]
        agree("matmul", op, inputs, np.asarray(want))


def test_operands_are_proven() -> None:
    expect_proven("conv")


def test_views_of_packed_weights_take_whole_kernels() -> None:
    op, y = Conv((1, 1), (1, 1, 1, 1), (1, 1)), TensorType(DType.F32, (1, 4, 5, 5))
    x, w = np.ones((1, 3, 5, 5), np.float32), np.ones((1, 4, 3, 3, 3), np.float32)
    larger = Box((1, 4, 3, 3, 4), (0, 0, 0, 0, 1))
    with pytest.raises(Rejected, match="whole kernels"):
        run_step("conv", [x, w], [y], attributes_of(op), (PLANAR, WEIGHT16, PLANAR), boxes=[None, larger, None])
    x, w, op = np.ones((1, 4, 5, 5), np.float32), np.ones((4, 3, 3), np.float32), replace(op, group=4)
    larger = Box((4, 4, 3), (0, 1, 0))
    with pytest.raises(Rejected, match="whole kernels"):
        run_step(
            "conv_depthwise", [x, w], [y], attributes_of(op), (PLANAR, DEPTH16, PLANAR), boxes=(None, larger, None)
        )
