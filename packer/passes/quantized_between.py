"""What lies between the products of a quantised network, on bytes.

Before: `y = quantize(relu(dequantize(c) + dequantize(r)))`. After: r is a residual of what makes c, a quantized_conv,
or `y = quantized_binary(c, r)`; so are products. Means of windows are convolutions of ones: `y = quantized_conv(x,
ones)`. `y = quantize(f(dequantize(x)))` becomes `y = f(x)` for f that only moves, joins or compares; where levels
differ, those of x are changed before: by the quantized_conv that makes it, or by a table.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from packer.ir import Node
from packer.ir.ops import (
    Binary,
    Concat,
    Lookup,
    Pool,
    QuantizedBinary,
    QuantizedConv,
    Reduce,
    Reshape,
    Resize,
    Slice,
    Transpose,
    Unary,
)
from packer.ir.ops.bytes import MOST_SCALE
from packer.ir.ops.quantized import MOST_TERMS
from packer.passes.quantized_rewriter import ALL, Levels, Rewriter, limits_of

__all__ = ["bytes_of", "pair_of"]


def pair_of(
    rewriter: Rewriter, node: Node, maker: Node, levels: Levels, limits: tuple[int, int], sources: tuple[str, ...]
) -> Node | None:
    """A sum or product of bytes: as a residual of the convolution that makes one operand, the later one if both are
    made by some; else by itself."""
    op = maker.op
    if not isinstance(op, Binary) or op.kind not in ("add", "sub", "mul") or op.activation is not None:
        return None
    a, b = (rewriter.dequantized(name) for name in maker.inputs)
    if a is None or b is None:
        return None
    if op.kind == "add":
        added = _residual(rewriter, node, maker, (a, b), levels, limits, sources)
        if added is not None:
            return added
    if op.kind == "mul":
        scales = float(np.float32(a[1].scale * b[1].scale) / levels.scale), 1.0
    else:
        scales = float(a[1].scale / levels.scale), float(b[1].scale / levels.scale)
    if not max(scales) <= MOST_SCALE:
        return None
    kind, second = ("add", -scales[1]) if op.kind == "sub" else (op.kind, scales[1])
    made = QuantizedBinary(kind, (a[1].zero, b[1].zero, levels.zero), (scales[0], second), *limits)
    return Node(made, (a[0], b[0]), node.outputs, sources)


def _residual(
    rewriter: Rewriter,
    node: Node,
    add: Node,
    operands: tuple[tuple[str, Levels], tuple[str, Levels]],
    levels: Levels,
    limits: tuple[int, int],
    sources: tuple[str, ...],
) -> Node | None:
    order = {name: i for i, name in enumerate(rewriter.made)}
    found: tuple[int, Node, str, Levels, Levels] | None = None
    for own, mine, theirs in zip(add.inputs, operands, operands[::-1], strict=True):
        if not rewriter.type(mine[0]) == rewriter.type(theirs[0]) == rewriter.type(node.outputs[0]):
            return None
        back = rewriter.sole(own, add)
        conv = None if back is None else rewriter.sole(mine[0], back)
        if conv is None or not _scales_again(conv, mine[1]) or mine[0] == theirs[0]:
            continue
        if found is None or order[mine[0]] > found[0]:
            found = order[mine[0]], conv, theirs[0], mine[1], theirs[1]
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
        return _changed(rewriter, found[0], found[1], levels, limits, conv, (*maker.sources, *reader.sources))
    if not rewriter.uses.only_use(name, reader):
        return None
    op = maker.op
    if isinstance(op, Unary):
        within = limits_of(op, levels, limits)
        return None if within is None else bytes_of(rewriter, maker.inputs[0], maker, levels, within)
    largest = isinstance(op, Pool) and op.kind == "max" and len(maker.outputs) == 1
    nearest = isinstance(op, Resize) and op.mode == "nearest" and not op.roi
    if isinstance(op, Reshape | Transpose | Slice | Concat) or largest or nearest:
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
) -> str:
    """Bytes of other levels: as `maker` stores them, which makes them for this alone, if it is a convolution; or by a
    table."""
    if own == levels and limits == ALL:
        return x
    if maker is not None and isinstance(maker.op, QuantizedConv) and _scales_again(maker, own):
        factor = own.factor(levels, limits)
        if factor is not None:
            op = replace(maker.op, sum_scales=(float(factor),), sum_levels=(0, levels.zero, *limits))
            return rewriter.emit(op, maker.inputs, (*maker.sources, *sources))
    table = rewriter.constant(f"{x}:table", own.bytes(levels, limits))
    return rewriter.emit(Lookup(), (x, table), sources)


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
