"""Reductions along axes, and where an extreme is."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from packer.ir import DType
from packer.ir.ops import ArgReduce, Reduce
from targets.cuda.array import Array
from targets.cuda.emit.exponential import exp, log
from targets.cuda.emit.joins import maximum, minimum, total
from targets.cuda.emit.ptx import Builder, f32
from targets.cuda.generic.access import Constants, Inputs
from targets.cuda.generic.rows import Rows, by_rows
from targets.cuda.generic.team import Join
from targets.cuda.kernel import Code

__all__ = ["arg_reduce", "reduce"]

_FLOATS = (DType.F32, DType.F16)


def _product(b: Builder, one: Sequence[str], other: Sequence[str]) -> tuple[str, ...]:
    return (b.new("f", "mul.rn.f32", one[0], other[0]),)


# kind -> term of an element, how terms are joined, the neutral one
_FOLDS: dict[str, tuple[Callable[[Builder, str], str], Join, float]] = {
    "sum": (lambda b, x: x, total, 0),
    "mean": (lambda b, x: x, total, 0),
    "log_sum": (lambda b, x: x, total, 0),
    "l1": (lambda b, x: b.new("f", "abs.f32", x), total, 0),
    "l2": (lambda b, x: b.new("f", "mul.rn.f32", x, x), total, 0),
    "sum_square": (lambda b, x: b.new("f", "mul.rn.f32", x, x), total, 0),
    "prod": (lambda b, x: x, _product, 1),
    "max": (lambda b, x: x, maximum, -np.inf),
    "min": (lambda b, x: x, minimum, np.inf),
}


def reduce(op: Reduce, inputs: Inputs, outputs: Sequence[Array], constants: Constants) -> Code | None:
    """All kinds, of floats."""
    x, y = inputs[0], outputs[0]
    if x is None or x.dtype not in _FLOATS or not x.elements:
        return None

    def body(rows: Rows) -> None:
        if op.kind == "log_sum_exp":
            rows.store(_log_sum_exp(rows))
            return
        b = rows.b
        term, join, neutral = _FOLDS[op.kind]
        (found,) = rows.fold(lambda value, _: (term(b, value),), join, (f32(neutral),))
        if op.kind == "mean":
            found = b.new("f", "div.rn.f32", found, f32(rows.count))
        elif op.kind == "l2":
            found = b.new("f", "sqrt.rn.f32", found)
        elif op.kind == "log_sum":
            found = log(b, found)
        rows.store(found)

    return by_rows("reduce", x, y, _strides(x, y, op.axes, op.keepdims), op.axes, body)


def _log_sum_exp(rows: Rows) -> str:
    b = rows.b
    (top,) = rows.fold(lambda value, _: (value,), maximum, (f32(-np.inf),))
    top = b.new("f", "selp.f32", top, f32(0), b.new("p", "testp.finite.f32", top))
    (sum,) = rows.fold(lambda value, _: (exp(b, b.new("f", "sub.rn.f32", value, top)),), total, (f32(0),))
    return b.new("f", "add.rn.f32", log(b, sum), top)


def arg_reduce(op: ArgReduce, inputs: Inputs, outputs: Sequence[Array], constants: Constants) -> Code | None:
    """Of floats: the numbers of elements, next to keys that are ordered as the elements are."""
    x, y = inputs[0], outputs[0]
    if x is None or x.dtype not in _FLOATS:
        return None
    before = "gt" if op.select_last else "lt"

    def join(b: Builder, one: Sequence[str], other: Sequence[str]) -> tuple[str, ...]:
        equal = b.new("p", "setp.eq.s32", one[0], other[0])
        first = b.new("p", f"setp.{before}.and.u32", one[1], other[1], equal)
        better = b.new("p", "setp.gt.or.s32", one[0], other[0], first)
        return tuple(b.new("r", "selp.u32", *pair, better) for pair in zip(one, other, strict=True))

    def body(rows: Rows) -> None:
        b = rows.b
        neutral = (str(1 << 31), "0" if op.select_last else str((1 << 32) - 1))
        _, found = rows.fold(lambda value, number: (_key(b, value, op.kind), number), join, neutral)
        rows.store(b.new("d", "cvt.u64.u32", found))

    return by_rows("arg_reduce", x, y, _strides(x, y, (op.axis,), op.keepdims), (op.axis,), body)


def _key(b: Builder, value: str, kind: str) -> str:
    """An integer, larger for larger values (kind "max") or smaller ones, largest for NaN, equal for both zeros."""
    if kind == "min":
        value = b.new("f", "neg.f32", value)
    bits = b.new("r", "mov.b32", b.new("f", "add.rn.f32", value, f32(0)))
    sign = b.new("r", "shr.s32", bits, 31)
    key = b.new("r", "xor.b32", bits, b.new("r", "and.b32", sign, (1 << 31) - 1))
    return b.new("r", "selp.u32", (1 << 31) - 1, key, b.new("p", "setp.nan.f32", value, value))


def _strides(x: Array, y: Array, axes: Sequence[int], keepdims: bool) -> tuple[int, ...]:
    """Strides of y over the dimensions of x."""
    own = iter(y.strides)
    steps = (next(own) if keepdims or axis not in axes else 0 for axis in range(len(x.shape)))
    return tuple(0 if axis in axes else step for axis, step in enumerate(steps))
