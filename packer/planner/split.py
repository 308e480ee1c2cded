"""Splits: how the output of an operator is cut into pieces, and which core computes each.

Pieces are boxes with exact begin and end. Their number is any, and they may be unequal, in proportion to the speeds
of the cores, so that all finish together (after Zhang & Zhi's operator splitting, without its powers of two).
"""

from __future__ import annotations

import functools
import itertools
import math
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from packer.ir import Box, TensorType, whole
from packer.ir.ops import Dependence

__all__ = ["NONE", "SHARED", "Piece", "Split", "balanced", "evened", "splits", "together", "weighed"]

NONE, SHARED = "none", "shared"
_ROWS = 2  # the first spatial axis
_WORTH = 0.98  # what pieces of equal work must take at most of the time of pieces of equal size
_AXES = {1: "C", 2: "NC", 3: "NCW", 4: "NCHW", 5: "NCDHW"}


@dataclass(frozen=True, slots=True)
class Piece:
    """A box of the output, computed by one core."""

    core: int
    box: Box


@dataclass(frozen=True, slots=True)
class Split:
    """The pieces of an output, at most one a core; together they are all of it and none overlap.

    `name` says how it was cut, as "H2" or "C2xH3", "H2@4" being between multiples of 4 for the sake of an algorithm,
    "C2~" into pieces of about equal work instead of equal size; "none": one core computes everything; "shared": all
    cores do, each a share of the tasks of the operator's kernel.
    """

    name: str
    pieces: tuple[Piece, ...]


def together(pieces: Sequence[Piece]) -> tuple[Piece, ...]:
    """A piece for each core: the box around all of its own, which are its tiles."""
    boxes: dict[int, Box] = {}
    for piece in pieces:
        before = boxes.get(piece.core, piece.box)
        boxes[piece.core] = tuple((min(a, c), max(b, d)) for (a, b), (c, d) in zip(before, piece.box, strict=True))
    return tuple(Piece(core, box) for core, box in boxes.items())


@functools.lru_cache(maxsize=4096)
def splits(
    type: TensorType,
    dependence: tuple[Dependence, ...],
    speeds: tuple[float, ...],
    grain: tuple[int, ...],
    form_grain: tuple[int, ...] = (),
) -> tuple[Split, ...]:
    """All sensible ways to cut an output of `type` for cores of these speeds (fastest first), "none" first.

    One or two dimensions are cut, those that are not FULL, at multiples of `grain` (and of `form_grain`, if any), in as
    many pieces as help or fewer. An operator that cannot be cut may be shared.
    """
    coarser = tuple(map(math.lcm, grain, form_grain)) or grain
    everything = whole(type)
    found = {NONE: Split(NONE, (Piece(0, everything),))}
    if type.elements == 0:
        return tuple(found.values())
    units = _units(type, dependence, coarser)
    axes = [axis for axis, count in enumerate(units) if count > 1]
    for counts in _grids(axes, units, len(speeds)):
        multiples = [f"@{coarser[axis]}" if coarser[axis] > grain[axis] else "" for axis, _ in counts]
        cuts = zip(counts, multiples, strict=True)
        name = "x".join(f"{_axis_name(axis, type.rank)}{count}{multiple}" for (axis, count), multiple in cuts)
        boxes = _cut(everything, counts, coarser, list(speeds[: math.prod(count for _, count in counts)]), {})
        found[name] = Split(name, _pieces(boxes))
    if len(found) == 1 and len(speeds) > 1:
        found[SHARED] = Split(SHARED, (Piece(0, everything),))
    return tuple(found.values())


def weighed(
    type: TensorType,
    dependence: tuple[Dependence, ...],
    speeds: tuple[float, ...],
    grain: tuple[int, ...],
    axis: int,
    before: np.ndarray,
    form_grain: tuple[int, ...] = (),
) -> tuple[Split, ...]:
    """Those of `splits` that cut `axis`, between pieces of about equal work instead of equal size, wherever that makes
    the longest piece shorter. `before` is the work before each index of `axis`, and of all."""
    coarser = tuple(map(math.lcm, grain, form_grain)) or grain
    units = _units(type, dependence, coarser)
    if type.elements == 0 or units[axis] == 1:
        return ()
    ends = [float(work) for work in (*before[:: coarser[axis]][: units[axis]], before[-1])]
    found = []
    for counts in _grids([a for a, count in enumerate(units) if count > 1], units, len(speeds)):
        if axis in dict(counts):
            used = list(speeds[: math.prod(count for _, count in counts)])
            even, uneven = (_cut(whole(type), counts, coarser, used, ways) for ways in ({}, {axis: ends}))
            if _longest(uneven, used, axis, before) < _WORTH * _longest(even, used, axis, before):
                names = (f"{_axis_name(a, type.rank)}{count}{'~' if a == axis else ''}" for a, count in counts)
                found.append(Split("x".join(names), _pieces(uneven)))
    return tuple(found)


