"""Pooling of 2 x 2 pixels of neighbouring threads of a warp: four of them, as targets/cuda/lanes.py says, or two.

Terms are joined as targets/cuda/generic/pool.py does it, those beside each other first, so results are the same bits.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from packer.ir.ops import Activation
from targets.cuda.emit.address import divide
from targets.cuda.emit.joins import maximum, total
from targets.cuda.emit.ptx import Builder, f32

__all__ = ["first_of", "is_number", "pixel_in", "pooled"]

_WARP = 32


def pixel_in(b: Builder, thread: str, columns: int, limit: int) -> tuple[str, str]:
    """Row and column of the pixel of a thread below `limit`, in so many columns."""
    row, column = divide(b, b.new("r", "shr.u32", thread, 2), columns // 2, -(-limit // 4))
    right, lower = (b.new("r", "and.b32", part, 1) for part in (thread, b.new("r", "shr.u32", thread, 1)))
    return b.new("r", "mad.lo.u32", row, 2, lower), b.new("r", "mad.lo.u32", column, 2, right)


def first_of(b: Builder, thread: str, threads: int = 4) -> str:
    """The predicate that a thread is the first of those that have a window, which stores the result."""
    return b.new("p", "setp.eq.u32", b.new("r", "and.b32", thread, threads - 1), 0)


def pooled(b: Builder, pool: str, values: Sequence[str], activation: Activation | None) -> str:
    """What is kept of a window. All threads that have a pixel of it are here, four with one value each or two with
    those of a column each; the activation has been applied."""
    rows = [_join(b, pool, value, _other(b, value, 1), activation) for value in values]
    lower = rows[1] if len(rows) > 1 else _other(b, rows[0], 2)
    found = _join(b, pool, rows[0], lower, activation)
    return b.new("f", "mul.rn.f32", found, f32(0.25)) if pool == "average" else found


def _other(b: Builder, value: str, distance: int) -> str:
    """What the lane has whose number differs in one bit. (The form without .sync is that of PTX ISA 5.0.)"""
    return b.new("f", "shfl.bfly.b32", value, distance, _WARP - 1)


def _join(b: Builder, pool: str, one: str, other: str, activation: Activation | None) -> str:
    if pool == "average":
        return total(b, (one,), (other,))[0]
    return b.new("f", "max.f32", one, other) if is_number(activation) else maximum(b, (one,), (other,))[0]


def is_number(activation: Activation | None) -> bool:
    """Whether an activation gives numbers even for what is none: minima and maxima do."""
    if activation is None:
        return False
    bounded = activation.alpha > -math.inf or activation.beta < math.inf
    return activation.kind in ("relu", "hard_sigmoid") or (activation.kind == "clip" and bounded)
