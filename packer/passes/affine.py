"""Recognise operators that scale and shift each channel by constants."""

from __future__ import annotations

import numpy as np

from packer.ir import DType, Graph, Node
from packer.ir.ops import Binary, ScaleShift

__all__ = ["Affine", "as_affine", "narrowed", "rounds"]

Affine = tuple[str, np.ndarray, np.ndarray]
"""(x, scale [C], shift [C]) in float64: y = x * scale[c] + shift[c], c along the axis of channels."""


def as_affine(graph: Graph, node: Node, axis: int = 1) -> Affine | None:
    """What `node` does before its activation, if it is an affine function of one value per channel, these lying along
    `axis`; else None."""
    output = graph.type(node.outputs[0])
    if output.rank < 2 or output.dtype is not DType.F32:
        return None
    if isinstance(node.op, ScaleShift) and axis == 1:
        scale, shift = graph.constant(node.inputs[1]), graph.constant(node.inputs[2])
        if scale is None or shift is None:
            return None
        return node.inputs[0] or "", scale.astype(np.float64), shift.astype(np.float64)
    if not isinstance(node.op, Binary) or node.op.kind not in ("add", "sub", "mul", "div"):
        return None
    a, b = node.inputs
    for x, other, swapped in ((a, b, False), (b, a, True)):
        value = _per_channel(graph, other, output.shape, axis)
        if x is None or value is None or graph.constant(x) is not None or graph.type(x) != output:
            continue
        if node.op.kind in ("add", "sub") and rounds(value):
            continue
        one, zero = np.ones_like(value), np.zeros_like(value)
        if node.op.kind == "add":
            return x, one, value
        if node.op.kind == "mul":
            return x, value, zero
        if node.op.kind == "sub":
            return (x, -one, value) if swapped else (x, one, -value)
        if not swapped and value.all():
            return x, 1.0 / value, zero
    return None


def rounds(shift: np.ndarray) -> bool:
    """Whether sums with the shift have no room for fractions in float32: numbers are rounded by adding 1.5 * 2**23 and
    subtracting it again, which no other sum can be made of."""
    return shift.size > 0 and bool(np.abs(shift).min() >= 2**22)


def narrowed(**parameters: np.ndarray) -> dict[str, np.ndarray] | None:
    """The parameters in float32, or None if one overflows: then the operators are better left apart."""
    with np.errstate(over="ignore"):
        narrow = {name: data.astype(np.float32) for name, data in parameters.items()}
    return narrow if all(np.isfinite(data).all() for data in narrow.values()) else None


def _per_channel(graph: Graph, name: str | None, shape: tuple[int, ...], channels: int) -> np.ndarray | None:
    """A constant as one float64 value a channel, if it is the same everywhere else."""
    data = graph.constant(name)
    if data is None or data.ndim > len(shape):
        return None
    full = data.reshape((1,) * (len(shape) - data.ndim) + data.shape)
    if any(extent != 1 for axis, extent in enumerate(full.shape) if axis != channels):
        return None
    return np.broadcast_to(full.reshape(-1), (shape[channels],)).astype(np.float64)
