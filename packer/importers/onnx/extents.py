"""How a size that depends on data (see packer.ir.Extent) passes through operators that map entries one to one."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from packer.errors import ModelError
from packer.ir import TensorType
from packer.ir.ops import (
    ArgReduce,
    Binary,
    Cast,
    Concat,
    Conv,
    ConvTranspose,
    CumSum,
    DequantizeLinear,
    Expand,
    Gather,
    GatherElements,
    GatherND,
    Lrn,
    MatMul,
    Normalize,
    Op,
    Pad,
    Pool,
    QuantizeLinear,
    Reduce,
    Reshape,
    Resize,
    RoiAlign,
    ScaleShift,
    Slice,
    Softmax,
    TopK,
    Transpose,
    Unary,
    Where,
)

__all__ = ["Extents", "Operand", "propagate"]

Extents = dict[int, str]  # axis -> name of the value that holds the real size


@dataclass(frozen=True, slots=True, eq=False)
class Operand:
    """An input as this module sees it."""

    shape: tuple[int, ...]
    extents: Extents
    data: np.ndarray | None


class _Lost(Exception):
    """The operator's result would depend on entries that are not meaningful."""


def propagate(op: Op, inputs: Sequence[Operand | None], outputs: Sequence[TensorType], source: str) -> Extents:
    """The extents of all results of `op`; raises ModelError when it does not map entries one to one."""
    present = [operand for operand in inputs if operand is not None]
    if not any(operand.extents for operand in present):
        return {}
    rule = _RULES.get(type(op))
    try:
        if rule is None:
            raise _Lost
        return rule(op, present, outputs[0].shape)
    except _Lost:
        raise ModelError(
            f"{type(op).__name__} of a tensor whose size depends on data is not supported",
            where=f"node '{source}'",
            hint="cut the model before it, and do that part in the application",
        ) from None


def _aligned(_: Op, inputs: Sequence[Operand], shape: tuple[int, ...]) -> Extents:
    """Elementwise with broadcasting: whoever spans the axis must agree on its real size."""
    found: Extents = {}
    for operand in inputs:
        shift = len(shape) - len(operand.shape)
        for axis, count in operand.extents.items():
            if operand.shape[axis] != shape[axis + shift] or found.setdefault(axis + shift, count) != count:
                raise _Lost
    for axis, count in found.items():
        for operand in inputs:
            own = axis - (len(shape) - len(operand.shape))
            spans = own >= 0 and operand.shape[own] != 1
            if spans and operand.extents.get(own) != count:
                raise _Lost
    return found


def _first_only(_: Op, inputs: Sequence[Operand], shape: tuple[int, ...]) -> Extents:
    """The output has the axes of the first input and the others are parameters."""
    if any(operand.extents for operand in inputs[1:]):
        raise _Lost
    return dict(inputs[0].extents)


def _rows(_: Op, inputs: Sequence[Operand], shape: tuple[int, ...]) -> Extents:
    """Each entry of axis 0 of the first input makes one of the output."""
    if any(operand.extents for operand in inputs[1:]) or set(inputs[0].extents) - {0}:
        raise _Lost
    return dict(inputs[0].extents)


def _off_axes(axes: set[int], keepdims: bool, inputs: Sequence[Operand]) -> Extents:
    extents = inputs[0].extents
    if axes & set(extents) or any(operand.extents for operand in inputs[1:]):
        raise _Lost
    return {axis if keepdims else axis - sum(a < axis for a in axes): count for axis, count in extents.items()}


def _reduce(op: Reduce, inputs: Sequence[Operand], shape: tuple[int, ...]) -> Extents:
    return _off_axes(set(op.axes), op.keepdims, inputs)


def _axes(op: Softmax | Normalize, inputs: Sequence[Operand], shape: tuple[int, ...]) -> Extents:
    return _off_axes(set(op.axes), True, inputs)


def _arg_reduce(op: ArgReduce, inputs: Sequence[Operand], shape: tuple[int, ...]) -> Extents:
    return _off_axes({op.axis}, op.keepdims, inputs)


def _axis(op: TopK | CumSum, inputs: Sequence[Operand], shape: tuple[int, ...]) -> Extents:
    return _off_axes({op.axis}, True, inputs)


