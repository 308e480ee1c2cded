"""Trigonometric functions of f32 registers and their inverses, within a few units in the last place.

Arguments are reduced in float64 (of magnitudes up to 2^50; beyond, multiples of pi are not known well enough).
Polynomials interpolate at Chebyshev nodes. Cody & Waite, "Software manual for the elementary functions", 1980.
"""

from __future__ import annotations

import math

from targets.cuda.emit.exponential import odd, polynomial
from targets.cuda.emit.ptx import Builder, f32, f64

__all__ = ["acos", "asin", "atan", "cos", "sin", "tan"]

_HALF_PI_LOW = 6.123233995736766e-17  # pi / 2 less its nearest float64

# (f(x) - x) / x^3 in x^2, and (cos(x) - 1 + x^2 / 2) / x^4 in x^2
_SIN = (2.72438115e-06, -0.00019840039, 0.00833333191, -0.166666672)
_COS = (2.45428964e-05, -0.00138882792, 0.0416666642)
_ASIN = (0.0336908475, 0.0171492379, 0.0311006624, 0.0445994027, 0.0750009418, 0.166666657)
_ATAN = (
    -0.00238699722, 0.0135077713, -0.0358715393, 0.0625016913, -0.0865688026, 0.110337645, -0.142785683, 0.199997395,
    -0.333333313,
)  # fmt: skip


def sin(b: Builder, x: str) -> str:
    """The sine."""
    sine, cosine, quarter = _reduced(b, x)
    return _turned(b, sine, cosine, quarter)


def cos(b: Builder, x: str) -> str:
    """The cosine: the sine a quarter of a turn on."""
    sine, cosine, quarter = _reduced(b, x)
    return _turned(b, sine, cosine, b.new("r", "add.u32", quarter, 1))


def tan(b: Builder, x: str) -> str:
    """The tangent; after an odd number of quarter turns it is -cos / sin."""
    sine, cosine, quarter = _reduced(b, x)
    is_odd = _bit(b, quarter, 1)
    above = b.new("f", "selp.f32", b.new("f", "neg.f32", cosine), sine, is_odd)
    return b.new("f", "div.rn.f32", above, b.new("f", "selp.f32", sine, cosine, is_odd))


def asin(b: Builder, x: str) -> str:
    """The arc sine; from 1/2 on by way of the half angle, pi / 2 - 2 asin(sqrt((1 - |x|) / 2))."""
    size, half = _half_angle(b, x)
    far = b.new("f", "fma.rn.f32", half, f32(-2), f32(math.pi / 2))
    return _if_near(b, size, odd(b, x, _ASIN), b.new("f", "copysign.f32", x, far))


def acos(b: Builder, x: str) -> str:
    """The arc cosine, in the same way."""
    size, half = _half_angle(b, x)
    double = b.new("f", "add.rn.f32", half, half)
    left = b.new("f", "sub.rn.f32", f32(math.pi), double)
    far = b.new("f", "selp.f32", left, double, b.new("p", "setp.lt.f32", x, f32(0)))
    return _if_near(b, size, b.new("f", "sub.rn.f32", f32(math.pi / 2), odd(b, x, _ASIN)), far)


def atan(b: Builder, x: str) -> str:
    """The arc tangent; above 1, pi / 2 less that of the reciprocal."""
    size = b.new("f", "abs.f32", x)
    above = b.new("p", "setp.gt.f32", size, f32(1))
    inner = odd(b, b.new("f", "selp.f32", b.new("f", "rcp.rn.f32", size), size, above), _ATAN)
    outer = b.new("f", "sub.rn.f32", f32(math.pi / 2), inner)
    return b.new("f", "copysign.f32", x, b.new("f", "selp.f32", outer, inner, above))


def _reduced(b: Builder, x: str) -> tuple[str, str, str]:
    """Sine and cosine of x less the nearest multiple of pi / 2, and which multiple, modulo 4."""
    wide = b.new("w", "cvt.f64.f32", x)
    n = b.new("w", "cvt.rni.f64.f64", b.new("w", "mul.rn.f64", wide, f64(2 / math.pi)))
    rest = b.new("w", "fma.rn.f64", n, f64(-math.pi / 2), wide)
    rest = b.new("w", "fma.rn.f64", n, f64(-_HALF_PI_LOW), rest)
    r = b.new("f", "cvt.rn.f32.f64", rest)
    square = b.new("f", "mul.rn.f32", r, r)
    fourth = b.new("f", "mul.rn.f32", square, square)
    cosine = b.new("f", "fma.rn.f32", square, f32(-0.5), f32(1))
    cosine = b.new("f", "fma.rn.f32", fourth, polynomial(b, square, _COS), cosine)
    quarter = b.new("r", "cvt.u32.u64", b.new("d", "cvt.rni.s64.f64", n))
    return odd(b, r, _SIN), cosine, quarter


def _turned(b: Builder, sine: str, cosine: str, quarter: str) -> str:
    """The sine after quarter turns."""
    value = b.new("f", "selp.f32", cosine, sine, _bit(b, quarter, 1))
    return b.new("f", "selp.f32", b.new("f", "neg.f32", value), value, _bit(b, quarter, 2))


def _bit(b: Builder, value: str, mask: int) -> str:
    return b.new("p", "setp.ne.u32", b.new("r", "and.b32", value, mask), 0)


def _half_angle(b: Builder, x: str) -> tuple[str, str]:
    """|x|, and asin(sqrt((1 - |x|) / 2))."""
    size = b.new("f", "abs.f32", x)
    root = b.new("f", "sqrt.rn.f32", b.new("f", "fma.rn.f32", size, f32(-0.5), f32(0.5)))
    return size, odd(b, root, _ASIN)


def _if_near(b: Builder, size: str, near: str, far: str) -> str:
    return b.new("f", "selp.f32", near, far, b.new("p", "setp.lt.f32", size, f32(0.5)))
