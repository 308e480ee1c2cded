"""Activations on a value in a register."""

from __future__ import annotations

import math
from collections.abc import Callable

from packer.ir.ops import Activation
from targets.base import TargetError
from targets.cuda.emit import exponential, normal, trigonometric
from targets.cuda.emit.exponential import expm1
from targets.cuda.emit.ptx import Builder, f32

__all__ = ["ACTIVATIONS", "activate"]

Emitter = Callable[[Builder, str, float, float], str]

_LOG2_E = 1 / math.log(2)


def _relu(b: Builder, x: str, alpha: float, beta: float) -> str:
    return b.new("f", "max.f32", x, f32(0))


def _clip(b: Builder, x: str, alpha: float, beta: float) -> str:
    if alpha > -math.inf:
        x = b.new("f", "max.f32", x, f32(alpha))
    return b.new("f", "min.f32", x, f32(beta)) if beta < math.inf else x


def _leaky_relu(b: Builder, x: str, alpha: float, beta: float) -> str:
    scaled = b.new("f", "mul.rn.f32", x, f32(alpha))
    if 0 <= alpha <= 1:
        return b.new("f", "max.f32", x, scaled)
    return b.new("f", "selp.f32", scaled, x, b.new("p", "setp.lt.f32", x, f32(0)))


def _hard_sigmoid(b: Builder, x: str, alpha: float, beta: float) -> str:
    low = b.new("f", "min.f32", b.new("f", "fma.rn.f32", x, f32(alpha), f32(beta)), f32(1))
    return b.new("f", "max.f32", low, f32(0))


def _hard_swish(b: Builder, x: str, alpha: float, beta: float) -> str:
    return b.new("f", "mul.rn.f32", x, _hard_sigmoid(b, x, alpha, beta))


def _sigmoid_of(b: Builder, x: str, scale: float) -> str:
    """1 / (1 + 2^(-x scale log2 e)); the approximations err by about 2^-22."""
    power = b.new("f", "ex2.approx.ftz.f32", b.new("f", "mul.rn.f32", x, f32(-scale * _LOG2_E)))
    return b.new("f", "rcp.approx.ftz.f32", b.new("f", "add.rn.f32", power, f32(1)))


def _sigmoid(b: Builder, x: str, alpha: float, beta: float) -> str:
    return _sigmoid_of(b, x, 1.0)


def _silu(b: Builder, x: str, alpha: float, beta: float) -> str:
    return b.new("f", "mul.rn.f32", x, _sigmoid_of(b, x, alpha))


def _sign(b: Builder, x: str, alpha: float, beta: float) -> str:
    unit = b.new("f", "copysign.f32", x, f32(1))
    return b.new("f", "selp.f32", x, unit, b.new("p", "setp.equ.f32", x, f32(0)))


def _elu(b: Builder, x: str, alpha: float, beta: float) -> str:
    below = b.new("f", "mul.rn.f32", expm1(b, x), f32(alpha))
    return b.new("f", "selp.f32", below, x, b.new("p", "setp.lt.f32", x, f32(0)))


def _selu(b: Builder, x: str, alpha: float, beta: float) -> str:
    return b.new("f", "mul.rn.f32", _elu(b, x, alpha, beta), f32(beta))


def _celu(b: Builder, x: str, alpha: float, beta: float) -> str:
    below = b.new("f", "mul.rn.f32", expm1(b, b.new("f", "div.rn.f32", x, f32(alpha))), f32(alpha))
    return b.new("f", "add.rn.f32", b.new("f", "max.f32", x, f32(0)), b.new("f", "min.f32", below, f32(0)))


def _thresholded_relu(b: Builder, x: str, alpha: float, beta: float) -> str:
    return b.new("f", "selp.f32", x, f32(0), b.new("p", "setp.gt.f32", x, f32(alpha)))


