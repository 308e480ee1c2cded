"""conv_direct on every instruction set: against the reference, and bit by bit against conv."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from packer.ir.ops import Activation, Conv
from packer.ir.types import DType, TensorType
from targets.base import Layout, attributes_of
from tests.runtime_c.kernels.convolutions import (
    Case,
    Operand,
    agree,
    choice,
    empty_cases,
    random_case,
    random_conv,
    weights,
)
from tests.runtime_c.kernels.harness import Rejected, isas, random_array, run_step

PLANAR, BLOCK16, WEIGHT16 = Layout.PLANAR, Layout.BLOCK16, Layout.WEIGHT16


def check(case: Case, inplace: int | None = None) -> None:
    """The kernel gives the reference's outputs, and exactly those of conv, which adds up in the same order."""
    op, (packed, bias) = case.op, case.grouped
    inputs: list[Operand] = [(case.x, PLANAR), (packed, WEIGHT16)]
    inputs.append(None if bias is None else (bias, BLOCK16))
    inputs.append(None if case.residual is None else (case.residual, PLANAR))
    agree("conv_direct", op, inputs, case.want, inplace=inplace)
    arrays, layouts = zip(*((None, PLANAR) if i is None else i for i in inputs), strict=True)
    for isa in isas():
        direct, conv = (
            run_step(kernel, arrays, [case.output], attributes_of(op), (*layouts, PLANAR), isa)
            for kernel in ("conv_direct", "conv")
        )
        assert direct[0].tobytes() == conv[0].tobytes(), f"not the bits of conv on {isa}: {op}, {packed.shape}"


@pytest.mark.parametrize("rank", [1, 2, 3])
def test_random_convolutions(rank: int) -> None:
    rng = np.random.default_rng(rank)
    for _ in range(40):
        group, channels, filters = choice(rng, 1, 1, 2, 3), choice(rng, 1, 3, 7, 17, 32), choice(rng, 1, 4, 9, 16, 37)
        op, spatial, kernel = random_conv(rng, rank, group)
        x = random_array(rng, (choice(rng, 1, 1, 2), group * channels, *spatial), DType.F32)
        check(random_case(rng, op, x, weights(rng, group * filters, channels, *kernel)))


@pytest.mark.parametrize("stride", [1, 2, 3, 4, 6])
@pytest.mark.parametrize("dilation", [1, 2, 3, 4])
def test_every_phase_of_a_stride(stride: int, dilation: int) -> None:
    rng = np.random.default_rng(4)
    for width in (1, 2, 3, 7):
        x, w = random_array(rng, (1, 2, 3, 61), DType.F32), weights(rng, 5, 2, 1, width)
        check(Case(Conv((1, stride), (0, 5, 0, 3), (1, dilation)), x, w))


def test_rows_of_every_width() -> None:
    rng = np.random.default_rng(5)
    w, bias = weights(rng, 13, 1, 2, 2), random_array(rng, (13,), DType.F32)
    for width in range(1, 70):
        x = random_array(rng, (1, 1, 5, width + 1), DType.F32)
        residual = random_array(rng, (1, 13, 4, width), DType.F32)
        check(Case(Conv((1, 1), (0, 0, 0, 0), (1, 1)), x, w, bias, residual))


def test_parts_of_rows() -> None:
    rng = np.random.default_rng(6)
    x, w = random_array(rng, (1, 600, 1, 400), DType.F32), weights(rng, 16, 600, 1, 3)
    check(Case(Conv((1, 1), (0, 1, 0, 1), (1, 1)), x, w))
    check(Case(Conv((1, 2), (0, 3, 0, 0), (1, 2)), x, w))


def test_residual_in_place() -> None:
    rng = np.random.default_rng(7)
    for group, filters in ((1, 20), (2, 5)):
        op = Conv((1, 1), (1, 1, 1, 1), (1, 1), group, Activation("relu"))
        x, w = random_array(rng, (1, 8, 9, 9), DType.F32), weights(rng, group * filters, 8 // group, 3, 3)
        check(Case(op, x, w, None, random_array(rng, (1, group * filters, 9, 9), DType.F32)), inplace=3)


def test_nothing() -> None:
    for case in empty_cases():
        check(case)


def test_operands_are_proven() -> None:
    x, w = np.ones((1, 3, 5, 5), np.float32), np.ones((1, 4, 3, 3, 3), np.float32)
    y = TensorType(DType.F32, (1, 4, 5, 5))
    good, far = Conv((1, 1), (1, 1, 1, 1), (1, 1)), 2**29

    def run(
        op: Conv, w: np.ndarray = w, y: TensorType = y, layouts: Sequence[Layout] = (PLANAR, WEIGHT16, PLANAR)
    ) -> None:
        run_step("conv_direct", [x, w], [y], attributes_of(op), layouts)

    run(good)
    for op, change in (
        (Conv((1, 1), (1, 1, 1, 0), (1, 1)), {}),
        (Conv((0, 1), (1, 1, 1, 1), (1, 1)), {}),
        (Conv((1, 1), (1, 1, 1, 1), (1, 1), 2), {}),
        (Conv((1, 1), (1, 1, 1, 1), (1, 1), 1, Activation("is_nan")), {}),
        (Conv((1, 1), (far, 1, far, 1), (far, 1)), {}),  # more zeros than inputs are worth
        (Conv((1, 1), (1, far, 1, far), (1, far)), {}),
        (good, {"w": np.ones((1, 4, 2, 3, 3), np.float32)}),
        (good, {"w": np.ones((1, 5, 3, 3, 3), np.float32)}),
        (good, {"y": TensorType(DType.F32, (1, 4, 5, 6))}),
        (good, {"y": TensorType(DType.I32, (1, 4, 5, 5))}),
        (good, {"layouts": (BLOCK16, WEIGHT16, PLANAR)}),
        (good, {"layouts": (PLANAR, PLANAR, PLANAR)}),
        (good, {"layouts": (PLANAR, WEIGHT16, BLOCK16)}),
    ):
        with pytest.raises(Rejected):
            run(op, **change)
