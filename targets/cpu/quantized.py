"""Convolutions and matrix products of bytes as steps: weights in quads, the zero point of inputs in the bias, or beside
the sums of weights if it is known only at run time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from math import prod
from weakref import WeakKeyDictionary

import numpy as np

from packer.ir import Box, DType, Graph, Node, TensorType, Value, whole
from packer.ir.ops import IntegerConv, IntegerMatMul, QuantizedConv, QuantizedMatMul
from targets.base import Attribute, Form, Layout, Lowered, Operand, attributes_of
from targets.cpu.packing import LANES, block16, depth16, quads, weight16
from targets.cpu.unrolled import Unrolled, unrolled_stream

__all__ = [
    "constants",
    "depthwise_constants",
    "lower_quantized",
    "quantized_boxes",
    "quantized_forms",
    "tap_quads",
    "unrolled_constants",
    "words_of",
]


_FEW = 0.7  # of the quads of weights that are not all zero: from which on a stream of them cannot pay


def quantized_forms(graph: Graph, node: Node, unrolls: bool) -> tuple[Form, ...]:
    """Convolutions of planar or blocked inputs to blocked outputs, depthwise ones of blocked inputs; by the non-zeros
    of their weights if kernels make instructions of these; matrix products of planar rows."""
    residual = (Layout.BLOCK16,) * (len(node.inputs) - 4) if isinstance(node.op, QuantizedConv) else ()
    rest = (Layout.PLANAR,) * (len(node.inputs) - 1 - len(residual))
    if isinstance(node.op, IntegerMatMul | QuantizedMatMul):
        return (Form((Layout.PLANAR, *rest), (Layout.PLANAR,), "bytes"),)
    layouts = (Layout.BLOCK16,) if _is_depthwise(graph, node) else (Layout.PLANAR, Layout.BLOCK16)
    found = [Form((x, *rest, *residual), (Layout.BLOCK16,), "bytes") for x in layouts]
    if unrolls and _is_sparse(graph, node):
        found.append(Form((Layout.BLOCK16, *rest, *residual), (Layout.BLOCK16,), "unrolled"))
    return tuple(found)


def words_of(w: np.ndarray) -> np.ndarray:
    """Weights [K,C,kernel...] of a convolution as i32 [K,C/4,kernel...], those of four channels in each."""
    padded = np.pad(w, [(0, -w.shape[1] % 4 if i == 1 else 0) for i in range(w.ndim)])
    quads = np.moveaxis(padded.reshape(w.shape[0], -1, 4, *w.shape[2:]), 2, -1)
    words: np.ndarray = np.ascontiguousarray(quads).view(np.int32)[..., 0]
    return words


_STREAMS: WeakKeyDictionary[Value, Unrolled] = WeakKeyDictionary()  # of constants, made once


def _stream(graph: Graph, name: str | None) -> Unrolled:
    value = graph.values[name or ""]
    assert value.data is not None
    if value not in _STREAMS:
        words = words_of(value.data)
        sizes = [min(LANES, len(words) - i) for i in range(0, len(words), LANES)]
        _STREAMS[value] = unrolled_stream(words, max(words.shape[1], 1), 1, sizes)
    return _STREAMS[value]


def _is_sparse(graph: Graph, node: Node) -> bool:
    """Whether a convolution has few enough quads of weights that are not all zero."""
    if not isinstance(node.op, QuantizedConv) or node.op.group > 1 or graph.density(node.inputs[1]) > _FEW:
        return False
    w = graph.type(node.inputs[1] or "")
    quads = w.shape[0] * -(-w.shape[1] // 4) * prod(w.shape[2:])
    return len(_stream(graph, node.inputs[1]).values) <= _FEW * quads


def unrolled_constants(
    w: np.ndarray, stream: Unrolled, bias: np.ndarray, scale: np.ndarray, x_zero: int
) -> tuple[Operand, ...]:
    """Weights [K,C,kernel...], of which those that are not zero are in `stream`, bias and scale [K] as the kernel takes
    them: sums are of x instead of x - x_zero."""
    parts = (getattr(stream, field.name) for field in fields(Unrolled))
    return (
        *(Operand(data=data, type=TensorType(DType.of(data.dtype), data.shape)) for data in parts),
        _by_channel(_shifted(w, bias, x_zero), (1, len(w))),
        _by_channel(scale, (1, len(w))),
    )


def _is_depthwise(graph: Graph, node: Node) -> bool:
    return isinstance(node.op, IntegerConv | QuantizedConv) and node.op.depthwise(graph.type(node.inputs[1] or ""))


def constants(w: np.ndarray, bias: np.ndarray, scale: np.ndarray, group: int, x_zero: int) -> tuple[Operand, ...]:
    """Weights [K,C,kernel...], bias and scale [K] as the kernels take them: sums are of x instead of x - x_zero."""
    packed, shape = _packed(w, group)
    return packed, _by_channel(_shifted(w, bias, x_zero), shape), _by_channel(scale, shape)


def _packed(w: np.ndarray, group: int) -> tuple[Operand, tuple[int, ...]]:
    """Weights [K,C,kernel...], and the shape of what has one value for each of their filters."""
    packed = quads(w.reshape(group, w.shape[0] // group, *w.shape[1:]))
    type = TensorType(DType.I32, packed.shape)
    return Operand(data=weight16(packed), type=type, layout=Layout.WEIGHT16), packed.shape[:2]


def _by_channel(data: np.ndarray, shape: tuple[int, ...]) -> Operand:
    type = TensorType(DType.F32 if data.dtype == np.float32 else DType.I32, shape)
    return Operand(data=block16(data.reshape(shape)), type=type, layout=Layout.BLOCK16)


def _sums(w: np.ndarray) -> np.ndarray:
    sums: np.ndarray = w.reshape(w.shape[0], -1).sum(axis=1, dtype=np.int64)
    return sums


def _shifted(w: np.ndarray, bias: np.ndarray, x_zero: int) -> np.ndarray:
    shifted: np.ndarray = bias.astype(np.int64) - x_zero * _sums(w)
    return shifted.astype(np.int32)


def tap_quads(w: np.ndarray, dilation: int) -> np.ndarray:
    """Weights [C,1,kernel...] of depthwise filters as int32 [C,quads], each those of four neighbouring columns, zero
    between dilated taps and beyond the last, line after line of the kernel."""
    width = (w.shape[-1] - 1) * dilation + 1
    lines = np.zeros((w.shape[0], int(np.prod(w.shape[2:-1], dtype=np.int64)), -(-width // 4) * 4), np.int8)
    lines[..., :width:dilation] = w.reshape(*lines.shape[:2], w.shape[-1])
    return lines.reshape(w.shape[0], -1).view(np.int32)


def depthwise_constants(
    w: np.ndarray, bias: np.ndarray, scale: np.ndarray, dilation: int, x_zero: int
) -> tuple[Operand, ...]:
    """Weights [C,1,kernel...], bias and scale [C] as the kernel takes them: sums are of x instead of x - x_zero."""
    shifted = _shifted(w, bias, x_zero)
    return _taps(w, dilation), _by_channel(shifted, shifted.shape), _by_channel(scale, scale.shape)


def _taps(w: np.ndarray, dilation: int) -> Operand:
    packed = tap_quads(w, dilation)
    return Operand(data=depth16(packed), type=TensorType(DType.I32, packed.shape), layout=Layout.DEPTH16)


def _lower_integer(graph: Graph, node: Node, form: Form) -> Lowered:
    """The step of an IntegerConv or IntegerMatMul whose weights, and scale and bias, are constants."""
    op, w = node.op, graph.constant(node.inputs[1])
    assert w is not None
    attributes = attributes_of(op)
    kernel = "linear_integer"
    if isinstance(op, IntegerConv):
        attributes = tuple(sorted((*attributes, Attribute("kernel", ints=w.shape[2:])), key=lambda a: a.name))
        kernel = "conv_depthwise_integer" if _is_depthwise(graph, node) else "conv_integer"
    else:
        w = np.ascontiguousarray(w.T)
    if isinstance(op, IntegerConv) and _is_depthwise(graph, node):
        packed, shape = _taps(w, op.dilations[-1]), w.shape[:1]
    else:
        packed, shape = _packed(w, op.group if isinstance(op, IntegerConv) else 1)
    inputs = [Operand(node.inputs[0], layout=form.inputs[0]), packed, _by_channel(_sums(w).astype(np.int32), shape)]
    inputs += [Operand(name, layout=Layout.PLANAR) for name in node.inputs[2:4]]
    for name in node.inputs[4:]:
        data = graph.constant(name)
        assert data is not None
        inputs.append(_by_channel(data, shape))
    return Lowered(kernel, tuple(inputs), attributes)


def lower_quantized(graph: Graph, node: Node, form: Form) -> Lowered:
    """The step of a product of bytes whose weights, scale and bias are constants."""
    op = node.op
    if isinstance(op, IntegerConv | IntegerMatMul):
        return _lower_integer(graph, node, form)
    w, scale, bias = (graph.constant(name) for name in node.inputs[1:4])
    assert w is not None
    assert scale is not None
    assert bias is not None
    x = Operand(node.inputs[0], layout=form.inputs[0])
    if isinstance(op, QuantizedMatMul):
        packed = constants(np.ascontiguousarray(w.T), bias, scale, 1, op.x_zero)
        return Lowered("linear_quantized", (x, *packed), attributes_of(op))
    assert isinstance(op, QuantizedConv)
    if form.implementation == "unrolled":
        kernel = "conv_unrolled_quantized"
        packed = unrolled_constants(w, _stream(graph, node.inputs[1]), bias, scale, op.x_zero)
    elif _is_depthwise(graph, node):
        kernel, packed = "conv_depthwise_quantized", depthwise_constants(w, bias, scale, op.dilations[-1], op.x_zero)
    else:
        kernel, packed = "conv_quantized", constants(w, bias, scale, op.group, op.x_zero)
    residual = [Operand(name, layout=form.inputs[4]) for name in node.inputs[4:]]
    attributes = (*attributes_of(op), Attribute("kernel", ints=w.shape[2:]))
    return Lowered(kernel, (x, *packed, *residual), tuple(sorted(attributes, key=lambda a: a.name)))


def quantized_boxes(graph: Graph, node: Node, lowered: Lowered, reads: Sequence[Box | None]) -> list[Box | None]:
    """What a part reads of the step's operands: weights and scales by group."""
    packed = lowered.inputs[1]
    assert packed is not None
    assert packed.type is not None
    filters = (reads[1] or ())[0]
    own: Box = (filters,)
    if lowered.kernel == "conv_unrolled_quantized":
        *stream, groups = (whole(o.type) for o in lowered.inputs[1:5] if o is not None and o.type)
        rows = (filters[0] // LANES, -(-filters[1] // LANES))
        return [reads[0], *stream, (groups[0], rows, groups[2]), *((((0, 1), filters),) * 2), *reads[4:]]
    if not _is_depthwise(graph, node):
        each = packed.type.shape[1]
        one = packed.type.shape[0] == 1
        own = ((0, 1), filters) if one else ((filters[0] // each, filters[1] // each), (0, each))
    weights = (*own, (0, packed.type.shape[-1]))
    if isinstance(node.op, IntegerConv):
        return [reads[0], weights, own, *reads[2:4], *(own for _ in reads[4:])]
    return [reads[0], weights, own, own, *reads[4:]]
