"""How floats are joined: sums and extremes of two."""

from __future__ import annotations

from collections.abc import Sequence

from targets.cuda.emit.ptx import Builder

__all__ = ["maximum", "minimum", "total"]


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
