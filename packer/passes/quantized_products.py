"""Convolutions and matrix products of dequantised values, as products of bytes.

Before: `y = quantize(conv(dequantize(x), dequantize(w), dequantize(b)))`, w and b constant. After:
`y = quantized_conv(x, w, scale, b)`. Without quantize, as training that is aware of bytes leaves it:
`y = integer_conv(x, w, x_zero, x_scale, scale, b)`, whose results are floats.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from packer.ir import Node
from packer.ir.ops import (
    Conv,
    DequantizeLinear,
    IntegerConv,
    IntegerMatMul,
    MatMul,
    Op,
    QuantizedConv,
    QuantizedMatMul,
    Transpose,
)
from packer.ir.ops.quantized import MOST_TERMS, whole_groups
from packer.passes.quantized_rewriter import Levels, Rewriter

__all__ = ["float_product", "product"]

_SUMS = float(1 << 31)
_FEW = 0.15  # of the weights that are not zero: products of floats leave out the others
_ZEROS = 8  # times the weights, with those of zero between groups, that bytes are still worth


@dataclass(frozen=True, slots=True, eq=False)
class Weights:
    """Constant weights as signed bytes with a scale for all or each output channel, which are dimension `axis`."""

    data: np.ndarray
    scale: np.ndarray


@dataclass(frozen=True, slots=True, eq=False)
class Operands:
    """What a convolution or matrix product of bytes multiplies: weights in groups that a kernel takes, so many of them
    together; the largest sum that each output channel, which is dimension `columns` of the weights, can have."""

    x: str
    levels: Levels
    weights: Weights
    data: np.ndarray
    group: int
    together: int
    columns: int
    largest: np.ndarray


def _operands(rewriter: Rewriter, node: Node) -> Operands | None:
    op = node.op
    if not isinstance(op, Conv | MatMul) or op.activation is not None or len(node.inputs) > 3:
        return None
    x, columns = rewriter.dequantized(node.inputs[0]), 0 if isinstance(op, Conv) else 1
    weights = _weights(rewriter, node.inputs[1], columns)
    if x is None or weights is None or (isinstance(op, MatMul) and weights.data.ndim != 2):
        return None
    data, group, together = whole_groups(weights.data, op.group if isinstance(op, Conv) else 1)
    if data.size > weights.data.shape[columns] * MOST_TERMS or data.size > _ZEROS * weights.data.size:
        return None
    largest = 255 * np.abs(weights.data.astype(np.int64)).sum(axis=tuple({*range(weights.data.ndim)} - {columns}))
    return Operands(x[0], x[1], weights, data, group, together, columns, largest)


def product(
    rewriter: Rewriter, node: Node, maker: Node, levels: Levels, limits: tuple[int, int], sources: tuple[str, ...]
) -> Node | None:
    found = _operands(rewriter, maker)
    if found is None:
        return None
    own, weights, op = found.levels, found.weights, maker.op
    both = np.broadcast_to(own.scale * weights.scale, (weights.data.shape[found.columns],)).astype(np.float32)
    scale = (both / levels.scale).astype(np.float32)
    bias = _bias(rewriter, maker.inputs[2] if len(maker.inputs) > 2 else None, both, found.columns)
    if bias is None or not np.isfinite(scale).all() or (found.largest + np.abs(bias)).max(initial=0) >= _SUMS:
        return None
    made: Op
    if isinstance(op, Conv):
        windows = op.strides, op.pads, op.dilations
        made = QuantizedConv(*windows, found.group, own.zero, levels.zero, *limits, together=found.together)
    else:
        made = QuantizedMatMul(own.zero, levels.zero, *limits)
    name = node.outputs[0]
    inputs = (
        found.x,
        rewriter.constant(f"{name}:weights", found.data),
        rewriter.constant(f"{name}:scale", scale),
        rewriter.constant(f"{name}:bias", bias.astype(np.int32)),
    )
    return Node(made, inputs, node.outputs, sources)


def float_product(rewriter: Rewriter, node: Node) -> Node | None:
    """The node, a convolution or matrix product of bytes, with a result in floats; None if it is none, or has so many
    zeros that floats are faster."""
    found = _operands(rewriter, node)
    if found is None or found.largest.max(initial=0) >= _SUMS:
        return None
    if np.count_nonzero(found.weights.data) <= _FEW * found.weights.data.size:
        return None
    outputs = found.weights.data.shape[found.columns]
    scale = np.broadcast_to(found.weights.scale, (outputs,)).astype(np.float32)
    one = np.ones(outputs, np.float32)
    bias = _addends(rewriter, node.inputs[2] if len(node.inputs) > 2 else None, one, found.columns)
    if bias is None:
        return None
    op = node.op
    made: Op = IntegerMatMul()
    if isinstance(op, Conv):
        made = IntegerConv(op.strides, op.pads, op.dilations, found.group, together=found.together)
    name = node.outputs[0]
    constants = {
        "weights": found.data,
        "zero": np.asarray(found.levels.zero, np.uint8),
        "step": np.asarray(found.levels.scale, np.float32),
        "scale": scale,
        "bias": bias.astype(np.float32),
    }
    inputs = (found.x, *(rewriter.constant(f"{name}:{role}", data) for role, data in constants.items()))
    return Node(made, inputs, node.outputs, node.sources)


def _weights(rewriter: Rewriter, name: str | None, axis: int) -> Weights | None:
    """Weights of a product whose output channels are dimension `axis`, read through transposes."""
    maker = rewriter.made.get(name or "")
    if maker is None:
        return None
    if isinstance(maker.op, Transpose):
        perm = maker.op.perm
        found = _weights(rewriter, maker.inputs[0], perm[axis])
        return None if found is None else Weights(np.ascontiguousarray(found.data.transpose(perm)), found.scale)
    if not isinstance(maker.op, DequantizeLinear):
        return None
    data, scale = rewriter.graph.constant(maker.inputs[0]), rewriter.graph.constant(maker.inputs[1])
    zero = rewriter.graph.constant(maker.inputs[2]) if len(maker.inputs) > 2 else np.int8(0)
    if data is None or scale is None or zero is None or data.dtype not in (np.int8, np.uint8):
        return None
    along = [1] * data.ndim
    if scale.size > 1 or zero.size > 1:
        if maker.op.axis != axis:
            return None
        along[axis] = -1
    centred = data.astype(np.int16) - np.asarray(zero).astype(np.int16).reshape(along)
    if centred.size and (centred.min() < -128 or centred.max() > 127):
        return None
    return Weights(centred.astype(np.int8), scale.reshape(-1))


def _bias(rewriter: Rewriter, name: str | None, scale: np.ndarray, columns: int) -> np.ndarray | None:
    """A constant, one value an output channel, in units of the sums; float64 with whole numbers."""
    data = _addends(rewriter, name, scale, columns)
    if data is None:
        return None
    with np.errstate(all="ignore"):
        found: np.ndarray = np.rint(data / scale.astype(np.float64))
    return found if np.isfinite(found).all() and np.abs(found).max(initial=0) < _SUMS else None


def _addends(rewriter: Rewriter, name: str | None, scale: np.ndarray, columns: int) -> np.ndarray | None:
    """A constant, one value for each of as many output channels as there are scales; float64."""
    if name is None:
        return np.zeros(scale.size)
    maker, data = rewriter.made.get(name), rewriter.graph.constant(name)
    if maker is not None and isinstance(maker.op, DequantizeLinear):
        parts = [rewriter.graph.constant(n) for n in maker.inputs]
        if any(part is None for part in parts) or maker.inputs[0] is None:
            return None
        levels, own, *zero = (np.asarray(part, np.float64) for part in parts)
        data = (levels - (zero[0] if zero else 0.0)) * own
    if data is None or data.size != scale.size or (columns and data.shape[-1:] != (scale.size,)):
        return None
    return data.reshape(-1).astype(np.float64)
