"""Resize in all its modes against its reference in float64."""

from __future__ import annotations

import numpy as np
import pytest

from packer.ir.ops import Resize
from tests.targets.cuda.generic.check import check, code

RNG = np.random.default_rng(48)
COORDINATES = ["half_pixel", "half_pixel_symmetric", "pytorch_half_pixel", "align_corners", "asymmetric"]
ROUNDINGS = ["round_prefer_floor", "round_prefer_ceil", "floor", "ceil"]
SHAPE = (2, 3, 5, 7)
SIZES = [(2, 3, 10, 14), (2, 3, 3, 21), (2, 3, 5, 1), (3, 3, 11, 7)]


def scales(size: tuple[int, ...]) -> tuple[float, ...]:
    return tuple(out / n for out, n in zip(size, SHAPE, strict=True))


def sample() -> np.ndarray:
    return RNG.standard_normal(SHAPE).astype(np.float32)


@pytest.mark.parametrize("nearest", ROUNDINGS)
@pytest.mark.parametrize("coordinate", COORDINATES)
def test_nearest(coordinate: str, nearest: str) -> None:
    for size in SIZES:
        op = Resize(size, scales(size), coordinate=coordinate, nearest=nearest)
        check(op, sample(), halo=True)
    check(op, (sample() * 30).astype(np.int8))
    check(op, sample(), half=True, halo=True)


@pytest.mark.parametrize("mode", ["linear", "cubic"])
@pytest.mark.parametrize("coordinate", COORDINATES)
def test_weighted(coordinate: str, mode: str) -> None:
    for size in SIZES:
        check(Resize(size, scales(size), mode, coordinate), sample(), halo=True, rtol=1e-5, atol=2e-6)
    check(Resize(size, scales(size), mode, coordinate), sample(), half=True, atol=2e-3)


@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
def test_crops_and_extrapolates(mode: str) -> None:
    roi = (0.0, 0.0, -0.2, 0.3, 1.0, 1.0, 0.9, 1.4)
    op = Resize((2, 3, 6, 9), scales((2, 3, 6, 9)), mode, "tf_crop_and_resize", extrapolation=-7.5, roi=roi)
    (found,) = check(op, sample(), halo=True, rtol=1e-5, atol=2e-6)
    assert (found == -7.5).any()


@pytest.mark.parametrize("mode", ["linear", "cubic"])
def test_antialias(mode: str) -> None:
    op = Resize((2, 3, 2, 3), scales((2, 3, 2, 3)), mode, antialias=True)
    check(op, sample(), rtol=1e-5, atol=2e-6)
    check(Resize((2, 3, 9, 3), scales((2, 3, 9, 3)), "cubic", exclude_outside=True), sample(), rtol=1e-5, atol=2e-6)


def test_sums_of_very_many_inputs_are_left_to_the_processor() -> None:
    op = Resize((1, 1, 4, 4), (1.0, 1.0, 1 / 32, 1 / 32), "linear", antialias=True)
    assert code(op, [np.zeros((1, 1, 128, 128), np.float32)])[0] is None


def test_what_is_not_resized_is_copied() -> None:
    check(Resize(SHAPE, (1.0,) * 4), sample(), halo=True)
    check(Resize(SHAPE, (1.0,) * 4, "linear"), sample(), halo=True)
