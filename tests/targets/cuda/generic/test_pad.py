"""Pad in all its modes, exactly."""

from __future__ import annotations

import numpy as np
import pytest

from packer.ir.ops import Pad
from tests.targets.cuda.generic.check import check, code

RNG = np.random.default_rng(46)


@pytest.mark.parametrize("halo", [False, True])
@pytest.mark.parametrize("pads", [(0, 0, 1, 2, 0, 0, 3, 4), (0, 1, 0, -2, 0, 2, -1, 9), (1, 0, 0, 0, 0, 0, 0, 12)])
@pytest.mark.parametrize("mode", ["constant", "reflect", "edge", "wrap"])
def test_pad(mode: str, pads: tuple[int, ...], halo: bool) -> None:
    x = RNG.standard_normal((2, 3, 5, 7)).astype(np.float32)
    check(Pad(pads, mode), x, halo=halo)


@pytest.mark.parametrize("dtype", [np.uint8, np.int16, np.int64, np.float32, np.bool_])
def test_values_of_any_type(dtype: type) -> None:
    x = RNG.integers(0, 2 if dtype is np.bool_ else 100, (3, 8)).astype(dtype)
    check(Pad((1, 2, 0, 3)), x)
    check(Pad((1, 2, 0, 3)), x, np.array(1, dtype), constant=(1,))


@pytest.mark.parametrize("value", [-1.5, 65504.0, -np.inf])
def test_values_in_halves(value: float) -> None:
    x = RNG.standard_normal((1, 3, 5, 7)).astype(np.float32)
    check(Pad((0, 0, 1, 1, 0, 0, 1, 1)), x, np.array(value, np.float32), constant=(1,), half=True, halo=True)


def test_nothing_to_pad() -> None:
    check(Pad((0,) * 8), RNG.standard_normal((1, 3, 5, 7)).astype(np.float32), halo=True)


def test_what_is_not_known_is_left_to_the_processor() -> None:
    assert code(Pad((0, 1, 0, 1)), [np.zeros((2, 2), np.float32), np.array(1, np.float32)])[0] is None
    assert code(Pad((0, 1, 0, 1)), [np.zeros((2, 0), np.float32)])[0] is None
