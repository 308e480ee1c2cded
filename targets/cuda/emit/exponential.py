"""Exponentials, logarithms and hyperbolic functions of f32 registers, within a few units in the last place.

Polynomials interpolate at Chebyshev nodes. Cody & Waite, "Software manual for the elementary functions", 1980.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from targets.cuda.emit.ptx import Builder, f32

__all__ = [
    "acosh",
    "asinh",
    "atanh",
    "cosh",
    "exp",
    "expm1",
    "log",
    "log1p",
    "mish",
    "odd",
    "polynomial",
    "sinh",
    "softplus",
    "tanh",
]

_LN2_HIGH = 0.693359375  # of 9 bits: its product with an exponent is exact
_LN2_LOW = math.log(2) - _LN2_HIGH
_ROOT_HALF = 0x3F3504F3  # bits of sqrt(1/2)
_HUGE = 1e9  # of larger numbers, x^2 + 1 is x^2

_EXPM1 = (0.000199448739, 0.00139821856, 0.00833323598, 0.0416657925, 0.166666672, 0.5)  # (e^x - 1 - x) / x^2
_LOG1P = (
    0.0697161183,
    -0.114797339,
    0.116854198,
    -0.124256872,
    0.142490581,
    -0.166678026,
    0.200007156,
    -0.24999997,
    0.333333313,
)  # (log(1 + x) - x + x^2 / 2) / x^3
_TANH = (-0.00661022775, 0.0213093888, -0.0539094284, 0.133331135, -0.333333313)  # (tanh(x) - x) / x^3 in x^2
_SINH = (2.80628024e-06, 0.000198381022, 0.00833333936, 0.166666672)  # (sinh(x) - x) / x^3 in x^2


def polynomial(b: Builder, x: str, coefficients: Sequence[float]) -> str:
    """Horner's rule, the coefficient of the highest power first."""
    value = b.new("f", "mov.f32", f32(coefficients[0]))
    for coefficient in coefficients[1:]:
        value = b.new("f", "fma.rn.f32", value, x, f32(coefficient))
    return value


def odd(b: Builder, x: str, coefficients: Sequence[float]) -> str:
    """x + x^3 P(x^2)."""
    square = b.new("f", "mul.rn.f32", x, x)
    cube = b.new("f", "mul.rn.f32", square, x)
    return b.new("f", "fma.rn.f32", cube, polynomial(b, square, coefficients), x)


def exp(b: Builder, x: str, doublings: int = 0) -> str:
    """2^doublings e^x: e^x = 2^n 2^f with n an integer and f within 1/2 of 0."""
    inside = b.new("f", "max.f32", b.new("f", "min.f32", x, f32(90)), f32(-105))
    n = b.new("f", "cvt.rni.f32.f32", b.new("f", "mul.rn.f32", inside, f32(1 / math.log(2))))
    rest = b.new("f", "fma.rn.f32", n, f32(-_LN2_HIGH), inside)
    rest = b.new("f", "fma.rn.f32", n, f32(-_LN2_LOW), rest)
    value = b.new("f", "ex2.approx.ftz.f32", b.new("f", "mul.rn.f32", rest, f32(1 / math.log(2))))
    power = b.new("r", "cvt.rni.s32.f32", n)
    half = b.new("r", "shr.s32", power, 1)  # of which neither is below the least exponent, as their sum may be
    other = b.new("r", "sub.u32", power, half)
    for part, bias in ((half, 127), (other, 127 + doublings)):
        bits = b.new("r", "shl.b32", b.new("r", "add.u32", part, bias), 23)
        value = b.new("f", "mul.rn.f32", value, b.new("f", "mov.b32", bits))
    return b.new("f", "selp.f32", x, value, b.new("p", "setp.nan.f32", x, x))


def expm1(b: Builder, x: str) -> str:
    """e^x - 1."""
    near = b.new("f", "fma.rn.f32", b.new("f", "mul.rn.f32", x, x), polynomial(b, x, _EXPM1), x)
    far = b.new("f", "sub.rn.f32", exp(b, x), f32(1))
    return _if_below(b, b.new("f", "abs.f32", x), 0.5, near, far)


def log(b: Builder, x: str) -> str:
    """The natural logarithm: x = 2^n (1 + f) with f from sqrt(1/2) - 1 to sqrt(2) - 1."""
    tiny = b.new("p", "setp.lt.f32", x, f32(2.0**-126))
    normal = b.new("f", "selp.f32", b.new("f", "mul.rn.f32", x, f32(2.0**23)), x, tiny)
    bits = b.new("r", "mov.b32", normal)
    exponent = b.new("r", "shr.s32", b.new("r", "sub.u32", bits, _ROOT_HALF), 23)
    fraction = b.new("f", "mov.b32", b.new("r", "sub.u32", bits, b.new("r", "shl.b32", exponent, 23)))
    n = b.new("f", "cvt.rn.f32.s32", exponent)
    n = b.new("f", "selp.f32", b.new("f", "sub.rn.f32", n, f32(23)), n, tiny)
    f = b.new("f", "sub.rn.f32", fraction, f32(1))
    square = b.new("f", "mul.rn.f32", f, f)
    rest = b.new("f", "mul.rn.f32", b.new("f", "mul.rn.f32", square, f), polynomial(b, f, _LOG1P))
    rest = b.new("f", "fma.rn.f32", n, f32(_LN2_LOW), rest)
    rest = b.new("f", "fma.rn.f32", square, f32(-0.5), rest)
    value = b.new("f", "fma.rn.f32", n, f32(_LN2_HIGH), b.new("f", "add.rn.f32", f, rest))
    special = b.new("f", "lg2.approx.f32", x)  # exact for 0, infinity, NaN and what has no logarithm
    positive = b.new("p", "setp.gt.f32", x, f32(0))
    finite = b.new("p", "setp.lt.f32", x, f32(math.inf))
    return b.new("f", "selp.f32", value, special, b.new("p", "and.pred", positive, finite))


