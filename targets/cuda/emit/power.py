"""Powers of f32 registers. Logarithm and product are in float64: what a float32 would round counts in the exponent."""

from __future__ import annotations

import math

from targets.cuda.emit.ptx import Builder, f32, f64

__all__ = ["power"]

_TERMS = 8  # of the series of the logarithm, whose argument is below 0.172: relative errors below 1e-13
_MOST = 200.0  # exponents of 2 beyond which f32 has only 0 and infinity


def power(b: Builder, x: str, y: str) -> str:
    """x^y as C's powf has it, but for |y| = infinity with x = -1."""
    size = b.new("f", "abs.f32", x)
    wide = b.new("w", "mul.rn.f64", b.new("w", "cvt.f64.f32", y), _log2(b, size))
    # 0 times infinity is no number, and rightly so only if y or x is none
    inside = b.new("w", "max.f64", b.new("w", "min.f64", wide, f64(_MOST)), f64(-_MOST))
    n = b.new("w", "cvt.rni.f64.f64", inside)
    rest = b.new("f", "cvt.rn.f32.f64", b.new("w", "sub.rn.f64", inside, n))
    value = b.new("f", "ex2.approx.ftz.f32", rest)
    exponent = b.new("r", "cvt.rni.s32.f64", n)
    half = b.new("r", "shr.s32", exponent, 1)
    for part in (half, b.new("r", "sub.u32", exponent, half)):
        bits = b.new("r", "shl.b32", b.new("r", "add.u32", part, 127), 23)
        value = b.new("f", "mul.rn.f32", value, b.new("f", "mov.b32", bits))
    value = b.new("f", "selp.f32", f32(math.nan), value, b.new("p", "setp.nan.f64", wide, wide))
    return _where_trivial(b, x, y, _signed(b, x, y, value))


def _log2(b: Builder, size: str) -> str:
    """The logarithm, in float64, of |x|: 2 atanh((m - 1) / (m + 1)) / ln 2 plus the exponent, m next to 1."""
    wide = b.new("d", "mov.b64", b.new("w", "cvt.f64.f32", size))  # which has no subnormals of f32 any more
    above = b.new("d", "sub.u64", wide, 0x3FE6A09E667F3BCD)  # bits of sqrt(1/2)
    exponent = b.new("d", "shr.s64", above, 52)
    m = b.new("w", "mov.b64", b.new("d", "sub.u64", wide, b.new("d", "shl.b64", exponent, 52)))
    less, more = b.new("w", "sub.rn.f64", m, f64(1)), b.new("w", "add.rn.f64", m, f64(1))
    s = b.new("w", "div.rn.f64", less, more)
    square = b.new("w", "mul.rn.f64", s, s)
    series = b.new("w", "mov.f64", f64(2 / math.log(2) / (2 * _TERMS - 1)))
    for term in reversed(range(_TERMS - 1)):
        series = b.new("w", "fma.rn.f64", series, square, f64(2 / math.log(2) / (2 * term + 1)))
    value = b.new("w", "fma.rn.f64", series, s, b.new("w", "cvt.rn.f64.s64", exponent))
    special = b.new("w", "cvt.f64.f32", b.new("f", "lg2.approx.f32", size))  # exact for 0, infinity, NaN
    positive = b.new("p", "setp.gt.f32", size, f32(0))
    finite = b.new("p", "setp.lt.f32", size, f32(math.inf))
    return b.new("w", "selp.f64", value, special, b.new("p", "and.pred", positive, finite))


def _signed(b: Builder, x: str, y: str, value: str) -> str:
    """|x|^y as x^y: negative x have odd powers of their sign, and none that are no integers."""
    half = b.new("f", "mul.rn.f32", y, f32(0.5))
    even = b.new("p", "setp.eq.f32", b.new("f", "cvt.rmi.f32.f32", half), half)
    whole = b.new("p", "setp.eq.f32", b.new("f", "cvt.rmi.f32.f32", y), y)
    odd = b.new("p", "and.pred", whole, b.new("p", "not.pred", even))
    value = b.new("f", "selp.f32", b.new("f", "copysign.f32", x, value), value, odd)
    below = b.new("p", "setp.lt.f32", x, f32(0))
    finite = b.new("p", "setp.gt.f32", x, f32(-math.inf))
    wrong = b.new("p", "and.pred", b.new("p", "and.pred", below, finite), b.new("p", "not.pred", whole))
    return b.new("f", "selp.f32", f32(math.nan), value, wrong)


def _where_trivial(b: Builder, x: str, y: str, value: str) -> str:
    """1 where x is 1 or y is 0, whatever the other one is."""
    trivial = b.new("p", "or.pred", b.new("p", "setp.eq.f32", x, f32(1)), b.new("p", "setp.eq.f32", y, f32(0)))
    return b.new("f", "selp.f32", f32(1), value, trivial)
