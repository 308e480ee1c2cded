"""From an operator in a chosen form to one step of the C runtime, constants packed as its kernel reads them."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import fields, replace
from itertools import repeat
from math import prod
from weakref import WeakKeyDictionary

import numpy as np

from packer.ir import Block, DType, Graph, Node, TensorType, Value
from packer.ir.ops import (
    Conv,
    Expand,
    IntegerConv,
    IntegerMatMul,
    MatMul,
    Op,
    QuantizedConv,
    QuantizedMatMul,
    Recurrent,
    Reshape,
    Slice,
    Tile,
    Transpose,
)
from packer.ir.rounding import nearest
from targets.base import Attribute, Form, Layout, Lowered, Operand, Work, attributes_of, row_major
from targets.cpu.cost.conv import geometry
from targets.cpu.depthwise import tap_lists
from targets.cpu.masked import Masked, masked_matrix
from targets.cpu.packing import block16, depth16, lines, weight16
from targets.cpu.precision import LINES, halves, is_masked, is_stream, rounded, stored_type
from targets.cpu.quantized import lower_quantized
from targets.cpu.sliced import Sliced, joined, sliced_matrix
from targets.cpu.sparse import UNSORTED, Stream, conv_stream, matrix_stream, taps_of
from targets.cpu.tiling import Engine, Tiling, tiling
from targets.cpu.unrolled import Unrolled, channels_of_tile, group_sizes, unrolled_stream
from targets.cpu.winograd import is_lean, tile_of, transformed
from targets.machine import Machine

__all__ = ["COPIES", "TILING", "copy_attributes", "is_linear", "kernel_name", "lower", "lower_sum", "reorder"]

COPIES = Transpose | Slice | Expand | Tile | Reshape  # one strided copy each
TILING = ("channels", "kernel", "rows", "together")  # attributes of a sparse convolution besides its operator's


def lower(graph: Graph, node: Node, form: Form, machine: Machine) -> Lowered:
    """The step for `node` on `machine`; operators without a rule of their own map one to one."""
    if is_stream(form.implementation):
        stored = stored_type(form.implementation)
        of_conv = isinstance(node.op, Conv)
        return _conv_sparse(graph, node, machine, stored) if of_conv else _linear_sparse(graph, node, stored)
    if is_masked(form.implementation):
        return _linear_masked(graph, node, stored_type(form.implementation))
    if form.implementation == "sliced":
        return _recurrent_sliced(graph, node) if isinstance(node.op, Recurrent) else _linear_sliced(graph, node)
    if form.implementation == "unrolled" and isinstance(node.op, Conv):
        return _conv_unrolled(graph, node)
    if form.implementation.startswith("winograd"):
        return _winograd(graph, node, form)
    if form.implementation == "depthwise-planar":
        return _depthwise_planar(graph, node)
    if isinstance(node.op, IntegerConv | IntegerMatMul | QuantizedConv | QuantizedMatMul):
        return lower_quantized(graph, node, form)
    if isinstance(node.op, Conv):
        return _im2col(graph, node, form) if form.implementation.startswith("im2col") else _conv(graph, node, form)
    if isinstance(node.op, MatMul) and is_linear(graph, node):
        return _linear(graph, node, form)
    if isinstance(node.op, Slice) and form.outputs[0] is Layout.BLOCK16:
        return _cut(graph, node)
    if isinstance(node.op, COPIES):
        return _copy(graph, node)
    if isinstance(node.op, Recurrent):
        return _recurrent(graph, node)
    return Lowered(
        kernel_name(node), tuple(map(_operand, repeat(graph), node.inputs, form.inputs)), attributes_of(node.op)
    )


def kernel_name(node: Node) -> str:
    """The snake_case name of the operator's class (matmul is one word)."""
    if isinstance(node.op, MatMul):
        return "matmul"
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", type(node.op).__name__).lower()


def reorder(destination: Layout) -> Lowered:
    """The step that changes to another layout."""
    return Lowered("pack_weights" if destination is Layout.WEIGHT16 else "reorder", (None,))


def lower_sum(node: Node) -> tuple[Lowered, tuple[str, ...]]:
    """The step that adds the partial sums of a convolution or matrix product and its residual, then its activation."""
    assert isinstance(node.op, Conv | MatMul)
    residual = node.inputs[3] if isinstance(node.op, Conv) and len(node.inputs) > 3 else None
    attributes = tuple(a for a in attributes_of(node.op) if a.name.startswith("activation"))
    return Lowered("sum", (), attributes), () if residual is None else (residual,)


