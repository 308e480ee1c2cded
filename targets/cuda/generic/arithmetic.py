"""Functions of one and of two values in registers, as `packer.ir.ops.pointwise` defines them, for any element type."""

from __future__ import annotations

from packer.ir import DType
from packer.ir.ops import Activation
from packer.ir.ops.pointwise import ACTIVATION_KINDS, COMPARISONS
from targets.cuda.emit.activation import activate
from targets.cuda.emit.power import power
from targets.cuda.emit.ptx import Builder, f32
from targets.cuda.generic.conversion import immediate, kind_of, truth, type_of

__all__ = ["binary", "has_binary", "has_unary", "unary"]

_FLOATS = ("add", "sub", "mul", "div", "pow", "min", "max", "prelu", *COMPARISONS)
_INTEGERS = (
    "add", "sub", "mul", "div", "mod", "fmod", "min", "max", "prelu", *COMPARISONS, "and", "or", "xor", "bitwise_and",
    "bitwise_or", "bitwise_xor", "shift_left", "shift_right",
)  # fmt: skip
_TESTS = dict(zip(COMPARISONS, ("eq", "lt", "le", "gt", "ge"), strict=True))
_INTEGER_KINDS = ("identity", "abs", "neg", "sign", "not", "bitwise_not", "relu")


def has_unary(kind: str, dtype: DType) -> bool:
    """Whether `unary` can."""
    return kind in _INTEGER_KINDS if kind_of(dtype) != "f" else kind in (*ACTIVATION_KINDS, "is_nan", "is_inf")


def unary(b: Builder, kind: str, dtype: DType, x: str, alpha: float, beta: float) -> str:
    """f(x); bool for tests."""
    if kind == "is_nan":
        return truth(b, b.new("p", "setp.nan.f32", x, x))
    if kind == "is_inf":
        return _is_infinite(b, x, alpha != 0, beta != 0)
    if kind_of(dtype) == "f":
        return activate(b, x, Activation(kind, alpha, beta))
    type, register = type_of(dtype), kind_of(dtype)
    signed = type.startswith("s")
    match kind:
        case "neg" | "abs" if signed:
            return b.new(register, f"{kind}.{type}", x)
        case "sign":
            x = b.new(register, f"min.{type}", x, 1)
            return b.new(register, f"max.{type}", x, -1) if signed else x
        case "relu" if signed:
            return b.new(register, f"max.{type}", x, 0)
        case "not":
            return b.new(register, f"xor.b{type[1:]}", x, 1)
        case "bitwise_not":
            return b.new(register, f"not.b{type[1:]}", x)
        case _:
            return x


def has_binary(kind: str, dtype: DType) -> bool:
    """Whether `binary` can."""
    return kind in (_FLOATS if kind_of(dtype) == "f" else _INTEGERS)


def binary(b: Builder, kind: str, dtype: DType, x: str, y: str) -> str:
    """x op y; bool for comparisons."""
    type, register = type_of(dtype), kind_of(dtype)
    if kind in _TESTS:
        return truth(b, b.new("p", f"setp.{_TESTS[kind]}.{type}", x, y))
    if kind == "prelu":
        product = b.new(register, f"mul.{'rn' if register == 'f' else 'lo'}.{type}", x, y)
        zero = f32(0) if register == "f" else "0"
        return b.new(register, f"selp.{_plain(type)}", product, x, b.new("p", f"setp.lt.{type}", x, zero))
    if register == "f":
        return _floats(b, kind, x, y)
    return _integers(b, kind, dtype, x, y)


def _floats(b: Builder, kind: str, x: str, y: str) -> str:
    match kind:
        case "min" | "max":
            value = b.new("f", f"{kind}.f32", x, y)
            none = b.new("f", "add.rn.f32", x, y)
            return b.new("f", "selp.f32", none, value, b.new("p", "setp.nan.f32", x, y))
        case "pow":
            return power(b, x, y)
        case _:
            return b.new("f", f"{kind}.rn.f32", x, y)


def _integers(b: Builder, kind: str, dtype: DType, x: str, y: str) -> str:
    type, register = type_of(dtype), kind_of(dtype)
    bits = type[1:]
    match kind:
        case "div" | "mod" | "fmod":
            return _division(b, kind, dtype, x, y)
        case "mul":
            return b.new(register, f"mul.lo.{type}", x, y)
        case "shift_left" | "shift_right":
            places = y if register == "r" else b.new("r", "cvt.u32.u64", b.new("d", "min.u64", y, 64))
            return b.new(register, f"shl.b{bits}" if kind == "shift_left" else f"shr.u{bits}", x, places)
        case "add" | "sub" | "min" | "max":
            return b.new(register, f"{kind}.{type}", x, y)
        case _:
            return b.new(register, f"{kind.removeprefix('bitwise_')}.b{bits}", x, y)


def _division(b: Builder, kind: str, dtype: DType, x: str, y: str) -> str:
    """Quotient or remainder, 0 where the divisor is."""
    type, register = type_of(dtype), kind_of(dtype)
    none = b.new("p", f"setp.eq.{type}", y, 0)
    divisor = b.new(register, f"selp.{_plain(type)}", immediate(b, dtype, 1), y, none)
    value = b.new(register, f"{'div' if kind == 'div' else 'rem'}.{type}", x, divisor)
    if kind == "mod" and type.startswith("s"):  # the sign is that of the divisor
        signs = b.new("p", f"setp.lt.{type}", b.new(register, f"xor.b{type[1:]}", value, y), 0)
        other = b.new("p", "and.pred", signs, b.new("p", f"setp.ne.{type}", value, 0))
        value = b.new(register, f"selp.{_plain(type)}", b.new(register, f"add.{type}", value, y), value, other)
    return b.new(register, f"selp.{_plain(type)}", immediate(b, dtype, 0), value, none)


def _is_infinite(b: Builder, x: str, negative: bool, positive: bool) -> str:
    below = b.new("p", "setp.eq.f32", x, f32(-float("inf") if negative else float("nan")))
    above = b.new("p", "setp.eq.f32", x, f32(float("inf") if positive else float("nan")))
    return truth(b, b.new("p", "or.pred", below, above))


def _plain(type: str) -> str:
    """The type that `selp` moves values of a type as."""
    return type if type == "f32" else f"u{type[1:]}"
