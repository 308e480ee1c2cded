"""Local response normalisation: sums over few and all channels, parts of the channels."""

from __future__ import annotations

import numpy as np
import pytest

from packer.ir.ops import Lrn
from tests.targets.cuda.generic.check import check, code

RNG = np.random.default_rng(54)


@pytest.mark.parametrize("halo", [False, True], ids=["dense", "halo"])
@pytest.mark.parametrize("size", [1, 2, 5, 6, 31])
@pytest.mark.parametrize("shape", [(2, 16, 7, 9), (1, 21, 5, 3), (3, 3, 6, 4), (2, 1, 5, 5), (2, 9), (2, 10, 4)])
def test_lrn(shape: tuple[int, ...], size: int, halo: bool) -> None:
    x = (RNG.standard_normal(shape) * 5).astype(np.float32)
    check(Lrn(size, 0.9, 0.75, 2.0), x, halo=halo, rtol=2e-6)
    check(Lrn(size, 1e-4, 1.25, 1.0), x, halo=halo, rtol=2e-6)


@pytest.mark.parametrize("before", [0, 2])
def test_parts_of_the_channels(before: int) -> None:
    x = RNG.standard_normal((1, 17, 5, 6)).astype(np.float32)
    check(Lrn(5, 1.0, 0.75, 1.0, (before, 3)), x, halo=True, rtol=2e-6)


def test_halves() -> None:
    x = RNG.standard_normal((1, 17, 5, 6)).astype(np.float32)
    check(Lrn(5, 1.0, 0.75, 1.0), x, halo=True, half=True)


def test_very_long_sums_stay_on_the_cpu() -> None:
    assert code(Lrn(99, 1.0, 0.75, 1.0), [np.ones((1, 4, 2, 2), np.float32)])[0] is None
