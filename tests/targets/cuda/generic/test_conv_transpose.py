"""Transposed convolutions of one to three dimensions: strides with and without dilation, output padding, groups."""

from __future__ import annotations

import numpy as np
import pytest

from packer.ir import DType, TensorType
from packer.ir.ops import Activation, ConvTranspose, ShapeError
from tests.targets.cuda.generic.check import check, code

RNG = np.random.default_rng(81)


def normal(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype(np.float32)


def random_transpose(seed: int) -> tuple[ConvTranspose, np.ndarray, np.ndarray, np.ndarray | None]:
    rng = np.random.default_rng(seed)
    while True:
        dims = int(rng.choice([1, 2, 2, 2, 3]))
        group, depth, each = (int(rng.integers(1, high)) for high in (4, 5, 13))
        kernel, strides, dilations = (tuple(map(int, rng.integers(1, high, dims))) for high in (6, 5, 4))
        pads, padding = tuple(map(int, rng.integers(0, 5, 2 * dims))), tuple(map(int, rng.integers(0, 4, dims)))
        op = ConvTranspose(strides, pads, dilations, padding, group, Activation("relu") if seed % 2 else None)
        x = normal(int(rng.integers(1, 3)), group * depth, *map(int, rng.integers(1, 14, dims)))
        w, bias = normal(group * depth, each, *kernel), normal(group * each) if seed % 3 else None
        try:
            (y,) = op.infer([None if a is None else TensorType(DType.F32, a.shape) for a in (x, w, bias)])
        except ShapeError:
            continue
        if y.elements:
            return op, x, w, bias


@pytest.mark.parametrize("halo", [False, True], ids=["dense", "halo"])
@pytest.mark.parametrize("seed", range(40))
def test_random(seed: int, halo: bool) -> None:
    op, x, w, bias = random_transpose(seed)
    check(op, x, w, bias, constant=[1] if seed % 4 else [1, 2], halo=halo, rtol=2e-6, atol=1e-5)


@pytest.mark.parametrize(
    ("kernel", "stride", "pad", "channels"),
    [
        (2, 2, 0, (40, 24)),
        (4, 2, 1, (20, 16)),
        (3, 2, 1, (17, 5)),
        (3, 1, 1, (6, 8)),
        (16, 8, 4, (3, 2)),
        (1, 3, 0, (4, 3)),
    ],
)
def test_usual_ones(kernel: int, stride: int, pad: int, channels: tuple[int, int]) -> None:
    op = ConvTranspose((stride,) * 2, (pad,) * 4, (1, 1), (0, 0), 1, Activation("leaky_relu", 0.2))
    x, w = normal(1, channels[0], 13, 11), normal(*channels, kernel, kernel)
    check(op, x, w, normal(channels[1]), constant=[1, 2], halo=True, rtol=5e-6, atol=2e-5)


def test_strides_of_more_outputs_than_a_thread_has() -> None:
    op = ConvTranspose((16, 16), (8,) * 4, (1, 1), (0, 0), 3)
    x, w = normal(1, 3, 5, 6), normal(3, 1, 32, 32)
    made, *_ = code(op, [x, w], [1], halo=True)
    assert made is not None
    assert len(made.kernels) == 4
    check(op, x, w, constant=[1], halo=True, rtol=2e-6, atol=1e-6)


def test_no_product_is_lost_and_no_tap_tested() -> None:
    op = ConvTranspose((2, 2), (1,) * 4, (1, 1), (0, 0))
    made, *_ = code(op, [normal(1, 9, 8, 8), normal(9, 2, 4, 4)], [1], halo=True)
    assert made is not None
    (kernel,) = made.kernels
    lines = kernel.ptx.splitlines()
    assert sum("fma.rn.f32" in line for line in lines) == 16
    assert not any(line.startswith("@") and "ld.global" in line for line in lines)


def test_halves() -> None:
    op = ConvTranspose((2, 2), (1,) * 4, (1, 1), (0, 0))
    check(op, normal(1, 8, 9, 9), normal(8, 4, 4, 4), normal(4), constant=[1, 2], halo=True, half=True, atol=2e-2)


def test_weights_that_are_computed_stay_on_the_cpu() -> None:
    op = ConvTranspose((2, 2), (0,) * 4, (1, 1), (0, 0))
    assert code(op, [normal(1, 2, 4, 4), normal(2, 2, 2, 2)])[0] is None
