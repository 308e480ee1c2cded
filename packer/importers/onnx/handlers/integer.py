"""Products of bytes as integers, and the levels of bytes found at run time."""

from __future__ import annotations

import numpy as np

from packer.importers.onnx.builder import Tensor
from packer.importers.onnx.call import Call, Unsupported
from packer.importers.onnx.handlers.convolution import conv_op
from packer.importers.onnx.registry import handler
from packer.ir import DType
from packer.ir.ops import DynamicLevels, IntegerConv, IntegerMatMul, MatMul, QuantizeLinear
from packer.ir.ops.quantized import MOST_TERMS, whole_groups

_EXACT = 1 << 24  # integers up to here are exact in float32


@handler("DynamicQuantizeLinear")
def dynamic_quantize_linear(call: Call) -> tuple[Tensor, ...]:
    x = call.cast(call.tensor(0), DType.F32)
    scale, zero = call.emit_many(DynamicLevels(), x, outputs=2)
    return call.emit(QuantizeLinear(0), x, scale, zero), scale, zero


@handler("MatMulInteger")
def matmul_integer(call: Call) -> Tensor:
    """Of bytes if the second operand is a constant matrix, else of 32-bit integers."""
    a, b, a_zero, b_zero = call.tensor(0), call.tensor(1), call.optional(2), call.optional(3)
    levels, parts = _unsigned(call, a, a_zero), _signed_parts(b, b_zero, -1)
    if levels is None or parts is None or b.rank != 2 or len(parts) * b.shape[0] > MOST_TERMS:
        return call.emit(MatMul(), _centred(call, a, a_zero, -2), _centred(call, b, b_zero, -1))
    rows = call.concat([levels[0]] * len(parts), a.rank - 1)
    return call.emit(IntegerMatMul(), rows, call.literal(np.concatenate(parts)), levels[1])


@handler("ConvInteger")
def conv_integer(call: Call) -> Tensor:
    """Of bytes if the weights are constant, else in float32 where the sums are sure to be exact there. Padding counts
    as the zero point."""
    x, w, x_zero, w_zero = call.tensor(0), call.tensor(1), call.optional(2), call.optional(3)
    op = conv_op(call, x, w)
    levels, parts = _unsigned(call, x, x_zero), _signed_parts(w, w_zero, 0)
    if levels is None or parts is None or w.type.elements > MOST_TERMS // 3 * w.shape[0]:
        return _conv_in_floats(call, x, w, x_zero, w_zero)
    grouped = [whole_groups(part, op.group) for part in parts]
    _, group, together = grouped[0]
    made = IntegerConv(op.strides, op.pads, op.dilations, group, together=together if len(parts) == 1 else 1)
    if group == 1:
        weights = np.concatenate([part for part, *_ in grouped], axis=1)
        return call.emit(made, call.concat([levels[0]] * len(parts), 1), call.literal(weights), levels[1])
    sums = [call.emit(made, levels[0], call.literal(part), levels[1]) for part, *_ in grouped]
    total = sums[0]
    for one in sums[1:]:
        total = call.binary("add", total, one)
    return total


def _unsigned(call: Call, x: Tensor, zero: Tensor | None) -> tuple[Tensor, Tensor] | None:
    """Bytes without a sign and their one zero point; None if x has several zero points."""
    if zero is not None and zero.type.elements != 1:
        return None
    zero = call.reshape(zero, ()) if zero is not None else call.literal(np.zeros((), x.dtype.numpy))
    if x.dtype is DType.U8:
        return x, zero
    raised = (call.binary("add", call.cast(t, DType.I32), call.literal(np.array(128, np.int32))) for t in (x, zero))
    return call.cast(next(raised), DType.U8), call.cast(next(raised), DType.U8)


def _signed_parts(w: Tensor, zero: Tensor | None, axis: int) -> list[np.ndarray] | None:
    """Constant weights less their zero points, one or one for each entry along `axis`, as a sum of signed bytes: one
    term where they fit those. None if they are not constant."""
    if w.data is None or (zero is not None and zero.data is None):
        return None
    rest = w.data.astype(np.int16)
    if zero is not None and zero.data is not None:
        along = [1] * w.rank
        along[axis] = -1
        if zero.type.elements not in (1, w.shape[axis]):
            return None
        rest = rest - zero.data.astype(np.int16).reshape(along)
    parts = [np.clip(rest, -128, 127)]
    while (rest := rest - parts[-1]).any():
        parts.append(np.clip(rest, -128, 127))
    return [part.astype(np.int8) for part in parts]


def _conv_in_floats(call: Call, x: Tensor, w: Tensor, x_zero: Tensor | None, w_zero: Tensor | None) -> Tensor:
    values = call.cast(_centred(call, x, None if x_zero is None else call.reshape(x_zero, ()), -1), DType.F32)
    if w_zero is not None:
        along = () if w_zero.type.elements == 1 else (w_zero.shape[0], *(1,) * (w.rank - 1))
        w_zero = call.reshape(w_zero, along)
    weights = call.cast(_centred(call, w, w_zero, -1), DType.F32)
    if 255 * 255 * w.type.elements // max(w.shape[0], 1) >= _EXACT:
        raise Unsupported("weights that are no constant, and sums that may not be exact in float32")
    return call.cast(call.emit(conv_op(call, x, w), values, weights), DType.I32)


def _centred(call: Call, x: Tensor, zero: Tensor | None, axis: int) -> Tensor:
    """`x - zero` in int32; a zero point of one entry a row (axis -2) or column (axis -1) of a matrix is allowed."""
    wide = call.cast(x, DType.I32)
    if zero is None:
        return wide
    offset = call.cast(zero, DType.I32)
    if zero.rank == 1 and zero.shape[0] == 1:
        offset = call.reshape(offset, ())
    elif zero.rank == 1 and axis == -2 and x.rank > 1:
        offset = call.reshape(offset, (zero.shape[0], 1))
    return call.binary("sub", wide, offset)
