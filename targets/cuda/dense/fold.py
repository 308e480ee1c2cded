"""Sums over the lanes of a warp, many at a time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from targets.cuda.emit.ptx import Builder, f32

__all__ = ["Folded", "fold", "share"]

_WARP = 32


@dataclass(frozen=True, slots=True)
class Folded:
    """What a lane holds: `value`, the total number `number` of `count`. Of lanes with the same number, all but one are
    `surplus`."""

    value: str
    number: str
    count: int
    surplus: str


def fold(b: Builder, values: Sequence[str], lane: str) -> Folded:
    """Add up to 32 values over the lanes of a warp. While there are several, lanes give away one half of them and get
    those of the other half that they keep, so that a step needs half as many exchanges as the one before."""
    own, distance = list(values), _WARP
    while len(own) & (len(own) - 1):
        own.append(b.new("f", "mov.f32", f32(0)))
    count = len(own)
    while distance > 1:
        distance //= 2
        if len(own) > 1:
            upper = b.new("p", "setp.ne.u32", b.new("r", "and.b32", lane, distance), 0)
            half = len(own) // 2
            kept = [b.new("f", "selp.f32", y, x, upper) for x, y in zip(own[:half], own[half:], strict=True)]
            given = [b.new("f", "selp.f32", x, y, upper) for x, y in zip(own[:half], own[half:], strict=True)]
        else:
            kept = given = own
        own = [
            b.new("f", "add.rn.f32", mine, b.new("f", "shfl.bfly.b32", other, distance, _WARP - 1))
            for mine, other in zip(kept, given, strict=True)
        ]
    alike = _WARP // count
    surplus = b.new("p", "setp.ne.u32", b.new("r", "and.b32", lane, alike - 1), 0)
    return Folded(own[0], b.new("r", "shr.u32", lane, alike.bit_length() - 1), count, surplus)


def share(b: Builder, sum: Folded, warp: str, part: str, warps: int, parts: int) -> tuple[Folded, int]:
    """The sums of `parts` neighbouring warps of a block added, in the first of them; others end here. Also the bytes of
    shared memory that it takes."""
    line = b.new("r", "mad.lo.u32", warp, sum.count, sum.number)
    at = b.new("r", "mad.lo.u32", line, 4, b.new("r", "mov.u32", "shared"))
    b.emit(f"@!{sum.surplus} st.shared.f32 [{at}], {sum.value}")
    b.emit("bar.sync 0")
    b.emit(f"@{b.new('p', 'setp.ne.u32', part, 0)} ret")
    total = sum.value
    for other in range(1, parts):
        value = b.new("f", "ld.shared.f32", f"[{at}+{4 * other * sum.count}]")
        total = b.new("f", "add.rn.f32", total, value)
    return Folded(total, sum.number, sum.count, sum.surplus), 4 * warps * sum.count
