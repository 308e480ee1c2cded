"""Weights rounded to 16 bits, and what each setting of precision lets a node do (runtime_c/src/kernels/weights.h)."""

from __future__ import annotations

import math

import numpy as np

from packer.ir import DType, Graph, Node
from packer.ir.ops import Conv, MatMul
from packer.ir.rounding import nearest
from targets.cpu.winograd import is_rounded

__all__ = [
    "LINES",
    "SETTINGS",
    "halves",
    "has_lines",
    "is_masked",
    "is_stream",
    "noise_of",
    "precisions_of",
    "rounded",
    "stored_type",
    "stream_of",
]

SETTINGS = {"f32": DType.F32, "f16": DType.F16, "bf16": DType.BF16}
LINES = "lines-bf16"  # products of bf16 of planar inputs, those of a line of the kernel at a time
_FEW = 16  # input channels of a group from which on blocks of them are better


def stored_type(implementation: str) -> DType:
    """The element type of the weights of a form: "packed-f16" has f16, "packed-bf16", "bf16" and LINES have bf16."""
    return SETTINGS.get(implementation.rpartition("-")[2], DType.F32)


def is_stream(implementation: str) -> bool:
    """Whether a form stores its weights as a stream of their non-zeros: "sparse", "sparse-f16" and "sparse-bf16"."""
    return implementation.partition("-")[0] == "sparse"


def is_masked(implementation: str) -> bool:
    """Whether a form stores a bit for every weight, and those that are not zero: "masked", "masked-f16" and
    "masked-bf16"."""
    return implementation.partition("-")[0] == "masked"


def noise_of(implementation: str) -> float:
    """The errors of a form in multiples of those of its rounded weights: if inputs are rounded as coarsely, that of two
    independent errors; and as measured of Winograd's algorithm, which rounds sums of inputs, of normal deviates."""
    if is_rounded(implementation):
        return 2.4
    return math.sqrt(2) if implementation in ("bf16", LINES) else 1.0


def halves(numbers: np.ndarray, dtype: DType) -> np.ndarray:
    """Numbers of `dtype` in float32, as it stores them."""
    if dtype is DType.BF16:
        return (numbers.view(np.uint32) >> 16).astype(np.uint16)
    return numbers.astype(dtype.numpy, copy=False)


def rounded(weights: np.ndarray, dtype: DType) -> np.ndarray:
    """Float32 weights in weight16 as the nearest numbers of `dtype`. Rows of bf16 lie in pairs: [rows / 2, 16, 2]."""
    if dtype is DType.F32:
        return weights
    stored = halves(nearest(weights, dtype), dtype)
    if dtype is DType.F16:
        return stored
    return np.ascontiguousarray(stored.reshape(-1, 2, 16).transpose(0, 2, 1)).reshape(-1)


def precisions_of(graph: Graph, node: Node, precision: str) -> tuple[str, ...]:
    """By which forms the weights of `node` can be reduced: "packed-f16"; "packed-bf16", and of a convolution "bf16",
    whose inputs are rounded too. None where a weight is no finite number of that type, nor where bf16 would leave an
    input channel alone: float32 remains."""
    weights = graph.constant(node.inputs[1])
    if weights is None or not _reducible(weights, precision):
        return ()
    channels = weights.shape[1] if isinstance(node.op, Conv) else weights.shape[0]
    if precision == "bf16" and channels % 2:
        return ()
    if precision == "f16":
        return ("packed-f16",)
    return ("packed-bf16",) if isinstance(node.op, MatMul) else ("packed-bf16", "bf16")


def has_lines(graph: Graph, node: Node, precision: str) -> bool:
    """Whether a convolution has few input channels, even an odd number, and weights for LINES."""
    weights = graph.constant(node.inputs[1])
    return precision == "bf16" and weights is not None and weights.shape[1] < _FEW and _reducible(weights, precision)


def stream_of(graph: Graph, node: Node, precision: str, kind: str = "sparse") -> str:
    """The form by which the weights of `node` become a stream, or "masked": of 16 bits a value unless one is no finite
    number of them."""
    weights = graph.constant(node.inputs[1])
    return f"{kind}-{precision}" if weights is not None and _reducible(weights, precision) else kind


def _reducible(weights: np.ndarray, precision: str) -> bool:
    return precision != "f32" and weights.size > 0 and bool(np.isfinite(nearest(weights, SETTINGS[precision])).all())
