"""In which layouts, and by which algorithms, each operator can run on a CPU."""

from __future__ import annotations

from dataclasses import replace
from math import prod

import numpy as np

from packer.ir import SINGLE, DType, Graph, Node
from packer.ir.ops import (
    Binary,
    Concat,
    Conv,
    DequantizeLinear,
    DynamicLevels,
    IntegerConv,
    IntegerMatMul,
    Lookup,
    Lrn,
    MatMul,
    Pool,
    QuantizedBinary,
    QuantizedConv,
    QuantizedMatMul,
    QuantizeLinear,
    Recurrent,
    Reduce,
    Resize,
    ScaleShift,
    Slice,
    Unary,
)
from targets.base import Form, Layout
from targets.cpu.depthwise import MOST_TAPS
from targets.cpu.lower import is_linear, tiling_of
from targets.cpu.precision import LINES, has_lines, precisions_of, stream_of
from targets.cpu.quantized import quantized_forms
from targets.cpu.sliced import is_sliceable
from targets.cpu.sparse import BYTE_LINES, SORTED, taps_of
from targets.cpu.unrolled import window
from targets.cpu.winograd import tile_of, winograd_forms
from targets.machine import Machine

__all__ = ["forms", "is_depthwise"]

PLANAR, BLOCK16 = Layout.PLANAR, Layout.BLOCK16
_SPARSE = 0.9  # density of weights from which on a stream of non-zeros cannot pay,
_MASKED = 0.75  # and a bit for every weight: fetching what differs in length comes short of the memory's speed
_SLICED = 0.5  # density of both weights of a recurrent layer that slices may suit
_FEW = 3, 8  # filters of a group, of one tap and of more, that a stream suits in any case: others compute more at once


def is_depthwise(graph: Graph, node: Node) -> bool:
    """One input and one output channel a group, and weights known when packing."""
    assert isinstance(node.op, Conv)
    weights = graph.type(node.inputs[1] or "")
    return node.op.group == weights.shape[0] and weights.shape[1] == 1 and graph.constant(node.inputs[1]) is not None


def forms(
    graph: Graph,
    node: Node,
    machine: Machine,
    winograd: str = "strict",
    precision: str = "f32",
    avx512: bool = False,
    vnni: bool = False,
) -> tuple[Form, ...]:
    """The forms of `node`; of Winograd's, and of reduced weights, those that the settings allow; with instructions made
    of weights if processors have AVX-512, of bytes if they have VNNI."""
    op = node.op
    if isinstance(op, Conv):
        return (*_convolutions(graph, node, machine, precision, avx512), *_winograd(graph, node, winograd, precision))
    if isinstance(op, IntegerConv | IntegerMatMul | QuantizedConv | QuantizedMatMul):
        return quantized_forms(graph, node, vnni)
    if isinstance(op, DynamicLevels):
        blocked = graph.type(node.inputs[0] or "").rank > 2
        return tuple(_form(graph, node, x, PLANAR) for x in ((PLANAR, BLOCK16) if blocked else (PLANAR,)))
    found = [_form(graph, node, PLANAR, PLANAR)]
    if isinstance(op, MatMul) and is_linear(graph, node):
        ways = precisions_of(graph, node, precision)
        if graph.density(node.inputs[1]) <= _SPARSE:
            ways = (*(ways or ("packed",)), stream_of(graph, node, precision))
            if graph.density(node.inputs[1]) <= _MASKED and graph.block(node.inputs[1], 1) == SINGLE:
                ways = (*ways, stream_of(graph, node, precision, "masked"))
                if _is_sliced(graph, node, machine, precision):
                    ways = (*ways, "sliced")
        if ways:
            found = [
                replace(_form(graph, node, PLANAR, PLANAR, way), arithmetic="" if way == "packed" else way)
                for way in ways
            ]
    if isinstance(op, Recurrent) and _has_slices(graph, node, machine, precision):
        sliced = replace(_form(graph, node, PLANAR, PLANAR, "sliced"), arithmetic="sliced")
        found = [_form(graph, node, PLANAR, PLANAR, "packed"), sliced]
    output = graph.type(node.outputs[0])
    if output.rank >= 3 and output.elements > 0 and _blocked_bytes(graph, node):
        return (*found, _form(graph, node, BLOCK16, BLOCK16))
    if output.dtype is not DType.F32 or output.rank < 3 or output.elements == 0 or len(node.outputs) > 1:
        return tuple(found)
    if isinstance(op, Reduce) and _spatial_reduce(graph, node):
        if op.kind != "max":  # sums of planar rows have another order
            found = [replace(found[0], arithmetic="rows")]
        found.append(_form(graph, node, BLOCK16, BLOCK16))
        found.append(_form(graph, node, BLOCK16, PLANAR))
    elif (
        isinstance(op, Unary | ScaleShift | Lrn | Concat)
        or (isinstance(op, Pool) and graph.type(node.inputs[0] or "").dtype is DType.F32)
        or (isinstance(op, Binary) and _blocked_binary(graph, node))
        or (isinstance(op, Resize) and _blocked_resize(op))
        or (isinstance(op, Slice) and _whole_blocks(op, graph.type(node.inputs[0] or "").shape))
    ):
        found.append(_form(graph, node, BLOCK16, BLOCK16))
    return tuple(found)


