"""Pointwise operators with broadcasting: what a thread loads of each input makes what it stores."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from packer.ir import DType
from packer.ir.ops import Binary, Cast, DequantizeLinear, QuantizeLinear, ScaleShift, Unary, Where
from targets.cuda.array import Array
from targets.cuda.emit.activation import activate
from targets.cuda.emit.ptx import Builder
from targets.cuda.generic.access import (
    Constants,
    Inputs,
    Walk,
    address,
    aligned,
    kernel,
    load_each,
    offsets,
    operand,
    store_each,
    strides_over,
)
from targets.cuda.generic.arithmetic import binary, has_binary, has_unary, unary
from targets.cuda.generic.conversion import cast, immediate, kind_of, saturate
from targets.cuda.kernel import Code

__all__ = ["binary_", "cast_", "dequantize", "quantize", "scale_shift", "unary_", "where"]

Compute = Callable[[Builder, list[str]], str]


def unary_(op: Unary, inputs: Inputs, outputs: Sequence[Array], constants: Constants) -> Code | None:
    """Of floats all kinds, of integers those that need no parameter."""
    (x,) = _present(inputs)
    if not has_unary(op.kind, x.dtype):
        return None
    name = f"unary_{op.kind}"
    return pointwise(name, inputs, outputs, constants, lambda b, v: unary(b, op.kind, x.dtype, v[0], op.alpha, op.beta))


def binary_(op: Binary, inputs: Inputs, outputs: Sequence[Array], constants: Constants) -> Code | None:
    """But remainders of floats and powers of integers."""
    x, y = _present(inputs)
    if not has_binary(op.kind, x.dtype):
        return None
    exponent = constants[1] if op.kind == "pow" and constants[1] is not None and y.elements == 1 else None

    def compute(b: Builder, values: list[str]) -> str:
        if exponent is not None and exponent.item() == 2:
            value = b.new("f", "mul.rn.f32", values[0], values[0])
        elif exponent is not None and exponent.item() == 0.5:
            value = b.new("f", "sqrt.rn.f32", values[0])
        else:
            value = binary(b, op.kind, x.dtype, *values)
        return activate(b, value, op.activation)

    return pointwise(f"binary_{op.kind}", inputs, outputs, constants, compute)


def where(op: Where, inputs: Inputs, outputs: Sequence[Array], constants: Constants) -> Code | None:
    """Any element type."""
    dtype = outputs[0].dtype
    type = {"f": "f32", "r": "u32", "d": "u64"}[kind_of(dtype)]

    def compute(b: Builder, values: list[str]) -> str:
        condition, x, y = values
        return b.new(kind_of(dtype), f"selp.{type}", x, y, b.new("p", "setp.ne.u32", condition, 0))

    return pointwise("where", inputs, outputs, constants, compute)


def scale_shift(op: ScaleShift, inputs: Inputs, outputs: Sequence[Array], constants: Constants) -> Code | None:
    """Scale and shift along dimension 1."""

    def compute(b: Builder, values: list[str]) -> str:
        return activate(b, b.new("f", "fma.rn.f32", *values), op.activation)

    return pointwise("scale_shift", _along(inputs, 1), outputs, constants, compute)


def cast_(op: Cast, inputs: Inputs, outputs: Sequence[Array], constants: Constants) -> Code | None:
    """Between any two element types."""
    (x,) = _present(inputs)
    return pointwise("cast", inputs, outputs, constants, lambda b, v: cast(b, v[0], x.dtype, op.to))


def quantize(op: QuantizeLinear, inputs: Inputs, outputs: Sequence[Array], constants: Constants) -> Code | None:
    """Scale and zero point of all, or along a dimension."""

    def compute(b: Builder, values: list[str]) -> str:
        steps = b.new("r", "cvt.rni.s32.f32", b.new("f", "div.rn.f32", values[0], values[1]))
        level = b.new("r", "add.sat.s32", steps, values[2])
        if outputs[0].dtype in (DType.U8, DType.U16):
            level = b.new("r", "max.s32", level, 0)
        return saturate(b, level, outputs[0].dtype)

    return pointwise("quantize", _along(inputs, op.axis), outputs, constants, compute)


def dequantize(op: DequantizeLinear, inputs: Inputs, outputs: Sequence[Array], constants: Constants) -> Code | None:
    """But 32 bits with a zero point, whose difference may need more."""
    x, zero = _present(inputs)[0], _present(inputs)[2:]
    if zero and x.dtype is DType.I32:
        return None

    def compute(b: Builder, values: list[str]) -> str:
        level = b.new("r", "sub.s32", values[0], values[2]) if zero else values[0]
        return b.new("f", "mul.rn.f32", b.new("f", "cvt.rn.f32.s32", level), values[1])

    return pointwise("dequantize", _along(inputs, op.axis), outputs, constants, compute)


def pointwise(name: str, inputs: Inputs, outputs: Sequence[Array], constants: Constants, compute: Compute) -> Code:
    """A kernel that stores `compute` of the values of all present inputs, which broadcast to the output.

    Constants of one element are immediates. Where rows allow, a thread has four elements.
    """
    (y,) = outputs
    present = [(number, x) for number, x in enumerate(inputs) if x is not None]
    memory = [(number, x) for number, x in present if constants[number] is None or x.elements != 1]
    arrays = [*(x for _, x in memory), y]
    walk = Walk.over(y.shape, *(strides_over(x, y.shape) for x in arrays[:-1]), y.strides)
    origins = [x.origin for x in arrays]
    together = all(aligned(x) and x.dtype.bytes < 8 for x in arrays)
    fours = walk.fours(origins) if together else None
    walk = fours or walk
    parameters = [*(f"x{place}" for place in range(len(memory))), "y"]
    operands = tuple(operand(number, inputs, constants) for number, _ in memory)

    def body(b: Builder, index: str) -> None:
        places = [
            address(b, parameter, place, x.dtype)
            for parameter, place, x in zip(parameters, offsets(b, walk, index, origins), arrays, strict=True)
        ]
        loaded = {}
        for place, (number, x) in enumerate(memory):
            fixed = isinstance(operands[place], np.ndarray)
            loaded[number] = load_each(b, x.dtype, places[place], walk.strides[place], fours is not None, fixed)
        for number, x in present:
            value = constants[number]
            if number not in loaded and value is not None:
                loaded[number] = [immediate(b, x.dtype, value.item())] * (4 if fours else 1)
        lanes = zip(*(loaded[number] for number, _ in present), strict=True)
        store_each(b, y.dtype, places[-1], [compute(b, list(values)) for values in lanes])

    return Code((kernel(name, parameters, walk.elements, body),), operands)


def _present(inputs: Inputs) -> list[Array]:
    return [x for x in inputs if x is not None]


def _along(inputs: Inputs, axis: int) -> list[Array | None]:
    """The first input, and the others, of one element or one for each entry of it along `axis`, shaped so that they
    broadcast to it."""
    x = inputs[0]
    assert x is not None
    after = len(x.shape) - 1 - axis
    return [
        x,
        *(
            v if v is None or not v.shape else Array(v.dtype, (*v.shape, *(1,) * after), (*v.strides, *(0,) * after))
            for v in inputs[1:]
        ),
    ]
