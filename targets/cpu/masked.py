"""Matrices with a bit for every weight and values of those that are not zero, in the order in which the kernel walks
them (docs/format.md): pure numpy, exact bytes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

__all__ = ["COLUMNS", "INPUTS", "Masked", "masked_matrix"]

COLUMNS = 4  # of a block, which has one start
INPUTS = 16  # that have a mask for each column
_TOGETHER = 256  # columns that are packed at once


@dataclass(frozen=True, slots=True, eq=False)
class Masked:
    """The weights of a matrix block by block of four columns, in a block by groups of 16 inputs, in a group column by
    column.

    values f32 [entries]: those that are not zero, and as many zeros that no mask leads beyond the last one; masks u16
    [blocks, groups, 4]: bit i of a group's is set if its input i has a weight; starts i32 [blocks]: where the values of
    a block begin.
    """

    values: np.ndarray
    masks: np.ndarray
    starts: np.ndarray


def masked_matrix(matrix: np.ndarray) -> Masked:
    """A matrix [inputs, columns]."""
    depth, columns = matrix.shape
    groups, blocks = -(-depth // INPUTS), -(-columns // COLUMNS)
    masks = np.zeros((blocks, groups, COLUMNS), np.uint16)
    counts = np.zeros(blocks, np.int64)
    values = []
    for begin in range(0, columns, _TOGETHER):
        own = matrix[:, begin : begin + _TOGETHER].T
        first, last = begin // COLUMNS, (begin + len(own) + COLUMNS - 1) // COLUMNS
        padded = np.zeros(((last - first) * COLUMNS, groups * INPUTS), np.float32)
        padded[: len(own), :depth] = own
        walked = padded.reshape(last - first, COLUMNS, groups, INPUTS).transpose(0, 2, 1, 3)
        present = np.ascontiguousarray(walked != 0)
        masks[first:last] = np.packbits(present, -1, "little").view("<u2")[..., 0]
        counts[first:last] = np.count_nonzero(present, (1, 2, 3))
        values.append(walked[present])
    starts = np.cumsum(counts) - counts
    most = COLUMNS * groups * INPUTS if blocks else 0
    values.append(np.zeros(most - int(counts[-1]) if blocks else 0, np.float32))
    return Masked(np.concatenate(values), masks, starts.astype(np.int32))