def balanced(units: int, speeds: Sequence[float]) -> tuple[int, ...]:
    """Shares of `units` equal indivisible units for workers of these speeds, so that the last one finishes soonest."""
    shares = [0] * len(speeds)
    if len(set(speeds)) == 1:
        each, more = divmod(units, len(speeds))
        return (each + 1,) * more + (each,) * (len(speeds) - more)
    total = sum(speeds)
    shares = [int(units * speed / total) for speed in speeds]
    for _ in range(units - sum(shares)):
        next_one = min(range(len(speeds)), key=lambda i: (shares[i] + 1) / speeds[i])
        shares[next_one] += 1
    return tuple(shares)


def evened(ends: Sequence[float], speeds: Sequence[float]) -> tuple[int, ...]:
    """Shares of neighbouring units for workers of these speeds, so that the last one finishes within a hundredth of the
    soonest. `ends` is the work before each unit, and of all."""

    def within(limit: float) -> list[int]:
        shares, at = [], 0
        for speed in speeds:
            until = bisect_right(ends, ends[at] + limit * speed) - 1
            shares.append(until - at)
            at = until
        return shares

    least, most = ends[-1] / sum(speeds), 1.01 * ends[-1] / speeds[0]
    while most - least > 0.01 * least:
        limit = (least + most) / 2
        least, most = (least, limit) if sum(within(limit)) == len(ends) - 1 else (limit, most)
    return tuple(within(most))


def _units(type: TensorType, dependence: Sequence[Dependence], grain: Sequence[int]) -> list[int]:
    """How many pieces an output could have along each axis."""
    return [
        1 if kind is Dependence.FULL else math.ceil(extent / unit)
        for extent, kind, unit in zip(type.shape, dependence, grain, strict=True)
    ]


def _pieces(boxes: Sequence[Box | None]) -> tuple[Piece, ...]:
    return tuple([Piece(core, box) for core, box in enumerate(boxes) if box is not None])


def _longest(boxes: Sequence[Box | None], speeds: Sequence[float], axis: int, before: np.ndarray) -> float:
    """Until the last core is done with its box."""
    return max(
        float(before[box[axis][1]] - before[box[axis][0]])
        * math.prod(end - begin for a, (begin, end) in enumerate(box) if a != axis)
        / speed
        for box, speed in zip(boxes, speeds, strict=True)
        if box is not None
    )


def _axis_name(axis: int, rank: int) -> str:
    return _AXES[rank][axis] if rank in _AXES else f"axis{axis}."


def _grids(axes: Sequence[int], units: Sequence[int], cores: int) -> Iterator[tuple[tuple[int, int], ...]]:
    """(axis, pieces) along one or two axes: at most a piece a core, and no fewer pieces that would do as well.

    Columns by themselves are cut only where there are more of them than rows; one axis by itself into at least half as
    many pieces as it could.
    """
    counts = {axis: _counts(units[axis], cores) for axis in axes}
    columns = {b for b in axes if any(_ROWS <= a < b and units[a] >= units[b] for a in axes)}
    for axis in axes:
        if axis not in columns:
            yield from (((axis, count),) for count in counts[axis] if 2 * count >= counts[axis][-1])
    for a, b in itertools.combinations(axes, 2):
        if b in columns and a < _ROWS:
            continue
        for first in counts[a]:
            room = cores // first
            fitting = [second for second in counts[b] if second <= room]
            if fitting:
                yield (a, first), (b, fitting[-1])


def _counts(units: int, most: int) -> list[int]:
    """The least number of pieces, at most `most`, that makes the largest piece as small as can be; its divisors and
    powers of two, where they make it smaller than one piece less does."""
    best = min(range(1, min(units, most) + 1), key=lambda count: (math.ceil(units / count), count))
    sensible = (count for count in range(2, best + 1) if best % count == 0 or count & (count - 1) == 0)
    return [count for count in sensible if math.ceil(units / count) < math.ceil(units / (count - 1))]


def _cut(
    box: Box,
    counts: Sequence[tuple[int, int]],
    grain: Sequence[int],
    speeds: list[float],
    work: Mapping[int, Sequence[float]],
) -> list[Box | None]:
    """The boxes of a grid, the first axis slowest, None for those that are empty; groups of cores get shares by what
    they can do together: of the `work` that is before each unit of an axis, or else of units."""
    (axis, count), rest = counts[0], counts[1:]
    each = len(speeds) // count
    groups = [speeds[i * each : (i + 1) * each] for i in range(count)]
    (at, end), unit = box[axis], grain[axis]
    before, after = box[:axis], box[axis + 1 :]
    able = [sum(group) for group in groups]
    shares = evened(work[axis], able) if axis in work else balanced(math.ceil((end - at) / unit), able)
    boxes: list[Box | None] = []
    for group, share in zip(groups, shares, strict=True):
        until = min(at + share * unit, end)
        one = (*before, (at, until), *after)
        boxes += [None] * each if at == until else _cut(one, rest, grain, group, work) if rest else [one]
        at = until
    return boxes
