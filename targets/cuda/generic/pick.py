"""Elements picked by tables: where along a dimension each entry of the output comes from."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from packer.ir import DType
from targets.cuda.array import Array
from targets.cuda.emit.ptx import Builder
from targets.cuda.generic.access import Walk, address, aligned, kernel, load, offsets, store
from targets.cuda.generic.conversion import immediate, kind_of
from targets.cuda.generic.copy import copy, moved
from targets.cuda.kernel import Code

__all__ = ["OUTSIDE", "inside", "pick", "steps_to", "table_of"]

OUTSIDE = -1  # the position of what comes from nowhere, and its offset


def table_of(positions: np.ndarray, stride: int) -> np.ndarray:
    """Offsets in elements of positions along a dimension."""
    return np.where(positions < 0, OUTSIDE, positions * stride).astype(np.int32)


def steps_to(axis: int, rank: int) -> tuple[int, ...]:
    """Strides from an element of the output to its entry in a table along an axis."""
    return tuple(int(i == axis) for i in range(rank))


def inside(b: Builder, signs: list[str]) -> str:
    """A predicate: none of these offsets is OUTSIDE."""
    together = signs[0]
    for sign in signs[1:]:
        together = b.new("r", "or.b32", together, sign)
    return b.new("p", "setp.ge.s32", together, 0)


def pick(
    name: str, x: Array, operand: int | np.ndarray, y: Array, positions: Mapping[int, np.ndarray], filler: float = 0.0
) -> Code:
    """A kernel that stores, along each axis that has them, the entries of x at `positions`; `filler` where one is
    OUTSIDE. Along the others x and y have the same entries."""
    if not positions:
        return Code((copy(name, x, y, together=aligned(x) and aligned(y)),), (operand,))
    rank, axes = len(y.shape), sorted(positions)
    tables = [table_of(positions[axis], x.strides[axis]) for axis in axes]
    begins = [0, *np.cumsum([table.size for table in tables])[:-1].tolist()]
    strides = tuple(0 if axis in positions else stride for axis, stride in enumerate(x.strides))
    walk = Walk.over(y.shape, strides, y.strides, *(steps_to(axis, rank) for axis in axes))
    source, target = moved(x.dtype, y.dtype)
    fill = any((table < 0).any() for table in tables)

    def body(b: Builder, index: str) -> None:
        place, end, *entries = offsets(b, walk, index, (x.origin, y.origin, *begins))
        found = [load(b, DType.I32, address(b, "tables", entry, DType.I32), constant=True) for entry in entries]
        for offset in found:
            place = b.new("r", "add.u32", place, offset)
        if not fill:
            value = load(b, source, address(b, "x", place, source), constant=True)
        else:
            wanted = inside(b, found)
            kind = kind_of(source)
            place = b.new("r", "selp.u32", place, x.origin, wanted)
            value = load(b, source, address(b, "x", place, source), constant=True)
            type = {"f": "f32", "r": "u32", "d": "u64"}[kind]
            value = b.new(kind, f"selp.{type}", value, immediate(b, source, _bits(filler, x.dtype, source)), wanted)
        store(b, target, address(b, "y", end, target), value)

    made = kernel(name, ("x", "tables", "y"), walk.elements, body)
    return Code((made,), (operand, np.concatenate(tables)))


def _bits(value: float, dtype: DType, moved_as: DType) -> float:
    """The value, of an element type, as the type that it is moved as."""
    if kind_of(moved_as) == "f":
        return value
    return int(np.asarray(value).astype(dtype.numpy).view(moved_as.numpy))
