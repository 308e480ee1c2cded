"""Normalisations by mean and variance, and by a norm."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from packer.ir.ops import LpNormalize, Normalize
from targets.cuda.array import Array
from targets.cuda.emit.joins import total
from targets.cuda.emit.ptx import Builder, f32
from targets.cuda.generic.access import Constants, Inputs, address, load, operand
from targets.cuda.generic.rows import Rows, by_rows
from targets.cuda.kernel import Code

__all__ = ["lp_normalize", "normalize"]

_SCALES = {"scale": "mul.rn.f32", "shift": "add.rn.f32"}  # parameter -> what is done with it


def normalize(op: Normalize, inputs: Inputs, outputs: Sequence[Array], constants: Constants) -> Code | None:
    """The variance is the mean of squared differences from the mean, which are summed in a second pass."""
    x, y = inputs[0], outputs[0]
    if x is None:
        return None
    scales = {name: (number, array) for name, number, array in zip(_SCALES, (1, 2), inputs[1:], strict=False) if array}
    operands = {name: operand(number, inputs, constants) for name, (number, _) in scales.items()}

    def body(rows: Rows) -> None:
        b = rows.b
        mean = None if op.rms else _mean(rows, rows.fold(lambda value, _: (value,), total, (f32(0),))[0])

        def centred(value: str) -> str:
            return value if mean is None else b.new("f", "sub.rn.f32", value, mean)

        (squares,) = rows.fold(lambda value, _: (_square(b, centred(value)),), total, (f32(0),))
        variance = b.new("f", "add.rn.f32", _mean(rows, squares), f32(op.epsilon))
        factor = b.new("f", "rcp.rn.f32", b.new("f", "sqrt.rn.f32", variance))

        def result(value: str, number: str, where: str | None) -> str:
            value = b.new("f", "mul.rn.f32", centred(value), factor)
            for name, (_, array) in scales.items():
                at = address(b, name, b.new("r", "mad.lo.u32", number, array.strides[0], array.origin), array.dtype)
                value = b.new("f", _SCALES[name], value, load(b, array.dtype, at, where=where))
            return value

        rows.map(result)

    return by_rows("normalize", x, y, y.strides, op.axes, body, operands)


def lp_normalize(op: LpNormalize, inputs: Inputs, outputs: Sequence[Array], constants: Constants) -> Code | None:
    """Sum of magnitudes, or root of the sum of squares."""
    x, y = inputs[0], outputs[0]
    if x is None:
        return None

    def body(rows: Rows) -> None:
        b = rows.b

        def term(value: str, _: str) -> tuple[str]:
            return (b.new("f", "abs.f32", value) if op.p == 1 else _square(b, value),)

        (norm,) = rows.fold(term, total, (f32(0),))
        if op.p == 2:
            norm = b.new("f", "sqrt.rn.f32", norm)
        norm = b.new("f", "selp.f32", f32(np.inf), norm, b.new("p", "setp.eq.f32", norm, f32(0)))
        rows.map(lambda value, *_: b.new("f", "div.rn.f32", value, norm))

    return by_rows("lp_normalize", x, y, y.strides, (op.axis,), body)


def _square(b: Builder, value: str) -> str:
    return b.new("f", "mul.rn.f32", value, value)


def _mean(rows: Rows, sum: str) -> str:
    return rows.b.new("f", "div.rn.f32", sum, f32(rows.count))
