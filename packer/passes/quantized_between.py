"""What lies between the products of a quantised network, on bytes.

Before: `y = quantize(relu(dequantize(c) + dequantize(r)))`. After: r is a residual of what makes c, a quantized_conv,
or of one of ones. So are means of windows: `y = quantized_conv(x, ones)`. `y = quantize(f(dequantize(x)))` becomes
`y = f(x)` for f that only moves, joins or compares; where levels differ, those of x are changed before: by the
quantized_conv that makes it, or by one of ones.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from packer.ir import Node
from packer.ir.ops import (
    Binary,
    Concat,
    Pool,
    QuantizedConv,
    QuantizeLinear,
    Reduce,
    Reshape,
    Slice,
    Transpose,
    Unary,
)
from packer.ir.ops.quantized import MOST_TERMS
from packer.passes.quantized_rewriter import ALL, Levels, Rewriter, limits_of

__all__ = ["bytes_of", "sum_of"]


def sum_of(
    rewriter: Rewriter, node: Node, add: Node, levels: Levels, limits: tuple[int, int], sources: tuple[str, ...]
) -> Node | None:
    """A residual of the convolution that makes one operand, the later one if both are made by some; else of a
    convolution of ones."""
    if not isinstance(add.op, Binary) or add.op.kind != "add" or add.op.activation is not None:
        return None
    order = {name: i for i, name in enumerate(rewriter.made)}
    found: tuple[int, Node, str, Levels, Levels] | None = None
    for own, other in (add.inputs, add.inputs[::-1]):
        mine, theirs = rewriter.dequantized(own), rewriter.dequantized(other)
        if mine is None or theirs is None:
            return None
        if not rewriter.graph.type(mine[0]) == rewriter.graph.type(theirs[0]) == rewriter.graph.type(node.outputs[0]):
            return None
        back = rewriter.sole(own, add)
        conv = None if back is None else rewriter.sole(mine[0], back)
        place = order.get(mine[0], -1)
        if conv is None or not _scales_again(conv, mine[1]) or mine[0] == theirs[0]:
            place, conv = -2, rewriter.ones(mine[0], mine[1].zero, mine[1], np.float32(1), ALL, sources)
        if conv is not None and (found is None or place > found[0]):
            found = place, conv, theirs[0], mine[1], theirs[1]
    if found is None:
        return None
    _, conv, residual, mine_levels, their_levels = found
    assert isinstance(conv.op, QuantizedConv)
    scales = tuple(float(np.float32(one.scale / levels.scale)) for one in (mine_levels, their_levels))
    op = replace(conv.op, sum_scales=scales, sum_levels=(their_levels.zero, levels.zero, *limits))
    return Node(op, (*conv.inputs, residual), node.outputs, (*conv.sources, *sources))


def bytes_of(rewriter: Rewriter, name: str | None, reader: Node, levels: Levels, limits: tuple[int, int]) -> str | None:
    """The float value that `reader` reads as bytes of these levels within these limits; None if that needs floats.
    Makes nodes for it."""
    maker = rewriter.made.get(name or "")
    found = rewriter.dequantized(name)
    if maker is None:
        return None
    if found is not None:
        conv = rewriter.sole(found[0], maker) if rewriter.uses.only_use(name, reader) else None
        made = _changed(rewriter, found[0], found[1], levels, limits, conv, (*maker.sources, *reader.sources))
        if made is None and limits == ALL and not isinstance(reader.op, QuantizeLinear):
            made = _by_floats(rewriter, str(name), levels, reader.sources)
        return made
    if not rewriter.uses.only_use(name, reader):
        return None
    op = maker.op
    if isinstance(op, Unary):
        within = limits_of(op, levels, limits)
        return None if within is None else bytes_of(rewriter, maker.inputs[0], maker, levels, within)
    largest = isinstance(op, Pool) and op.kind == "max" and len(maker.outputs) == 1
    if isinstance(op, Reshape | Transpose | Slice | Concat) or largest:
        inputs = [bytes_of(rewriter, i, maker, levels, limits) for i in maker.inputs]
        known = [i for i in inputs if i is not None]
        return None if len(known) < len(inputs) else rewriter.emit(op, known, maker.sources)
    return _mean(rewriter, maker, levels, limits)


def _changed(
    rewriter: Rewriter,
    x: str,
    own: Levels,
    levels: Levels,
    limits: tuple[int, int],
    maker: Node | None,
    sources: tuple[str, ...],
) -> str | None:
    """Bytes of other levels: as `maker` stores them, which makes them for this alone, if it is a convolution; or by
    one of ones."""
    if own == levels and limits == ALL:
        return x
    factor = own.factor(levels, limits)
    if factor is None:
        return None
    if maker is not None and isinstance(maker.op, QuantizedConv) and _scales_again(maker, own):
        op = replace(maker.op, sum_scales=(float(factor),), sum_levels=(0, levels.zero, *limits))
        return rewriter.emit(op, maker.inputs, (*maker.sources, *sources))
    made = rewriter.ones(x, own.zero, levels, factor, limits, sources)
    return None if made is None else rewriter.emit(made.op, made.inputs, made.sources)


def _by_floats(rewriter: Rewriter, name: str, levels: Levels, sources: tuple[str, ...]) -> str:
    """A float value as bytes of these levels."""
    scale = rewriter.constant(f"{name}:scale", np.asarray(levels.scale))
    zero = rewriter.constant(f"{name}:zero", np.asarray(levels.zero, np.uint8))
    return rewriter.emit(QuantizeLinear(0), (name, scale, zero), sources)


def _mean(rewriter: Rewriter, maker: Node, levels: Levels, limits: tuple[int, int]) -> str | None:
    """A mean of windows, as a convolution of ones."""
    op, x = maker.op, rewriter.dequantized(maker.inputs[0])
    if x is None:
        return None
    spatial = rewriter.type(x[0]).shape[2:]
    n, ragged = len(spatial), False
    if isinstance(op, Reduce) and op.kind == "mean" and op.keepdims and op.axes == tuple(range(2, n + 2)):
        windows = spatial, (1,) * n, (0,) * 2 * n, (1,) * n
    elif isinstance(op, Pool) and op.kind == "average" and not op.ceil_mode:
        ragged = any(op.pads) and not op.count_include_pad
        windows = op.kernel, op.strides, op.pads, op.dilations
    else:
        return None
    count = math.prod(windows[0])
    if not 0 < count <= MOST_TERMS:
        return None
    scale = x[1].scale / np.float32(levels.scale * np.float32(1 if ragged else count))
    made = rewriter.ones(x[0], x[1].zero, levels, scale, limits, maker.sources, windows, ragged)
    return None if made is None else rewriter.emit(made.op, made.inputs, made.sources)


def _scales_again(conv: Node, levels: Levels) -> bool:
    """Whether a node is a convolution of bytes of these levels that can change them before it stores."""
    return isinstance(conv.op, QuantizedConv) and not conv.op.sum_scales and conv.op.y_zero == levels.zero
