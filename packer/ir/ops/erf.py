"""The error function and its complement to the last bits of float64.

Rational Chebyshev approximations of W. J. Cody, "Rational Chebyshev approximations for the error function",
Mathematics of Computation 23 (1969), https://doi.org/10.1090/S0025-5718-1969-0247736-4
"""

from __future__ import annotations

import numpy as np

__all__ = ["erf", "erfc"]

# Numerator and denominator coefficients, highest power last.
_SMALL = (
    (
        3.20937758913846947e03,
        3.77485237685302021e02,
        1.13864154151050156e02,
        3.16112374387056560e00,
        1.85777706184603153e-1,
    ),
    (
        2.84423683343917062e03,
        1.28261652607737228e03,
        2.44024637934444173e02,
        2.36012909523441209e01,
        1.0,
    ),
)
_MIDDLE = (
    (
        1.23033935479799725e03,
        2.05107837782607147e03,
        1.71204761263407058e03,
        8.81952221241769090e02,
        2.98635138197400131e02,
        6.61191906371416295e01,
        8.88314979438837594e00,
        5.64188496988670089e-1,
        2.15311535474403846e-8,
    ),
    (
        1.23033935480374942e03,
        3.43936767414372164e03,
        4.36261909014324716e03,
        3.29079923573345963e03,
        1.62138957456669019e03,
        5.37181101862009858e02,
        1.17693950891312499e02,
        1.57449261107098347e01,
        1.0,
    ),
)
_LARGE = (
    (
        6.58749161529837803e-4,
        1.60837851487422766e-2,
        1.25781726111229246e-1,
        3.60344899949804439e-1,
        3.05326634961232344e-1,
        1.63153871373020978e-2,
    ),
    (
        2.33520497626869185e-3,
        6.05183413124413191e-2,
        5.27905102951428412e-1,
        1.87295284992346047e00,
        2.56852019228982242e00,
        1.0,
    ),
)


def _ratio(coefficients: tuple[tuple[float, ...], tuple[float, ...]], x: np.ndarray) -> np.ndarray:
    upper, lower = (np.polynomial.polynomial.polyval(x, powers) for powers in coefficients)
    return np.asarray(upper / lower)


def _tail(y: np.ndarray) -> np.ndarray:
    """erfc(y) for y > 0.46875."""
    middle = _ratio(_MIDDLE, np.minimum(y, 4.0))
    square = 1.0 / np.square(np.maximum(y, 4.0))
    large = (1.0 / np.sqrt(np.pi) - square * _ratio(_LARGE, square)) / np.maximum(y, 4.0)
    coarse = np.trunc(y * 16.0) / 16.0  # exact square, so that e^(-y^2) keeps its last bits
    decay = np.exp(-coarse * coarse) * np.exp(-(y - coarse) * (y + coarse))
    return np.asarray(decay * np.where(y <= 4.0, middle, large))


def _center(x: np.ndarray) -> np.ndarray:
    """erf(x) for |x| <= 0.46875."""
    return np.asarray(x * _ratio(_SMALL, np.square(x)))


def erf(x: np.ndarray) -> np.ndarray:
    """The error function, in the dtype of x (computed in float64)."""
    y = np.abs(x, dtype=np.float64)
    tail = np.copysign(1.0 - _tail(np.clip(y, 0.46875, 30.0)), x)
    center = _center(np.clip(x, -0.46875, 0.46875, dtype=np.float64))
    return np.asarray(np.where(y <= 0.46875, center, np.where(np.isnan(x), x, tail)), dtype=x.dtype)


def erfc(x: np.ndarray) -> np.ndarray:
    """1 - erf(x) without cancellation, in the dtype of x (computed in float64)."""
    y = np.abs(x, dtype=np.float64)
    tail = _tail(np.clip(y, 0.46875, 30.0))
    center = 1.0 - _center(np.clip(x, -0.46875, 0.46875, dtype=np.float64))
    outer = np.where(np.signbit(x), 2.0 - tail, tail)
    return np.asarray(np.where(y <= 0.46875, center, np.where(np.isnan(x), x, outer)), dtype=x.dtype)
