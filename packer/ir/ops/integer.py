"""Products of bytes with results that are none, of levels that may be known only at run time, and how those are
found."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from packer.ir.ops.base import Activation, Dependence, Op, Part
from packer.ir.ops.conv import Conv
from packer.ir.ops.pointwise import activate
from packer.ir.ops.quantized import MOST_TERMS, expect_together
from packer.ir.ops.shape import expect, expect_dtype, expect_shape, operands, with_shape
from packer.ir.types import Box, DType, TensorType

__all__ = ["DynamicLevels", "IntegerConv", "IntegerMatMul"]


@dataclass(frozen=True, slots=True)
class DynamicLevels(Op):
    """Scale and zero point of bytes that stand for floats, zero among them: scale = (max(x, 0) - min(x, 0)) / 255,
    zero_point = saturate(round_half_even(-min(x, 0) / scale)); 1 and 0 if all are zero. NaN is left out.

    Input: x f32. Outputs: scale f32 [], zero_point u8 [].
    """

    def infer(self, inputs: Sequence[TensorType | None]) -> tuple[TensorType, ...]:
        (x,), _ = operands(inputs, 1)
        expect_dtype("x", x, DType.F32)
        return TensorType(DType.F32, ()), TensorType(DType.U8, ())

    @np.errstate(all="ignore")
    def reference(self, x: np.ndarray) -> tuple[np.ndarray, ...]:
        numbers = x[~np.isnan(x)]
        least, most = numbers.min(initial=0), numbers.max(initial=0)
        scale = x.dtype.type(1) if least == most else (most - least) / x.dtype.type(255)
        zero = np.rint(np.clip(-least / scale, 0, 255))
        return np.asarray(scale), np.asarray(0 if np.isnan(zero) else zero, np.uint8)


def _result(inputs: Sequence[TensorType | None], filters: int, activation: Activation | None) -> DType:
    """The element type that a product of these inputs gives."""
    expect(len(inputs) in (3, 6), "3 or 6 inputs", len(inputs))
    (x, w, zero, *scales), _ = operands(inputs, len(inputs))
    expect_dtype("x", x, DType.U8)
    expect_dtype("w", w, DType.I8)
    expect_dtype("x_zero", zero, DType.U8)
    expect_shape("x_zero", zero, ())
    for what, type, shape in zip(("x_scale", "scale", "bias"), scales, ((), (filters,), (filters,)), strict=False):
        expect_dtype(what, type, DType.F32)
        expect_shape(what, type, shape)
    kind = None if activation is None else activation.kind
    expect(kind is None or (len(scales) > 0 and kind in ("relu", "clip")), "a relu or clip of floats", kind)
    return DType.F32 if scales else DType.I32


@np.errstate(all="ignore")
def _finished(
    sums: np.ndarray, along: tuple[int, ...], scales: Sequence[np.ndarray], activation: Activation | None
) -> tuple[np.ndarray, ...]:
    """Exact sums as the output of a product."""
    sums = sums.astype(np.int64).astype(np.int32)
    if not scales:
        return (sums,)
    x_scale, scale, bias = scales
    own = (x_scale * scale).reshape(along)
    return (activate(activation, sums.astype(np.float32) * own + bias.reshape(along)),)


@dataclass(frozen=True, slots=True)
class IntegerConv(Op):
    """Convolution of bytes whose levels may be known only at run time: sums of (x - x_zero) w, in integers.

    Inputs: x u8 [N,C,spatial], w i8 [K,C/group,kernel], x_zero u8 []; for results in f32 also x_scale f32 [], scale f32
    [K], bias f32 [K]. Output: the sums, i32, which wrap; or f32, `activation(sums (x_scale scale) + bias)`, each
    operation rounded, the activation a relu or clip. Padding counts as x_zero. The channels of groups, if there are
    several, are multiples of 16, or there is one filter for each channel. `together` as for QuantizedConv.
    https://onnx.ai/onnx/operators/onnx__ConvInteger.html
    """

    strides: tuple[int, ...]
    pads: tuple[int, ...]
    dilations: tuple[int, ...]
    group: int = 1
    activation: Activation | None = None
    together: int = 1

    def infer(self, inputs: Sequence[TensorType | None]) -> tuple[TensorType, ...]:
        (x, w), _ = operands(inputs[:2], 2)
        floats = (TensorType(DType.F32, type.shape) for type in (x, w))
        y = self._conv().infer(tuple(floats))[0]
        expect(math.prod(w.shape[1:]) <= MOST_TERMS, f"at most {MOST_TERMS} products an output", w)
        if self.group > 1 and not self.depthwise(w):
            whole_blocks = w.shape[1] % 16 == 0 and w.shape[0] // self.group % 16 == 0
            expect(whole_blocks, "groups of multiples of 16 channels, or of one", w)
        expect_together(self.together, self.group, w)
        return (TensorType(_result(inputs, w.shape[0], self.activation), y.shape),)

    def depthwise(self, w: TensorType) -> bool:
        """Whether weights w are one filter for each of several channels."""
        return self.group > 1 and w.shape[:2] == (self.group, 1)

    def dependence(self, inputs: Sequence[TensorType | None]) -> tuple[Dependence, ...]:
        return self._conv().dependence(inputs[:2])

    def grain(self, inputs: Sequence[TensorType | None]) -> tuple[int, ...]:
        return self._conv().grain(inputs[:2])

    def part(self, box: Box, inputs: Sequence[TensorType | None]) -> Part:
        own = self._conv().part(box, inputs[:2])
        assert isinstance(own.op, Conv)
        reads = (*own.reads[:2], (), (), (box[1],), (box[1],))
        whole = self.group > 1 or box[1] == (0, self.infer(inputs)[0].shape[1])
        op = replace(self, pads=own.op.pads, group=own.op.group, together=self.together if whole else 1)
        return Part(op, reads[: len(inputs)], box)

    def reference(self, x: np.ndarray, w: np.ndarray, zero: np.ndarray, *scales: np.ndarray) -> tuple[np.ndarray, ...]:
        (sums,) = self._conv().reference(x.astype(np.float64) - zero, w.astype(np.float64))  # exact
        return _finished(sums, (-1, *(1,) * (x.ndim - 2)), scales, self.activation)

    def _conv(self) -> Conv:
        """The same over floats, without anything afterwards."""
        return Conv(self.strides, self.pads, self.dilations, self.group)


@dataclass(frozen=True, slots=True)
class IntegerMatMul(Op):
    """Product of bytes whose levels may be known only at run time and a matrix. Inputs x u8 [...,C] and w i8 [C,K], all
    else as for IntegerConv.
    https://onnx.ai/onnx/operators/onnx__MatMulInteger.html
    """

    activation: Activation | None = None

    def infer(self, inputs: Sequence[TensorType | None]) -> tuple[TensorType, ...]:
        (x, w), _ = operands(inputs[:2], 2)
        expect(x.rank >= 1 and w.rank == 2, "x of rank 1 or more and a matrix", f"{x} and {w}")
        expect(x.shape[-1] == w.shape[0], f"w of {x.shape[-1]} rows", w)
        expect(w.shape[0] <= MOST_TERMS, f"at most {MOST_TERMS} products an output", w)
        dtype = _result(inputs, w.shape[1], self.activation)
        return (TensorType(dtype, with_shape(x, (*x.shape[:-1], w.shape[1])).shape),)

    def dependence(self, inputs: Sequence[TensorType | None]) -> tuple[Dependence, ...]:
        (x, _), _ = operands(inputs[:2], 2)
        return (Dependence.POINTWISE,) * x.rank

    def part(self, box: Box, inputs: Sequence[TensorType | None]) -> Part:
        (x, w), _ = operands(inputs[:2], 2)
        columns = box[-1]
        reads = ((*box[:-1], (0, x.shape[-1])), ((0, w.shape[0]), columns), (), (), (columns,), (columns,))
        return Part(self, reads[: len(inputs)], box)

    def reference(self, x: np.ndarray, w: np.ndarray, zero: np.ndarray, *scales: np.ndarray) -> tuple[np.ndarray, ...]:
        sums = np.matmul(x.astype(np.float64) - zero, w.astype(np.float64))  # exact
        return _finished(sums, (-1,), scales, self.activation)
