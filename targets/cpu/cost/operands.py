"""Bytes of operands, the time to reach them, and how that and computing overlap."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from packer.ir import TensorType
from targets.base import Form, Layout, Work, stored_bytes
from targets.cpu.cost.at import At

__all__ = ["operands", "overlapped", "stored", "vectors_of"]

_EXPOSED = 0.1  # part of the shorter of computing and moving that does not hide behind the longer


@lru_cache(maxsize=1 << 16)
def stored(type: TensorType, layout: Layout) -> float:
    """Bytes of a tensor in a layout."""
    return float(stored_bytes(type, layout))


def vectors_of(type: TensorType, layout: Layout, at: At) -> float:
    """Vectors of a float32 tensor as stored."""
    return stored(type, layout) / 4 / at.lanes


def operands(work: Work, form: Form, distances: Sequence[float], at: At) -> float:
    """Seconds to reach every operand once."""
    total, inputs = 0.0, work.inputs
    for i, type in enumerate(inputs):
        if type is not None:
            total += at.moved(stored(type, form.inputs[i]), distances[i])
    for i, type in enumerate(work.outputs):
        total += at.moved(stored(type, form.outputs[i]), distances[len(inputs) + i])
    return total


def overlapped(busy: float, moved: float) -> float:
    """Seconds of a kernel that computes for `busy` and moves data for `moved` seconds at the same time."""
    return max(busy, moved) + _EXPOSED * min(busy, moved)
