"""Float32 rounded to 16 bits, and what rounding does to a layer and to results."""

from __future__ import annotations

import numpy as np

from packer.ir.types import DType

__all__ = ["difference", "nearest", "relative_error"]

_WINDOWS = 32


def nearest(data: np.ndarray, dtype: DType) -> np.ndarray:
    """Float32 numbers as the nearest ones of `dtype` (F32, F16 or BF16), ties to even, in float32; infinite where they
    are beyond its largest."""
    if dtype is DType.F16:
        with np.errstate(over="ignore"):
            return data.astype(np.float16).astype(np.float32)
    if dtype is not DType.BF16:
        return data
    bits = np.ascontiguousarray(data).view(np.uint32)
    return ((bits + 0x7FFF + (bits >> 16 & 1)) & np.uint32(0xFFFF0000)).astype(np.uint32).view(np.float32)


def relative_error(exact: np.ndarray, used: np.ndarray) -> float:
    """How far a layer with weights [K, ...] is off if it has the `used` ones: ||y - exact y|| / ||exact y|| over all
    outputs of random windows, of normal deviates after a ReLU, always the same."""
    filters = exact.reshape(len(exact), -1).astype(np.float32)
    windows = np.maximum(np.random.default_rng(0).standard_normal((_WINDOWS, filters.shape[1]), np.float32), 0)
    size = float(np.linalg.norm((windows @ filters.T).astype(np.float64)))
    wrong = (used.reshape(filters.shape) - filters).astype(np.float32)  # exact: both have the same exponent, or nearly
    return float(np.linalg.norm((windows @ wrong.T).astype(np.float64))) / size if size else 0.0


def difference(got: np.ndarray, want: np.ndarray) -> float:
    """The largest difference of finite numbers relative to the largest magnitude wanted; 0 for integers."""
    if want.dtype.kind != "f":
        return 0.0
    finite = np.isfinite(got) & np.isfinite(want)
    got, want = got[finite], want[finite]
    return float(np.abs(got - want).max(initial=0) / max(np.abs(want).max(initial=0), 1e-30))
