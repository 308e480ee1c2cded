"""Inputs to run a network on when the user gives none."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.random import default_rng  # here, for `bench`: it takes 2 MiB

from edgert.dtypes import Array

if TYPE_CHECKING:
    from edgert.session import TensorInfo

__all__ = ["random_inputs"]


def random_inputs(inputs: Sequence[TensorInfo], seed: int = 0) -> dict[str, Array]:
    """Arrays for `inputs` by name, the same for the same seed: standard normal floats, integers and booleans 0 or 1
    (small enough to be valid as indices)."""
    generator = default_rng(seed)
    found: dict[str, Array] = {}
    for info in inputs:
        if info.dtype.kind == "f":
            found[info.name] = generator.standard_normal(info.shape, np.float32).astype(info.dtype, copy=False)
        else:
            found[info.name] = generator.integers(0, 2, info.shape).astype(info.dtype)
    return found
