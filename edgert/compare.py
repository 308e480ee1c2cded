"""How far an output is from what it should be."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from edgert.dtypes import Array

__all__ = ["Difference", "compare"]


@dataclass(frozen=True, slots=True)
class Difference:
    """An output against its reference: `max_abs` = max |got - want|, `max_rel` = max_abs / max |want|.

    Both are inf where a shape, a NaN or an infinity differs. Passes if max_abs <= atol + rtol max |want|; integers and
    booleans only if equal.
    """

    name: str
    max_abs: float
    max_rel: float
    passed: bool
    note: str = ""


def compare(name: str, got: Array, want: Array, atol: float, rtol: float) -> Difference:
    """The difference of `got` from `want` within the tolerances `atol` (absolute) and `rtol` (of max |want|)."""
    if got.shape != want.shape or got.dtype != want.dtype:
        note = f"expected {want.dtype}{list(want.shape)}, got {got.dtype}{list(got.shape)}"
        return Difference(name, np.inf, np.inf, False, note)
    if got.dtype.kind != "f":
        off = np.abs(got.astype(np.float64) - want.astype(np.float64)).max(initial=0.0)
        equal = np.array_equal(got, want)
        note = "" if equal else f"{np.count_nonzero(got != want)} of {got.size} elements differ"
        return Difference(name, float(off), _ratio(off, np.abs(want.astype(np.float64)).max(initial=0.0)), equal, note)
    finite = np.isfinite(want)
    if not np.array_equal(got[~finite], want[~finite], equal_nan=True) or not np.isfinite(got[finite]).all():
        return Difference(name, np.inf, np.inf, False, "infinities or NaNs differ")
    exact = want[finite].astype(np.float64)
    off, scale = np.abs(got[finite] - exact).max(initial=0.0), np.abs(exact).max(initial=0.0)
    return Difference(name, float(off), _ratio(off, scale), bool(off <= atol + rtol * scale))


def _ratio(off: float, scale: float) -> float:
    if off == 0.0:
        return 0.0
    return float(off / scale) if scale else float(np.inf)