def _transpose(op: Transpose, inputs: Sequence[Operand], shape: tuple[int, ...]) -> Extents:
    return {op.perm.index(axis): count for axis, count in inputs[0].extents.items()}


def _reshape(_: Op, inputs: Sequence[Operand], shape: tuple[int, ...]) -> Extents:
    source, found = inputs[0], Extents()
    for axis, count in source.extents.items():
        before, size = math.prod(source.shape[:axis]), source.shape[axis]
        matches = [a for a, s in enumerate(shape) if s == size and math.prod(shape[:a]) == before]
        if len(matches) != 1 or math.prod(source.shape) == 0:
            raise _Lost
        found[matches[0]] = count
    return found


def _slice(op: Slice, inputs: Sequence[Operand], shape: tuple[int, ...]) -> Extents:
    extents = inputs[0].extents
    if any(op.starts[axis] != 0 or op.steps[axis] != 1 or op.sizes[axis] != inputs[0].shape[axis] for axis in extents):
        raise _Lost
    return dict(extents)


def _pad(op: Pad, inputs: Sequence[Operand], shape: tuple[int, ...]) -> Extents:
    extents, rank = inputs[0].extents, len(shape)
    if any(op.pads[axis] or op.pads[axis + rank] for axis in extents):
        raise _Lost
    return dict(extents)


def _concat(op: Concat, inputs: Sequence[Operand], shape: tuple[int, ...]) -> Extents:
    extents = inputs[0].extents
    if op.axis in extents or any(operand.extents != extents for operand in inputs):
        raise _Lost
    return dict(extents)


def _gather(op: Gather, inputs: Sequence[Operand], shape: tuple[int, ...]) -> Extents:
    data, indices = inputs
    if op.axis in data.extents:
        raise _Lost
    grown = len(indices.shape) - 1
    found = {axis + (grown if axis > op.axis else 0): count for axis, count in data.extents.items()}
    found.update((op.axis + axis, count) for axis, count in indices.extents.items())
    return found


def _gather_elements(op: GatherElements, inputs: Sequence[Operand], shape: tuple[int, ...]) -> Extents:
    data, indices = inputs
    if op.axis in data.extents or any(indices.extents.get(axis) != count for axis, count in data.extents.items()):
        raise _Lost
    return dict(indices.extents)


def _gather_nd(op: GatherND, inputs: Sequence[Operand], shape: tuple[int, ...]) -> Extents:
    data, indices = inputs
    if data.extents or any(axis < op.batch_dims or axis == len(indices.shape) - 1 for axis in indices.extents):
        raise _Lost
    return dict(indices.extents)


def _matmul(_: Op, inputs: Sequence[Operand], shape: tuple[int, ...]) -> Extents:
    """Rows of the first operand are rows of the result."""
    a = inputs[0]
    row = len(a.shape) - 2
    if any(operand.extents for operand in inputs[1:]) or set(a.extents) - {row} or len(inputs[1].shape) < 2:
        raise _Lost
    if any(len(bias.shape) > 1 and bias.shape[-2] != 1 for bias in inputs[2:]):
        raise _Lost
    return {len(shape) - 2: count for count in a.extents.values()}


def _roi_align(_: Op, inputs: Sequence[Operand], shape: tuple[int, ...]) -> Extents:
    x, rois, batches = inputs
    if x.extents or rois.extents != batches.extents:
        raise _Lost
    return dict(rois.extents)


_RULES: dict[type[Op], Callable[..., Extents]] = {
    Unary: _aligned, Binary: _aligned, Where: _aligned, Cast: _aligned, Expand: _aligned,
    ScaleShift: _first_only, QuantizeLinear: _first_only, DequantizeLinear: _first_only,
    Conv: _rows, ConvTranspose: _rows, Pool: _rows, Resize: _rows, Lrn: _rows, MatMul: _matmul, RoiAlign: _roi_align,
    Reduce: _reduce, ArgReduce: _arg_reduce, Softmax: _axes, Normalize: _axes, TopK: _axis, CumSum: _axis,
    Transpose: _transpose, Reshape: _reshape, Slice: _slice, Pad: _pad, Concat: _concat,
    Gather: _gather, GatherElements: _gather_elements, GatherND: _gather_nd,
}  # fmt: skip
