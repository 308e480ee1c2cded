"""Which pixel of a tile each thread of a block has, and how quickly warps read what belongs to their pixels.

Threads go along the rows. Where pixels are pooled, four neighbouring threads have 2 x 2 of them, so that these meet in
a warp: the upper left one, the upper right one, the lower ones.
"""

from __future__ import annotations

from functools import cache

import numpy as np

__all__ = ["conflicts", "pixels_of"]

_WARP = 32  # lanes, and banks


def pixels_of(threads: int, columns: int, pooled: bool) -> tuple[np.ndarray, np.ndarray]:
    """Row and column of each thread's pixel in a tile of so many columns."""
    thread = np.arange(threads)
    if not pooled:
        return thread // columns, thread % columns
    window, corner = thread // 4, thread % 4
    return window // (columns // 2) * 2 + corner // 2, window % (columns // 2) * 2 + corner % 2


def conflicts(threads: int, columns: int, pitch: int, pooled: bool) -> float:
    """Cycles that a warp takes on average to read a word for each lane, lines of a tile `pitch` words apart."""
    return float(_cycles(threads, columns, pooled)[pitch % _WARP])


@cache
def _cycles(threads: int, columns: int, pooled: bool) -> np.ndarray:
    """The same for all pitches up to the number of banks."""
    rows, places = pixels_of(threads, columns, pooled)
    banks = (rows * np.arange(_WARP)[:, None] + places) % _WARP
    groups = np.arange(banks.size).reshape(banks.shape) // _WARP  # a pitch and a warp
    words = np.bincount((groups * _WARP + banks).ravel(), minlength=banks.size)
    return np.asarray(words.reshape(_WARP, -1, _WARP).max(axis=2).mean(axis=1))
