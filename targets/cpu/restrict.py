"""From the step of a whole node to that of a part: other attributes, and the boxes of its operands."""

from __future__ import annotations

from dataclasses import replace
from math import prod

import numpy as np

from packer.ir import Box, Graph, Node, extents_of, whole
from packer.ir.ops import (
    Attention,
    Binary,
    Cast,
    Concat,
    Conv,
    ConvTranspose,
    DequantizeLinear,
    Expand,
    IntegerConv,
    Lookup,
    LpNormalize,
    Lrn,
    MatMul,
    Normalize,
    Pad,
    Part,
    Pool,
    QuantizedBinary,
    QuantizedConv,
    QuantizeLinear,
    Reduce,
    Reshape,
    Resize,
    ScaleShift,
    Slice,
    Softmax,
    Transpose,
    Unary,
    Where,
)
from targets.base import Form, Layout, Lowered, attributes_of, block_grain
from targets.cpu.lower import COPIES, copy_attributes, is_linear, tiling_of
from targets.cpu.masked import COLUMNS
from targets.cpu.precision import LINES, is_masked, is_stream
from targets.cpu.quantized import quantized_boxes
from targets.cpu.sliced import SLICE
from targets.cpu.sparse import BLOCK, MATRIX_CHANNELS
from targets.cpu.unrolled import group_sizes
from targets.cpu.winograd import is_lean
from targets.machine import Machine

__all__ = ["grain", "restrict", "splittable", "work"]

_ROW, _COLUMN = (
    3.0,
    11.0,
)  # what a filter takes as long as in each tile, in non-zeros, or a column of a matrix, in entries

# Operators whose kernels take views with gaps.
_TAKES_VIEWS = (
    Attention | Binary | Cast | Concat | Conv | ConvTranspose | DequantizeLinear | Expand | Lookup | LpNormalize | Lrn
    | MatMul | Normalize | Pad | Pool | IntegerConv | QuantizedBinary | QuantizedConv | QuantizeLinear | Reduce
    | Reshape | Resize | ScaleShift | Slice | Softmax | Transpose | Unary | Where
)  # fmt: skip


def grain(graph: Graph, node: Node) -> tuple[int, ...]:
    """Blocks of 16 channels, of activations and of packed weights, are not cut, nor are those of columns of a product:
    how the last column is summed up tells whether it is alone in its block."""
    rank = graph.type(node.outputs[0]).rank
    if isinstance(node.op, Attention):
        return (1,) * rank
    if not isinstance(node.op, MatMul):
        return block_grain(rank)
    rows = (1,) * rank if is_linear(graph, node) else block_grain(rank)
    return (*rows[:-1], 16)


def splittable(graph: Graph, node: Node, form: Form) -> bool:
    """Whether the kernel takes views with gaps."""
    return isinstance(node.op, _TAKES_VIEWS)


