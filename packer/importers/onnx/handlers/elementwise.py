"""Pointwise operators."""

from __future__ import annotations

import math

import numpy as np
from onnx import AttributeProto, TensorProto

from packer.importers.onnx.builder import Tensor
from packer.importers.onnx.call import Call, Unsupported
from packer.importers.onnx.numeric import carried_type, element_name, is_native, rounded
from packer.importers.onnx.registry import Handler, handler
from packer.ir import DType
from packer.ir.ops import Where

_UNARY = {
    "Abs": "abs", "Acos": "acos", "Acosh": "acosh", "Asin": "asin", "Asinh": "asinh", "Atan": "atan",
    "Atanh": "atanh", "BitwiseNot": "bitwise_not", "Ceil": "ceil", "Cos": "cos", "Cosh": "cosh", "Erf": "erf",
    "Exp": "exp", "Floor": "floor", "IsNaN": "is_nan", "Log": "log", "Mish": "mish", "Neg": "neg", "Not": "not",
    "Reciprocal": "reciprocal", "Relu": "relu", "Round": "round", "Sigmoid": "sigmoid", "Sign": "sign", "Sin": "sin",
    "Sinh": "sinh", "Softplus": "softplus", "Softsign": "softsign", "Sqrt": "sqrt", "Tan": "tan", "Tanh": "tanh",
}  # fmt: skip

# operator -> kind, and the attributes that become alpha and beta with their defaults
_PARAMETRIC: dict[str, tuple[str, tuple[tuple[str, float], ...]]] = {
    "Celu": ("celu", (("alpha", 1.0),)),
    "Elu": ("elu", (("alpha", 1.0),)),
    "HardSigmoid": ("hard_sigmoid", (("alpha", 0.2), ("beta", 0.5))),
    "LeakyRelu": ("leaky_relu", (("alpha", 0.01),)),
    "Selu": ("selu", (("alpha", 1.67326319217681884765625), ("gamma", 1.05070102214813232421875))),
    "Shrink": ("shrink", (("lambd", 0.5), ("bias", 0.0))),
    "Swish": ("silu", (("alpha", 1.0),)),
    "ThresholdedRelu": ("thresholded_relu", (("alpha", 1.0),)),
}

_BINARY = {
    "Add": "add", "And": "and", "BitwiseAnd": "bitwise_and", "BitwiseOr": "bitwise_or", "BitwiseXor": "bitwise_xor",
    "Div": "div", "Equal": "equal", "Greater": "greater", "GreaterOrEqual": "greater_equal", "Less": "less",
    "LessOrEqual": "less_equal", "Mul": "mul", "Or": "or", "Sub": "sub", "Xor": "xor",
}  # fmt: skip

_UNSIGNED = {DType.I8: DType.U8, DType.I16: DType.U16, DType.I32: DType.U32, DType.I64: DType.U64}


def _register_tables() -> None:
    def unary(kind: str, parameters: tuple[tuple[str, float], ...]) -> Handler:
        return lambda call: call.unary(kind, call.tensor(0), *(call.number(name, value) for name, value in parameters))

    def binary(kind: str) -> Handler:
        return lambda call: call.binary(kind, *_operands(call))

    for op_type, kind in _UNARY.items():
        handler(op_type)(unary(kind, ()))
    for op_type, (kind, parameters) in _PARAMETRIC.items():
        handler(op_type)(unary(kind, parameters))
    for op_type, kind in _BINARY.items():
        handler(op_type)(binary(kind))


_register_tables()


def _operands(call: Call) -> tuple[Tensor, Tensor]:
    """Both operands; before opset 7 the second one may be aligned to an axis of the first."""
    a, b = call.tensor(0), call.tensor(1)
    if call.version < 7 and call.integer("broadcast", 0) and "axis" in call.attributes:
        axis = call.axis(call.integer("axis"), a.rank)
        b = call.reshape(b, (*b.shape, *(1,) * (a.rank - axis - b.rank)))
    return a, b


@handler("Gelu")
def gelu(call: Call) -> Tensor:
    approximate = call.text("approximate", "none")
    if approximate not in ("none", "tanh"):
        raise call.error("approximation not known", expected="none or tanh", got=approximate)
    return call.unary("gelu_tanh" if approximate == "tanh" else "gelu", call.tensor(0))


@handler("HardSwish")
def hard_swish(call: Call) -> Tensor:
    return call.unary("hard_swish", call.tensor(0), 1 / 6, 0.5)


@handler("IsInf")
def is_inf(call: Call) -> Tensor:
    negative, positive = call.integer("detect_negative", 1), call.integer("detect_positive", 1)
    return call.unary("is_inf", call.tensor(0), float(negative), float(positive))


