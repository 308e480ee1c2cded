"""Weights rounded to what an instruction holds as an immediate.

A multiply-add of sm_5x and sm_6x has room for the upper 20 bits of a float32: sign, exponent, 11 bits of the mantissa.
Other weights come from the constant bank, or from an additional move. sm_70 and later hold all 32 bits.
"""

from __future__ import annotations

import numpy as np

__all__ = ["ROUNDINGS", "relative_error", "round20", "rounded"]

ROUNDINGS = ("off", "auto", "20bit")
BUDGET = 1e-3  # relative error of a layer
_WINDOWS = 32
_DROPPED = 12  # bits of a float32 that an immediate lacks


def round20(weights: np.ndarray) -> np.ndarray:
    """The nearest float32 values whose lower 12 bits are zero, ties to even; zeros stay, and so do infinities.

    Values that are half floats already are exact.
    """
    bits = np.ascontiguousarray(weights, np.float32).view(np.uint32)
    lowest = (bits >> np.uint32(_DROPPED)) & np.uint32(1)
    nearest = bits + np.uint32((1 << (_DROPPED - 1)) - 1) + lowest
    kept = nearest & np.uint32(0xFFFFFFFF ^ ((1 << _DROPPED) - 1))
    special = (bits & np.uint32(0x7F800000)) == np.uint32(0x7F800000)
    return np.where(special, bits, kept).astype(np.uint32).view(np.float32).reshape(weights.shape)


def relative_error(exact: np.ndarray, used: np.ndarray) -> float:
    """How far a layer with weights [K, ...] is off if it has the `used` ones: ||y - exact y|| / ||exact y|| over all
    outputs of random windows, of normal deviates after a ReLU, always the same."""
    filters = exact.reshape(len(exact), -1).astype(np.float32)
    windows = np.maximum(np.random.default_rng(0).standard_normal((_WINDOWS, filters.shape[1]), np.float32), 0)
    size = float(np.linalg.norm((windows @ filters.T).astype(np.float64)))
    wrong = (used.reshape(filters.shape) - filters).astype(np.float32)  # exact: both have the same exponent, or nearly
    return float(np.linalg.norm((windows @ wrong.T).astype(np.float64))) / size if size else 0.0


def rounded(weights: np.ndarray, rounding: str, budget: float = BUDGET) -> tuple[np.ndarray, float]:
    """The weights to use and their relative error: "off" changes nothing, "20bit" rounds, "auto" rounds if the error
    is within `budget`. A weight that is not zero never becomes zero, so the work stays the same."""
    if rounding not in ROUNDINGS:
        raise ValueError(f"weight rounding: expected {', '.join(ROUNDINGS)}, got '{rounding}'")
    exact = np.ascontiguousarray(weights, np.float32)
    if rounding == "off":
        return exact, 0.0
    used = round20(exact)
    used = np.where((used == 0) & (exact != 0), exact, used)
    error = relative_error(exact, used)
    return (used, error) if rounding == "20bit" or error <= budget else (exact, 0.0)
