"""Normalisations by mean and variance, and by a norm."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from packer.ir.ops import LpNormalize, Normalize
from targets.cuda.array import Array
from targets.cuda.emit.joins import total
from targets.cuda.emit.ptx import Builder, f32
from targets.cuda.generic.access import Constants, Inputs
from targets.cuda.generic.rows import Rows, by_rows
from targets.cuda.kernel import Code

__all__ = ["lp_normalize", "normalize"]


def normalize(op: Normalize, inputs: Inputs, outputs: Sequence[Array], constants: Constants) -> Code | None:
    """The variance is the mean of squared differences from the mean, which are summed in a second pass."""
    x, y = inputs[0], outputs[0]
    if x is None:
        return None

    def body(rows: Rows) -> None:
        b = rows.b
        mean = None if op.rms else _mean(rows, rows.fold(lambda value, _: (value,), total, (f32(0),))[0])

        def centred(value: str) -> str:
            return value if mean is None else b.new("f", "sub.rn.f32", value, mean)

        (squares,) = rows.fold(lambda value, _: (_square(b, centred(value)),), total, (f32(0),))
        variance = b.new("f", "add.rn.f32", _mean(rows, squares), f32(op.epsilon))
        factor = b.new("f", "rcp.rn.f32", b.new("f", "sqrt.rn.f32", variance))
        rows.map(lambda value: b.new("f", "mul.rn.f32", centred(value), factor))

    return by_rows("normalize", x, y, y.strides, op.axes, body)


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
        rows.map(lambda value: b.new("f", "div.rn.f32", value, norm))

    return by_rows("lp_normalize", x, y, y.strides, (op.axis,), body)


def _square(b: Builder, value: str) -> str:
    return b.new("f", "mul.rn.f32", value, value)


def _mean(rows: Rows, sum: str) -> str:
    return rows.b.new("f", "div.rn.f32", sum, f32(rows.count))
