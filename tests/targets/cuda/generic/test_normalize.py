"""Normalisations over any axes, by mean and variance, root of the mean square, or a norm."""

from __future__ import annotations

import numpy as np
import pytest

from packer.ir.ops import LpNormalize, Normalize
from tests.targets.cuda.generic.check import check

RNG = np.random.default_rng(53)
ROWS = [
    ((2, 3, 13, 11), (2, 3)),
    ((5, 768), (1,)),
    ((2, 3, 4, 5), (1, 2, 3)),
    ((2, 3, 4, 5), (0, 2, 3)),
    ((1, 2, 90, 110), (2, 3)),
    ((3, 64, 5, 6), (1,)),
    ((3, 4), (1,)),
    ((2, 40, 1, 3), (1,)),
]


@pytest.mark.parametrize("halo", [False, True], ids=["dense", "halo"])
@pytest.mark.parametrize("rms", [False, True])
@pytest.mark.parametrize(("shape", "axes"), ROWS)
def test_by_mean_and_variance(shape: tuple[int, ...], axes: tuple[int, ...], rms: bool, halo: bool) -> None:
    check(Normalize(axes, 1e-5, rms), sample(shape) + 2, halo=halo, rtol=5e-6, atol=2e-6)


@pytest.mark.parametrize("constant", [(), (1, 2)], ids=["values", "constants"])
@pytest.mark.parametrize("shape", [(5, 768), (2, 3, 4, 5), (3, 4097), (40, 1), (2, 9, 33)])
def test_with_a_scale_and_a_shift(shape: tuple[int, ...], constant: tuple[int, ...]) -> None:
    x, scale, shift = sample(shape), sample(shape[-1:]), sample(shape[-1:])
    op = Normalize((len(shape) - 1,), 1e-5, rms=shape[0] == 2)
    check(op, x, scale, shift, constant=constant, rtol=5e-6, atol=2e-5)
    check(op, x, None, shift, constant=constant[1:], rtol=5e-6, atol=2e-5)
    check(op, x, scale, constant=constant[:1], halo=True, rtol=5e-6, atol=2e-5)


def test_a_variance_far_below_the_mean() -> None:
    x = (1000 + RNG.standard_normal((4, 5000)) / 10).astype(np.float32)
    check(Normalize((1,), 1e-8), x, atol=2e-3)
    check(Normalize((1,), 1e-5), np.full((3, 2048), 7, np.float32))


@pytest.mark.parametrize("halo", [False, True], ids=["dense", "halo"])
@pytest.mark.parametrize("p", [1, 2])
@pytest.mark.parametrize(("shape", "axis"), [((3, 500), 1), ((2, 19, 7, 9), 1), ((2, 19, 7, 9), 3), ((33, 5), 0)])
def test_by_a_norm(shape: tuple[int, ...], axis: int, p: int, halo: bool) -> None:
    x = sample(shape)
    x[:, :1] = 0
    check(LpNormalize(axis, p), x, halo=halo, rtol=2e-6)


def test_a_norm_of_zero_gives_zero() -> None:
    for p in (1, 2):
        (y,) = check(LpNormalize(1, p), np.zeros((3, 70), np.float32))
        assert not y.any()


def test_halves() -> None:
    x = sample((2, 5, 40, 41))
    check(Normalize((2, 3), 1e-5), x, half=True, halo=True, atol=1e-4)
    check(Normalize((3,), 1e-5), x, sample((41,)), sample((41,)), half=True, halo=True, constant=(1, 2), atol=1e-2)
    check(LpNormalize(1, 2), x, half=True, halo=True, atol=1e-4)


def sample(shape: tuple[int, ...]) -> np.ndarray:
    return (RNG.standard_normal(shape) * 3).astype(np.float32)
