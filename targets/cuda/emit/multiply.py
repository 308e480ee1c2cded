"""Multiply-adds with immediates: one for each weight that is not zero."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from targets.cuda.emit.ptx import Builder, f32

__all__ = ["multiply", "start"]


def start(b: Builder, bias: np.ndarray) -> list[str]:
    """Registers of sums that begin as the bias."""
    return [b.new("f", "mov.f32", f32(value)) for value in bias]


def multiply(b: Builder, sums: Sequence[str], value: str, weights: np.ndarray) -> None:
    """Add `value` times each weight to its sum, one for one; weights of zero cost nothing."""
    bits = np.ascontiguousarray(weights, np.float32).view(np.uint32)
    for k in np.flatnonzero(weights).tolist():
        b.emit(f"fma.rn.f32 {sums[k]}, {value}, 0f{int(bits[k]):08X}, {sums[k]}")
