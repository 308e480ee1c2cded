"""conv_depthwise_planar on every instruction set: against the reference, and bit by bit against conv_depthwise."""

from __future__ import annotations

import numpy as np
import pytest

from packer.ir.ops import Activation, Conv
from packer.ir.types import DType, TensorType
from targets.base import Attribute, Layout, attributes_of
from targets.cpu.depthwise import tap_lists
from tests.runtime_c.kernels.convolutions import Case, choice, random_case, random_conv, weights
from tests.runtime_c.kernels.harness import Rejected, check_step, isas, random_array, run_step

KERNEL = "conv_depthwise_planar"
PLANAR, BLOCK16, DEPTH16 = Layout.PLANAR, Layout.BLOCK16, Layout.DEPTH16
LISTS = (3, 4)  # operands that are read before the first run


def pruned(rng: np.random.Generator, w: np.ndarray, zeros: float) -> np.ndarray:
    return np.where(rng.random(w.shape) < zeros, np.float32(0), w)


def attributes(op: Conv, kernel: tuple[int, ...]) -> tuple[Attribute, ...]:
    return tuple(sorted((*attributes_of(op), Attribute("kernel", ints=kernel)), key=lambda a: a.name))


def check(case: Case, inplace: int | None = None) -> None:
    """The kernel gives the reference's outputs, and exactly those of conv_depthwise."""
    op, x, w, types = case.op, case.x, case.w, [case.output]
    inputs = [x, *tap_lists(w), case.bias, case.residual]
    blocked = [x, w[:, 0], case.bias, case.residual]
    while inputs[-1] is None:
        inputs.pop()
        blocked.pop()
    layouts = [*(BLOCK16, DEPTH16, BLOCK16, BLOCK16)[: len(blocked)], BLOCK16]
    check_step(KERNEL, inputs, [case.want], types, attributes(op, w.shape[2:]), 2e-5, inplace=inplace, constants=LISTS)
    for isa in isas():
        found = run_step(KERNEL, inputs, types, attributes(op, w.shape[2:]), isa=isa, constants=LISTS)
        same = run_step("conv_depthwise", blocked, types, attributes_of(op), layouts, isa)
        assert found[0].tobytes() == same[0].tobytes(), f"not the bits of conv_depthwise on {isa}: {op}, {x.shape}"


@pytest.mark.parametrize("rank", [1, 2, 3])
def test_random_convolutions(rank: int) -> None:
    rng = np.random.default_rng(rank)
    for _ in range(40):
        channels = choice(rng, 1, 3, 16, 17, 40)
        op, spatial, kernel = random_conv(rng, rank, channels)
        x = random_array(rng, (choice(rng, 1, 1, 2), channels, *spatial), DType.F32)
        w = pruned(rng, weights(rng, channels, 1, *kernel), rng.choice((0.0, 0.5, 0.9, 1.0)))
        check(random_case(rng, op, x, w))