@handler("Clip")
def clip(call: Call) -> Tensor:
    x = call.tensor(0)
    if call.version < 11:
        low, high = call.number("min", -math.inf), call.number("max", math.inf)
        return x if (low, high) == (-math.inf, math.inf) else call.unary("clip", x, low, high)
    bounds = [call.optional(index) for index in (1, 2)]
    if x.dtype.is_float and any(bounds) and all(bound is None or bound.data is not None for bound in bounds):
        low = float(call.scalar(1, "'min'")) if bounds[0] else -math.inf
        high = float(call.scalar(2, "'max'")) if bounds[1] else math.inf
        return call.unary("clip", x, low, high)
    for kind, bound in zip(("max", "min"), bounds, strict=True):
        if bound is not None:
            x = call.binary(kind, x, call.reshape(bound, ()))
    return x


@handler("PRelu")
def prelu(call: Call) -> Tensor:
    x, slope = call.tensor(0), call.tensor(1)
    if call.version < 7 and slope.rank == 1 and x.rank > 1 and slope.shape[0] > 1:
        slope = call.reshape(slope, (slope.shape[0], *(1,) * (x.rank - 2)))
    return call.binary("prelu", x, slope)


@handler("Pow")
def power(call: Call) -> Tensor:
    base, exponent = _operands(call)
    if base.dtype.is_float or not exponent.dtype.is_float:
        return call.binary("pow", base, call.cast(exponent, base.dtype))
    return call.cast(call.binary("pow", call.cast(base, DType.F32), exponent), base.dtype)


@handler("Mod")
def mod(call: Call) -> Tensor:
    a, b = call.tensor(0), call.tensor(1)
    return call.binary("fmod" if call.integer("fmod", 0) else "mod", a, b)


@handler("BitShift")
def bit_shift(call: Call) -> Tensor:
    """Logical shifts; those of signed integers are taken on their bits, to the right with the sign kept."""
    x, count = call.tensor(0), call.tensor(1)
    direction = call.text("direction")
    if direction not in ("LEFT", "RIGHT"):
        raise call.error("direction not known", expected="LEFT or RIGHT", got=direction)
    kind = f"shift_{direction.lower()}"
    if x.dtype not in _UNSIGNED:
        return call.binary(kind, x, count)
    bits = _UNSIGNED[x.dtype]
    count = call.cast(count, bits)
    shifted = call.cast(call.binary(kind, call.cast(x, bits), count), x.dtype)
    if direction == "LEFT":
        return shifted
    flipped = call.cast(call.unary("bitwise_not", x), bits)
    negative = call.unary("bitwise_not", call.cast(call.binary(kind, flipped, count), x.dtype))
    return call.emit(Where(), call.binary("less", x, call.like(0, x)), negative, shifted)


@handler("Where")
def where(call: Call) -> Tensor:
    return call.emit(Where(), call.tensor(0), call.tensor(1), call.tensor(2))


@handler("Sum", "Max", "Min", "Mean")
def variadic(call: Call) -> Tensor:
    kind = {"Max": "max", "Min": "min"}.get(call.node.op_type, "add")
    total = call.tensor(0)
    for index in range(1, len(call.inputs)):
        total = call.binary(kind, total, call.tensor(index))
    return call.scale(total, 1 / len(call.inputs)) if call.node.op_type == "Mean" else total


def _cast(call: Call, x: Tensor, element: int) -> Tensor:
    """To an ONNX element type; float types other than float32 are carried as numeric.py says."""
    dtype = carried_type(element)
    if dtype is None or (not is_native(element) and not dtype.is_float):
        raise Unsupported(f"to {element_name(element)}")
    if x.data is not None and not is_native(element):
        return call.literal(rounded(x.data if x.dtype.is_float else x.data.astype(np.float64), element))
    if x.data is not None and x.data.dtype == np.float64 and dtype.is_float:
        return call.literal(x.data.astype(np.float32))
    return call.cast(x, dtype)


@handler("Cast")
def cast(call: Call) -> Tensor:
    if call.version < 6 and call.attributes["to"].type == AttributeProto.STRING:
        return _cast(call, call.tensor(0), TensorProto.DataType.Value(call.text("to")))
    return _cast(call, call.tensor(0), call.integer("to"))


@handler("CastLike")
def cast_like(call: Call) -> Tensor:
    x, like = call.tensor(0), call.tensor(1)
    if x.data is not None and x.dtype.is_float and like.dtype.is_float and like.data is not None:
        return call.literal(x.data.astype(like.data.dtype))
    return call.cast(x, like.dtype)


@handler("BitCast")
def bit_cast(call: Call) -> Tensor:
    x, element = call.tensor(0), call.integer("to")
    if not is_native(element):
        raise Unsupported(f"to {element_name(element)}")
    to = carried_type(element)
    assert to is not None
    if to.bytes != x.dtype.bytes:
        raise call.error(
            "a bit cast changes the size of an element", expected=f"{x.dtype.bytes} bytes", got=f"{to.bytes}"
        )
    if x.data is not None:
        return call.literal(x.data.astype(x.dtype.numpy).view(to.numpy))
    if x.dtype.is_float != to.is_float:
        raise Unsupported(f"{x.dtype.name.lower()} to {to.name.lower()} at run time")
    return call.cast(x, to)
