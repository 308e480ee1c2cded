"""Softmax along any neighbouring axes, of short and long rows."""

from __future__ import annotations

import numpy as np
import pytest

from packer.ir.ops import Softmax
from tests.targets.cuda.generic.check import check, code

RNG = np.random.default_rng(52)
ROWS = [
    ((4, 10), (1,)),
    ((3, 1000), (1,)),
    ((2, 3, 17, 197), (3,)),
    ((2, 21, 9, 11), (1,)),
    ((1, 300, 3, 5), (1,)),
    ((2, 3, 7, 5), (2, 3)),
    ((2, 3, 7, 5), (1, 2)),
    ((3, 4), ()),
    ((1, 20_000), (1,)),
    ((700, 33), (0,)),
]


@pytest.mark.parametrize("halo", [False, True], ids=["dense", "halo"])
@pytest.mark.parametrize("kind", ["softmax", "log_softmax"])
@pytest.mark.parametrize(("shape", "axes"), ROWS)
def test_softmax(kind: str, shape: tuple[int, ...], axes: tuple[int, ...], halo: bool) -> None:
    x = (RNG.standard_normal(shape) * 8).astype(np.float32)
    check(Softmax(kind, axes), x, halo=halo, rtol=8e-6, atol=0 if kind == "softmax" else 2e-6)


@pytest.mark.parametrize("kind", ["softmax", "log_softmax"])
@pytest.mark.parametrize("axis", [0, 1])
def test_infinite_values_and_no_numbers(kind: str, axis: int) -> None:
    x = RNG.standard_normal((6, 90)).astype(np.float32)
    x[0, 3], x[1, 4], x[2, 5] = np.nan, -np.inf, np.inf
    x[3], x[4, :60] = -np.inf, -np.inf
    x[5, :3] = 1e38, -1e38, 90
    check(Softmax(kind, (axis,)), x if axis else x.T.copy(), rtol=2e-6, atol=2e-6)
    check(Softmax(kind, (axis,)), x.T.copy() if axis else x, rtol=2e-6, atol=2e-6)


def test_rows_sum_to_one() -> None:
    (y,) = check(Softmax("softmax", (1,)), RNG.standard_normal((8, 1000)).astype(np.float32), rtol=2e-6)
    np.testing.assert_allclose(y.astype(np.float64).sum(1), 1, 3e-7)


def test_halves() -> None:
    x = RNG.standard_normal((2, 5, 40, 41)).astype(np.float32)
    check(Softmax("softmax", (3,)), x, half=True, halo=True, atol=1e-7)


def test_hardmax_stays_on_the_cpu() -> None:
    assert code(Softmax("hardmax", (1,)), [np.ones((3, 4), np.float32)])[0] is None
