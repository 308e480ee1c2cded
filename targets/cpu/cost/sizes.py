"""Bytes of stored tensors, and cycles of the small loops that many kernels share."""

from __future__ import annotations

from functools import lru_cache

from packer.ir import TensorType
from targets.base import Layout, stored_bytes
from targets.cpu.cost.at import At

__all__ = ["activation_cycles", "overlapped", "rows_cycles", "stored", "transpose_cycles"]

# Cycles a vector of the functions that are more than a few instructions; the others are hidden behind loads and stores.
_FUNCTIONS = {
    "exp": 12.0, "log": 14.0, "sqrt": 9.0, "reciprocal": 6.0, "tanh": 16.0, "erf": 20.0, "elu": 15.0, "selu": 15.0,
    "celu": 18.0, "sigmoid": 16.0, "silu": 17.0, "softplus": 28.0, "softsign": 7.0, "mish": 20.0, "gelu": 22.0,
    "gelu_tanh": 20.0,
}  # fmt: skip
_LIBM = ("sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh", "asinh", "acosh", "atanh")


@lru_cache(maxsize=65536)
def stored(type: TensorType, layout: Layout) -> float:
    return float(stored_bytes(type, layout))


def activation_cycles(kind: str, vectors: float, at: At) -> float:
    """Cycles of a pointwise function over so many vectors that are in the first cache."""
    if kind in _LIBM:
        return vectors * at.lanes * 40.0
    return vectors * max(_FUNCTIONS.get(kind, 0.0), 1.0 / at.load + 1.0 / at.store)


def transpose_cycles(pixels: int, channels: int) -> float:
    """Cycles to turn `channels` planes of `pixels` into pixels of 16 channels or back: 4 by 4, the rest one by one."""
    whole = pixels // 4 * 4 * (channels // 4 * 4)
    return 0.5 * whole + 1.5 * (pixels * channels - whole)


def rows_cycles(rows: float, bytes: float) -> float:
    """Cycles to copy so many runs of `bytes`, beyond moving them."""
    return rows * (20.0 + bytes / 64.0)


def overlapped(busy: float, moved: float) -> float:
    """Seconds of a kernel that computes for `busy` and moves data for `moved` seconds, mostly at the same time."""
    return max(busy, moved) + 0.3 * min(busy, moved)
