"""What code generators make of an operator: kernels in PTX, and how they are launched."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

__all__ = ["Code", "Kernel"]


@dataclass(frozen=True, slots=True)
class Kernel:
    """One entry in a PTX module of its own, whose parameters are device pointers.

    Blocks have one dimension of `threads`. Loads touch up to `slack` elements behind the last plane of the first input;
    what is there does not matter. Of sparse convolutions: `channels` are the output channels of each slice (the grid's
    last dimension picks one), `multiplies` counts the multiply-adds in the code, `deleted` those left out of a
    template.
    """

    name: str
    ptx: str
    grid: tuple[int, int, int]
    threads: int
    slack: int = 0
    channels: tuple[tuple[int, ...], ...] = ()
    multiplies: int = 0
    deleted: int = 0


@dataclass(frozen=True, slots=True, eq=False)
class Code:
    """An operator on the device: kernels launched one after the other, all with the same pointers.

    Those are of `operands`, each the number of an input of the node or a constant that is kept in device memory, and
    then of all outputs.
    """

    kernels: tuple[Kernel, ...]
    operands: tuple[int | np.ndarray, ...]
