"""Weights rounded to what an instruction holds as an immediate.

A multiply-add of sm_5x and sm_6x has room for the upper 20 bits of a float32: sign, exponent, 11 bits of the mantissa.
Other weights come from the constant bank, or from an additional move. sm_70 and later hold all 32 bits.
"""

from __future__ import annotations

import math

import numpy as np

__all__ = ["budget_of", "round20", "rounded"]

_BUDGETS = {"off": 0.0, "auto": 1e-3, "20bit": math.inf}
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


def rounded(weights: np.ndarray) -> np.ndarray:
    """The weights that become immediates: a weight that is not zero never becomes zero, so the work stays the same."""
    exact = np.ascontiguousarray(weights, np.float32)
    used = round20(exact)
    return np.where((used == 0) & (exact != 0), exact, used)


def budget_of(setting: str) -> float:
    """How far rounding may move a network's outputs: that of "off", "auto" or "20bit", or a positive number.

    Raises ValueError for anything else.
    """
    if setting in _BUDGETS:
        return _BUDGETS[setting]
    try:
        budget = float(setting)
    except ValueError:
        budget = math.nan
    if not 0 < budget < math.inf:
        raise ValueError(f"weight rounding: expected {', '.join(_BUDGETS)} or a positive number, got '{setting}'")
    return budget
