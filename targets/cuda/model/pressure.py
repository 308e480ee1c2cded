"""Registers that a thread needs: those whose values are still wanted, where they are most, and those of loads."""

from __future__ import annotations

from itertools import accumulate

from targets.cuda.model.text import Program

__all__ = ["registers"]

_WORDS = {"d": 2, "w": 2, "p": 0}  # of 32 bits; predicates have registers of their own
_OWN = 6  # that assemblers need themselves


def registers(program: Program) -> int:
    """About what an assembler gives a thread, at most what the entry allows. A value lives from where it is made to
    where it is used last; what a loop uses lives to its end. Loads go to registers early, if there are any left."""
    begins: dict[str, int] = {}
    ends: dict[str, int] = {}
    place, starts, loops, loaded = 0, list[int](), list[tuple[int, int]](), 0
    for number, block in enumerate(program.blocks):
        starts.append(place)
        for instruction in block.instructions:
            place += 1
            access = instruction.access
            loaded += -(-access.bytes // 4) if access is not None and not access.store else 0
            for text in (*instruction.operands, instruction.guard):
                for name in text.strip("[]").partition("+")[0].split("|"):
                    if name.startswith("%") and name[2:].isdigit():
                        begins.setdefault(name, place)
                        ends[name] = place
            if instruction.code == "bra" and (to := program.labels[instruction.operands[0]]) <= number:
                loops.append((starts[to], place))
    change = [0] * (place + 2)
    for name, begin in begins.items():
        end = ends[name]
        for first, last in loops:
            if begin <= first < end <= last:
                end = last
        words = _WORDS.get(name[1], 1)
        change[begin] += words
        change[end] -= words
    return min(program.registers, max(accumulate(change)) + loaded + _OWN)
