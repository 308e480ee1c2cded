"""The pointwise functions behind Unary, Binary, Cast and fused activations, by kind, in numpy."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from packer.ir.ops.base import Activation, ShapeError
from packer.ir.ops.erf import erf, erfc
from packer.ir.types import DType, TensorType

__all__ = [
    "ACTIVATION_KINDS",
    "BINARY",
    "COMPARISONS",
    "PREDICATES",
    "UNARY",
    "activate",
    "binary",
    "expect_activation",
    "saturate",
    "unary",
]

PREDICATES = ("is_nan", "is_inf")
COMPARISONS = ("equal", "less", "less_equal", "greater", "greater_equal")


def _sigmoid(x: np.ndarray) -> np.ndarray:
    small = np.exp(-np.abs(x))
    return np.asarray(np.where(x >= 0, 1 / (1 + small), small / (1 + small)))


def _softplus(x: np.ndarray) -> np.ndarray:
    return np.asarray(np.maximum(x, 0) + np.log1p(np.exp(-np.abs(x))))


def _gelu_tanh(x: np.ndarray) -> np.ndarray:
    return np.asarray(0.5 * x * (1 + np.tanh(float(np.sqrt(2 / np.pi)) * (x + 0.044715 * x * x * x))))


def _is_inf(x: np.ndarray, alpha: float, beta: float) -> np.ndarray:
    return np.asarray((np.isneginf(x) & (alpha != 0)) | (np.isposinf(x) & (beta != 0)))


def _shrink(x: np.ndarray, alpha: float, beta: float) -> np.ndarray:
    return np.asarray(np.where(x < -alpha, x + beta, np.where(x > alpha, x - beta, 0)))


# kind -> f(x, alpha, beta)
UNARY: dict[str, Callable[[np.ndarray, float, float], np.ndarray]] = {
    "identity": lambda x, a, b: x,
    "abs": lambda x, a, b: np.abs(x),
    "neg": lambda x, a, b: np.negative(x),
    "sign": lambda x, a, b: np.sign(x),
    "not": lambda x, a, b: np.logical_not(x),
    "bitwise_not": lambda x, a, b: np.invert(x),
    "ceil": lambda x, a, b: np.ceil(x),
    "floor": lambda x, a, b: np.floor(x),
    "round": lambda x, a, b: np.rint(x),
    "exp": lambda x, a, b: np.exp(x),
    "log": lambda x, a, b: np.log(x),
    "sqrt": lambda x, a, b: np.sqrt(x),
    "reciprocal": lambda x, a, b: 1 / x,
    "sin": lambda x, a, b: np.sin(x),
    "cos": lambda x, a, b: np.cos(x),
    "tan": lambda x, a, b: np.tan(x),
    "asin": lambda x, a, b: np.arcsin(x),
    "acos": lambda x, a, b: np.arccos(x),
    "atan": lambda x, a, b: np.arctan(x),
    "sinh": lambda x, a, b: np.sinh(x),
    "cosh": lambda x, a, b: np.cosh(x),
    "tanh": lambda x, a, b: np.tanh(x),
    "asinh": lambda x, a, b: np.arcsinh(x),
    "acosh": lambda x, a, b: np.arccosh(x),
    "atanh": lambda x, a, b: np.arctanh(x),
    "erf": lambda x, a, b: erf(x),
    "relu": lambda x, a, b: np.maximum(x, 0),
    "leaky_relu": lambda x, a, b: np.where(x < 0, a * x, x),
    "elu": lambda x, a, b: np.where(x < 0, a * np.expm1(x), x),
    "selu": lambda x, a, b: b * np.where(x > 0, x, a * np.expm1(x)),
    "celu": lambda x, a, b: np.maximum(x, 0) + np.minimum(a * np.expm1(x / a), 0),
    "thresholded_relu": lambda x, a, b: np.where(x > a, x, 0),
    "hard_sigmoid": lambda x, a, b: np.maximum(np.minimum(a * x + b, 1), 0),
    "hard_swish": lambda x, a, b: x * np.maximum(np.minimum(a * x + b, 1), 0),
    "sigmoid": lambda x, a, b: _sigmoid(x),
    "silu": lambda x, a, b: x * _sigmoid(a * x),
    "softplus": lambda x, a, b: _softplus(x),
    "softsign": lambda x, a, b: x / (1 + np.abs(x)),
    "mish": lambda x, a, b: x * np.tanh(_softplus(x)),
    "gelu": lambda x, a, b: 0.5 * x * erfc(x * -float(np.sqrt(0.5))),
    "gelu_tanh": lambda x, a, b: _gelu_tanh(x),
    "clip": lambda x, a, b: np.minimum(np.maximum(x, a), b),
    "shrink": _shrink,
    "is_nan": lambda x, a, b: np.isnan(x),
    "is_inf": _is_inf,
}


def _divide(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    if a.dtype.kind == "f":
        return np.asarray(a / b)
    quotient, rest = np.floor_divide(a, b), np.remainder(a, b)  # both are 0 where b is 0
    inexact = (rest != 0) & ((a < 0) != (b < 0))
    return np.asarray(quotient + inexact.astype(a.dtype))


def _power(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Integers wrap; a negative exponent gives the quotient 1 / a^|b| truncated (0 for a = 0)."""
    if a.dtype.kind != "i":
        return np.asarray(np.power(a, b))
    odd = np.where(b % 2 == 0, np.ones_like(a), a)
    inverse = np.where(a == 1, 1, np.where(a == -1, odd, 0))
    return np.asarray(np.where(b < 0, inverse, np.power(a, np.maximum(b, 0)))).astype(a.dtype)


