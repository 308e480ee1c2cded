"""Pooling of all kinds: pads, strides, dilation, rounding up, one to three dimensions, small and large windows."""

from __future__ import annotations

import numpy as np
import pytest

from packer.ir import DType, TensorType
from packer.ir.ops import Pool, ShapeError
from tests.targets.cuda.generic.check import check, code

RNG = np.random.default_rng(61)


def random_pool(seed: int) -> tuple[Pool, np.ndarray]:
    """Any attributes over odd sizes; pads may be larger than the halo, and than windows."""
    rng = np.random.default_rng(seed)
    while True:
        dims = int(rng.choice([1, 2, 2, 2, 3]))
        kernel, strides, dilations = (tuple(map(int, rng.integers(1, high, dims))) for high in (5, 4, 3))
        pads = tuple(map(int, rng.integers(0, 4, 2 * dims)))
        kind = ("max", "average", "lp")[seed % 3]
        op = Pool(kind, kernel, strides, pads, dilations, bool(rng.integers(2)), bool(rng.integers(2)), seed % 5 + 1)
        shape = tuple(map(int, (rng.integers(1, 3), rng.integers(1, 5), *rng.integers(1, 20, dims))))
        x = rng.standard_normal(shape).astype(np.float32)
        try:
            if op.infer([TensorType(DType.F32, x.shape)])[0].elements:
                return op, x
        except ShapeError:
            continue


@pytest.mark.parametrize("halo", [False, True], ids=["dense", "halo"])
@pytest.mark.parametrize("seed", range(60))
def test_random_windows(seed: int, halo: bool) -> None:
    op, x = random_pool(seed)
    exact = op.kind == "max"
    check(op, x, halo=halo, count=1, rtol=0 if exact else 5e-6, atol=0 if exact else 1e-6)


@pytest.mark.parametrize("halo", [False, True], ids=["dense", "halo"])
@pytest.mark.parametrize("kind", ["max", "average", "lp"])
@pytest.mark.parametrize(
    ("shape", "kernel", "strides", "pads"),
    [
        ((2, 5, 7, 7), (7, 7), (1, 1), (0, 0, 0, 0)),
        ((1, 3, 40, 61), (40, 61), (1, 1), (0, 0, 0, 0)),
        ((2, 3, 23, 30), (6, 7), (6, 7), (0, 0, 0, 0)),
        ((1, 2, 12, 13), (11, 11), (1, 1), (5, 5, 5, 5)),
        ((2, 2, 70, 40), (13, 13), (1, 1), (6, 6, 6, 6)),
        ((1, 1, 20, 21), (17, 19), (2, 1), (8, 9, 8, 9)),
        ((1, 2, 300), (100,), (3,), (50, 50)),
        ((1, 2, 9, 10, 11), (5, 4, 5), (1, 2, 1), (2, 1, 2, 2, 1, 2)),
        ((1, 2, 40, 41), (20, 20), (2, 2), (0, 0, 0, 0)),
        ((1, 1, 8, 9), (6, 7), (1, 1), (1, 2, 1, 3)),
    ],
)
def test_large_windows(
    kind: str,
    shape: tuple[int, ...],
    kernel: tuple[int, ...],
    strides: tuple[int, ...],
    pads: tuple[int, ...],
    halo: bool,
) -> None:
    x = RNG.standard_normal(shape).astype(np.float32)
    for counted in (False, True):
        op = Pool(kind, kernel, strides, pads, (1,) * len(kernel), count_include_pad=counted)
        check(op, x, halo=halo, count=1, rtol=2e-6, atol=1e-6)


@pytest.mark.parametrize("kernel", [2, 8])
def test_no_numbers_and_infinite_values(kernel: int) -> None:
    x = -np.abs(RNG.standard_normal((2, 3, 17, 17)).astype(np.float32))
    x[0, 0, 3, 4] = x[0, 1, ::5, ::7] = np.nan
    x[1, 0] = -np.inf
    x[1, 1, 2, 2] = np.inf
    x[1, 2, 2, 2], x[1, 2, 2, 3] = np.inf, -np.inf
    for kind in ("max", "average"):
        for pads in ((0,) * 4, (1,) * 4):
            check(Pool(kind, (kernel,) * 2, (2, 2), pads, (1, 1)), x, halo=True, count=1, rtol=2e-6, atol=1e-6)


def test_a_maximum_passes_over_the_zeros_of_the_halo() -> None:
    x = -1 - RNG.random((1, 2, 6, 6)).astype(np.float32)
    (y,) = check(Pool("max", (3, 3), (1, 1), (1, 1, 1, 1), (1, 1)), x, halo=True, count=1)
    assert (y < 0).all()


def test_averages_read_their_padding_from_the_halo() -> None:
    op = Pool("average", (3, 3), (1, 1), (1, 1, 1, 1), (1, 1), count_include_pad=True)
    x = np.ones((1, 2, 6, 6), np.float32)
    for halo in (False, True):
        made, *_ = code(op, [x], halo=halo)
        assert made is not None
        assert ("setp" in made.kernels[0].ptx.replace("setp.ge.u32", "", 1)) is not halo


@pytest.mark.parametrize("kind", ["max", "average"])
def test_halves(kind: str) -> None:
    x = RNG.standard_normal((2, 3, 21, 19)).astype(np.float32)
    for kernel in (3, 9):
        op = Pool(kind, (kernel, kernel), (2, 2), (1, 1, 1, 1), (1, 1))
        check(op, x, halo=True, half=True, count=1, atol=1e-4)


def test_places_of_maxima_and_integers_stay_on_the_cpu() -> None:
    op = Pool("max", (2, 2), (2, 2), (0,) * 4, (1, 1))
    assert code(op, [np.ones((1, 1, 4, 4), np.float32)])[0] is None
    assert code(op, [np.ones((1, 1, 4, 4), np.int8)], count=1)[0] is None
