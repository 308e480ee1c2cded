"""Teams of threads: each member has something, and all get what it comes to together."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from targets.cuda.emit.ptx import Builder

__all__ = ["Join", "Team", "tree"]

Join = Callable[[Builder, Sequence[str], Sequence[str]], tuple[str, ...]]  # of two operands, some registers each

_WARP = 32


def tree(b: Builder, operands: Sequence[Sequence[str]], join: Join) -> tuple[str, ...]:
    """Neighbours are joined, then neighbouring results, and so on: rounding errors grow with the logarithm."""
    level = [tuple(operand) for operand in operands]
    while len(level) > 1:
        pairs = [join(b, level[i], level[i + 1]) for i in range(0, len(level) - 1, 2)]
        level = pairs + level[2 * len(pairs) :]
    return level[0]


@dataclass(slots=True)
class Team:
    """`size` threads of a block, a power of two; a block has `across` teams. The members are neighbours, or, if not
    `lanes`, the first members of all teams are, then the second ones, and so on.

    All threads of the block have to come to each `combine`.
    """

    size: int
    across: int
    lanes: bool
    shared: int = field(default=0, init=False)  # bytes of shared memory used so far

    @property
    def threads(self) -> int:
        """Of a block."""
        return self.size * self.across

    def place(self, b: Builder) -> tuple[str, str]:
        """Registers with the team's number in the block, and the member's in the team."""
        thread = b.new("r", "mov.u32", "%tid.x")
        inner = self.size if self.lanes else self.across
        outer = b.new("r", "shr.u32", thread, inner.bit_length() - 1)
        within = b.new("r", "and.b32", thread, inner - 1)
        return (outer, within) if self.lanes else (within, outer)

    def combine(self, b: Builder, own: Sequence[str], join: Join) -> tuple[str, ...]:
        """What the members' registers are, joined: the same for all members, bit by bit, if `join` commutes."""
        found = tuple(own)
        if not self.lanes:
            return found if self.size == 1 else self._meet(b, found, join, self.size)
        distance = 1
        while distance < min(self.size, _WARP):
            others = [b.new(value[1], "shfl.bfly.b32", value, distance, _WARP - 1) for value in found]
            found = join(b, found, others)
            distance *= 2
        return found if self.size <= _WARP else self._meet(b, found, join, self.size // _WARP)

    def _meet(self, b: Builder, own: Sequence[str], join: Join, parts: int) -> tuple[str, ...]:
        """The same through shared memory, of `parts` members or of as many warps: each its own word."""
        team, member = self.place(b)
        part = b.new("r", "shr.u32", member, (_WARP if self.lanes else 1).bit_length() - 1)
        first = b.new("r", "mad.lo.u32", team, 4 * parts if self.lanes else 4, b.new("r", "mov.u32", "shared"))
        step = 4 if self.lanes else 4 * self.across
        begin = self.shared
        words = parts * self.across * 4
        mine = b.new("r", "mad.lo.u32", part, step, first)
        for number, value in enumerate(own):
            b.emit(f"st.shared.b32 [{mine}+{begin + number * words}], {value}")
        b.emit("bar.sync 0")
        self.shared += len(own) * words
        return tree(
            b,
            [
                [
                    b.new(value[1], "ld.shared.b32", f"[{first}+{begin + number * words + part * step}]")
                    for number, value in enumerate(own)
                ]
                for part in range(parts)
            ],
            join,
        )
