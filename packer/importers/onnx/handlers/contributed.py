"""Operators of onnxruntime's own domain that it quantises networks to, by dequantising and quantising.

Source: https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md
"""

from __future__ import annotations

from collections.abc import Callable

from packer.importers.onnx.builder import Tensor
from packer.importers.onnx.call import Call, Unsupported
from packer.importers.onnx.handlers.pool import pool_op
from packer.importers.onnx.handlers.quantize import dequantize_linear, parameter, quantize_linear, to_floats
from packer.importers.onnx.handlers.recurrent import recurrent
from packer.importers.onnx.registry import Handler, handler
from packer.ir.ops import MatMul, QuantizeLinear, Softmax, Where

DOMAIN = "com.microsoft"

handler("QuantizeLinear", domain=DOMAIN)(quantize_linear)
handler("DequantizeLinear", domain=DOMAIN)(dequantize_linear)


def _floats(call: Call, index: int, axis: int = 0) -> Tensor:
    """Operand `index`, whose scale and zero point are behind it."""
    return to_floats(call, call.tensor(index), call.tensor(index + 1), call.optional(index + 2), axis)


def _bytes(call: Call, y: Tensor, index: int) -> Tensor:
    """A result in the levels of which operand `index` is the scale, and the next the zero point."""
    if not call.has(index + 1):
        raise Unsupported("without a zero point of its output")
    return call.emit(QuantizeLinear(0), y, parameter(call, index), parameter(call, index + 1))


def _expect_channels_first(call: Call) -> None:
    if call.integer("channels_last", 0):
        raise Unsupported("channels last")


def _pair(kind: str) -> Handler:
    return lambda call: _bytes(call, call.binary(kind, _floats(call, 0), _floats(call, 3)), 6)


def _function(make: Callable[[Call, Tensor], Tensor]) -> Handler:
    """Of one operand."""
    return lambda call: _bytes(call, make(call, _floats(call, 0)), 3)


handler("QLinearAdd", domain=DOMAIN)(_pair("add"))
handler("QLinearMul", domain=DOMAIN)(_pair("mul"))
handler("QLinearSigmoid", domain=DOMAIN)(_function(lambda call, x: call.unary("sigmoid", x)))
handler("QLinearLeakyRelu", domain=DOMAIN)(
    _function(lambda call, x: call.unary("leaky_relu", x, call.number("alpha", 0.01)))
)


@handler("QLinearAveragePool", domain=DOMAIN)
def average_pool(call: Call) -> Tensor:
    _expect_channels_first(call)
    return _bytes(call, call.emit(pool_op(call, "average"), _floats(call, 0)), 3)


@handler("QLinearGlobalAveragePool", domain=DOMAIN)
def global_average_pool(call: Call) -> Tensor:
    _expect_channels_first(call)
    x = _floats(call, 0)
    return _bytes(call, call.reduce("mean", x, range(2, x.rank)), 3)


@handler("QLinearReduceMean", domain=DOMAIN)
def reduce_mean(call: Call) -> Tensor:
    x = _floats(call, 0)
    axes = call.axes(call.integers("axes") or (), x.rank) or range(x.rank)
    return _bytes(call, call.reduce("mean", x, axes, bool(call.integer("keepdims", 1))), 3)


@handler("QLinearSoftmax", domain=DOMAIN)
def softmax(call: Call) -> Tensor:
    """Over one axis; of a network of opset 12 or before over that axis and all behind it together."""
    x = _floats(call, 0)
    axis = call.axis(call.integer("axis", -1), x.rank)
    axes = (axis,) if call.integer("opset") >= 13 else tuple(range(axis, x.rank))
    return _bytes(call, call.emit(Softmax("softmax", axes), x), 3)


@handler("QLinearWhere", domain=DOMAIN)
def where(call: Call) -> Tensor:
    return _bytes(call, call.emit(Where(), call.tensor(0), _floats(call, 1), _floats(call, 4)), 7)


@handler("QLinearConcat", domain=DOMAIN)
def concat(call: Call) -> Tensor:
    parts = [_floats(call, index) for index in range(2, len(call.inputs), 3)]
    return _bytes(call, call.concat(parts, call.axis(call.integer("axis"), parts[0].rank)), 0)


@handler("QGemm", domain=DOMAIN)
def gemm(call: Call) -> Tensor:
    """`alpha A' B' + C`, C in units of the products; floats without levels of the output."""
    columns = 0 if call.integer("transB", 0) else 1
    a, b, alpha = _floats(call, 0), _floats(call, 3, columns), call.number("alpha", 1.0)
    if call.integer("transA", 0):
        a = call.transpose(a, (1, 0))
    if columns == 0:
        b = call.transpose(b, (1, 0))
    operands = [a, call.scale(b, alpha)]
    if call.has(6):
        unit = call.binary("mul", parameter(call, 1), call.scale(parameter(call, 4), alpha))
        operands.append(to_floats(call, call.tensor(6), unit, None, call.tensor(6).rank - 1))
    y = call.emit(MatMul(), *operands)
    return _bytes(call, y, 7) if call.has(7) else y


@handler("DynamicQuantizeLSTM", domain=DOMAIN)
def dynamic_lstm(call: Call) -> tuple[Tensor, ...]:
    """An LSTM whose weights are bytes and lie the other way round, with a scale for all of a direction or each column;
    its inputs and states stay floats."""
    inputs = [*call.inputs[:8], *(None for _ in range(8 - len(call.inputs)))]
    for index, scale in ((1, 8), (2, 10)):
        levels = [_by_column(call, tensor) for tensor in (call.tensor(scale), call.optional(scale + 1)) if tensor]
        floats = to_floats(call, call.tensor(index), levels[0], levels[1] if len(levels) > 1 else None, 0)
        inputs[index] = call.transpose(floats, (0, 2, 1))
    return recurrent(Call(call.walker, call.scope, call.node, call.name, inputs))


def _by_column(call: Call, levels: Tensor) -> Tensor:
    """A scale or zero point [directions] or [directions, columns] beside weights [directions, inputs, columns]."""
    return call.reshape(levels, (levels.shape[0], 1, levels.shape[1])) if levels.rank == 2 else levels
