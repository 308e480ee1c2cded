"""Pooling: a thread for each output; where a window is large and no tap needs a test, a team of threads.

Averages read padding from the halo where there is enough of one; a maximum has to pass it over.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence

from packer.ir import DType
from packer.ir.ops import Pool
from targets.cuda.array import Array
from targets.cuda.emit.ptx import Builder, f32
from targets.cuda.generic.access import Constants, Inputs, Walk, address, coordinates, kernel, load, offsets, store
from targets.cuda.generic.joins import maximum, total
from targets.cuda.generic.rows import Rows, by_walks
from targets.cuda.generic.team import Join, tree
from targets.cuda.generic.window import Axis, both, rooms
from targets.cuda.kernel import Code

__all__ = ["pool"]

_UNROLLED = 256  # taps of a window that one thread has
_SHARED = 32  # taps from which on a team may have them
_FEW = 4096  # windows that do not keep a small GPU busy
_AT_ONCE = 16  # taps that are on the way together


def pool(op: Pool, inputs: Inputs, outputs: Sequence[Array], constants: Constants) -> Code | None:
    """Of floats, without the places of maxima; windows of up to `_UNROLLED` taps, larger ones that need no tests."""
    x, y = inputs[0], outputs[0]
    if x is None or len(outputs) > 1 or x.dtype not in (DType.F32, DType.F16) or not x.elements:
        return None
    axes = [
        Axis(x.shape[2 + i], y.shape[2 + i], op.kernel[i], op.strides[i], op.dilations[i], op.pads[i], *room)
        for i, room in enumerate(rooms(x))
    ]
    begin = sum(axis.begin * step for axis, step in zip(axes, x.strides[2:], strict=True))
    origins = (x.origin - begin, y.origin)
    steps = [axis.stride * step for axis, step in zip(axes, x.strides[2:], strict=True)]
    windows = Walk.over(y.shape, (*x.strides[:2], *steps), y.strides)
    taps = math.prod(op.kernel)
    if taps >= _SHARED and _untested(op, axes):
        apart = all(axis.stride >= axis.kernel or axis.out == 1 for axis in axes)
        if apart or windows.elements < _FEW or taps > _UNROLLED:
            inner = [axis.dilation * step for axis, step in zip(axes, x.strides[2:], strict=True)]
            window = Walk.over(op.kernel, inner, (0,) * len(axes))
            return by_walks("pool", (x, y), windows, window, origins, lambda rows: _by_team(op, rows))
    if taps > _UNROLLED:
        return None

    def body(b: Builder, index: str) -> None:
        begins = offsets(b, windows, index, origins)
        value = _by_thread(b, op, x, axes, index, y.shape, address(b, "x", begins[0], x.dtype))
        store(b, y.dtype, address(b, "y", begins[1], y.dtype), value)

    return Code((kernel("pool", ("x", "y"), windows.elements, body),), (0,))


def _untested(op: Pool, axes: Sequence[Axis]) -> bool:
    """Whether all taps count, and lie in the input or its halo."""
    return all(
        axis.within(tap, *_counted(op, i)) and axis.readable(tap)
        for i, axis in enumerate(axes)
        for tap in (0, axis.kernel - 1)
    )


def _counted(op: Pool, axis: int) -> tuple[int, int]:
    """How many elements of padding before and behind a dimension count as values."""
    if op.kind == "average" and op.count_include_pad:
        return op.pads[axis], op.pads[axis + len(op.kernel)]
    return 0, 0


def _fold(b: Builder, op: Pool) -> tuple[Callable[[str], str], Join, str]:
    """Term of a tap, how terms are joined, the neutral one."""
    if op.kind == "max":
        return lambda value: value, maximum, f32(-math.inf)
    if op.kind == "average":
        return lambda value: value, total, f32(0)

    def power(value: str) -> str:
        value = result = b.new("f", "abs.f32", value)
        for _ in range(op.p - 1):
            result = b.new("f", "mul.rn.f32", result, value)
        return result

    return power, total, f32(0)


def _root(b: Builder, sum: str, p: int) -> str:
    if p == 1:
        return sum
    if p == 2:
        return b.new("f", "sqrt.rn.f32", sum)
    return b.new("f", "ex2.approx.f32", b.new("f", "mul.rn.f32", b.new("f", "lg2.approx.f32", sum), f32(1 / p)))


def _by_team(op: Pool, rows: Rows) -> None:
    term, join, neutral = _fold(rows.b, op)
    (found,) = rows.fold(lambda value, _: (term(value),), join, (neutral,))
    if op.kind == "average":
        found = rows.b.new("f", "div.rn.f32", found, f32(rows.count))
    rows.store(_root(rows.b, found, op.p) if op.kind == "lp" else found)


def _by_thread(
    b: Builder, op: Pool, x: Array, axes: Sequence[Axis], index: str, shape: tuple[int, ...], begin: str
) -> str:
    """The result for window number `index`, whose first tap is at address `begin`."""
    term, join, neutral = _fold(b, op)
    places = coordinates(b, index, shape)[2:]
    inside = [
        [
            axis.inside(b, place, tap) if op.kind == "max" or not axis.readable(tap) else None
            for tap in range(axis.kernel)
        ]
        for axis, place in zip(axes, places, strict=True)
    ]
    found: tuple[str, ...] | None = None
    taps = list(itertools.product(*(range(axis.kernel) for axis in axes)))
    for first in range(0, len(taps), _AT_ONCE):
        terms = []
        for tap in taps[first : first + _AT_ONCE]:
            where = both(b, [own[k] for own, k in zip(inside, tap, strict=True)])
            offset = sum(k * axis.dilation * s for k, axis, s in zip(tap, axes, x.strides[2:], strict=True))
            value = term(load(b, x.dtype, begin, offset * x.dtype.bytes, constant=True, where=where))
            if where is not None and op.kind == "max":
                value = b.new("f", "selp.f32", value, neutral, where)
            terms.append((value,))
        part = tree(b, terms, join)
        found = part if found is None else join(b, found, part)
    assert found is not None
    if op.kind == "average":
        return _mean(b, op, found[0], axes, places)
    return _root(b, found[0], op.p) if op.kind == "lp" else found[0]


def _mean(b: Builder, op: Pool, sum: str, axes: Sequence[Axis], places: Sequence[str]) -> str:
    """The sum divided by how many taps count, or by 1 if none does."""
    fixed, count = 1, None
    for i, (axis, place) in enumerate(zip(axes, places, strict=True)):
        tests = [axis.inside(b, place, tap, *_counted(op, i)) for tap in range(axis.kernel)]
        if not any(tests):
            fixed *= axis.kernel
            continue
        own = b.new("r", "mov.u32", tests.count(None))
        for test in tests:
            if test is not None:
                own = b.new("r", "add.u32", own, b.new("r", "selp.u32", 1, 0, test))
        count = own if count is None else b.new("r", "mul.lo.u32", count, own)
    if count is None:
        return b.new("f", "mul.rn.f32", sum, f32(1 / fixed))
    count = b.new("r", "max.u32", b.new("r", "mul.lo.u32", count, fixed), 1)
    return b.new("f", "div.rn.f32", sum, b.new("f", "cvt.rn.f32.u32", count))
