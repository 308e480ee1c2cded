"""Float32 rounded to 16 bits."""

from __future__ import annotations

import numpy as np

from packer.ir.types import DType

__all__ = ["nearest"]


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