# kind -> f(a, b)
BINARY: dict[str, Callable[[np.ndarray, np.ndarray], np.ndarray]] = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "div": _divide,
    "mod": np.remainder,
    "fmod": np.fmod,
    "pow": _power,
    "min": np.minimum,
    "max": np.maximum,
    "prelu": lambda a, b: np.asarray(np.where(a < 0, a * b, a)),
    "equal": np.equal,
    "less": np.less,
    "less_equal": np.less_equal,
    "greater": np.greater,
    "greater_equal": np.greater_equal,
    "and": np.logical_and,
    "or": np.logical_or,
    "xor": np.logical_xor,
    "bitwise_and": np.bitwise_and,
    "bitwise_or": np.bitwise_or,
    "bitwise_xor": np.bitwise_xor,
    "shift_left": np.left_shift,
    "shift_right": np.right_shift,
}


def unary(kind: str, x: np.ndarray, alpha: float = 0.0, beta: float = 0.0) -> np.ndarray:
    """`f(x)` by kind, in the dtype of x (bool for the predicates)."""
    with np.errstate(all="ignore"):
        y = np.asarray(UNARY[kind](x, alpha, beta))
    if kind in PREDICATES or y.dtype == x.dtype:
        return y
    return saturate(y, x.dtype)


def binary(kind: str, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """`a op b` by kind with broadcasting, in the dtype of a (bool for comparisons)."""
    with np.errstate(all="ignore"):
        return np.asarray(BINARY[kind](a, b))


def saturate(x: np.ndarray, dtype: np.dtype | type) -> np.ndarray:
    """Convert as Cast documents: float to integer truncates and saturates, NaN gives 0; integers wrap."""
    dtype = np.dtype(dtype)
    if dtype.kind not in "iu" or x.dtype.kind != "f":
        with np.errstate(all="ignore"):
            return np.asarray(x).astype(dtype)
    limits = np.iinfo(dtype)
    low, past = float(limits.min), float(limits.max) + 1  # both exact in float64
    wide = np.nan_to_num(np.trunc(x.astype(np.float64)), nan=0.0, posinf=past, neginf=low)
    inside = np.where((wide >= low) & (wide < past), wide, 0.0).astype(dtype)
    edge = np.where(wide >= past, *np.array([limits.max, limits.min], dtype))
    return np.asarray(np.where((wide >= low) & (wide < past), inside, edge))


# Kinds that take and give f32, so that another operator can apply them to its result.
ACTIVATION_KINDS = tuple(kind for kind in UNARY if kind not in ("not", "bitwise_not", *PREDICATES))


def expect_activation(activation: Activation | None, y: TensorType) -> None:
    """Raise ShapeError unless `activation` can be applied to a tensor of type `y`."""
    if activation is None:
        return
    if activation.kind not in ACTIVATION_KINDS:
        raise ShapeError(f"expected an activation among {', '.join(ACTIVATION_KINDS)}, got '{activation.kind}'")
    if y.dtype is not DType.F32:
        raise ShapeError(f"expected an f32 result before activation '{activation.kind}', got {y}")


def activate(activation: Activation | None, y: np.ndarray) -> np.ndarray:
    """The fused activation applied to y; y itself without one."""
    return y if activation is None else unary(activation.kind, y, activation.alpha, activation.beta)
