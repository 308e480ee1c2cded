"""Convolutions with weights from memory: groups of any size, strides, dilation, pads within the halo and beyond it."""

from __future__ import annotations

import numpy as np
import pytest

from packer.ir import DType
from packer.ir.ops import Activation, Conv
from targets.cuda.array import Array
from targets.cuda.operators import code_of
from tests.targets.cuda.driver import counters, reset_counters
from tests.targets.cuda.generic.check import check, code
from tests.targets.cuda.launch import run

RNG = np.random.default_rng(71)
RTOL, ATOL = 2e-6, 2e-6


def normal(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype(np.float32)


def depthwise(kernel: int, stride: int, dilation: int = 1, channels: int = 1) -> Conv:
    pad = (kernel - 1) * dilation // 2
    return Conv((stride,) * 2, (pad,) * 4, (dilation,) * 2, channels)


@pytest.mark.parametrize("halo", [False, True], ids=["dense", "halo"])
@pytest.mark.parametrize("stride", [1, 2, 3])
@pytest.mark.parametrize(
    ("kernel", "dilation"), [(1, 1), (2, 1), (3, 1), (3, 2), (5, 1), (7, 1), (9, 1), (11, 1), (3, 9)]
)
def test_depthwise(kernel: int, dilation: int, stride: int, halo: bool) -> None:
    for shape in ((2, 3, 23, 37), (1, 5, 7, 7), (1, 2, 40, 9)):
        if min(shape[2:]) + (kernel - 1) * dilation // 2 * 2 > (kernel - 1) * dilation:
            op = depthwise(kernel, stride, dilation, shape[1])
            check(
                op, normal(*shape), normal(shape[1], 1, kernel, kernel), constant=[1], halo=halo, rtol=RTOL, atol=1e-5
            )


@pytest.mark.parametrize("seed", range(40))
def test_random(seed: int) -> None:
    rng = np.random.default_rng(seed)
    group, depth, each = (int(rng.integers(1, high)) for high in (5, 4, 13))
    kernel, strides, dilations = (tuple(map(int, rng.integers(1, high, 2))) for high in (6, 4, 4))
    pads = tuple(map(int, rng.integers(0, 4, 4)))
    size = [int(rng.integers((k - 1) * d + 1, 45)) for k, d in zip(kernel, dilations, strict=True)]
    x, w = normal(int(rng.integers(1, 4)), group * depth, *size), normal(group * each, depth, *kernel)
    op = Conv(strides, pads, dilations, group, Activation("relu") if seed % 3 else None)
    bias = normal(group * each) if seed % 2 else None
    (y,) = op.reference(x, w, bias)
    residual = normal(*y.shape) if seed % 5 == 0 else None
    known = [1, 2] if seed % 4 else [] if bias is None else [2]
    check(op, x, w, bias, residual, constant=known, halo=bool(seed % 7), rtol=RTOL, atol=1e-5)


@pytest.mark.parametrize("size", [1, 2, 6, 16, 31, 32, 33, 64, 100])
def test_any_width(size: int) -> None:
    op = depthwise(3, 1, 1, 6)
    check(op, normal(2, 6, 9, size), normal(6, 1, 3, 3), normal(6), constant=[1, 2], halo=True, rtol=RTOL, atol=ATOL)


def test_many_channels_and_few_outputs() -> None:
    op = Conv((1, 1), (1,) * 4, (1, 1), 1, Activation("sigmoid"))
    check(op, normal(1, 70, 13, 14), normal(3, 70, 3, 3), normal(3), constant=[1, 2], halo=True, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("stride", [1, 2])
def test_one_dimension(stride: int) -> None:
    op = Conv((stride,), (2, 1), (2,), 2)
    check(op, normal(2, 6, 75), normal(8, 3, 4), normal(8), constant=[1], rtol=RTOL, atol=1e-5)


def test_halves() -> None:
    x, w = normal(1, 6, 30, 33), normal(6, 1, 3, 3)
    op = Conv((1, 1), (1,) * 4, (1, 1), 6)
    residual = normal(*op.reference(x, w)[0].shape)
    check(op, x, w, normal(6), residual, constant=[1, 2], halo=True, half=True, atol=2e-3)


def test_the_residual_may_be_where_the_output_goes() -> None:
    op, x, w = depthwise(3, 1, 1, 2), normal(1, 2, 19, 43), normal(2, 1, 3, 3)
    array = Array.dense(DType.F32, x.shape)
    arrays = [array, Array.dense(DType.F32, w.shape), None, array]
    made = code_of(op, arrays, [array], [None, w, None, None])
    assert made is not None
    assert ".nc" not in next(line for line in made.kernels[0].ptx.splitlines()[::-1] if "ld.global" in line)
    assert "st.global" not in made.kernels[0].ptx.split("add.rn.f32")[0]


def test_padding_is_read_from_the_halo_without_tests() -> None:
    x, w = normal(1, 4, 56, 56), normal(4, 1, 3, 3)
    tests = []
    for halo in (False, True):
        made, *_ = code(depthwise(3, 1, 1, 4), [x, w], [1], halo)
        assert made is not None
        tests.append(sum(line.startswith("@") and "ld.global" in line for line in made.kernels[0].ptx.splitlines()))
    assert tests[0] > 0 == tests[1]


@pytest.mark.parametrize(
    ("shape", "kernel", "stride", "most"),
    [
        ((1, 16, 112, 112), 3, 1, 1.7),
        ((1, 16, 112, 112), 3, 2, 2.5),
        ((1, 24, 56, 56), 5, 1, 2.1),
        ((1, 96, 14, 14), 3, 1, 2.1),
        ((1, 160, 7, 7), 3, 1, 5.0),
    ],
)
def test_loads_and_stores_are_few(shape: tuple[int, ...], kernel: int, stride: int, most: float) -> None:
    """Sectors of 32 bytes that pass between processor and caches, in those that input and output fill."""
    x, w = normal(*shape), normal(shape[1], 1, kernel, kernel)
    made, arrays, outputs = code(depthwise(kernel, stride, 1, shape[1]), [x, w], [1], halo=True)
    assert made is not None
    assert arrays[0] is not None
    reset_counters()
    run(made, [(arrays[0], x), None], outputs)
    floor = (x.size + outputs[0].elements) / 8
    share = counters()["global_sectors"] / floor
    print(f"{shape} {kernel}x{kernel} / {stride}: {share:.2f} times the sectors of input and output")
    assert share < most


def test_three_dimensions_stay_on_the_cpu() -> None:
    assert code(Conv((1,) * 3, (0,) * 6, (1,) * 3, 2), [normal(1, 2, 5, 5, 5), normal(2, 1, 3, 3, 3)], [1])[0] is None
