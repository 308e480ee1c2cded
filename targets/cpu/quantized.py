"""Convolutions and matrix products of bytes as steps: weights in quads, the zero point of inputs in the bias."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from packer.ir import Box, DType, Graph, Node, TensorType
from packer.ir.ops import QuantizedConv, QuantizedMatMul
from targets.base import Attribute, Form, Layout, Lowered, Operand, attributes_of
from targets.cpu.packing import block16, depth16, quads, weight16

__all__ = ["constants", "depthwise_constants", "lower_quantized", "quantized_boxes", "quantized_forms", "tap_quads"]


def quantized_forms(graph: Graph, node: Node) -> tuple[Form, ...]:
    """Convolutions of planar or blocked inputs to blocked outputs, depthwise ones of blocked inputs; matrix products of
    planar rows."""
    rest = (Layout.PLANAR,) * 3
    if isinstance(node.op, QuantizedMatMul):
        return (Form((Layout.PLANAR, *rest), (Layout.PLANAR,), "bytes"),)
    residual = (Layout.BLOCK16,) * (len(node.inputs) - 4)
    layouts = (Layout.BLOCK16,) if _is_depthwise(graph, node) else (Layout.PLANAR, Layout.BLOCK16)
    return tuple(Form((x, *rest, *residual), (Layout.BLOCK16,), "bytes") for x in layouts)


def _is_depthwise(graph: Graph, node: Node) -> bool:
    return isinstance(node.op, QuantizedConv) and node.op.depthwise(graph.type(node.inputs[1] or ""))


def constants(w: np.ndarray, bias: np.ndarray, scale: np.ndarray, group: int, x_zero: int) -> tuple[Operand, ...]:
    """Weights [K,C,kernel...], bias and scale [K] as the kernels take them: sums are of x instead of x - x_zero."""
    sums = w.reshape(w.shape[0], -1).sum(axis=1, dtype=np.int64)
    shifted = (bias.astype(np.int64) - x_zero * sums).astype(np.int32)
    packed = quads(w.reshape(group, w.shape[0] // group, *w.shape[1:]))
    shape = packed.shape[:2]
    return (
        Operand(data=weight16(packed), type=TensorType(DType.I32, packed.shape), layout=Layout.WEIGHT16),
        Operand(data=block16(shifted.reshape(shape)), type=TensorType(DType.I32, shape), layout=Layout.BLOCK16),
        Operand(data=block16(scale.reshape(shape)), type=TensorType(DType.F32, shape), layout=Layout.BLOCK16),
    )


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
    sums = w.reshape(w.shape[0], -1).sum(axis=1, dtype=np.int64)
    shifted = (bias.astype(np.int64) - x_zero * sums).astype(np.int32)
    packed = tap_quads(w, dilation)
    return (
        Operand(data=depth16(packed), type=TensorType(DType.I32, packed.shape), layout=Layout.DEPTH16),
        Operand(data=block16(shifted), type=TensorType(DType.I32, shifted.shape), layout=Layout.BLOCK16),
        Operand(data=block16(scale), type=TensorType(DType.F32, scale.shape), layout=Layout.BLOCK16),
    )


def lower_quantized(graph: Graph, node: Node, form: Form) -> Lowered:
    """The step of a QuantizedConv or QuantizedMatMul whose weights, scale and bias are constants."""
    op = node.op
    w, scale, bias = (graph.constant(name) for name in node.inputs[1:4])
    assert w is not None
    assert scale is not None
    assert bias is not None
    x = Operand(node.inputs[0], layout=form.inputs[0])
    if isinstance(op, QuantizedMatMul):
        packed = constants(np.ascontiguousarray(w.T), bias, scale, 1, op.x_zero)
        return Lowered("linear_quantized", (x, *packed), attributes_of(op))
    assert isinstance(op, QuantizedConv)
    depthwise = _is_depthwise(graph, node)
    if depthwise:
        packed = depthwise_constants(w, bias, scale, op.dilations[-1], op.x_zero)
    else:
        packed = constants(w, bias, scale, op.group, op.x_zero)
    residual = [Operand(name, layout=form.inputs[4]) for name in node.inputs[4:]]
    attributes = (*attributes_of(op), Attribute("kernel", ints=w.shape[2:]))
    kernel = "conv_depthwise_quantized" if depthwise else "conv_quantized"
    return Lowered(kernel, (x, *packed, *residual), tuple(sorted(attributes, key=lambda a: a.name)))


def quantized_boxes(graph: Graph, node: Node, lowered: Lowered, reads: Sequence[Box | None]) -> list[Box | None]:
    """What a part reads of the step's operands: weights and scales by group."""
    packed = lowered.inputs[1]
    assert packed is not None
    assert packed.type is not None
    filters = (reads[2] or ())[0]
    if _is_depthwise(graph, node):
        return [reads[0], (filters, (0, packed.type.shape[1])), (filters,), (filters,), *reads[4:]]
    _, each, row = packed.type.shape
    groups, own = (
        ((0, 1), filters) if packed.type.shape[0] == 1 else ((filters[0] // each, filters[1] // each), (0, each))
    )
    return [reads[0], (groups, own, (0, row)), (groups, own), (groups, own), *reads[4:]]
