"""Windows over spatial dimensions: which taps can lie outside the input, and for those, whether they do."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from targets.cuda.array import Array
from targets.cuda.emit.ptx import Builder

__all__ = ["Axis", "both", "rooms"]

_WORD = 1 << 32


@dataclass(frozen=True, slots=True)
class Axis:
    """Windows along one dimension: tap k of window o is at element `o stride + k dilation - begin` of `extent`. Between
    `before` elements in front and `behind` elements behind there is a halo of zeros."""

    extent: int
    out: int
    kernel: int
    stride: int
    dilation: int
    begin: int
    before: int = 0
    behind: int = 0

    def within(self, tap: int, before: int = 0, behind: int = 0) -> bool:
        """Whether a tap of all windows lies in the input, or in so many elements around it."""
        first = tap * self.dilation - self.begin
        return first >= -before and first + (self.out - 1) * self.stride < self.extent + behind

    def readable(self, tap: int) -> bool:
        """Whether a tap of all windows lies in the input or its halo."""
        return self.within(tap, self.before, self.behind)

    def inside(self, b: Builder, window: str, tap: int, before: int = 0, behind: int = 0) -> str | None:
        """A predicate that says this of one window; None where it holds for all."""
        if self.within(tap, before, behind):
            return None
        shift = (tap * self.dilation - self.begin + before) % _WORD
        place = b.new("r", "mad.lo.u32", window, self.stride, shift)
        return b.new("p", "setp.lt.u32", place, before + self.extent + behind)


def rooms(array: Array) -> list[tuple[int, int]]:
    """How many elements of halo are before and behind each spatial dimension of a value [N, C, spatial]."""
    if len(array.shape) != 4:
        return [(0, 0)] * (len(array.shape) - 2)
    _, plane, pitch, _ = array.strides
    top, left = divmod(array.origin, pitch)
    return [(top, plane // pitch - top - array.shape[2]), (left, pitch - left - array.shape[3])]


def both(b: Builder, predicates: Sequence[str | None]) -> str | None:
    """The predicate that all of these hold; None where there is none."""
    found: str | None = None
    for predicate in predicates:
        if predicate is not None:
            found = predicate if found is None else b.new("p", "and.pred", found, predicate)
    return found
