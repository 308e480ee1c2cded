"""Comparison of outputs: what passes, and what is reported."""

from __future__ import annotations

import numpy as np
import pytest

from edgert.compare import compare

F = np.float32


@pytest.mark.parametrize(
    ("got", "want", "passed"),
    [
        ([1.0, 2.0], [1.0, 2.0], True),
        ([1.0, 2.01], [1.0, 2.0], False),
        ([1.0001, 2.0], [1.0, 2.0], True),  # relative to the output's maximum
        ([], [], True),
        ([np.nan, 1], [np.nan, 1], True),
        ([np.inf, 1], [np.inf, 1], True),
        ([np.inf, 1], [-np.inf, 1], False),
        ([np.nan, 1], [0, 1], False),
        ([1, 1], [np.nan, 1], False),
        ([np.nan], [np.nan], True),
    ],
)
def test_floats(got: list[float], want: list[float], passed: bool) -> None:
    assert compare("y", np.array(got, F), np.array(want, F), 0, 1e-4).passed is passed


def test_figures() -> None:
    found = compare("y", np.array([1, 5], F), np.array([1, 4], F), 0.5, 0.25)
    assert (found.max_abs, found.max_rel, found.passed) == (1.0, 0.25, True)
    assert compare("y", np.array([1e-7], F), np.zeros(1, F), 1e-6, 0).passed


def test_integers_must_be_equal() -> None:
    found = compare("y", np.array([1000, 2]), np.array([1000, 3]), 10, 10)
    assert not found.passed
    assert "1 of 2 elements differ" in found.note
    assert compare("y", np.array([True]), np.array([True]), 0, 0).passed
    assert not compare("y", np.array([True]), np.array([False]), 0, 0).passed


def test_shape_and_type_must_be_equal() -> None:
    assert "expected float32[2], got float32[3]" in compare("y", np.zeros(3, F), np.zeros(2, F), 9, 9).note
    assert not compare("y", np.zeros(2), np.zeros(2, F), 9, 9).passed
