"""Reductions along any axes, of short and long rows, against numpy in float64."""

from __future__ import annotations

import numpy as np
import pytest

from packer.ir.ops import ArgReduce, Reduce
from packer.ir.ops.reduce import REDUCE_KINDS
from tests.targets.cuda.generic.check import check, code

RNG = np.random.default_rng(51)
# shape and axes: across lanes, down columns, both, in short and long rows, with odd sizes
ROWS = [
    ((3, 5, 7, 9), (2, 3)),
    ((3, 5, 7, 9), (1,)),
    ((2, 33, 6, 50), (3,)),
    ((2, 33, 6, 50), (0, 2)),
    ((1, 4, 61, 83), (2, 3)),
    ((1, 4, 61, 83), (0, 1, 2, 3)),
    ((2, 700, 5, 5), (1,)),
    ((4, 3, 2, 1), ()),
    ((1, 1, 1, 1), (0, 3)),
    ((1, 3000, 1, 1), (1,)),
    ((40, 130, 1, 2), (1, 3)),
]
RTOL, ATOL = 2e-6, 1e-6


@pytest.mark.parametrize("halo", [False, True], ids=["dense", "halo"])
@pytest.mark.parametrize("keepdims", [True, False])
@pytest.mark.parametrize(("shape", "axes"), ROWS)
def test_sums(shape: tuple[int, ...], axes: tuple[int, ...], keepdims: bool, halo: bool) -> None:
    check(Reduce("sum", axes, keepdims), sample(shape), halo=halo, rtol=RTOL, atol=1e-4)


@pytest.mark.parametrize("kind", REDUCE_KINDS)
@pytest.mark.parametrize(("shape", "axes"), [((2, 3, 5, 41), (3,)), ((2, 40, 5, 41), (1,)), ((1, 2, 70, 90), (2, 3))])
def test_kinds(kind: str, shape: tuple[int, ...], axes: tuple[int, ...]) -> None:
    x = sample(shape)
    if kind == "log_sum":
        x = np.abs(x)
    if kind == "prod":
        x = np.exp(x / 50)
    check(Reduce(kind, axes), x, halo=True, rtol=1e-5, atol=1e-4 if kind == "sum" else 1e-6)


@pytest.mark.parametrize("kind", ["max", "min", "sum", "log_sum_exp"])
@pytest.mark.parametrize("special", [np.nan, np.inf, -np.inf])
def test_infinite_values_and_no_numbers(kind: str, special: float) -> None:
    x = sample((6, 300))
    x[1, 7] = x[2, 299] = x[3] = special
    x[4, :2] = np.inf, -np.inf
    check(Reduce(kind, (1,)), x, rtol=1e-5, atol=1e-5)
    check(Reduce(kind, (0,)), x, rtol=1e-5, atol=1e-5)


def test_long_sums_keep_their_precision() -> None:
    x = (1 + RNG.random((1, 3_000_000))).astype(np.float32)
    check(Reduce("mean", (1,)), x, rtol=3e-7)
    check(Reduce("mean", (0,)), np.ascontiguousarray(x[:, :40_000].T), rtol=3e-7)


def test_halves() -> None:
    x = sample((2, 6, 30, 31))
    check(Reduce("mean", (2, 3)), x, half=True, halo=True, atol=1e-5)
    check(Reduce("max", (1,)), x, half=True, halo=True)


@pytest.mark.parametrize("last", [False, True])
@pytest.mark.parametrize("kind", ["max", "min"])
@pytest.mark.parametrize(
    ("shape", "axis"), [((5, 1000), 1), ((5, 21, 3, 40), 1), ((3, 7), 0), ((2, 3, 70), 2), ((1, 900, 1, 1), 1)]
)
def test_places_of_extremes(kind: str, last: bool, shape: tuple[int, ...], axis: int) -> None:
    x = RNG.integers(-4, 5, shape).astype(np.float32)  # with many equal ones
    x[x == 0] *= RNG.choice([-1, 1], (x == 0).sum())
    for keepdims in (False, True):
        check(ArgReduce(kind, axis, keepdims, last), x, halo=keepdims)


@pytest.mark.parametrize("last", [False, True])
@pytest.mark.parametrize("kind", ["max", "min"])
def test_places_of_infinite_values_and_no_numbers(kind: str, last: bool) -> None:
    x = sample((6, 200))
    x[0, 5] = x[0, 150] = np.nan
    x[1, 9], x[2, 9] = np.inf, -np.inf
    x[3], x[4], x[5] = np.nan, -np.inf, np.inf
    check(ArgReduce(kind, 1, select_last=last), x)


def test_integers_stay_on_the_cpu() -> None:
    x = np.ones((3, 4), np.int32)
    for op in (Reduce("sum", (1,)), ArgReduce("max", 1)):
        assert code(op, [x])[0] is None


def test_rows_of_nothing_stay_on_the_cpu() -> None:
    assert code(Reduce("sum", (1,)), [np.ones((3, 0), np.float32)])[0] is None


def sample(shape: tuple[int, ...]) -> np.ndarray:
    return (RNG.standard_normal(shape) * 3).astype(np.float32)