def _convolutions(graph: Graph, node: Node, machine: Machine, precision: str, avx512: bool) -> list[Form]:
    """Depthwise or packed, with reduced weights if they may be, in every pair of layouts (products of bf16: of blocks,
    or of planar lines); direct over planar rows; by the non-zeros of sparse weights; as a matrix product over patches:
    Caffe's way with patches as columns, and with contiguous copies out of a channels-last image (methods of Wu & Wu),
    patches as rows."""
    op = node.op
    assert isinstance(op, Conv)
    name = "depthwise" if is_depthwise(graph, node) else "packed"
    blocked = (PLANAR, BLOCK16) if graph.type(node.outputs[0]).elements > 0 else (PLANAR,)
    ways = precisions_of(graph, node, precision) if name == "packed" and len(blocked) > 1 else ()
    found = [_form(graph, node, x, y, name) for x in blocked for y in blocked if not ways]
    for way in ways:
        layouts = [(x, y) for x in (blocked if way != "bf16" else (BLOCK16,)) for y in blocked]
        found += [replace(_form(graph, node, x, y, way), arithmetic=way) for x, y in layouts]
    if name == "packed" and len(blocked) > 1 and has_lines(graph, node, precision):
        found += [replace(_form(graph, node, PLANAR, y, LINES), arithmetic=LINES) for y in blocked]
    if name == "depthwise" and _has_tap_lists(graph, node):
        found[0] = _form(graph, node, PLANAR, PLANAR, "depthwise-planar")
    if name == "packed":
        found.append(_form(graph, node, PLANAR, PLANAR, "direct"))
    if name == "packed" and _is_sparse(graph, node):
        stream = stream_of(graph, node, precision)
        rank = graph.type(node.outputs[0]).rank
        grain = (1, SORTED, *(1,) * (rank - 2)) if tiling_of(graph, node, machine).order.sorted else ()
        found.append(replace(_form(graph, node, PLANAR, PLANAR, stream), arithmetic=stream, grain=grain))
        if avx512 and machine.cores[0].vector_bytes == 64 and precision == "f32":
            filters = graph.type(node.inputs[1] or "").shape[0]
            grain = (1, window(filters) if op.group == 1 else filters // op.group, *(1,) * (rank - 2))
            found.append(replace(_form(graph, node, PLANAR, PLANAR, "unrolled"), arithmetic="unrolled", grain=grain))
    by_patches = ["im2col-caffe"] if graph.constant(node.inputs[1]) is None else ["im2col-caffe", "im2col-nhwc"]
    found += [replace(_form(graph, node, PLANAR, PLANAR, way), arithmetic=way) for way in by_patches]
    return found


def _winograd(graph: Graph, node: Node, winograd: str, precision: str) -> list[Form]:
    """Those of Winograd's algorithm; pieces begin at tiles."""
    stored = precision if precisions_of(graph, node, precision) else "f32"
    return [
        replace(
            _form(graph, node, BLOCK16, BLOCK16, name),
            grain=(1, 1, tile_of(name), tile_of(name)),
            arithmetic=name,
        )
        for name in winograd_forms(graph, node, winograd, stored)
    ]


def _is_sparse(graph: Graph, node: Node) -> bool:
    """Whether a convolution has zeros among its weights worth skipping or few filters, and a kernel that its stream can
    tell."""
    op = node.op
    assert isinstance(op, Conv)
    weights = graph.constant(node.inputs[1])
    if weights is None or weights.size == 0 or graph.type(node.outputs[0]).elements == 0:
        return False
    few = _FEW[prod(weights.shape[2:]) > 1] * op.group
    if graph.density(node.inputs[1]) > _SPARSE and weights.shape[0] > few:
        return False
    if max(weights.shape[2:]) > BYTE_LINES or not np.isfinite(weights).all():
        return False
    return any(taps_of(weights.shape[2:], op.strides, op.dilations, rows).lines < BYTE_LINES for rows in (0, 1))


def _is_sliced(graph: Graph, node: Node, machine: Machine, precision: str) -> bool:
    """Whether the processor permutes floats of large vectors, and weights that stay float32 have windows."""
    weights = graph.constant(node.inputs[1])
    if weights is None or precision != "f32" or machine.cores[0].vector_bytes < 32:
        return False
    return is_sliceable(len(weights)) and bool(np.isfinite(weights).all())


def _has_slices(graph: Graph, node: Node, machine: Machine, precision: str) -> bool:
    """The same of a recurrent layer, whose weights have many zeros, both W and R."""
    both = [(graph.constant(name), graph.density(name)) for name in node.inputs[1:3]]
    if precision != "f32" or machine.cores[0].vector_bytes < 32:
        return False
    return all(
        w is not None and w.size > 0 and density <= _SLICED and is_sliceable(w.shape[2]) and np.isfinite(w).all()
        for w, density in both
    )


def _has_tap_lists(graph: Graph, node: Node) -> bool:
    """Whether depthwise weights can be told as lists of taps. What they skip and what they multiply padding with must
    not matter: numbers that are finite, but in the inputs where they meet a weight of zero."""
    weights = graph.constant(node.inputs[1])
    return weights is not None and weights[:1].size <= MOST_TAPS and bool(np.isfinite(weights).all())


def _form(graph: Graph, node: Node, x: Layout, y: Layout, implementation: str = "") -> Form:
    """Activations in layout x, outputs in y, everything else (weights, one-element operands) planar as values go."""
    layouts = [
        x if name is not None and _is_activation(graph, node, i) else PLANAR for i, name in enumerate(node.inputs)
    ]
    if isinstance(node.op, Conv) and len(layouts) > 3:
        layouts[3] = y  # the residual lies as the output does
    return Form(tuple(layouts), tuple(y for _ in node.outputs), implementation)


def _is_activation(graph: Graph, node: Node, index: int) -> bool:
    """Whether this input may lie in the activations' layout."""
    if isinstance(node.op, Conv):
        return index in (0, 3)
    if isinstance(node.op, ScaleShift | Lookup | QuantizeLinear | DequantizeLinear):
        return index == 0
    if isinstance(node.op, Binary | QuantizedBinary):
        return graph.type(node.inputs[index] or "").elements != 1
    return True


def _blocked_bytes(graph: Graph, node: Node) -> bool:
    """Whether bytes can be read or written in blocks: with one scale for all, one by one, moved, or to find the
    largest."""
    op = node.op
    if isinstance(op, Lookup) or (isinstance(op, QuantizedBinary) and _blocked_shapes(graph, node)):
        return True
    if isinstance(op, QuantizeLinear | DequantizeLinear):
        bytes = graph.type((node.outputs[0] if isinstance(op, QuantizeLinear) else node.inputs[0]) or "")
        return bytes.dtype is DType.U8 and all(graph.type(name or "").rank == 0 for name in node.inputs[1:])
    one = isinstance(op, Pool) and op.kind == "max" and len(node.outputs) == 1
    cut = isinstance(op, Slice) and _whole_blocks(op, graph.type(node.inputs[0] or "").shape)
    nearest = isinstance(op, Resize) and op.mode == "nearest" and _blocked_resize(op)
    return (one or cut or nearest or isinstance(op, Concat)) and graph.type(node.outputs[0]).dtype is DType.U8


def _blocked_binary(graph: Graph, node: Node) -> bool:
    return all(graph.type(n or "").dtype is DType.F32 for n in node.inputs) and _blocked_shapes(graph, node)


def _blocked_shapes(graph: Graph, node: Node) -> bool:
    """Same shapes, or one operand per channel or of one element."""
    output = graph.type(node.outputs[0]).shape
    shapes = [graph.type(n or "").shape for n in node.inputs]
    if output not in shapes or graph.type(node.outputs[0]).elements == 1:
        return False
    for shape in shapes:
        one = all(extent == 1 for extent in shape)
        per_channel = (
            len(shape) == len(output) and shape[0] in (1, output[0]) and shape[1] == output[1] and set(shape[2:]) == {1}
        )
        if shape != output and not one and not per_channel:
            return False
    return True


def _spatial_reduce(graph: Graph, node: Node) -> bool:
    op = node.op
    assert isinstance(op, Reduce)
    return (
        op.keepdims
        and op.kind in ("sum", "mean", "max")
        and op.axes == tuple(range(2, graph.type(node.inputs[0] or "").rank))
    )


def _blocked_resize(op: Resize) -> bool:
    whole_channels = len(op.shape) == 4 and op.scales[0] == 1.0 and op.scales[1] == 1.0
    return (
        whole_channels
        and op.mode in ("nearest", "linear")
        and not op.antialias
        and op.coordinate != "tf_crop_and_resize"
    )


def _whole_blocks(op: Slice, shape: tuple[int, ...]) -> bool:
    """Neighbours alone, and no part of a block of 16 channels."""
    begin, end = op.starts[1], op.starts[1] + op.sizes[1]
    return set(op.steps) == {1} and begin % 16 == 0 and (end % 16 == 0 or end == shape[1])
