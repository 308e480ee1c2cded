"""Output channels in slices: a slice is what one thread computes of a pixel, and has code of its own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from targets.cuda.rounding import round20

__all__ = [
    "CODE",
    "MOST_MULTIPLIES",
    "MOST_VALUES",
    "RESIDENT",
    "Slice",
    "cache_resident",
    "channels_a_thread",
    "entries_of",
    "long_weights",
    "slices_of",
]

MOST_MULTIPLIES = 32_768  # multiply-adds of an entry; ptxas needs more than twice the time for twice as many
MOST_VALUES = 16_384  # distinct values of 32 bits that the constant bank of a kernel holds
RESIDENT = 28 * 1024  # bytes of code of a slice that stays in the instruction cache
CODE = 10.67 / 0.8  # bytes of code for a multiply-add, if those are 0.8 of all instructions


@dataclass(frozen=True, slots=True, eq=False)
class Slice:
    """Output channels of one group that a thread computes together.

    `channels` are their numbers in the output, ascending; weights [len(channels), C / group, R, S]; bias
    [len(channels)]; `first` is the group's first input channel.
    """

    channels: tuple[int, ...]
    first: int
    weights: np.ndarray
    bias: np.ndarray

    @property
    def multiplies(self) -> int:
        """Multiply-adds of a pixel."""
        return int(np.count_nonzero(self.weights))


def channels_a_thread(weights: np.ndarray) -> int:
    """Output channels a thread for straight-line code: 64, but 32 where the zeros are few; half as many again while a
    slice alone has more multiply-adds than an entry should."""
    filters = max(1, weights.shape[0])
    density = np.count_nonzero(weights) / max(1, weights.size)
    most = 64 if density < 0.2 else 32
    each = np.count_nonzero(weights) / filters
    while most > 1 and most * each > MOST_MULTIPLIES:
        most //= 2
    return most


def cache_resident(weights: np.ndarray) -> int | None:
    """Output channels a thread, 32 or 16, for which code of a slice stays in the instruction cache; None: neither."""
    each = np.count_nonzero(weights) / max(1, weights.shape[0])
    return next((most for most in (32, 16) if most * each * CODE <= RESIDENT), None)


def slices_of(weights: np.ndarray, bias: np.ndarray | None, group: int, most: int) -> list[Slice]:
    """Weights [K, C / group, R, S] in slices of at most `most` channels of one group, of nearly equal size.

    Channels with equally many non-zeros go together: slices of few are quick, and rows of zeros cost next to nothing.
    """
    filters, depth = weights.shape[:2]
    each = filters // group
    bias = np.zeros(filters, np.float32) if bias is None else bias.astype(np.float32)
    counts = np.count_nonzero(weights.reshape(filters, -1), axis=1)
    found = []
    for g in range(group):
        order = g * each + np.argsort(-counts[g * each : (g + 1) * each], kind="stable")
        for part in np.array_split(order, -(-each // most)):
            own = np.sort(part)
            found.append(Slice(tuple(map(int, own)), g * depth, weights[own], bias[own]))
    return found


def long_weights(weights: np.ndarray) -> np.ndarray:
    """The distinct weights that an immediate of 20 bits does not hold."""
    return np.unique(weights[round20(weights) != weights])


def entries_of(
    slices: Sequence[Slice],
    most: int = MOST_MULTIPLIES,
    constants: Callable[[np.ndarray], np.ndarray] = long_weights,
) -> list[list[Slice]]:
    """Slices in entries of at most `most` multiply-adds, and of no more distinct values than the constant bank holds:
    `constants` of weights are those that no immediate holds. A larger slice is an entry alone."""
    found: list[list[Slice]] = []
    size, values = 0, constants(np.zeros(0, np.float32))
    for slice in slices:
        own = constants(slice.weights)
        together = np.union1d(values, own)
        if not found or size + slice.multiplies > most or len(together) > MOST_VALUES:
            found.append([])
            size, together = 0, own
        found[-1].append(slice)
        size, values = size + slice.multiplies, together
    return found
