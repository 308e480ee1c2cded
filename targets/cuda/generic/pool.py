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
from targets.cuda.emit.joins import maximum, total
from targets.cuda.emit.ptx import Builder, f32
from targets.cuda.generic.access import Constants, Inputs, Walk, address, coordinates, kernel, load, offsets, store
from targets.cuda.generic.rows import Rows, by_walks
from targets.cuda.generic.team import Join, tree
from targets.cuda.generic.window import Axis, both, rooms
from targets.cuda.kernel import Code

__all__ = ["pool"]

_UNROLLED = 64  # taps of a window without a loop
_SHARED = 32  # taps from which on a team may have them
_FEW = 4096  # windows that do not keep a small GPU busy
_AT_ONCE = 16  # taps that are on the way together


def pool(op: Pool, inputs: Inputs, outputs: Sequence[Array], constants: Constants) -> Code | None:
    """Of floats, without the places of maxima."""
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
        if apart or windows.elements < _FEW:
            inner = [axis.dilation * step for axis, step in zip(axes, x.strides[2:], strict=True)]
            window = Walk.over(op.kernel, inner, (0,) * len(axes))
            return by_walks("pool", (x, y), windows, window, origins, lambda rows: _by_team(op, rows), {})

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
    join, neutral = _fold(b, op)[1:]
    places = coordinates(b, index, shape)[2:]
    inside = [
        [None if _free(op, axis, tap) else axis.inside(b, place, tap) for tap in range(axis.kernel)]
        for axis, place in zip(axes[1:], places[1:], strict=True)
    ]
    lead, step = axes[0], axes[0].dilation * x.strides[2] * x.dtype.bytes
    if math.prod(op.kernel) <= _UNROLLED:
        lines = []
        for tap in range(lead.kernel):
            test = None if _free(op, lead, tap) else lead.inside(b, places[0], tap)
            lines.append(_line(b, op, x, axes[1:], begin, tap * step, [[test], *inside]))
        (found,) = tree(b, lines, join)
    else:
        found, number, again = b.new("f", "mov.f32", neutral), b.new("r", "mov.u32", 0), b.label()
        place = b.new("r", "mad.lo.u32", places[0], lead.stride, -lead.begin % (1 << 32))
        b.place(again)
        b.emit('.pragma "nounroll"')
        free = _free(op, lead, 0) and _free(op, lead, lead.kernel - 1)
        test = None if free else b.new("p", "setp.lt.u32", place, lead.extent)
        (joined,) = join(b, (found,), _line(b, op, x, axes[1:], begin, 0, [[test], *inside]))
        b.emit(f"mov.f32 {found}, {joined}")
        b.emit(f"add.s64 {begin}, {begin}, {step}")
        b.emit(f"add.u32 {place}, {place}, {lead.dilation}")
        b.emit(f"add.u32 {number}, {number}, 1")
        b.emit(f"@{b.new('p', 'setp.lt.u32', number, lead.kernel)} bra {again}")
    if op.kind == "average":
        return _mean(b, op, found, axes, places)
    return _root(b, found, op.p) if op.kind == "lp" else found


def _free(op: Pool, axis: Axis, tap: int) -> bool:
    """Whether a tap needs no test: zeros of the halo change no sum, but might be the largest."""
    return axis.within(tap) if op.kind == "max" else axis.readable(tap)


def _line(
    b: Builder,
    op: Pool,
    x: Array,
    axes: Sequence[Axis],
    begin: str,
    offset: int,
    inside: Sequence[Sequence[str | None]],
) -> tuple[str, ...]:
    """The taps of a window at one place of its first dimension, joined; `inside` tests that, then those of `axes`."""
    term, join, neutral = _fold(b, op)
    taps = list(itertools.product(*(range(axis.kernel) for axis in axes)))
    parts = []
    for first in range(0, len(taps), _AT_ONCE):
        terms = []
        for tap in taps[first : first + _AT_ONCE]:
            where = both(b, [own[k] for own, k in zip(inside, (0, *tap), strict=True)])
            place = sum(k * axis.dilation * s for k, axis, s in zip(tap, axes, x.strides[3:], strict=True))
            value = term(load(b, x.dtype, begin, offset + place * x.dtype.bytes, constant=True, where=where))
            if where is not None and op.kind == "max":
                value = b.new("f", "selp.f32", value, neutral, where)
            terms.append((value,))
        parts.append(tree(b, terms, join))
    return tree(b, parts, join)


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