def log1p(b: Builder, x: str) -> str:
    """log(1 + x) of x > -1; what 1 + x rounds away is added as the first term of a series."""
    total = b.new("f", "add.rn.f32", x, f32(1))
    lost = b.new("f", "sub.rn.f32", x, b.new("f", "sub.rn.f32", total, f32(1)))
    value = log(b, total)
    nearer = b.new("f", "add.rn.f32", value, b.new("f", "div.rn.f32", lost, total))
    return _if_below(b, total, math.inf, nearer, value)


def softplus(b: Builder, x: str) -> str:
    """log(1 + e^x)."""
    small = exp(b, b.new("f", "neg.f32", b.new("f", "abs.f32", x)))
    return b.new("f", "add.rn.f32", b.new("f", "max.f32", x, f32(0)), log1p(b, small))


def mish(b: Builder, x: str) -> str:
    """x tanh(log(1 + e^x)): with e = e^x, the hyperbolic tangent is n / (n + 2), n = e (e + 2)."""
    power = exp(b, b.new("f", "min.f32", x, f32(20)))
    n = b.new("f", "mul.rn.f32", power, b.new("f", "add.rn.f32", power, f32(2)))
    share = b.new("f", "div.rn.f32", n, b.new("f", "add.rn.f32", n, f32(2)))
    return b.new("f", "mul.rn.f32", x, share)


def sinh(b: Builder, x: str) -> str:
    """(e^x - e^-x) / 2."""
    size = b.new("f", "abs.f32", x)
    half, other = _half_powers(b, size)
    far = b.new("f", "copysign.f32", x, b.new("f", "sub.rn.f32", half, other))
    return _if_below(b, size, 1.0, odd(b, x, _SINH), far)


def cosh(b: Builder, x: str) -> str:
    """(e^x + e^-x) / 2."""
    return b.new("f", "add.rn.f32", *_half_powers(b, b.new("f", "abs.f32", x)))


def tanh(b: Builder, x: str) -> str:
    """The hyperbolic tangent."""
    size = b.new("f", "abs.f32", x)
    power = exp(b, b.new("f", "add.rn.f32", size, size))
    share = b.new("f", "div.rn.f32", f32(2), b.new("f", "add.rn.f32", power, f32(1)))
    far = b.new("f", "copysign.f32", x, b.new("f", "sub.rn.f32", f32(1), share))
    return _if_below(b, size, 0.55, odd(b, x, _TANH), far)


def asinh(b: Builder, x: str) -> str:
    """sign(x) log(|x| + sqrt(x^2 + 1))."""
    size = b.new("f", "abs.f32", x)
    square = b.new("f", "mul.rn.f32", size, size)
    root = b.new("f", "sqrt.rn.f32", b.new("f", "add.rn.f32", square, f32(1)))
    more = b.new("f", "div.rn.f32", square, b.new("f", "add.rn.f32", root, f32(1)))
    near = log1p(b, b.new("f", "add.rn.f32", size, more))
    return b.new("f", "copysign.f32", x, _if_below(b, size, _HUGE, near, _log_of_double(b, size)))


def acosh(b: Builder, x: str) -> str:
    """log(x + sqrt((x - 1) (x + 1))), NaN below 1 by the root of x - 1."""
    more = b.new("f", "sub.rn.f32", x, f32(1))
    other = b.new("f", "sqrt.rn.f32", b.new("f", "add.rn.f32", x, f32(1)))
    root = b.new("f", "mul.rn.f32", b.new("f", "sqrt.rn.f32", more), other)
    near = log1p(b, b.new("f", "add.rn.f32", more, root))
    return _if_below(b, x, _HUGE, near, _log_of_double(b, x))


def atanh(b: Builder, x: str) -> str:
    """log((1 + x) / (1 - x)) / 2."""
    size = b.new("f", "abs.f32", x)
    rest = b.new("f", "sub.rn.f32", f32(1), size)
    value = log1p(b, b.new("f", "div.rn.f32", b.new("f", "add.rn.f32", size, size), rest))
    return b.new("f", "copysign.f32", x, b.new("f", "mul.rn.f32", value, f32(0.5)))


def _half_powers(b: Builder, size: str) -> tuple[str, str]:
    """e^x / 2 and e^-x / 2 of x >= 0."""
    half = exp(b, size, -1)
    return half, b.new("f", "div.rn.f32", f32(0.25), half)


def _log_of_double(b: Builder, x: str) -> str:
    return b.new("f", "add.rn.f32", log(b, x), f32(math.log(2)))


def _if_below(b: Builder, x: str, limit: float, then: str, otherwise: str) -> str:
    return b.new("f", "selp.f32", then, otherwise, b.new("p", "setp.lt.f32", x, f32(limit)))