def work(graph: Graph, node: Node, form: Form, machine: Machine) -> tuple[tuple[int, np.ndarray], ...]:
    """Sparse filters may have very different numbers of non-zeros."""
    weights = node.inputs[1] if is_stream(form.implementation) else None
    before = None if weights is None else graph.nonzeros(weights, 0 if isinstance(node.op, Conv) else -1)
    if weights is None or before is None:
        return ()
    channels = graph.type(weights).shape[1 if isinstance(node.op, Conv) else 0]
    if isinstance(node.op, Conv):
        cut, axis = tiling_of(graph, node, machine), 1
        each = _ROW * -(-channels // cut.channels) / cut.block.filters
    else:
        tiles, axis = -(-channels // MATRIX_CHANNELS), graph.type(node.outputs[0]).rank - 1
        each = _COLUMN * tiles * graph.block(weights, 1).channels
    return ((axis, before + each * np.arange(len(before))),)


def restrict(graph: Graph, node: Node, form: Form, lowered: Lowered, part: Part) -> Lowered:
    """The step for a part of `node`, of which `lowered` is the whole's."""
    if isinstance(node.op, Slice) and form.outputs[0] is Layout.BLOCK16:
        (operand,) = lowered.inputs
        assert operand is not None
        return replace(lowered, inputs=(replace(operand, box=part.reads[0]),))
    if isinstance(node.op, COPIES):
        (operand,), box = lowered.inputs, part.reads[0]
        assert operand is not None
        assert box is not None
        attributes = copy_attributes(part.op, extents_of(box))
        return replace(lowered, inputs=(replace(operand, box=box),), attributes=attributes)
    boxes: list[Box | None] = list(part.reads)
    if is_stream(form.implementation):
        boxes = _sparse(lowered, part)
    elif is_masked(form.implementation):
        boxes = _masked(lowered, part)
    elif form.implementation == "sliced":
        boxes = _sliced(lowered, part)
    elif form.implementation == "unrolled" and isinstance(node.op, Conv):
        boxes = _unrolled(graph, node, lowered, part)
    elif isinstance(node.op, IntegerConv | QuantizedConv):
        boxes = quantized_boxes(graph, node, lowered, part.reads)
    elif isinstance(node.op, Conv):
        boxes = _conv(graph, node, form, lowered, part)
    elif isinstance(node.op, MatMul) and is_linear(graph, node):
        boxes = _linear(part)
    inputs = tuple(
        None if operand is None or box is None else replace(operand, box=box)
        for operand, box in zip(lowered.inputs, boxes, strict=False)
    )
    names = {attribute.name for attribute in attributes_of(node.op)}
    added = (attribute for attribute in lowered.attributes if attribute.name not in names)  # by the chosen form
    return Lowered(lowered.kernel, inputs, tuple(sorted((*attributes_of(part.op), *added), key=lambda a: a.name)))


def _sparse(lowered: Lowered, part: Part) -> list[Box | None]:
    """Values and indices are whole for every part; counts and starts are those of its outputs."""
    filters = part.writes[1] if isinstance(part.op, Conv) else part.writes[-1]
    values, indices, counts, starts = (whole(o.type) for o in lowered.inputs[1:5] if o is not None and o.type)
    blocks = (filters[0] // BLOCK, -(-filters[1] // BLOCK))
    bias = None if len(part.reads) < 3 or part.reads[2] is None else (filters,)
    together = next((a.ints[0] for a in lowered.attributes if a.name == "together"), 1)
    rows = (filters[0] // together, filters[1] // together)
    stream = [values, indices, (counts[0], rows, *counts[2:]), (starts[0], blocks)]
    return [part.reads[0], *stream, bias, *part.reads[3:]]


def _masked(lowered: Lowered, part: Part) -> list[Box | None]:
    """Values are whole for every part; masks and starts are those of its columns."""
    columns = part.writes[-1]
    values, masks, _ = (whole(o.type) for o in lowered.inputs[1:4] if o is not None and o.type)
    blocks = (columns[0] // COLUMNS, -(-columns[1] // COLUMNS))
    bias = None if len(part.reads) < 3 or part.reads[2] is None else (columns,)
    return [part.reads[0], values, (blocks, *masks[1:]), (blocks,), bias]


def _sliced(lowered: Lowered, part: Part) -> list[Box | None]:
    """All is whole for every part, but for the ends of its slices."""
    columns = part.writes[-1]
    *stream, ends = (whole(o.type) for o in lowered.inputs[1:5] if o is not None and o.type)
    slices = (columns[0] // SLICE, -(-columns[1] // SLICE))
    bias = None if len(part.reads) < 3 or part.reads[2] is None else (columns,)
    return [part.reads[0], *stream, (slices, ends[1]), bias]


def _unrolled(graph: Graph, node: Node, lowered: Lowered, part: Part) -> list[Box | None]:
    """All is whole for every part, but for the groups of its outputs."""
    assert isinstance(node.op, Conv)
    filters = part.writes[1]
    *stream, groups = (whole(o.type) for o in lowered.inputs[1:5] if o is not None and o.type)
    bias = None if len(part.reads) < 3 or part.reads[2] is None else (filters,)
    y = graph.type(node.outputs[0]).shape
    ends = np.cumsum(group_sizes(y[1] // node.op.group, prod(y[2:])) * node.op.group)
    first, last = (int(np.searchsorted(ends, filter)) for filter in filters)
    rows = (first + (filters[0] > 0), last + 1)
    return [part.reads[0], *stream, (groups[0], rows, groups[2]), bias, *part.reads[3:]]


def _conv(graph: Graph, node: Node, form: Form, lowered: Lowered, part: Part) -> list[Box | None]:
    """Weights [K,C,kernel] as the kernel sees them: by group where they are packed."""
    assert isinstance(node.op, Conv)
    filters, *rest = part.reads[1] or ()
    bias = part.reads[2] if len(part.reads) > 2 else None
    residual = part.reads[3:]
    if form.implementation == "im2col-nhwc":
        return [part.reads[0], (filters, *rest[1:], rest[0]), bias, *residual]
    if form.implementation == "im2col-caffe":
        return list(part.reads)
    if form.implementation == "depthwise-planar":
        values, taps = (whole(o.type) for o in lowered.inputs[1:3] if o is not None and o.type)
        starts = (filters[0] // BLOCK, -(-filters[1] // BLOCK))
        return [part.reads[0], values, taps, (filters,), (starts,), bias, *residual]
    if form.implementation == "depthwise":
        return [part.reads[0], (filters, *rest[1:]), bias, *residual]
    weights: Box | None = None
    if form.implementation.startswith("winograd") and not is_lean(form.implementation):
        transformed = lowered.inputs[1]
        assert transformed is not None
        assert transformed.type is not None
        weights = ((0, transformed.type.shape[0]), filters, rest[0])
    each = graph.type(node.inputs[1] or "").shape[0] // node.op.group
    if node.op.group == 1:
        groups, own = (0, 1), filters
    else:  # cut between groups
        groups, own = (filters[0] // each, filters[1] // each), (0, each)
    if form.implementation == LINES:
        packed = lowered.inputs[1]
        assert packed is not None
        assert packed.type is not None
        rest = list(whole(packed.type)[2:])
    return [part.reads[0], weights or (groups, own, *rest), None if bias is None else (groups, own), *residual]


def _linear(part: Part) -> list[Box | None]:
    """The matrix [depth, columns] as weights [1, columns, depth], the bias as one value a column."""
    depth, columns = part.reads[1] or ()
    bias = part.reads[2] if len(part.reads) > 2 else None
    return [part.reads[0], ((0, 1), columns, depth), None if bias is None else (columns,)]
