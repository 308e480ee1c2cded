"""Pointwise kernels: one pass over all elements by vectors."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from packer.ir import DType
from packer.ir.ops import (
    Activation,
    ArgReduce,
    CumSum,
    DequantizeLinear,
    Lookup,
    QuantizedBinary,
    QuantizeLinear,
    ScaleShift,
)
from targets.base import Form, Layout, Work
from targets.cpu.cost.at import At
from targets.cpu.cost.operands import operands, overlapped, stored, vectors_of

__all__ = ["activation_cycles", "bytes_seconds", "pointwise_seconds", "scalar_seconds"]

# Cycles a vector of functions that are more than a few instructions, where one multiply-add is issued a cycle.
_FUNCTIONS = {
    "ceil": 9.1, "celu": 17.7, "cos": 31.0, "elu": 14.5, "erf": 34.5, "exp": 9.9, "floor": 9.1, "gelu": 27.0,
    "gelu_tanh": 19.5, "log": 27.0, "mish": 16.9, "pow": 95.0, "reciprocal": 6.0, "round": 9.1, "selu": 15.4,
    "shrink": 3.2, "sigmoid": 13.8, "sign": 3.5, "silu": 16.5, "sin": 33.0, "softplus": 62.6, "softsign": 6.0,
    "sqrt": 9.9, "tanh": 18.8,
}  # fmt: skip
# Cycles an element of those that call the C library.
_CALLS = {
    "tan": 33.0, "asin": 27.0, "acos": 27.0, "atan": 31.0, "sinh": 43.0, "cosh": 27.0,
    "asinh": 56.0, "acosh": 28.0, "atanh": 39.0, "mod": 20.0, "fmod": 20.0,
}  # fmt: skip
_FREE = ("relu", "clip")  # applied to registers by kernels that end with limits
_ROW = 4.0  # cycles to go on to the next row of a planar broadcast
_RUN = 50.0  # cycles to go on to the next scale and shift
# Cycles an element of kernels that have no vectors; what is not here has 3.
_SCALAR = {
    "ArgReduce": 4.2, "Binary": 1.3, "Cast": 2.0, "CumSum": 0.6, "GridSample": 30.0, "MaxUnpool": 2.0,
    "NonMaxSuppression": 30.0, "RoiAlign": 30.0, "TopK": 7.5, "Unary": 1.3, "Where": 2.0,
}  # fmt: skip
# Cycles a vector of numbers that are, or become, bytes.
_BYTES: dict[type, float] = {DequantizeLinear: 3.0, QuantizeLinear: 10.0, QuantizedBinary: 8.0}
_LOOKUP = {16: 0.06, 8: 0.5, 4: 0.6}  # cycles a byte, by lanes
_CHAINED = {"ArgReduce": 10.0, "CumSum": 9.0}  # of those that wait for the element before, along the last dimension


def activation_cycles(activation: Activation | None, vectors: float, at: At, free: bool = True) -> float:
    """Cycles to apply a fused activation to vectors in the first cache; limits cost nothing if they are `free`."""
    if activation is None or (free and activation.kind in _FREE):
        return 0.0
    return function_cycles(activation.kind, vectors, at)


def function_cycles(kind: str, vectors: float, at: At, inputs: int = 1) -> float:
    if kind in _CALLS:
        return vectors * at.lanes * _CALLS[kind]
    return vectors * max(_FUNCTIONS.get(kind, 6.0 if kind == "div" else 0.0) / at.fma, inputs / at.load, 1 / at.store)


def pointwise_seconds(work: Work, form: Form, distances: Sequence[float], at: At) -> float:
    """Unary, Binary, ScaleShift."""
    op, x, y = work.op, work.inputs[0], work.outputs[0]
    assert x is not None
    if not (x.dtype.is_float and y.dtype.is_float):
        return scalar_seconds(work, form, distances, at)
    vectors = vectors_of(y, form.outputs[0], at)
    moving = sum(type == y for type in work.inputs)
    cycles = function_cycles(getattr(op, "kind", ""), vectors, at, max(moving, 1))
    if isinstance(op, ScaleShift):
        cycles += _RUN * y.shape[0] * (y.shape[1] if form.outputs[0] is Layout.PLANAR else -(-y.shape[1] // 16))
    elif form.outputs[0] is Layout.PLANAR and any(t is not None and 1 < t.elements < y.elements for t in work.inputs):
        cycles += _ROW * prod(y.shape[:-1])
    pace = at.cycle / at.efficiency.elementwise
    late = activation_cycles(getattr(op, "activation", None), vectors, at, free=False)  # a pass of its own
    return overlapped(cycles * pace, operands(work, form, distances, at)) + late * pace


def bytes_seconds(work: Work, form: Form, distances: Sequence[float], at: At) -> float:
    """Lookup, QuantizedBinary, and numbers to bytes and back."""
    x, y = work.inputs[0], work.outputs[0]
    assert x is not None
    if DType.U8 not in (x.dtype, y.dtype):
        return scalar_seconds(work, form, distances, at)
    elements = stored(y, form.outputs[0]) / (1 if y.dtype is DType.U8 else 4)
    if isinstance(work.op, Lookup):
        cycles = elements * _LOOKUP.get(at.lanes, 1.0)
    else:
        cycles = elements / at.lanes * _BYTES[type(work.op)] / at.fma
    return overlapped(cycles * at.cycle / at.efficiency.elementwise, operands(work, form, distances, at))


def scalar_seconds(work: Work, form: Form, distances: Sequence[float], at: At) -> float:
    """Whatever has no model of its own: a few cycles an element of what is larger, inputs or outputs."""
    op, elements = work.op, max(type.elements for type in (*work.inputs, *work.outputs) if type is not None)
    name = type(op).__name__
    cycles = _SCALAR.get(name, 3.0) * elements
    if isinstance(op, ArgReduce | CumSum) and op.axis == work.outputs[0].rank - 1:
        cycles = _CHAINED[name] * elements
    return overlapped(cycles * at.cycle / at.efficiency.scalar, operands(work, form, distances, at))
