"""Place buffers with known lifetimes in one arena, as tightly as a few good orders find.

Every order is placed greedily: each buffer at the lowest (or the best-fitting) free offset between the buffers whose
lives overlap
with its own. The smallest arena wins; the floor is the largest sum of buffers alive at one step.
"""

from __future__ import annotations

import bisect
from collections.abc import Sequence
from dataclasses import dataclass

__all__ = ["ALIGN", "Arena", "Buffer", "place"]

ALIGN = 64


@dataclass(frozen=True, slots=True)
class Buffer:
    """`bytes` needed from step `first` to step `last`, both included; by one core alone, if `core` is not -1."""

    bytes: int
    first: int
    last: int
    core: int = -1


@dataclass(frozen=True, slots=True)
class Arena:
    """Offsets (bytes, multiples of 64) of the buffers in the order given, the size of the arena and its lower bound."""

    offsets: tuple[int, ...]
    bytes: int
    floor: int


def place(buffers: Sequence[Buffer]) -> Arena:
    """The smallest arena found for `buffers`."""
    sizes = [-(-b.bytes // ALIGN) * ALIGN for b in buffers]
    floor = _floor(buffers, sizes)
    numbers = range(len(buffers))
    orders = [
        sorted(numbers, key=lambda i: (-sizes[i], buffers[i].first)),
        sorted(numbers, key=lambda i: (-sizes[i] * (buffers[i].last - buffers[i].first + 1), buffers[i].first)),
        sorted(numbers, key=lambda i: (buffers[i].first - buffers[i].last, -sizes[i])),
        sorted(numbers, key=lambda i: (buffers[i].first, -sizes[i])),
        _by_pressure(buffers, sizes),
    ]
    best: list[int] | None = None
    best_bytes = 0
    for order in orders:
        for tightest in (False, True):
            offsets = _greedy(buffers, sizes, order, tightest)
            total = max((offsets[i] + sizes[i] for i in numbers), default=0)
            if best is None or total < best_bytes:
                best, best_bytes = offsets, total
        if best_bytes == floor:
            break
    if any(buffer.core >= 0 for buffer in buffers):
        best = _by_core(buffers, sizes, best_bytes) or best
    return Arena(tuple(best or ()), best_bytes, floor)


def _by_core(buffers: Sequence[Buffer], sizes: list[int], total: int) -> list[int] | None:
    """Offsets below `total` with what each core alone uses as near as can be to a part of the arena that is its own, so
    that it does not write to what another core's cache has; None if not all fit."""
    cores = max(buffer.core for buffer in buffers) + 1
    offsets = [0] * len(buffers)
    placed: list[tuple[int, int]] = []  # (offset, buffer), sorted
    for i in sorted(range(len(buffers)), key=lambda i: (-sizes[i], buffers[i].first)):
        here = buffers[i]
        wanted = 0.0 if here.core <= 0 else total * here.core / (cores - 1) - sizes[i]
        found, end = [], 0
        for begin, j in [*placed, (total, -1)]:
            if j >= 0 and (buffers[j].last < here.first or here.last < buffers[j].first):
                continue
            if begin - end >= sizes[i]:
                found.append(min(max(end, int(wanted) // ALIGN * ALIGN), begin - sizes[i]))
            end = max(end, begin + sizes[j])
        if not found:
            return None
        offsets[i] = min(found, key=lambda offset: abs(offset - wanted))
        bisect.insort(placed, (offsets[i], i))
    return offsets


def _floor(buffers: Sequence[Buffer], sizes: list[int]) -> int:
    steps = max((b.last for b in buffers), default=-1) + 2
    change = [0] * steps
    for buffer, size in zip(buffers, sizes, strict=True):
        change[buffer.first] += size
        change[buffer.last + 1] -= size
    live = highest = 0
    for delta in change:
        live += delta
        highest = max(highest, live)
    return highest


def _by_pressure(buffers: Sequence[Buffer], sizes: list[int]) -> list[int]:
    """Buffers of the fullest step first, then of the next fullest, larger ones first (as in TensorFlow Lite's greedy
    by breadth)."""
    steps = max((b.last for b in buffers), default=-1) + 1
    alive: list[list[int]] = [[] for _ in range(steps)]
    for i, buffer in enumerate(buffers):
        for step in range(buffer.first, buffer.last + 1):
            alive[step].append(i)
    order: dict[int, None] = {}
    for step in sorted(range(steps), key=lambda s: -sum(sizes[i] for i in alive[s])):
        for i in sorted(alive[step], key=lambda i: -sizes[i]):
            order.setdefault(i)
    return list(order)


def _greedy(buffers: Sequence[Buffer], sizes: list[int], order: list[int], tightest: bool) -> list[int]:
    """Place in `order`; `tightest` takes the smallest gap that fits, else the lowest one."""
    offsets = [0] * len(buffers)
    placed: list[tuple[int, int]] = []  # (offset, buffer), sorted
    for i in order:
        here = buffers[i]
        chosen, chosen_gap, end = None, 0, 0
        for offset, j in placed:
            other = buffers[j]
            if other.last < here.first or here.last < other.first:
                continue
            gap = offset - end
            if gap >= sizes[i] and (chosen is None or (tightest and gap < chosen_gap)):
                chosen, chosen_gap = end, gap
                if not tightest:
                    break
            end = max(end, offset + sizes[j])
        offsets[i] = end if chosen is None else chosen
        bisect.insort(placed, (offsets[i], i))
    return offsets
