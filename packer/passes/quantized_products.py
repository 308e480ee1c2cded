"""Convolutions and matrix products of dequantised values, as products of bytes.

Before: `y = quantize(conv(dequantize(x), dequantize(w), dequantize(b)))`, w and b constant. After:
`y = quantized_conv(x, w, scale, b)`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from packer.ir import Node
from packer.ir.ops import Conv, DequantizeLinear, Op, QuantizedConv, QuantizedMatMul, Transpose
from packer.ir.ops.quantized import MOST_TERMS, whole_groups
from packer.passes.quantized_rewriter import Levels, Rewriter

__all__ = ["product"]

_SUMS = float(1 << 31)
_ZEROS = 8  # times the weights, with those of zero between groups, that bytes are still worth


@dataclass(frozen=True, slots=True, eq=False)
class Weights:
    """Constant weights as signed bytes with a scale for all or each output channel, which are dimension `axis`."""

    data: np.ndarray
    scale: np.ndarray


def product(
    rewriter: Rewriter, node: Node, maker: Node, levels: Levels, limits: tuple[int, int], sources: tuple[str, ...]
) -> Node | None:
    op = maker.op
    if op.activation is not None or len(maker.inputs) > 3:  # type: ignore[attr-defined]
        return None
    x, columns = rewriter.dequantized(maker.inputs[0]), 0 if isinstance(op, Conv) else 1
    weights = _weights(rewriter, maker.inputs[1], columns)
    if x is None or weights is None:
        return None
    outputs = weights.data.shape[columns]
    both = np.broadcast_to(x[1].scale * weights.scale, (outputs,)).astype(np.float32)
    scale = (both / levels.scale).astype(np.float32)
    bias = _bias(rewriter, maker.inputs[2] if len(maker.inputs) > 2 else None, both, columns)
    largest = 255 * np.abs(weights.data.astype(np.int64)).sum(axis=tuple({*range(weights.data.ndim)} - {columns}))
    data, group, together = whole_groups(weights.data, op.group if isinstance(op, Conv) else 1)
    if bias is None or data.size > outputs * MOST_TERMS or not np.isfinite(scale).all():
        return None
    if data.size > _ZEROS * weights.data.size:
        return None
    if (largest + np.abs(bias)).max(initial=0) >= _SUMS:
        return None
    made: Op
    if isinstance(op, Conv):
        windows = op.strides, op.pads, op.dilations
        made = QuantizedConv(*windows, group, x[1].zero, levels.zero, *limits, together=together)
    else:
        made = QuantizedMatMul(x[1].zero, levels.zero, *limits)
        if weights.data.ndim != 2:
            return None
    name = node.outputs[0]
    inputs = (
        x[0],
        rewriter.constant(f"{name}:weights", data),
        rewriter.constant(f"{name}:scale", scale),
        rewriter.constant(f"{name}:bias", bias.astype(np.int32)),
    )
    return Node(made, inputs, node.outputs, sources)


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
    with np.errstate(all="ignore"):
        found = np.rint(data.reshape(-1).astype(np.float64) / scale.astype(np.float64))
    return found if np.isfinite(found).all() and np.abs(found).max(initial=0) < _SUMS else None
