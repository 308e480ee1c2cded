"""The interpolation kernels of Resize and GridSample: weight by distance in pixels."""

from __future__ import annotations

import numpy as np

__all__ = ["cubic_kernel", "linear_kernel"]


def linear_kernel(distance: np.ndarray) -> np.ndarray:
    """Triangle of half width 1."""
    return np.asarray(np.maximum(1 - np.abs(distance), 0))


def cubic_kernel(distance: np.ndarray, a: float) -> np.ndarray:
    """Keys' cubic convolution, half width 2. https://ieeexplore.ieee.org/document/1163711"""
    x = np.abs(distance)
    near = ((a + 2) * x - (a + 3)) * x * x + 1
    far = ((a * x - 5 * a) * x + 8 * a) * x - 4 * a
    return np.asarray(np.where(x <= 1, near, np.where(x < 2, far, 0)))