def _conv(graph: Graph, node: Node, form: Form) -> Lowered:
    op = node.op
    assert isinstance(op, Conv)
    weights = graph.type(node.inputs[1] or "")
    depthwise = form.implementation == "depthwise"
    grouped = (op.group, weights.shape[0] // op.group)
    attributes = attributes_of(op)
    if depthwise:
        packed = _constant(graph, node.inputs[1], (weights.shape[0], *weights.shape[2:]), Layout.DEPTH16)
    elif form.implementation == LINES:
        data = graph.constant(node.inputs[1])
        assert data is not None
        packed = _reduced(_lines(op, data), form)
        attributes = tuple(sorted((*attributes, Attribute("kernel", ints=data.shape[2:])), key=lambda a: a.name))
    else:
        packed = _constant(graph, node.inputs[1], (*grouped, *weights.shape[1:]), Layout.WEIGHT16)
        packed = _reduced(packed, form)
    inputs: list[Operand | None] = [_operand(graph, node.inputs[0], form.inputs[0]), packed]
    if len(node.inputs) > 2:
        bias = node.inputs[2]
        inputs.append(
            None
            if bias is None
            else _constant(graph, bias, (weights.shape[0],) if depthwise else grouped, Layout.BLOCK16)
        )
    if len(node.inputs) > 3:
        inputs.append(_operand(graph, node.inputs[3], form.inputs[3]))
    kernel = "conv" if form.implementation.startswith("packed") else f"conv_{form.implementation.rpartition('-')[2]}"
    return Lowered(kernel, tuple(inputs), attributes)


def _lines(op: Conv, weights: np.ndarray) -> Operand:
    """Weights [K,C,kernel] for planar inputs, by lines of the kernel."""
    data = lines(weights.reshape(op.group, -1, *weights.shape[1:]), op.dilations[-1])
    return Operand(data=weight16(data), type=TensorType(DType.F32, data.shape), layout=Layout.WEIGHT16)


_TRANSFORMED: WeakKeyDictionary[Value, dict[str, np.ndarray]] = WeakKeyDictionary()  # of constants, made once


def _winograd(graph: Graph, node: Node, form: Form) -> Lowered:
    """As packed, but for the weights, unless each run transforms them: [(m + 2)^2, K, C], with the places of a tile
    for groups."""
    tile, dtype = tile_of(form.implementation), stored_type(form.implementation)
    stored = form.implementation.partition("-lean")[2]  # "-bf16", or nothing
    found = _conv(graph, node, replace(form, implementation=f"packed{stored}"))
    attributes = tuple(sorted((*found.attributes, Attribute("tile", ints=(tile,))), key=lambda a: a.name))
    if is_lean(form.implementation):
        return Lowered("conv_winograd", found.inputs, attributes)
    value = graph.values[node.inputs[1] or ""]
    assert value.data is not None
    made = _TRANSFORMED.setdefault(value, {})
    if form.implementation not in made:
        made[form.implementation] = rounded(weight16(transformed(value.data, tile)), dtype)
    type = TensorType(DType.F32, ((tile + 2) ** 2, *value.data.shape[:2]))
    weights = Operand(data=made[form.implementation], type=replace(type, dtype=dtype), layout=Layout.WEIGHT16)
    kernel = "conv_winograd_bf16" if dtype is DType.BF16 else "conv_winograd"
    return Lowered(kernel, (found.inputs[0], weights, *found.inputs[2:]), attributes)


def _depthwise_planar(graph: Graph, node: Node) -> Lowered:
    """As a convolution, but for the weights: lists of taps, and the kernel's extents as an attribute."""
    weights = graph.constant(node.inputs[1])
    assert weights is not None
    lists = (Operand(data=a, type=TensorType(DType.of(a.dtype), a.shape)) for a in tap_lists(weights))
    x, _, *others = (_operand(graph, name, Layout.PLANAR) for name in node.inputs)
    attributes = (*attributes_of(node.op), Attribute("kernel", ints=weights.shape[2:]))
    return Lowered("conv_depthwise_planar", (x, *lists, *others), tuple(sorted(attributes, key=lambda a: a.name)))


def _im2col(graph: Graph, node: Node, form: Form) -> Lowered:
    """Weights as the matrix's rows: taps outermost and channels innermost where patches are rows."""
    operands = list(map(_operand, repeat(graph), node.inputs, form.inputs))
    if form.implementation == "im2col-nhwc":
        weights = graph.constant(node.inputs[1])
        assert weights is not None
        data = np.ascontiguousarray(np.moveaxis(weights, 1, -1))
        operands[1] = Operand(data=data, type=TensorType(DType.F32, data.shape))
    return Lowered("conv_" + form.implementation.replace("-", "_"), tuple(operands), attributes_of(node.op))


def tiling_of(graph: Graph, node: Node, machine: Machine) -> Tiling:
    """That of a sparse convolution: it suits the whole of it on the fastest core, whatever parts it is cut into.
    Filters of very different numbers of weights are not sorted: cores share them by sixteens."""
    op, core = node.op, machine.cores[0]
    assert isinstance(op, Conv)
    types = tuple(None if name is None else graph.type(name) for name in node.inputs)
    whole_node = Work(op, types, (graph.type(node.outputs[0]),), ())
    lanes = core.vector_bytes // 4
    engine = Engine(lanes, core.flops_per_cycle / (2 * lanes), core.fma_latency, core.l1_bytes)
    found = tiling(geometry(whole_node), graph.density(node.inputs[1]), engine, graph.block(node.inputs[1], op.group))
    assert found is not None
    return found if graph.nonzeros(node.inputs[1] or "", 0) is None else replace(found, order=UNSORTED)


def _conv_sparse(graph: Graph, node: Node, machine: Machine, stored: DType) -> Lowered:
    op, cut = node.op, tiling_of(graph, node, machine)
    assert isinstance(op, Conv)
    weights, block = graph.type(node.inputs[1] or ""), cut.block
    taps = taps_of(weights.shape[2:], op.strides, op.dilations, cut.rows)
    key = taps, cut.channels, block, cut.order, op.group
    stream = _streamed(graph, node, stored, key, lambda data: conv_stream(data, *key))
    inputs = [_operand(graph, node.inputs[0], Layout.PLANAR), *stream]
    inputs += [_operand(graph, name, Layout.PLANAR) for name in node.inputs[2:]]
    tiles = map(Attribute, TILING, ((cut.channels,), weights.shape[2:], (cut.rows,), _together(block)))
    attributes = sorted((*attributes_of(op), *tiles), key=lambda a: a.name)
    return Lowered("conv_sparse", tuple(inputs), tuple(attributes))


def _conv_unrolled(graph: Graph, node: Node) -> Lowered:
    op = node.op
    assert isinstance(op, Conv)
    types = tuple(None if name is None else graph.type(name) for name in node.inputs)
    channels = channels_of_tile(geometry(Work(op, types, (graph.type(node.outputs[0]),), ())))
    weights = graph.type(node.inputs[1] or "")
    sizes = group_sizes(weights.shape[0] // op.group, prod(graph.type(node.outputs[0]).shape[2:]))
    key = "unrolled", channels, op.group, *sizes
    stream = _streamed(graph, node, DType.F32, key, lambda data: unrolled_stream(data, channels, op.group, sizes))
    inputs = [_operand(graph, node.inputs[0], Layout.PLANAR), *stream]
    inputs += [_operand(graph, name, Layout.PLANAR) for name in node.inputs[2:]]
    added = map(Attribute, ("channels", "kernel"), ((channels,), weights.shape[2:]))
    return Lowered("conv_unrolled", tuple(inputs), tuple(sorted((*attributes_of(op), *added), key=lambda a: a.name)))


def _linear_sparse(graph: Graph, node: Node, stored: DType) -> Lowered:
    block = graph.block(node.inputs[1], 1)
    stream = _streamed(graph, node, stored, block, lambda data: matrix_stream(data, block))
    attributes = (*attributes_of(node.op), Attribute("together", ints=_together(block)))
    inputs = _around(graph, node, stream)
    return Lowered("linear_sparse", inputs, tuple(sorted(attributes, key=lambda a: a.name)))


def _linear_masked(graph: Graph, node: Node, stored: DType) -> Lowered:
    stream = _streamed(graph, node, stored, "masked", masked_matrix)
    return Lowered("linear_masked", _around(graph, node, stream), attributes_of(node.op))


def _linear_sliced(graph: Graph, node: Node) -> Lowered:
    stream = _streamed(graph, node, DType.F32, "sliced", sliced_matrix)
    return Lowered("linear_sliced", _around(graph, node, stream), attributes_of(node.op))


def _around(graph: Graph, node: Node, stream: tuple[Operand, ...]) -> tuple[Operand | None, ...]:
    """The operands of a matrix product with a stream: before it the input, behind it the bias if there is one."""
    inputs = (_operand(graph, node.inputs[0], Layout.PLANAR), *stream)
    if len(node.inputs) <= 2 or node.inputs[2] is None:
        return inputs
    return (*inputs, _constant(graph, node.inputs[2], graph.type(node.outputs[0]).shape[-1:], Layout.PLANAR))


def _together(block: Block) -> tuple[int, ...]:
    """The attribute that tells in which blocks the entries of a stream are."""
    return block[:1] if block.channels == 1 else block[:]


_Stored = Stream | Unrolled | Masked | Sliced  # weights of which some are not
_STREAMS: WeakKeyDictionary[Value, dict[object, _Stored]] = WeakKeyDictionary()  # of constants, made once


def _streamed(
    graph: Graph, node: Node, stored: DType, key: object, make: Callable[[np.ndarray], _Stored]
) -> tuple[Operand, ...]:
    """The weights of `node`, rounded to `stored`, as values and what tells where they are; `key` tells apart what else
    these depend on."""
    value = graph.values[node.inputs[1] or ""]
    assert value.data is not None
    made = _STREAMS.setdefault(value, {})
    if (stored, key) not in made:
        stream = make(nearest(value.data, stored))
        made[stored, key] = replace(stream, values=halves(stream.values, stored))
    stream = made[stored, key]
    others = (getattr(stream, field.name) for field in fields(stream)[1:])
    return (
        Operand(data=stream.values, type=TensorType(stored, stream.values.shape)),
        *(Operand(data=data, type=TensorType(DType.of(data.dtype), data.shape)) for data in others),
    )


def is_linear(graph: Graph, node: Node) -> bool:
    """b is a constant matrix, a has rows, and the bias (if any) is one value a column."""
    a, b = graph.type(node.inputs[0] or ""), graph.type(node.inputs[1] or "")
    if graph.constant(node.inputs[1]) is None or b.rank != 2 or a.rank < 1 or a.dtype is not DType.F32:
        return False
    if len(node.inputs) < 3 or node.inputs[2] is None:
        return True
    bias = graph.constant(node.inputs[2])
    return (
        bias is not None
        and bias.size == b.shape[1]
        and bias.shape[-1:] == (b.shape[1],)
        and bias.ndim <= graph.type(node.outputs[0]).rank
    )


def _linear(graph: Graph, node: Node, form: Form) -> Lowered:
    b = graph.constant(node.inputs[1])
    assert b is not None
    depth, columns = b.shape
    shape = TensorType(DType.F32, (1, columns, depth))
    packed = _reduced(Operand(data=weight16(b.T.reshape(shape.shape)), type=shape, layout=Layout.WEIGHT16), form)
    inputs: list[Operand | None] = [_operand(graph, node.inputs[0], Layout.PLANAR), packed]
    if len(node.inputs) > 2 and node.inputs[2] is not None:
        inputs.append(_constant(graph, node.inputs[2], (columns,), Layout.BLOCK16))
    return Lowered("linear", tuple(inputs), attributes_of(node.op))


def _recurrent(graph: Graph, node: Node) -> Lowered:
    """Weights W and R in blocks of 16 rows; those that are only known when the program runs stay planar."""
    layouts = (
        Layout.WEIGHT16 if i in (1, 2) and graph.constant(name) is not None else Layout.PLANAR
        for i, name in enumerate(node.inputs)
    )
    return Lowered("recurrent", tuple(map(_operand, repeat(graph), node.inputs, layouts)), attributes_of(node.op))


def _recurrent_sliced(graph: Graph, node: Node) -> Lowered:
    """The slices of W for each direction, then those of R."""
    w, r = (graph.constant(name) for name in node.inputs[1:3])
    assert w is not None
    assert r is not None

    def make(_: np.ndarray) -> Sliced:
        return joined([sliced_matrix(np.asarray(matrix).T) for of in (w, r) for matrix in of])

    stream = _streamed(graph, node, DType.F32, ("sliced", node.inputs[2]), make)
    x, *others = (_operand(graph, name, Layout.PLANAR) for name in (node.inputs[0], *node.inputs[3:]))
    return Lowered("recurrent_sliced", (x, *stream, *others), attributes_of(node.op))


def _reduced(packed: Operand, form: Form) -> Operand:
    """Packed weights as the form stores them."""
    dtype = stored_type(form.implementation)
    if dtype is DType.F32 or packed.data is None or packed.type is None:
        return packed
    return replace(packed, data=rounded(packed.data, dtype), type=replace(packed.type, dtype=dtype))


def _operand(graph: Graph, name: str | None, layout: Layout) -> Operand | None:
    """An input as it is, in `layout`."""
    if name is None:
        return None
    data = graph.constant(name)
    if data is None:
        return Operand(name, layout=layout)
    return Operand(data=_PACK[layout](data), type=graph.type(name), layout=layout)


_PACK: dict[Layout, Callable[[np.ndarray], np.ndarray]] = {
    Layout.PLANAR: np.ascontiguousarray,
    Layout.WEIGHT16: weight16,
    Layout.DEPTH16: depth16,
    Layout.BLOCK16: block16,
}


def _constant(graph: Graph, name: str | None, shape: tuple[int, ...], layout: Layout) -> Operand:
    """A parameter seen as `shape` in `layout`: packed now if its value is known, else reordered when the program
    runs."""
    data = graph.constant(name)
    type = TensorType(DType.F32, shape)
    if data is None:
        return Operand(name, type=type, layout=layout)
    return Operand(data=_PACK[layout](data.reshape(shape)), type=type, layout=layout)


def _cut(graph: Graph, node: Node) -> Lowered:
    """A Slice in blocks: one view, joined to nothing."""
    op = node.op
    assert isinstance(op, Slice)
    operand = _operand(graph, node.inputs[0], Layout.BLOCK16)
    assert operand is not None
    box = tuple((start, start + size) for start, size in zip(op.starts, op.sizes, strict=True))
    return Lowered("concat", (replace(operand, box=box),), (Attribute("axis", ints=(0,)),))


def _copy(graph: Graph, node: Node) -> Lowered:
    """Transpose, Slice, Expand, Tile, Reshape: one strided copy out of all of the input."""
    operand = _operand(graph, node.inputs[0], Layout.PLANAR)
    return Lowered("copy", (operand,), copy_attributes(node.op, graph.type(node.inputs[0] or "").shape))


def copy_attributes(op: Op, source: tuple[int, ...]) -> tuple[Attribute, ...]:
    """Where the elements of the output lie in an input of this shape: offset, extents and strides."""
    strides, offset = row_major(source), 0
    shape: tuple[int, ...]
    if isinstance(op, Transpose):
        shape, strides = tuple(source[p] for p in op.perm), tuple(strides[p] for p in op.perm)
    elif isinstance(op, Slice):
        offset = sum(start * stride for start, stride in zip(op.starts, strides, strict=True))
        shape, strides = op.sizes, tuple(step * stride for step, stride in zip(op.steps, strides, strict=True))
    elif isinstance(op, Expand):
        lead = len(op.shape) - len(source)
        shape = op.shape
        strides = (0,) * lead + tuple(
            0 if extent == 1 else stride for extent, stride in zip(source, strides, strict=True)
        )
    elif isinstance(op, Tile):
        shape = tuple(extent for pair in zip(op.repeats, source, strict=True) for extent in pair)
        strides = tuple(stride for own in strides for stride in (0, own))
    else:
        assert isinstance(op, Reshape)
        shape, strides = op.shape, row_major(op.shape)
    shape, strides = _collapse(shape, strides)
    return (
        Attribute("offset", ints=(offset if 0 not in shape else 0,)),
        Attribute("shape", ints=shape),
        Attribute("strides", ints=strides),
    )


def _collapse(shape: tuple[int, ...], strides: tuple[int, ...]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Drop dimensions of extent 1 and merge neighbours that are walked as one; at least one dimension stays."""
    merged: list[tuple[int, int]] = []
    for extent, stride in zip(shape, strides, strict=True):
        if extent == 1:
            continue
        if merged and merged[-1][1] == stride * extent:
            merged[-1] = (merged[-1][0] * extent, stride)
        else:
            merged.append((extent, stride))
    merged = merged or [(1, 1)]
    return tuple(e for e, _ in merged), tuple(s for _, s in merged)
