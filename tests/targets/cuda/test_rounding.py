"""Rounding of weights to 20 bits."""

from __future__ import annotations

import numpy as np
import pytest

from packer.ir.ops import Conv
from packer.ir.rounding import relative_error
from targets.cuda.rounding import budget_of, round20, rounded


def test_nearest_value_with_eleven_bits_of_mantissa() -> None:
    rng = np.random.default_rng(0)
    x = (rng.standard_normal(10_000) * 10.0 ** rng.integers(-20, 20, 10_000)).astype(np.float32)
    y = round20(x)
    assert not np.any(y.view(np.uint32) & 0xFFF)
    down = (x.view(np.uint32) & np.uint32(0xFFFFF000)).view(np.float32)
    up = ((x.view(np.uint32) & np.uint32(0xFFFFF000)) + np.uint32(0x1000)).view(np.float32)
    nearest = np.minimum(np.abs(down.astype(np.float64) - x), np.abs(up.astype(np.float64) - x))
    np.testing.assert_array_equal(np.abs(y.astype(np.float64) - x), nearest)


def test_ties_go_to_even() -> None:
    bits = np.array([0x3F800800, 0x3F801800], np.uint32)
    assert [hex(v) for v in round20(bits.view(np.float32)).view(np.uint32)] == ["0x3f800000", "0x3f802000"]


def test_halves_zeros_and_infinities_are_exact() -> None:
    halves = np.random.default_rng(1).standard_normal(1000).astype(np.float16).astype(np.float32)
    special = np.array([0, -0.0, np.inf, -np.inf], np.float32)
    np.testing.assert_array_equal(round20(halves), halves)
    np.testing.assert_array_equal(round20(special).view(np.uint32), special.view(np.uint32))


@pytest.mark.parametrize("density", [0.05, 0.5, 1.0])
def test_error_is_that_of_the_layer(density: float) -> None:
    rng = np.random.default_rng(2)
    w = rng.standard_normal((64, 64, 3, 3)).astype(np.float32)
    w[rng.random(w.shape) >= density] = 0
    error = relative_error(w, round20(w))
    assert 0.8e-4 < error < 1.4e-4
    x, conv = np.maximum(rng.standard_normal((1, 64, 12, 12)), 0), Conv((1, 1), (1, 1, 1, 1), (1, 1))
    (exact,), (used,) = (conv.reference(x, weights.astype(np.float64), None) for weights in (w, round20(w)))
    assert error == pytest.approx(np.linalg.norm(used - exact) / np.linalg.norm(exact), rel=0.1)


def test_errors_of_one_sign_add_up() -> None:
    """Activations are not negative: what all weights are too large by is worse than the same without order."""
    w = np.random.default_rng(4).standard_normal((16, 1000))
    signs = np.random.default_rng(5).choice([-1, 1], w.shape)
    assert relative_error(w, w + 1e-3) > 10 * relative_error(w, w + 1e-3 * signs)


def test_nothing_is_wrong_with_nothing() -> None:
    assert relative_error(np.zeros((3, 2)), np.zeros((3, 2))) == 0
    assert relative_error(np.ones((3, 2)), np.ones((3, 2))) == 0


def test_non_zeros_stay() -> None:
    w = np.array([1e-45, 1.0, 0.0], np.float32)
    assert np.count_nonzero(rounded(w)) == 2


def test_budgets() -> None:
    assert [budget_of(setting) for setting in ("off", "auto", "20bit", "2e-4")] == [0, 1e-3, np.inf, 2e-4]


@pytest.mark.parametrize("setting", ["19bit", "0", "-1", "inf", "nan"])
def test_other_settings_are_refused(setting: str) -> None:
    with pytest.raises(ValueError, match=f"off, auto, 20bit or a positive number, got '{setting}'"):
        budget_of(setting)
