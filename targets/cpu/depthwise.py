"""Depthwise weights as lists of the taps that are not zero, as the kernel conv_depthwise_planar reads them."""

from __future__ import annotations

from math import prod

import numpy as np

__all__ = ["MOST_TAPS", "tap_lists"]

MOST_TAPS = 255  # of a kernel: their numbers and counts are bytes


def tap_lists(weights: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Weights [C,1,kernel...] as values and their taps' numbers (row-major in the kernel), channel after channel; how
    many each channel has; and where those of every 16th channel start.

    Returns f32 [n], u8 [n], u8 [C] and i32 [ceil(C/16)]. The kernel may have up to MOST_TAPS taps.
    """
    rows = weights.reshape(weights.shape[0], prod(weights.shape[1:]))
    channels, taps = np.nonzero(rows)
    counts = np.bincount(channels, minlength=len(rows))
    starts = (np.cumsum(counts) - counts)[::16]
    return rows[channels, taps], taps.astype(np.uint8), counts.astype(np.uint8), starts.astype(np.int32)
