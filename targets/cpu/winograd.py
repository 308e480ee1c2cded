"""Weights of Winograd's convolution F(m x m, 3 x 3), transformed when packing (runtime_c/src/kernels/winograd.h)."""

from __future__ import annotations

from math import prod

import numpy as np

__all__ = ["POINTS", "TILES", "transformed"]

TILES = (2, 4, 6)  # m: outputs along each side of a tile
# The positive points of interpolation; with each p there is -p, besides 0 and infinity.
POINTS: dict[int, tuple[float, ...]] = {2: (1.0,), 4: (0.625, 1.5), 6: (0.5, 1.0, 2.0)}


def _matrix(tile: int) -> np.ndarray:
    """[m + 2, 3]: the values of a polynomial of three coefficients at the points, divided as its inputs' are not."""
    points = [0.0]
    for point in POINTS[tile]:
        points += [point, -point]
    rows = [[p**j / prod(p - q for q in points if q != p) for j in range(3)] for p in points]
    return np.array([*rows, [0.0, 0.0, 1.0]])


def transformed(weights: np.ndarray, tile: int) -> np.ndarray:
    """Weights [K,C,3,3] as float32 [(m + 2)^2, K, C], rounded once."""
    matrix = _matrix(tile)
    flat = weights.reshape(-1, 9).astype(np.float64)
    values: np.ndarray = (np.kron(matrix, matrix) @ flat.T).astype(np.float32)
    return values.reshape((tile + 2) ** 2, *weights.shape[:2])