@pytest.mark.parametrize("size", [3, 7, 8, 9, 14, 15, 16, 17, 28, 56, 112, 230])
@pytest.mark.parametrize("stride", [1, 2])
def test_sizes_of_networks(size: int, stride: int) -> None:
    """Two rows a vector, whole rows, parts of rows, several bands; taps all there, some and none."""
    rng = np.random.default_rng(size)
    for kernel in (3, 5, 7):
        op = Conv((stride,) * 2, (kernel // 2,) * 4, (1, 1), 4, Activation("clip", 0.0, 6.0))
        x, w = random_array(rng, (1, 4, size, size), DType.F32), weights(rng, 4, 1, kernel, kernel)
        w[1] = pruned(rng, w[1], 0.5)
        w[2] = 0
        w[3].reshape(-1)[1:] = 0
        check(Case(op, x, w, random_array(rng, (4,), DType.F32)))


@pytest.mark.parametrize("stride", [1, 2])
def test_parts_of_images(stride: int) -> None:
    """3 by 3 taps, padding at one end, both or none, more rows or fewer than a tile, with residuals."""
    rng = np.random.default_rng(stride)
    for height, width in ((1, 5), (2, 15), (4, 16), (10, 17), (16, 33), (9, 64)):
        for pads in ((0, 1, 0, 1), (1, 1, 0, 0), (0, 1, 1, 0), (3, 1, 2, 1), (2, 0, 1, 1), (1, 1, 1, 2)):
            if height + pads[0] + pads[2] < 3:
                continue
            op = Conv((stride,) * 2, pads, (1, 1), 3, Activation("relu"))
            x, w = random_array(rng, (1, 3, height, width), DType.F32), weights(rng, 3, 1, 3, 3)
            shape = op.infer([TensorType(DType.F32, x.shape), TensorType(DType.F32, w.shape)])[0].shape
            check(Case(op, x, w, random_array(rng, (3,), DType.F32), random_array(rng, shape, DType.F32)))


@pytest.mark.parametrize("dilation", [2, 4, 9])
def test_rows_with_gaps(dilation: int) -> None:
    """Taps so far apart that lines are longer than rows of outputs: fewer rows than a tile has, as many and more."""
    rng = np.random.default_rng(dilation)
    for width in (1, 9, 16, 31, 32, 33, 64, 112):
        for rows in (1, 13, 14, 15, 30):
            op = Conv((1, 1), (dilation,) * 4, (dilation,) * 2, 3, Activation("relu"))
            x, w = random_array(rng, (1, 3, rows, width), DType.F32), weights(rng, 3, 1, 3, 3)
            w[1] = pruned(rng, w[1], 0.5)
            residual = random_array(rng, x.shape, DType.F32) if rows % 2 else None
            check(Case(op, x, w, random_array(rng, (3,), DType.F32), residual))


@pytest.mark.parametrize("height", range(4, 17))
def test_tall_kernels(height: int) -> None:
    """All the taps of four rows or more, most of them and few; outputs one row of taps apart, two and more, in
    rows that are neighbours or not, more of them and fewer than a tile has."""
    rng = np.random.default_rng(height)
    for strides in ((1, 1), (1, 2), (2, 2), (2, 1), (3, 1), (4, 4)):
        for dilation in (1, 2, 3):
            width = choice(rng, 1, 2, 3, 5, 7, 255 // height)
            reach = (height - 1) * dilation
            pads = (choice(rng, 0, reach // 2, reach + 2), choice(rng, 0, width // 2, 9), choice(rng, 0, reach // 2), 1)
            rows = max(1, reach + 1 - pads[0] - pads[2]) + choice(rng, 0, 1, 6, 15, 30)
            op = Conv(strides, pads, (dilation, 1), 4, Activation("relu"))
            x = random_array(rng, (1, 4, rows, width + choice(rng, 0, 6, 13, 17, 40)), DType.F32)
            w = weights(rng, 4, 1, height, width)
            w[1], w[2] = pruned(rng, w[1], 0.1), pruned(rng, w[2], 0.8)
            check(random_case(rng, op, x, w))


def test_tall_kernels_of_volumes() -> None:
    rng = np.random.default_rng(6)
    for stride in (1, 2):
        op = Conv((1, stride, stride), (1, 3, 1, 1, 2, 1), (1, 1, 1), 2)
        x, w = random_array(rng, (2, 2, 3, 20, 9), DType.F32), weights(rng, 2, 1, 3, 7, 3)
        check(random_case(rng, op, x, w))


@pytest.mark.parametrize("stride", [1, 2])
def test_infinity_stays_where_taps_reach(stride: int) -> None:
    """Next to padding, at the ends of lines, and in a channel whose neighbours' inputs are finite."""
    rng = np.random.default_rng(stride)
    op = Conv((stride, stride), (2, 3, 2, 3), (1, 1), 3)
    for size in (7, 16, 29):
        x, w = random_array(rng, (1, 3, size, size), DType.F32), np.abs(weights(rng, 3, 1, 5, 7)) + np.float32(0.01)
        x[0, 1, 0, 0] = x[0, 1, -1, -1] = np.inf
        case = Case(op, x, w)
        assert 0 < np.isinf(case.want).sum() < case.want[0, 1].size
        check(case)


def test_residual_in_place() -> None:
    rng = np.random.default_rng(4)
    for size, kernel in ((7, 3), (20, 3), (7, 5), (20, 7)):
        op = Conv((1, 1), (kernel // 2,) * 4, (1, 1), 5, Activation("relu"))
        x, w = random_array(rng, (1, 5, size, size), DType.F32), weights(rng, 5, 1, kernel, kernel)
        bias, residual = random_array(rng, (5,), DType.F32), random_array(rng, x.shape, DType.F32)
        check(Case(op, x, w, bias, residual), inplace=6)


def test_padding_larger_than_the_input() -> None:
    """Taps whose rows or columns all lie in the padding."""
    rng = np.random.default_rng(5)
    for op, kernel in (
        (Conv((3, 2), (7, 9, 8, 7), (2, 3), 3), (4, 3)),
        (Conv((1, 1), (6, 0, 6, 0), (3, 1), 3), (5, 1)),
        (Conv((2, 5), (0, 12, 0, 12), (1, 4), 3), (1, 7)),
        (Conv((2, 2), (1, 0, 1, 0), (1, 1), 3), (3, 1)),
    ):
        for width in (1, 3):
            x = random_array(rng, (1, 3, 5, width), DType.F32)
            if x.shape[3] + op.pads[1] + op.pads[3] > (kernel[1] - 1) * op.dilations[1]:
                check(Case(op, x, weights(rng, 3, 1, *kernel)))


def test_nothing() -> None:
    op = Conv((1, 1), (1, 1, 1, 1), (1, 1), 3)
    x, w = np.ones((0, 3, 4, 5), np.float32), np.ones((3, 1, 3, 3), np.float32)
    types = [TensorType(DType.F32, x.shape)]
    check_step(KERNEL, [x, *tap_lists(w)], [x], types, attributes(op, (3, 3)), constants=LISTS)


def test_operands_are_proven() -> None:
    op = Conv((1, 1), (1, 1, 1, 1), (1, 1), 20)
    x, y = np.ones((1, 20, 5, 5), np.float32), [TensorType(DType.F32, (1, 20, 5, 5))]
    values, taps, counts, starts = tap_lists(np.ones((20, 1, 3, 3), np.float32))

    def run(*operands: np.ndarray, op: Conv = op, kernel: tuple[int, ...] = (3, 3), constants: object = LISTS) -> None:
        run_step(KERNEL, [x, *operands], y, attributes(op, kernel), constants=constants)

    run(values, taps, counts, starts)
    run(values, np.full_like(taps, 255), counts, starts)  # any number is safe
    for operands, how in (
        ((values, taps, counts, starts), {"constants": (3,)}),
        ((values, taps, counts, starts), {"kernel": (3, 2)}),
        ((values, taps, counts, starts), {"kernel": (16, 16)}),
        ((values, taps, counts, starts), {"op": Conv((1, 1), (1, 1, 1, 1), (1, 1), 10)}),
        ((values, taps[1:], counts, starts), {}),
        ((values, taps, counts[1:], starts), {}),
        ((values, taps, counts, starts[1:]), {}),
        ((values, taps, counts, starts + 1), {}),
        ((values, taps, counts, starts - 1), {}),
        ((values, taps, counts + 1, starts), {}),
        ((values, taps, counts.astype(np.int8), starts), {}),
        ((values, taps, counts, starts, np.ones(19, np.float32)), {}),
    ):
        with pytest.raises(Rejected):
            run(*operands, **how)  # type: ignore[arg-type]