def _shrink(b: Builder, x: str, alpha: float, beta: float) -> str:
    above = b.new("p", "setp.gt.f32", x, f32(alpha))
    inner = b.new("f", "selp.f32", b.new("f", "sub.rn.f32", x, f32(beta)), f32(0), above)
    below = b.new("p", "setp.lt.f32", x, f32(-alpha))
    return b.new("f", "selp.f32", b.new("f", "add.rn.f32", x, f32(beta)), inner, below)


def _softsign(b: Builder, x: str, alpha: float, beta: float) -> str:
    return b.new("f", "div.rn.f32", x, b.new("f", "add.rn.f32", b.new("f", "abs.f32", x), f32(1)))


def _gelu_tanh(b: Builder, x: str, alpha: float, beta: float) -> str:
    """x (1 + tanh(u)) / 2 = x sigmoid(2 u) with u = sqrt(2 / pi) (x + 0.044715 x^3)."""
    square = b.new("f", "mul.rn.f32", x, x)
    inner = b.new("f", "fma.rn.f32", square, f32(0.044715), f32(1))
    return b.new("f", "mul.rn.f32", x, _sigmoid_of(b, b.new("f", "mul.rn.f32", x, inner), math.sqrt(8 / math.pi)))


def _instruction(operation: str) -> Emitter:
    """One that has an instruction of its own."""
    return lambda b, x, alpha, beta: b.new("f", operation, x)


def _plain(function: Callable[[Builder, str], str]) -> Emitter:
    """One without parameters."""
    return lambda b, x, alpha, beta: function(b, x)


# kind -> instructions for f(x, alpha, beta); `max` and `min` give the other operand for a NaN
ACTIVATIONS: dict[str, Emitter] = {
    "identity": lambda b, x, alpha, beta: x,
    "abs": _instruction("abs.f32"),
    "neg": _instruction("neg.f32"),
    "sign": _sign,
    "ceil": _instruction("cvt.rpi.f32.f32"),
    "floor": _instruction("cvt.rmi.f32.f32"),
    "round": _instruction("cvt.rni.f32.f32"),
    "exp": _plain(exponential.exp),
    "log": _plain(exponential.log),
    "sqrt": _instruction("sqrt.rn.f32"),
    "reciprocal": _instruction("rcp.rn.f32"),
    "sin": _plain(trigonometric.sin),
    "cos": _plain(trigonometric.cos),
    "tan": _plain(trigonometric.tan),
    "asin": _plain(trigonometric.asin),
    "acos": _plain(trigonometric.acos),
    "atan": _plain(trigonometric.atan),
    "sinh": _plain(exponential.sinh),
    "cosh": _plain(exponential.cosh),
    "tanh": _plain(exponential.tanh),
    "asinh": _plain(exponential.asinh),
    "acosh": _plain(exponential.acosh),
    "atanh": _plain(exponential.atanh),
    "erf": _plain(normal.erf),
    "relu": _relu,
    "leaky_relu": _leaky_relu,
    "elu": _elu,
    "selu": _selu,
    "celu": _celu,
    "thresholded_relu": _thresholded_relu,
    "hard_sigmoid": _hard_sigmoid,
    "hard_swish": _hard_swish,
    "sigmoid": _sigmoid,
    "silu": _silu,
    "softplus": _plain(exponential.softplus),
    "softsign": _softsign,
    "mish": _plain(exponential.mish),
    "gelu": _plain(normal.gelu),
    "gelu_tanh": _gelu_tanh,
    "clip": _clip,
    "shrink": _shrink,
}


def activate(b: Builder, x: str, activation: Activation | None) -> str:
    """The register with the activation of x; raises TargetError for a kind that has no instructions here."""
    if activation is None:
        return x
    if activation.kind not in ACTIVATIONS:
        raise TargetError(f"activation: expected {', '.join(ACTIVATIONS)}, got '{activation.kind}'")
    return ACTIVATIONS[activation.kind](b, x, activation.alpha, activation.beta)
