"""Softmax, its logarithm, and the first maximum."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from packer.ir.ops import Softmax
from targets.cuda.array import Array
from targets.cuda.emit.exponential import exp, log
from targets.cuda.emit.joins import total
from targets.cuda.emit.ptx import Builder, f32
from targets.cuda.generic.access import Constants, Inputs
from targets.cuda.generic.rows import Rows, by_rows
from targets.cuda.kernel import Code

__all__ = ["softmax"]


def softmax(op: Softmax, inputs: Inputs, outputs: Sequence[Array], constants: Constants) -> Code | None:
    """Of the kinds "softmax" and "log_softmax"."""
    x, y = inputs[0], outputs[0]
    if x is None or op.kind == "hardmax":
        return None

    def body(rows: Rows) -> None:
        b = rows.b
        (top,) = rows.fold(lambda value, _: (value,), _larger, (f32(-np.inf),))
        (sum,) = rows.fold(lambda value, _: (exp(b, b.new("f", "sub.rn.f32", value, top)),), total, (f32(0),))
        if op.kind == "log_softmax":
            shift = log(b, sum)
            rows.map(lambda value, *_: b.new("f", "sub.rn.f32", b.new("f", "sub.rn.f32", value, top), shift))
        else:
            factor = b.new("f", "rcp.rn.f32", sum)
            rows.map(lambda value, *_: b.new("f", "mul.rn.f32", exp(b, b.new("f", "sub.rn.f32", value, top)), factor))

    return by_rows("softmax", x, y, y.strides, op.axes, body)


def _larger(b: Builder, one: Sequence[str], other: Sequence[str]) -> tuple[str, ...]:
    """The larger one: a NaN is none, and shows in the sum."""
    return (b.new("f", "max.f32", one[0], other[0]),)
