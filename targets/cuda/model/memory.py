"""What memory does for the lanes of warps: rows of byte addresses, negative where a lane has none."""

from __future__ import annotations

import numpy as np

__all__ = ["bank_cycles", "sectors"]


def sectors(rows: np.ndarray) -> np.ndarray:
    """How many sectors of 32 bytes each row of addresses touches."""
    ordered = np.sort(np.where(rows >= 0, rows >> 5, -1), axis=1)
    changes = (np.diff(ordered, axis=1) != 0).sum(axis=1) + 1
    return np.asarray(changes - (ordered[:, 0] < 0))


def bank_cycles(rows: np.ndarray, size: int) -> np.ndarray:
    """Cycles that shared memory takes for each row of addresses: words of 4 bytes, 32 banks; wide accesses are served
    by parts of the warp."""
    words = max(1, size // 4)
    total = np.zeros(len(rows), np.int64)
    for part in np.split(rows, words, axis=1):
        each = np.where(part >= 0, part >> 2, -1)
        every = np.concatenate([np.where(each >= 0, each + n, -1) for n in range(words)], axis=1)
        ordered = np.sort(every, axis=1)
        fresh = ordered >= 0
        fresh[:, 1:] &= np.diff(ordered, axis=1) != 0
        banks = np.where(fresh, ordered % 32, 32)
        hits = np.zeros((len(rows), 33), np.int64)
        np.add.at(hits, (np.arange(len(rows))[:, None], banks), 1)
        total += hits[:, :32].max(axis=1)
    return total
