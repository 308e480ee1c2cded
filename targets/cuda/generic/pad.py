"""Pad: positions along each padded dimension are known when packing."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from packer.ir.ops import Pad
from targets.cuda.array import Array
from targets.cuda.generic.access import Constants, Inputs, operand
from targets.cuda.generic.pick import OUTSIDE, pick
from targets.cuda.kernel import Code

__all__ = ["pad"]


def pad(op: Pad, inputs: Inputs, outputs: Sequence[Array], constants: Constants) -> Code | None:
    """All modes; not with a value that is found at run time, nor of a tensor without elements."""
    x, value = inputs[0], constants[1] if len(constants) > 1 else None
    if x is None or not x.elements or (len(inputs) > 1 and inputs[1] is not None and value is None):
        return None
    rank = len(x.shape)
    positions = {
        axis: _positions(op.mode, extent, op.pads[axis], op.pads[rank + axis])
        for axis, extent in enumerate(x.shape)
        if op.pads[axis] or op.pads[rank + axis]
    }
    filler = 0 if value is None else value.item()
    return pick("pad", x, operand(0, inputs, constants), outputs[0], positions, filler)


def _positions(mode: str, extent: int, begin: int, end: int) -> np.ndarray:
    """Where each entry of a padded dimension comes from."""
    place = np.arange(-begin, extent + end)
    match mode:
        case "constant":
            return np.where((place >= 0) & (place < extent), place, OUTSIDE)
        case "edge":
            return np.clip(place, 0, extent - 1)
        case "wrap":
            return place % extent
        case _:
            place = place % max(1, 2 * extent - 2)
            return np.minimum(place, 2 * extent - 2 - place)
