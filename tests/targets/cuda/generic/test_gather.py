"""Indices from data and from constants, in and out of range."""

from __future__ import annotations

import numpy as np
import pytest

from packer.ir.ops import Gather, GatherElements, GatherND
from tests.targets.cuda.generic.check import check

RNG = np.random.default_rng(47)
X = RNG.standard_normal((2, 5, 3, 8)).astype(np.float32)


def some(extent: int, shape: tuple[int, ...], dtype: type) -> np.ndarray:
    return RNG.integers(-2 * extent, 2 * extent, shape).astype(dtype)


@pytest.mark.parametrize("constant", [(), (1,), (0,)])
@pytest.mark.parametrize("dtype", [np.int32, np.int64])
@pytest.mark.parametrize("axis", range(4))
def test_gather(axis: int, dtype: type, constant: tuple[int, ...]) -> None:
    for shape in ((), (1,), (7,), (2, 3)):
        indices = some(X.shape[axis], shape, dtype)
        check(Gather(axis), X, indices, constant=constant, halo=True)
        check(Gather(axis), X, indices, constant=constant, half=True, halo=True)
        check(Gather(axis), (X * 9).astype(np.int8), indices, constant=constant)


@pytest.mark.parametrize("known", [False, True])
def test_rows_of_a_table(known: bool) -> None:
    table, tokens = RNG.standard_normal((50, 33)).astype(np.float32), some(50, (2, 9), np.int64)
    check(Gather(0), table, tokens, constant=(0, 1) if known else (0,))


@pytest.mark.parametrize("dtype", [np.int32, np.int64])
@pytest.mark.parametrize("axis", range(4))
def test_gather_elements(axis: int, dtype: type) -> None:
    shape = tuple(7 if i == axis else n - n // 3 for i, n in enumerate(X.shape))
    check(GatherElements(axis), X, some(X.shape[axis], shape, dtype), halo=True)


@pytest.mark.parametrize(("batch", "shape"), [(0, (4, 2)), (0, (2, 3, 4)), (1, (2, 6, 1)), (2, (2, 5, 2)), (1, (2, 3))])
def test_gather_nd(batch: int, shape: tuple[int, ...]) -> None:
    check(GatherND(batch), X, some(4, shape, np.int64), halo=True)
    check(GatherND(batch), X, some(4, shape, np.int64), constant=(1,), half=True)
