"""Weights rounded to 16 bits, and what each setting of precision lets a node do (runtime_c/src/kernels/weights.h)."""

from __future__ import annotations

import numpy as np

from packer.ir import DType, Graph, Node
from packer.ir.ops import Conv, MatMul
from packer.ir.rounding import nearest

__all__ = ["SETTINGS", "precisions_of", "rounded", "stored_type"]

SETTINGS = {"f32": DType.F32, "f16": DType.F16, "bf16": DType.BF16}


def stored_type(implementation: str) -> DType:
    """The element type of the weights of a form: "packed-f16" has f16, "packed-bf16" and "bf16" have bf16."""
    return SETTINGS.get(implementation.rpartition("-")[2], DType.F32)


def rounded(weights: np.ndarray, dtype: DType) -> np.ndarray:
    """Float32 weights in weight16 as the nearest numbers of `dtype`. Rows of bf16 lie in pairs: [rows / 2, 16, 2]."""
    if dtype is DType.F32:
        return weights
    numbers = nearest(weights, dtype)
    if dtype is DType.F16:
        return numbers.astype(np.float16)
    halves = (numbers.view(np.uint32) >> 16).astype(np.uint16)
    return np.ascontiguousarray(halves.reshape(-1, 2, 16).transpose(0, 2, 1)).reshape(-1)


def precisions_of(graph: Graph, node: Node, precision: str) -> tuple[str, ...]:
    """By which forms the weights of `node` can be reduced: "packed-f16"; "packed-bf16", and of a convolution "bf16",
    whose inputs are rounded too. None where a weight is no finite number of that type, nor where bf16 would leave an
    input channel alone: float32 remains."""
    weights = graph.constant(node.inputs[1])
    if precision == "f32" or weights is None or weights.size == 0:
        return ()
    channels = weights.shape[1] if isinstance(node.op, Conv) else weights.shape[0]
    if (precision == "bf16" and channels % 2) or not np.isfinite(nearest(weights, SETTINGS[precision])).all():
        return ()
    if precision == "f16":
        return ("packed-f16",)
    return ("packed-bf16",) if isinstance(node.op, MatMul) else ("packed-bf16", "bf16")
