"""Weights rounded to what an instruction holds as an immediate.

A multiply-add of sm_5x and sm_6x has room for the upper 20 bits of a float32: sign, exponent, 11 bits of the mantissa.
Other weights come from the constant bank, or from an additional move. sm_70 and later hold all 32 bits.
"""

from __future__ import annotations

import numpy as np

from packer.ir.rounding import relative_error

__all__ = ["ROUNDINGS", "round20", "rounded"]

ROUNDINGS = ("off", "auto", "20bit")
BUDGET = 1e-3  # relative error of a layer
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
