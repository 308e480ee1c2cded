"""Element types of the bundle format as numpy dtypes."""

from __future__ import annotations

from ctypes import addressof, c_char
from typing import Any

import numpy as np

__all__ = ["CONSTANT_ONLY", "DTYPES", "Array", "address"]

Array = np.ndarray[Any, Any]

DTYPES: dict[int, np.dtype[Any]] = {
    1: np.dtype("<f4"),
    2: np.dtype("u1"),
    3: np.dtype("i1"),
    4: np.dtype("<u2"),
    5: np.dtype("<i2"),
    6: np.dtype("<i4"),
    7: np.dtype("<i8"),
    8: np.dtype("<u4"),
    9: np.dtype("<u8"),
    10: np.dtype("?"),
    11: np.dtype("<f2"),
    12: np.dtype("<u2"),  # the bits of bf16
}
CONSTANT_ONLY = (11, 12)  # f16, bf16


def address(array: Array) -> int:
    """Where the elements begin; unlike `array.ctypes.data` fast, and the array's own place even if it is empty."""
    try:
        return addressof(_Nothing.from_buffer(array))  # type: ignore[arg-type]
    except (TypeError, ValueError):  # read-only, not contiguous, or of a type without buffers
        return int(array.__array_interface__["data"][0])


_Nothing = c_char * 0
