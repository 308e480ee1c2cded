"""Functions of floats in registers that more than one family needs."""

from __future__ import annotations

import math
from collections.abc import Sequence

from targets.cuda.emit.ptx import Builder, f32

__all__ = ["exp", "log", "maximum", "minimum", "total"]

_LOG2_E = 1 / math.log(2)
_LOW = _LOG2_E - float.fromhex("0x1.715476p+0")  # what float32 leaves of it
_RANGE = 200.0  # e^x of anything beyond is 0 or infinite


def exp(b: Builder, x: str) -> str:
    """e^x within about 2 ulp: 2^t for the rounded product t of x and log2 e, times 2^(what t lacks)."""
    t = b.new("f", "mul.rn.f32", x, f32(_LOG2_E))
    near = b.new("f", "min.f32", b.new("f", "max.f32", x, f32(-_RANGE)), f32(_RANGE))
    product = b.new("f", "mul.rn.f32", near, f32(_LOG2_E))
    lacks = b.new("f", "fma.rn.f32", near, f32(_LOG2_E), b.new("f", "neg.f32", product))
    lacks = b.new("f", "fma.rn.f32", near, f32(_LOW), lacks)
    factor = b.new("f", "fma.rn.f32", lacks, f32(math.log(2)), f32(1))
    return b.new("f", "mul.rn.f32", b.new("f", "ex2.approx.f32", t), factor)


def log(b: Builder, x: str) -> str:
    """The natural logarithm; near 1 its absolute error is about 2^-23."""
    return b.new("f", "mul.rn.f32", b.new("f", "lg2.approx.f32", x), f32(math.log(2)))


def total(b: Builder, one: Sequence[str], other: Sequence[str]) -> tuple[str, ...]:
    """The sum."""
    return (b.new("f", "add.rn.f32", one[0], other[0]),)


def maximum(b: Builder, one: Sequence[str], other: Sequence[str]) -> tuple[str, ...]:
    """The larger one, NaN if one of them is."""
    return _extreme(b, "max", one[0], other[0])


def minimum(b: Builder, one: Sequence[str], other: Sequence[str]) -> tuple[str, ...]:
    """The smaller one, NaN if one of them is."""
    return _extreme(b, "min", one[0], other[0])


def _extreme(b: Builder, kind: str, one: str, other: str) -> tuple[str, ...]:
    number = b.new("f", f"{kind}.f32", one, other)
    nan = b.new("p", "setp.nan.f32", one, other)
    return (b.new("f", "selp.f32", "0f7FC00000", number, nan),)
