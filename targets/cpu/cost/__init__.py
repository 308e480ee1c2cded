"""The analytic cost model of the CPU target: how long an operator takes in a form on one core of a machine.

A kernel computes, by cycles of its inner loop, and moves its operands, each at the speed of the level of memory that
its reuse distance tells. These are models of the kernels of runtime_c/src/kernels; constants come from measurements.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from packer.ir import TensorType
from packer.ir.ops import (
    Attention,
    Binary,
    Concat,
    Conv,
    ConvTranspose,
    DequantizeLinear,
    Expand,
    IntegerConv,
    IntegerMatMul,
    Lookup,
    Lrn,
    MatMul,
    Normalize,
    Pad,
    Pool,
    QuantizedBinary,
    QuantizedConv,
    QuantizedMatMul,
    QuantizeLinear,
    Recurrent,
    Reduce,
    Reshape,
    Resize,
    ScaleShift,
    Slice,
    Softmax,
    Tile,
    Transpose,
    Unary,
)
from targets.base import Form, Layout, Work
from targets.cpu.cost import fold, matrix, move, pointwise, window
from targets.cpu.cost.at import At, at
from targets.cpu.cost.attention import attention_seconds
from targets.cpu.cost.conv import conv_seconds
from targets.cpu.cost.depthwise import depthwise_seconds
from targets.cpu.cost.depthwise_planar import depthwise_planar_seconds
from targets.cpu.cost.direct import direct_seconds
from targets.cpu.cost.quantized import conv_quantized_seconds, linear_quantized_seconds
from targets.cpu.cost.recurrent import recurrent_seconds
from targets.cpu.cost.sparse import (
    conv_sparse_seconds,
    linear_masked_seconds,
    linear_sliced_seconds,
    linear_sparse_seconds,
)
from targets.cpu.cost.unrolled import conv_unrolled_seconds
from targets.cpu.cost.winograd import winograd_seconds
from targets.cpu.precision import LINES, is_masked, is_stream
from targets.cpu.winograd import TILES
from targets.machine import Machine

__all__ = ["reorder_seconds", "seconds"]

_Model = Callable[[Work, Form, Sequence[float], At], float]
_CONVOLUTIONS: dict[str, _Model] = {
    "packed": conv_seconds,
    "packed-f16": conv_seconds,
    "packed-bf16": conv_seconds,
    "bf16": conv_seconds,
    LINES: conv_seconds,
    "depthwise": depthwise_seconds,
    "depthwise-planar": depthwise_planar_seconds,
    "direct": direct_seconds,
    "im2col-caffe": matrix.im2col_seconds,
    "im2col-nhwc": matrix.im2col_seconds,
    "sparse": conv_sparse_seconds,
    "sparse-f16": conv_sparse_seconds,
    "sparse-bf16": conv_sparse_seconds,
    "unrolled": conv_unrolled_seconds,
    **{
        f"winograd{tile}{suffix}": winograd_seconds
        for tile in TILES
        for suffix in ("", "-lean", "-lean-f16", "-lean-bf16")
    },
    "winograd2-bf16": winograd_seconds,
}
_MODELS: dict[type, _Model] = {
    Attention: attention_seconds,
    Binary: pointwise.pointwise_seconds,
    Concat: move.concat_seconds,
    ConvTranspose: matrix.conv_transpose_seconds,
    DequantizeLinear: pointwise.bytes_seconds,
    Expand: move.copy_seconds,
    IntegerConv: conv_quantized_seconds,
    IntegerMatMul: linear_quantized_seconds,
    Lookup: pointwise.bytes_seconds,
    Lrn: window.lrn_seconds,
    MatMul: matrix.matmul_seconds,
    Normalize: fold.normalize_seconds,
    Pad: move.pad_seconds,
    Pool: window.pool_seconds,
    QuantizedBinary: pointwise.bytes_seconds,
    QuantizedConv: conv_quantized_seconds,
    QuantizedMatMul: linear_quantized_seconds,
    QuantizeLinear: pointwise.bytes_seconds,
    Recurrent: recurrent_seconds,
    Reduce: fold.reduce_seconds,
    Reshape: move.copy_seconds,
    Resize: window.resize_seconds,
    ScaleShift: pointwise.pointwise_seconds,
    Slice: move.copy_seconds,
    Softmax: fold.softmax_seconds,
    Tile: move.copy_seconds,
    Transpose: move.copy_seconds,
    Unary: pointwise.pointwise_seconds,
}


def seconds(
    machine: Machine, work: Work, form: Form, distances: Sequence[float], core: int = 0, active: int = 1
) -> float:
    """Predicted time of one step: `work` in `form` on core `core` of `machine.cores` while `active` cores work.

    `distances` has for every input (anything for an absent one), then every output, how many bytes of memory the core
    touched since it last touched a byte of that operand, the operand included; 0 for an output written over an input.
    """
    place = at(machine, core, active)
    if not any(type.elements for type in work.outputs):
        return place.step
    if isinstance(work.op, Conv):
        model = _CONVOLUTIONS[form.implementation]
    elif is_stream(form.implementation):
        model = linear_sparse_seconds
    elif is_masked(form.implementation):
        model = linear_masked_seconds
    elif form.implementation == "sliced" and isinstance(work.op, MatMul):
        model = linear_sliced_seconds
    else:
        model = _MODELS.get(type(work.op), pointwise.scalar_seconds)
    return place.step + model(work, form, distances, place)


def reorder_seconds(
    machine: Machine,
    type: TensorType,
    source: Layout,
    destination: Layout,
    core: int = 0,
    active: int = 1,
    distance: float | None = None,
) -> float:
    """Predicted time of the step that changes the layout of a tensor last touched `distance` bytes ago; if not given,
    just now."""
    place = at(machine, core, active)
    return place.step + move.reorder_seconds(type, source, destination, distance, place)
