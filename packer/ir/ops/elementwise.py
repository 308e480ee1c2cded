"""Pointwise operators: one value of each input (after broadcasting) makes one value of the output."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from packer.ir.ops.base import Activation, Dependence, Op, Part
from packer.ir.ops.pointwise import COMPARISONS, PREDICATES, activate, binary, expect_activation, saturate, unary
from packer.ir.ops.region import broadcast_box, pointwise
from packer.ir.ops.shape import (
    broadcast,
    expect,
    expect_choice,
    expect_dtype,
    expect_rank,
    expect_same,
    expect_shape,
    operands,
    with_shape,
)
from packer.ir.types import Box, DType, TensorType

__all__ = [
    "BINARY_KINDS",
    "UNARY_KINDS",
    "Binary",
    "Cast",
    "DequantizeLinear",
    "QuantizeLinear",
    "ScaleShift",
    "Unary",
    "Where",
]

# kind -> (which element types it takes: f = float32, i = signed integers, u = unsigned, b = bool)
UNARY_KINDS: dict[str, str] = {
    "identity": "fiub",
    "abs": "fiu",
    "neg": "fi",
    "sign": "fiu",
    "not": "b",
    "bitwise_not": "iu",
    "ceil": "f",
    "floor": "f",
    "round": "f",
    "exp": "f",
    "log": "f",
    "sqrt": "f",
    "reciprocal": "f",
    "sin": "f",
    "cos": "f",
    "tan": "f",
    "asin": "f",
    "acos": "f",
    "atan": "f",
    "sinh": "f",
    "cosh": "f",
    "tanh": "f",
    "asinh": "f",
    "acosh": "f",
    "atanh": "f",
    "erf": "f",
    "relu": "fi",  # max(x, 0)
    "leaky_relu": "f",  # x < 0 ? alpha x : x
    "elu": "f",  # x < 0 ? alpha (e^x - 1) : x
    "selu": "f",  # beta (x > 0 ? x : alpha (e^x - 1))
    "celu": "f",  # max(0, x) + min(0, alpha (e^(x/alpha) - 1))
    "thresholded_relu": "f",  # x > alpha ? x : 0
    "hard_sigmoid": "f",  # max(0, min(1, alpha x + beta))
    "hard_swish": "f",  # x max(0, min(1, alpha x + beta)); ONNX: alpha 1/6, beta 0.5
    "sigmoid": "f",
    "silu": "f",  # x sigmoid(alpha x)
    "softplus": "f",
    "softsign": "f",
    "mish": "f",
    "gelu": "f",
    "gelu_tanh": "f",  # exact by erf; the tanh approximation
    "clip": "f",  # min(max(x, alpha), beta); integers are clipped by Binary min and max
    "shrink": "fiu",  # x < -alpha ? x + beta : x > alpha ? x - beta : 0
    "is_nan": "f",  # -> bool
    "is_inf": "f",  # -> bool; alpha != 0: detect negative, beta != 0: detect positive
}

# kind -> element types; comparisons give bool; "and or xor" are on bool
BINARY_KINDS: dict[str, str] = {
    "add": "fiu",
    "sub": "fiu",
    "mul": "fiu",  # integers wrap
    "div": "fiu",  # integer division truncates towards zero; x / 0 = 0 for integers
    "mod": "fiu",  # sign of the divisor (Python's %); x mod 0 = 0 for integers
    "fmod": "fiu",  # sign of the dividend (C's fmod)
    "pow": "fiu",  # integers wrap; a negative exponent of integers gives the truncated quotient, 0 for a base of 0
    "min": "fiu",
    "max": "fiu",  # float min and max propagate NaN
    "prelu": "fiu",  # a < 0 ? a * b : a
    "equal": "fiub",
    "less": "fiu",
    "less_equal": "fiu",
    "greater": "fiu",
    "greater_equal": "fiu",
    "and": "b",
    "or": "b",
    "xor": "b",
    "bitwise_and": "iu",
    "bitwise_or": "iu",
    "bitwise_xor": "iu",
    "shift_left": "u",
    "shift_right": "u",
}

_CLASSES: dict[str, tuple[DType, ...]] = {
    "f": (DType.F32,),
    "i": (DType.I8, DType.I16, DType.I32, DType.I64),
    "u": (DType.U8, DType.U16, DType.U32, DType.U64),
    "b": (DType.BOOL,),
}


def _expect_kind(kind: str, kinds: dict[str, str], operand: str, type: TensorType) -> None:
    expect_choice("kind", kind, kinds)
    expect_dtype(f"{kind}: {operand}", type, *(dtype for letter in kinds[kind] for dtype in _CLASSES[letter]))


def _along(x: np.ndarray, v: np.ndarray, axis: int) -> np.ndarray:
    """A scalar as it is; [shape[axis]] shaped to broadcast along axis of x."""
    return v if v.ndim == 0 else v.reshape([-1 if i == axis else 1 for i in range(x.ndim)])


@dataclass(frozen=True, slots=True)
class Unary(Op):
    """`y = f(x)`, f named by `kind` (see UNARY_KINDS). Inputs: x. Output: like x, or bool for is_nan/is_inf."""

    kind: str
    alpha: float = 0.0
    beta: float = 0.0
    inplace: ClassVar[tuple[int, ...]] = (0,)

    def infer(self, inputs: Sequence[TensorType | None]) -> tuple[TensorType, ...]:
        (x,), _ = operands(inputs, 1)
        _expect_kind(self.kind, UNARY_KINDS, "input", x)
        return (TensorType(DType.BOOL if self.kind in PREDICATES else x.dtype, x.shape),)

    def dependence(self, inputs: Sequence[TensorType | None]) -> tuple[Dependence, ...]:
        (x,), _ = operands(inputs, 1)
        return pointwise(x.rank)

    def part(self, box: Box, inputs: Sequence[TensorType | None]) -> Part:
        return Part(self, (box,), box)

    def reference(self, x: np.ndarray) -> tuple[np.ndarray, ...]:
        return (unary(self.kind, x, self.alpha, self.beta),)


@dataclass(frozen=True, slots=True)
class Binary(Op):
    """`y = activation(a op b)` with numpy broadcasting; both inputs have one dtype. Inputs: a, b."""

    kind: str
    activation: Activation | None = None
    inplace: ClassVar[tuple[int, ...]] = (0, 1)

    def infer(self, inputs: Sequence[TensorType | None]) -> tuple[TensorType, ...]:
        (a, b), _ = operands(inputs, 2)
        _expect_kind(self.kind, BINARY_KINDS, "first input", a)
        expect_same("second input", b, a)
        y = TensorType(DType.BOOL if self.kind in COMPARISONS else a.dtype, broadcast(a.shape, b.shape))
        expect_activation(self.activation, y)
        return (y,)

    def dependence(self, inputs: Sequence[TensorType | None]) -> tuple[Dependence, ...]:
        (a, b), _ = operands(inputs, 2)
        return pointwise(max(a.rank, b.rank))

    def part(self, box: Box, inputs: Sequence[TensorType | None]) -> Part:
        (a, b), _ = operands(inputs, 2)
        return Part(self, (broadcast_box(box, a.shape), broadcast_box(box, b.shape)), box)

    def reference(self, a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, ...]:
        return (activate(self.activation, binary(self.kind, a, b)),)


@dataclass(frozen=True, slots=True)
class Where(Op):
    """`y = condition ? a : b` with broadcasting. Inputs: condition (bool), a, b of one dtype."""

    def infer(self, inputs: Sequence[TensorType | None]) -> tuple[TensorType, ...]:
        (condition, a, b), _ = operands(inputs, 3)
        expect_dtype("condition", condition, DType.BOOL)
        expect_same("third input", b, a)
        return (with_shape(a, broadcast(condition.shape, a.shape, b.shape)),)

    def dependence(self, inputs: Sequence[TensorType | None]) -> tuple[Dependence, ...]:
        (condition, a, b), _ = operands(inputs, 3)
        return pointwise(max(condition.rank, a.rank, b.rank))

    def part(self, box: Box, inputs: Sequence[TensorType | None]) -> Part:
        present, _ = operands(inputs, 3)
        return Part(self, tuple(broadcast_box(box, t.shape) for t in present), box)

    def reference(self, condition: np.ndarray, a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, ...]:
        return (np.asarray(np.where(condition, a, b)),)


@dataclass(frozen=True, slots=True)
class ScaleShift(Op):
    """`y = activation(x * scale[c] + shift[c])`, c along axis 1. Inputs: x [N,C,...], scale [C], shift [C].

    What BatchNormalization with constant statistics becomes when no convolution can absorb it.
    """

    activation: Activation | None = None
    inplace: ClassVar[tuple[int, ...]] = (0,)

    def infer(self, inputs: Sequence[TensorType | None]) -> tuple[TensorType, ...]:
        (x, scale, shift), _ = operands(inputs, 3)
        expect(x.rank >= 2, "x of rank 2 or more", x)
        for what, type in (("x", x), ("scale", scale), ("shift", shift)):
            expect_dtype(what, type, DType.F32)
        expect_shape("scale", scale, x.shape[1:2])
        expect_shape("shift", shift, x.shape[1:2])
        expect_activation(self.activation, x)
        return (x,)

    def dependence(self, inputs: Sequence[TensorType | None]) -> tuple[Dependence, ...]:
        (x, _, _), _ = operands(inputs, 3)
        return pointwise(x.rank)

    def part(self, box: Box, inputs: Sequence[TensorType | None]) -> Part:
        return Part(self, (box, (box[1],), (box[1],)), box)

    @np.errstate(all="ignore")
    def reference(self, x: np.ndarray, scale: np.ndarray, shift: np.ndarray) -> tuple[np.ndarray, ...]:
        y = x * _along(x, scale, 1) + _along(x, shift, 1)
        return (activate(self.activation, y),)


@dataclass(frozen=True, slots=True)
class Cast(Op):
    """Convert to `to` as C does; to bool: x != 0; float to integer truncates and saturates, NaN gives 0."""

    to: DType

    def infer(self, inputs: Sequence[TensorType | None]) -> tuple[TensorType, ...]:
        (x,), _ = operands(inputs, 1)
        return (TensorType(self.to, x.shape),)

    def dependence(self, inputs: Sequence[TensorType | None]) -> tuple[Dependence, ...]:
        (x,), _ = operands(inputs, 1)
        return pointwise(x.rank)

    def part(self, box: Box, inputs: Sequence[TensorType | None]) -> Part:
        return Part(self, (box,), box)

    def reference(self, x: np.ndarray) -> tuple[np.ndarray, ...]:
        if self.to.is_float and x.dtype.kind == "f":
            return (x,)
        return (saturate(x, self.to.numpy),)


def _expect_per_axis(what: str, type: TensorType, x: TensorType, axis: int) -> None:
    """Raise unless `type` is a scalar or [shape[axis]]."""
    expect_rank(what, type, 0, 1)
    if type.rank:
        expect(0 <= axis < x.rank, f"axis within 0..{x.rank - 1}", axis)
        expect_shape(what, type, (x.shape[axis],))


def _per_axis_boxes(box: Box, inputs: Sequence[TensorType | None], axis: int) -> tuple[Box | None, ...]:
    """What `box` needs of x and of parameters that are scalars or hold one value for each entry along axis."""
    return (box, *(None if t is None else (box[axis],) if t.rank else () for t in inputs[1:]))


@dataclass(frozen=True, slots=True)
class QuantizeLinear(Op):
    """`saturate(round_half_even(x / scale) + zero_point)`.

    Inputs: x f32, scale f32 and zero_point u8, i8, u16 or i16 (each a scalar or [shape[axis]]).
    Output dtype is that of zero_point. https://onnx.ai/onnx/operators/onnx__QuantizeLinear.html
    """

    axis: int

    def infer(self, inputs: Sequence[TensorType | None]) -> tuple[TensorType, ...]:
        (x, scale, zero), _ = operands(inputs, 3)
        expect_dtype("x", x, DType.F32)
        expect_dtype("scale", scale, DType.F32)
        expect_dtype("zero_point", zero, DType.U8, DType.I8, DType.U16, DType.I16)
        _expect_per_axis("scale", scale, x, self.axis)
        _expect_per_axis("zero_point", zero, x, self.axis)
        return (TensorType(zero.dtype, x.shape),)

    def dependence(self, inputs: Sequence[TensorType | None]) -> tuple[Dependence, ...]:
        (x, _, _), _ = operands(inputs, 3)
        return pointwise(x.rank)

    def part(self, box: Box, inputs: Sequence[TensorType | None]) -> Part:
        return Part(self, _per_axis_boxes(box, inputs, self.axis), box)

    @np.errstate(all="ignore")
    def reference(self, x: np.ndarray, scale: np.ndarray, zero: np.ndarray) -> tuple[np.ndarray, ...]:
        steps = np.rint(x / _along(x, scale, self.axis))
        return (saturate(np.asarray(steps + _along(x, zero, self.axis), dtype=np.float64), zero.dtype),)


@dataclass(frozen=True, slots=True)
class DequantizeLinear(Op):
    """`(x - zero_point) * scale` in f32.

    Inputs: x integer, scale f32, optional zero_point like x (each a scalar or [shape[axis]]).
    """

    axis: int

    def infer(self, inputs: Sequence[TensorType | None]) -> tuple[TensorType, ...]:
        (x, scale), (zero,) = operands(inputs, 2, 1)
        expect_dtype("x", x, DType.U8, DType.I8, DType.U16, DType.I16, DType.I32)
        expect_dtype("scale", scale, DType.F32)
        _expect_per_axis("scale", scale, x, self.axis)
        if zero is not None:
            expect_same("zero_point", zero, x)
            _expect_per_axis("zero_point", zero, x, self.axis)
        return (TensorType(DType.F32, x.shape),)

    def dependence(self, inputs: Sequence[TensorType | None]) -> tuple[Dependence, ...]:
        (x, _), _ = operands(inputs, 2, 1)
        return pointwise(x.rank)

    def part(self, box: Box, inputs: Sequence[TensorType | None]) -> Part:
        return Part(self, _per_axis_boxes(box, inputs, self.axis), box)

    @np.errstate(all="ignore")
    def reference(self, x: np.ndarray, scale: np.ndarray, zero: np.ndarray | None = None) -> tuple[np.ndarray, ...]:
        levels = x.astype(np.int64)
        if zero is not None:
            levels = levels - _along(x, zero, self.axis)
        return (np.asarray(levels.astype(scale.dtype) * _along(x, scale, self.axis)),)
