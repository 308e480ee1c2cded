"""The error function, and what is made of the normal distribution, of f32 registers."""

from __future__ import annotations

import math

from targets.cuda.emit.exponential import exp, polynomial
from targets.cuda.emit.ptx import Builder, f32

__all__ = ["erf", "gelu"]

_ERF = (
    7.87587487e-05,
    -0.00080168643,
    0.00518908724,
    -0.0268542115,
    0.112835944,
    -0.37612626,
    1.12837911,
)  # erf(x) / x in x^2, up to 1
_FAR = 16.0  # beyond it, tails are less than f32 can tell
_SCALE = 4.0  # polynomials of the tail are in (t - 4) / (t + 4), which is between -1 and 1
_TAIL = (
    9.15247438e-05, 0.000726245809, -0.000411906571, -0.00505424663, 0.0179660544, -0.0321839079, 0.0285975598,
    0.0139985383, -0.0967033952, 0.47205323,
)  # fmt: skip


def erf(b: Builder, x: str) -> str:
    """The error function, 1 - 2 tail(x sqrt(2)) from 1 on."""
    near = b.new("f", "mul.rn.f32", x, polynomial(b, b.new("f", "mul.rn.f32", x, x), _ERF))
    size = b.new("f", "min.f32", b.new("f", "abs.f32", x), f32(_FAR))
    power = exp(b, b.new("f", "mul.rn.f32", size, b.new("f", "neg.f32", size)))
    tail = b.new("f", "mul.rn.f32", power, _tail(b, size, math.sqrt(2)))
    far = b.new("f", "copysign.f32", x, b.new("f", "fma.rn.f32", tail, f32(-2), f32(1)))
    return b.new("f", "selp.f32", near, far, b.new("p", "setp.ltu.f32", b.new("f", "abs.f32", x), f32(1)))


def gelu(b: Builder, x: str) -> str:
    """x times the share of a normal distribution below x; what x^2 is rounded by is made good, far out it counts."""
    size = b.new("f", "min.f32", b.new("f", "abs.f32", x), f32(_FAR))
    square = b.new("f", "mul.rn.f32", size, size)
    lost = b.new("f", "fma.rn.f32", size, size, b.new("f", "neg.f32", square))
    power = exp(b, b.new("f", "mul.rn.f32", square, f32(-0.5)))
    power = b.new("f", "fma.rn.f32", b.new("f", "mul.rn.f32", power, f32(-0.5)), lost, power)
    share = b.new("f", "mul.rn.f32", power, _tail(b, size, 1.0))
    above = b.new("f", "selp.f32", f32(0), x, b.new("p", "setp.lt.f32", x, f32(0)))
    return b.new("f", "sub.rn.f32", above, b.new("f", "mul.rn.f32", size, share))


def _tail(b: Builder, x: str, scale: float) -> str:
    """The share of a normal distribution above t = x scale >= 0, times e^(t^2 / 2)."""
    more = b.new("f", "fma.rn.f32", x, f32(scale), f32(_SCALE))
    less = b.new("f", "fma.rn.f32", x, f32(scale), f32(-_SCALE))
    series = polynomial(b, b.new("f", "div.rn.f32", less, more), _TAIL)
    return b.new("f", "div.rn.f32", series, b.new("f", "fma.rn.f32", x, f32(scale), f32(1)))
