"""Activations on a value in a register."""

from __future__ import annotations

import math
from collections.abc import Callable

from packer.ir.ops import Activation
from targets.base import TargetError
from targets.cuda.emit.ptx import Builder, f32

__all__ = ["ACTIVATIONS", "activate"]

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


# kind -> instructions for f(x, alpha, beta); `max` and `min` give the other operand for a NaN
ACTIVATIONS: dict[str, Callable[[Builder, str, float, float], str]] = {
    "identity": lambda b, x, alpha, beta: x,
    "relu": _relu,
    "clip": _clip,
    "leaky_relu": _leaky_relu,
    "hard_sigmoid": _hard_sigmoid,
    "hard_swish": _hard_swish,
    "sigmoid": _sigmoid,
    "silu": _silu,
}


def activate(b: Builder, x: str, activation: Activation | None) -> str:
    """The register with the activation of x; raises TargetError for a kind that has no instructions here."""
    if activation is None:
        return x
    if activation.kind not in ACTIVATIONS:
        raise TargetError(f"activation: expected {', '.join(ACTIVATIONS)}, got '{activation.kind}'")
    return ACTIVATIONS[activation.kind](b, x, activation.alpha, activation.beta)
