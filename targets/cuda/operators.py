"""Which generator makes the kernels of an operator; those of convolutions in tiers are in convolution.py."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from packer.ir.ops import (
    ArgReduce,
    Binary,
    Cast,
    Concat,
    Conv,
    ConvTranspose,
    DequantizeLinear,
    Expand,
    Gather,
    GatherElements,
    GatherND,
    LpNormalize,
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
    ScaleShift,
    Slice,
    Softmax,
    Tile,
    Transpose,
    Unary,
    Where,
)
from targets.cuda.array import Array
from targets.cuda.generic import (
    conv,
    conv_transpose,
    elementwise,
    gather,
    lrn,
    movement,
    normalize,
    pad,
    pool,
    reduce,
    resize,
    softmax,
)
from targets.cuda.generic.access import Constants, Inputs
from targets.cuda.kernel import Code
from targets.cuda.matmul import matmul

__all__ = ["GENERIC", "code_of"]

_MOST_ELEMENTS = 1 << 31  # kernels count elements, those of halos too, in 32 bits

# operator -> f(op, inputs, outputs, constants), which gives None for what it has no kernel for
GENERIC: dict[type[Op], Callable[[Any, Inputs, Sequence[Array], Constants], Code | None]] = {
    ArgReduce: reduce.arg_reduce,
    Binary: elementwise.binary_,
    Cast: elementwise.cast_,
    Concat: movement.concat,
    Conv: conv.conv,
    ConvTranspose: conv_transpose.conv_transpose,
    DequantizeLinear: elementwise.dequantize,
    Expand: movement.expand,
    Gather: gather.gather,
    GatherElements: gather.gather_elements,
    GatherND: gather.gather_nd,
    LpNormalize: normalize.lp_normalize,
    Lrn: lrn.lrn,
    MatMul: matmul,
    Normalize: normalize.normalize,
    Pad: pad.pad,
    Pool: pool.pool,
    QuantizeLinear: elementwise.quantize,
    Reduce: reduce.reduce,
    Reshape: movement.reshape,
    Resize: resize.resize,
    ScaleShift: elementwise.scale_shift,
    Slice: movement.slice_,
    Softmax: softmax.softmax,
    Tile: movement.tile,
    Transpose: movement.transpose,
    Unary: elementwise.unary_,
    Where: elementwise.where,
}


def code_of(op: Op, inputs: Inputs, outputs: Sequence[Array], constants: Constants) -> Code | None:
    """The operator's kernels, none of them where all outputs are empty; None where it has to run on the CPU.

    An input whose value is known (`constants`) is dense; which operands it becomes is up to the generator.
    """
    generator = GENERIC.get(type(op))
    if generator is None or any(_span(a) > _MOST_ELEMENTS for a in (*inputs, *outputs) if a is not None):
        return None
    if not any(array.elements for array in outputs):
        return Code((), ())
    return generator(op, inputs, outputs, constants)


def _span(array: Array) -> int:
    """Elements from the pointer to behind the last one."""
    if not array.elements:
        return 0
    steps = zip(array.shape, array.strides, strict=True)
    return array.origin + sum((extent - 1) * stride for extent, stride in steps) + 1
