"""Sparse matrices in slices of 16 columns, step by step, in the order in which the kernel walks them (docs/format.md):
pure numpy, exact bytes.

Slices of rows whose non-zeros are filled up to the longest are SELL, M. Kreutzer et al., "A unified sparse matrix data
format for efficient general sparse matrix-vector multiplication on modern processors with wide SIMD units", SIAM J.
Sci. Comput. 36 (5), 2014. Here the inputs of a step lie in a window, out of which permutations pick them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

__all__ = [
    "MOST_INPUTS",
    "SLICE",
    "STEP_BYTES",
    "Sliced",
    "is_sliceable",
    "joined",
    "sliced_matrix",
    "steps_of",
]

SLICE = 16  # columns of a slice, and inputs of a window
MOST_INPUTS = (1 << 16) + SLICE - 1  # places of windows have 16 bits
STEP_BYTES = 4 * SLICE + SLICE // 2 + 2
_FILLED, _POWER, _MOST = 1.29, 0.36, 0.83  # how much of a step are weights in random places, by their density


@dataclass(frozen=True, slots=True, eq=False)
class Sliced:
    """The non-zeros of a matrix slice by slice. In each step of a slice every column has a weight, or zero, and one of
    the 16 inputs of the step's window.

    values f32 [steps 16]; places u8 [steps 8]: of the inputs in the window, four bits each, those of even columns in
    the first four bytes, those of odd columns in the others; windows u16 [steps]: the first input; ends i32 [slices,
    2]: where the steps of a slice begin and end.
    """

    values: np.ndarray
    places: np.ndarray
    windows: np.ndarray
    ends: np.ndarray


def is_sliceable(depth: int) -> bool:
    """Whether a matrix of so many inputs can have windows."""
    return SLICE <= depth <= MOST_INPUTS


def steps_of(density: float, depth: float, columns: float) -> float:
    """About how many steps a matrix has whose non-zeros lie anywhere."""
    if density <= 0:
        return 0.0
    filled: float = min(_FILLED * density**_POWER, _MOST + 0.17 * density)
    return density * depth * -(-columns // SLICE) / filled


def sliced_matrix(matrix: np.ndarray) -> Sliced:
    """A matrix [inputs, columns]. The window of a step begins at the first input that any column has yet to meet; every
    column whose next input lies in it takes part."""
    depth, columns = matrix.shape
    assert is_sliceable(depth)
    slices = -(-columns // SLICE)
    column, inputs = np.nonzero(matrix.T)
    values = matrix.T[column, inputs]
    counts = np.zeros(slices * SLICE, np.int64)
    counts[:columns] = np.bincount(column, minlength=columns)
    ends = np.cumsum(counts).reshape(slices, SLICE)
    at = ends - counts.reshape(slices, SLICE)  # the next entry of each column
    inputs, values = np.append(inputs, depth), np.append(values, np.float32(0))  # none
    owners, weights, places, windows = [], [], [], []
    open_slices = np.flatnonzero((at < ends).any(1))
    while open_slices.size:
        entry = np.where(at[open_slices] < ends[open_slices], at[open_slices], -1)
        window = np.minimum(inputs[entry].min(1), depth - SLICE)
        taken = inputs[entry] < np.minimum(window + SLICE, depth)[:, None]
        owners.append(open_slices)
        weights.append(np.where(taken, values[entry], np.float32(0)))
        places.append(np.where(taken, inputs[entry] - window[:, None], 0))
        windows.append(window)
        at[open_slices] += taken
        open_slices = open_slices[(at[open_slices] < ends[open_slices]).any(1)]
    owner = np.concatenate([np.zeros(0, np.int64), *owners])
    order = np.argsort(owner, kind="stable")
    four = np.concatenate([np.zeros((0, SLICE), np.int64), *places])[order].astype(np.uint8)
    pairs = np.concatenate([four[:, 0::2], four[:, 1::2]], 1)
    last = np.cumsum(np.bincount(owner, minlength=slices))
    return Sliced(
        np.concatenate([np.zeros((0, SLICE), np.float32), *weights])[order].reshape(-1),
        (pairs[:, 0::2] | pairs[:, 1::2] << 4).reshape(-1),
        np.concatenate([np.zeros(0, np.int64), *windows])[order].astype(np.uint16),
        np.stack([np.append(0, last)[:-1], last], 1).astype(np.int32),
    )


def joined(parts: Sequence[Sliced]) -> Sliced:
    """The slices of several matrices, one after the other."""
    steps = np.cumsum([0, *(len(part.windows) for part in parts)]).astype(np.int32)
    return Sliced(
        np.concatenate([part.values for part in parts]),
        np.concatenate([part.places for part in parts]),
        np.concatenate([part.windows for part in parts]),
        np.concatenate([part.ends + first for part, first in zip(parts, steps, strict=False)]),
    )
