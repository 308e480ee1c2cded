"""Quantisation; operators on quantised tensors, by dequantising and quantising."""

from __future__ import annotations

import numpy as np
from onnx import TensorProto, helper

from packer.importers.onnx.builder import Tensor
from packer.importers.onnx.call import Call, Unsupported
from packer.importers.onnx.handlers.convolution import conv_op
from packer.importers.onnx.numeric import carried_type, element_name, is_native
from packer.importers.onnx.registry import handler
from packer.ir import DType
from packer.ir.ops import DequantizeLinear, MatMul, QuantizeLinear


def _optional_parameter(call: Call, index: int) -> Tensor | None:
    return parameter(call, index) if call.has(index) else None


def parameter(call: Call, index: int) -> Tensor:
    """A scale or zero point; one of a single entry is a scalar."""
    tensor = call.tensor(index)
    return call.reshape(tensor, ()) if tensor.type.elements == 1 else tensor


def _axis(call: Call, x: Tensor) -> int:
    """The axis of per-channel parameters."""
    return call.axis(call.integer("axis", 1), x.rank) if x.rank > 1 else 0


def _is_blocked(call: Call, parameter: Tensor) -> bool:
    return parameter.rank > 1 and call.integer("block_size", 0) > 0


def _blocked(call: Call, x: Tensor, parameter: Tensor, axis: int) -> Tensor:
    """A parameter with one entry a block of neighbours along `axis`, repeated to the shape of x."""
    block, before, after = call.integer("block_size"), parameter.shape[: axis + 1], parameter.shape[axis + 1 :]
    repeated = call.expand(call.reshape(parameter, (*before, 1, *after)), (*before, block, *after))
    return call.slice(call.reshape(repeated, (*before[:-1], before[-1] * block, *after)), axis, 0, x.shape[axis])


@handler("QuantizeLinear")
def quantize_linear(call: Call) -> Tensor:
    x, scale, zero = call.cast(call.tensor(0), DType.F32), parameter(call, 1), _optional_parameter(call, 2)
    target, axis = _quantized_type(call, zero), _axis(call, x)
    if not _is_blocked(call, scale):
        return call.emit(QuantizeLinear(axis), x, scale, zero or call.literal(np.zeros(scale.shape, target.numpy)))
    levels = call.unary("round", call.binary("div", x, _blocked(call, x, scale, axis)))
    if zero is not None:
        levels = call.binary("add", levels, call.cast(_blocked(call, x, zero, axis), DType.F32))
    return call.cast(levels, target)


def _quantized_type(call: Call, zero: Tensor | None) -> DType:
    """The element type of the result: that of the zero point, or the one the node names."""
    element = call.integer("output_dtype", 0) or int(TensorProto.UINT8)
    if zero is not None:
        dtype = np.dtype(zero.dtype.numpy) if zero.data is None else zero.data.dtype
        element = int(helper.np_dtype_to_tensor_dtype(dtype))
    found = carried_type(element)
    if found not in (DType.U8, DType.I8, DType.U16, DType.I16) or not is_native(element):
        raise Unsupported(f"to {element_name(element)}")
    return found


@handler("DequantizeLinear")
def dequantize_linear(call: Call) -> Tensor:
    x, scale, zero = call.tensor(0), parameter(call, 1), _optional_parameter(call, 2)
    axis = _axis(call, x)
    if not x.dtype.is_float and not _is_blocked(call, scale):
        return call.emit(DequantizeLinear(axis), *(t for t in (x, scale, zero) if t is not None))
    levels = call.cast(x, DType.F32)
    if zero is not None:
        levels = call.binary("sub", levels, _spread(call, x, call.cast(zero, DType.F32), axis))
    return call.binary("mul", levels, _spread(call, x, scale, axis))


def _spread(call: Call, x: Tensor, parameter: Tensor, axis: int) -> Tensor:
    """A parameter shaped to broadcast over x: a scalar, one entry a channel, or one a block."""
    return (
        _blocked(call, x, parameter, axis) if _is_blocked(call, parameter) else _channels(call, parameter, axis, x.rank)
    )


def _channels(call: Call, parameter: Tensor, axis: int, rank: int) -> Tensor:
    """[n] reshaped so that its entries lie along `axis` of a tensor of `rank`."""
    if parameter.rank != 1:
        return parameter
    return call.reshape(parameter, (parameter.shape[0], *(1,) * (rank - axis - 1)))


def to_floats(call: Call, x: Tensor, scale: Tensor, zero: Tensor | None, axis: int) -> Tensor:
    """A quantised operand dequantised, so that passes find products of bytes as in networks that spell them out."""
    scale = scale if scale.type.elements > 1 else call.reshape(scale, ())
    zero = zero if zero is None or zero.type.elements > 1 else call.reshape(zero, ())
    if scale.rank < 2 and (zero is None or zero.rank < 2):
        return call.emit(DequantizeLinear(axis), *(t for t in (x, scale, zero) if t is not None))
    levels = call.cast(x, DType.F32)
    if zero is not None:
        levels = call.binary("sub", levels, call.cast(zero, DType.F32))
    return call.binary("mul", levels, scale)


@handler("QLinearMatMul")
def qlinear_matmul(call: Call) -> Tensor:
    a, b = call.tensor(0), call.tensor(3)
    a = to_floats(call, a, call.tensor(1), call.tensor(2), max(a.rank - 2, 0))
    b = to_floats(call, b, call.tensor(4), call.tensor(5), b.rank - 1)
    if call.tensor(6).type.elements != 1:
        raise Unsupported("one output scale a row")
    return call.emit(QuantizeLinear(0), call.emit(MatMul(), a, b), parameter(call, 6), parameter(call, 7))


@handler("QLinearConv")
def qlinear_conv(call: Call) -> Tensor:
    x, x_scale, w, w_scale = call.tensor(0), call.tensor(1), call.tensor(3), call.tensor(4)
    operands = [to_floats(call, x, x_scale, call.tensor(2), 0), to_floats(call, w, w_scale, call.tensor(5), 0)]
    if call.has(8):
        bias_scale = call.binary("mul", call.reshape(x_scale, ()), w_scale)
        operands.append(to_floats(call, call.tensor(8), bias_scale, None, 0))
    y = call.emit(conv_op(call, x, w), *operands)
    return call.emit(QuantizeLinear(0), y, parameter(call, 6), parameter(call, 7))
