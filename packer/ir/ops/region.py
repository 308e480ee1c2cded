"""What a box of an output needs of the inputs, by the rules that operators share."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Sequence

from packer.ir.ops.base import Dependence
from packer.ir.types import Box

__all__ = [
    "alike",
    "box_before_reduction",
    "broadcast_box",
    "full_along",
    "pointwise",
    "reduction_dependence",
    "widened",
]


def pointwise(rank: int) -> tuple[Dependence, ...]:
    """POINTWISE along every dimension."""
    return (Dependence.POINTWISE,) * rank


def full_along(axes: Collection[int], rank: int) -> tuple[Dependence, ...]:
    """FULL along `axes`, POINTWISE along the other dimensions."""
    return tuple(Dependence.FULL if axis in axes else Dependence.POINTWISE for axis in range(rank))


def broadcast_box(box: Box, shape: Sequence[int]) -> Box:
    """The box of an operand of `shape` that broadcasts to an output: all of it where its extent is 1."""
    lead = len(box) - len(shape)
    return tuple((0, 1) if extent == 1 else span for extent, span in zip(shape, box[lead:], strict=True))


def widened(box: Box, shape: Sequence[int], axes: Collection[int]) -> Box:
    """`box`, but all of `shape` along `axes`."""
    return tuple((0, shape[axis]) if axis in axes else span for axis, span in enumerate(box))


def reduction_dependence(rank: int, axes: Collection[int], keepdims: bool) -> tuple[Dependence, ...]:
    """Of an output that `axes` of an input of `rank` were reduced to."""
    return full_along(axes, rank) if keepdims else pointwise(rank - len(axes))


def box_before_reduction(box: Box, shape: Sequence[int], axes: Collection[int], keepdims: bool) -> Box:
    """The box of an input of `shape` that is reduced along `axes` to `box`."""
    if keepdims:
        return widened(box, shape, axes)
    kept = iter(box)
    return tuple((0, extent) if axis in axes else next(kept) for axis, extent in enumerate(shape))


def alike(source: Sequence[int], result: Sequence[int]) -> Iterator[tuple[tuple[int, int], tuple[int, int], bool]]:
    """Which dimensions of two shapes of the same elements in row-major order go through the same blocks of them.

    Of the shortest groups of dimensions that hold as many elements in both, the first dimension of each and how many
    elements of the group one step of it goes over, in `source` and in `result`, and whether it is the whole group in
    both. Dimensions of extent 1 are in no group; there are none if there are no elements.
    """
    ours, theirs = ([axis for axis, extent in enumerate(shape) if extent != 1] for shape in (source, result))
    while ours and theirs and 0 not in source:
        own, other = [ours.pop(0)], [theirs.pop(0)]
        while (a := math.prod(source[axis] for axis in own)) != (b := math.prod(result[axis] for axis in other)):
            own, other = ([*own, ours.pop(0)], other) if a < b else (own, [*other, theirs.pop(0)])
        yield (own[0], a // source[own[0]]), (other[0], b // result[other[0]]), len(own) == len(other) == 1
