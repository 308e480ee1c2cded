"""conv_direct on every instruction set: against the reference, and bit by bit against conv."""

from __future__ import annotations

import numpy as np
import pytest

from packer.ir.ops import Activation, Conv
from packer.ir.types import DType
from targets.base import Layout, attributes_of
from tests.runtime_c.kernels.convolutions import (
    ACTIVATIONS,
    PADDED,
    Case,
    Operand,
    agree,
    cases_in_parts,
    choice,
    empty_cases,
    expect_proven,
    random_case,
    random_conv,
    residual_cases,
    weights,
)
from tests.runtime_c.kernels.harness import isas, random_array, run_step

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


@pytest.mark.parametrize("filters", [1, 9, 33, 64, 65])
def test_inputs_in_place(filters: int) -> None:
    """Those of single taps, where positions are whole vectors: of images, groups and bands. Else they are copied."""
    rng = np.random.default_rng(filters)
    for images, group, height, width in ((1, 1, 4, 4), (2, 3, 8, 6), (2, 1, 40, 44), (1, 2, 7, 5), (1, 1, 96, 96)):
        channels = choice(rng, 3, 20)
        x = random_array(rng, (images, group * channels, height, width), DType.F32)
        op = Conv((1, 1), (0, 0, 0, 0), (1, 1), group)
        check(random_case(rng, op, x, weights(rng, group * filters, channels, 1, 1)))


def test_parts_of_rows() -> None:
    for case in cases_in_parts(np.random.default_rng(6)):
        check(case)


def test_residual_in_place() -> None:
    for case in residual_cases(np.random.default_rng(7)):
        check(case, inplace=3)


@pytest.mark.parametrize("channels", [64, 129, 256, 300, 700])
@pytest.mark.parametrize("activation", [None, ACTIVATIONS[1], ACTIVATIONS[4]])
def test_taps_in_passes(channels: int, activation: Activation | None) -> None:
    """More taps than the first-level cache keeps inputs of, of groups, with residuals in place, and without rows of
    the input that a stride leaves out."""
    rng = np.random.default_rng(channels)
    shapes = ((1, 5, 1, 1, 9), (1, 70, 1, 2, 15), (2, 33, 1, 3, 20), (1, 18, 2, 2, 9))
    for group, filters, kernel, stride, size in shapes:
        x = random_array(rng, (2, group * channels, size, size), DType.F32)
        w = weights(rng, group * filters, channels, kernel, kernel)
        op = Conv((stride, stride), (0, 0, 0, 0), (1, 1), group, activation)
        case = random_case(rng, op, x, w)
        inplace = None if case.residual is None else 3
        check(case, inplace)
        packed, bias = case.grouped
        inputs: list[Operand] = [(x, BLOCK16), (packed, WEIGHT16), None if bias is None else (bias, BLOCK16)]
        inputs.append(None if case.residual is None else (case.residual, BLOCK16))
        agree("conv", op, inputs, case.want, BLOCK16, inplace)


def test_nothing() -> None:
    for case in empty_cases():
        check(case)


def test_operands_are_proven() -> None:
    far = 2**29
    expect_proven(
        "conv_direct",
        (Conv((1, 1), (far, 1, far, 1), (far, 1)), {}),  # more zeros than inputs are worth
        (Conv((1, 1), (1, far, 1, far), (1, far)), {}),
        (PADDED, {"layouts": (BLOCK16, WEIGHT16, PLANAR)}),
        (PADDED, {"layouts": (PLANAR, WEIGHT16, BLOCK16)}),
    )
