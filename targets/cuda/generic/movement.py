"""Operators that only move elements, each a copy between views: other strides, other origins, parts of the output."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from packer.ir.ops import Concat, Expand, Reshape, Slice, Tile, Transpose
from targets.cuda.array import Array
from targets.cuda.generic.access import Constants, Inputs, aligned, operand, strides_over
from targets.cuda.generic.copy import copy
from targets.cuda.kernel import Code

__all__ = ["concat", "expand", "reshape", "slice_", "tile", "transpose"]


def transpose(op: Transpose, inputs: Inputs, outputs: Sequence[Array], constants: Constants) -> Code | None:
    """Threads follow the output."""
    x = _first(inputs)
    view = replace(x, shape=tuple(x.shape[i] for i in op.perm), strides=tuple(x.strides[i] for i in op.perm))
    return _copied("transpose", view, inputs, outputs, constants)


def slice_(op: Slice, inputs: Inputs, outputs: Sequence[Array], constants: Constants) -> Code | None:
    """Steps of any sign."""
    x = _first(inputs)
    origin = x.origin + sum(start * stride for start, stride in zip(op.starts, x.strides, strict=True))
    strides = tuple(step * stride for step, stride in zip(op.steps, x.strides, strict=True))
    return _copied("slice", Array(x.dtype, op.sizes, strides, origin), inputs, outputs, constants)


def expand(op: Expand, inputs: Inputs, outputs: Sequence[Array], constants: Constants) -> Code | None:
    """Steps of 0 along the dimensions that repeat."""
    x = _first(inputs)
    view = Array(x.dtype, op.shape, strides_over(x, op.shape), x.origin)
    return _copied("expand", view, inputs, outputs, constants)


def tile(op: Tile, inputs: Inputs, outputs: Sequence[Array], constants: Constants) -> Code | None:
    """Each dimension of the output as two: which repeat, and where in it."""
    x, y = _first(inputs), outputs[0]
    shape = _alternate(op.repeats, x.shape)
    wide = _alternate([n * stride for n, stride in zip(x.shape, y.strides, strict=True)], y.strides)
    view = Array(x.dtype, shape, _alternate((0,) * len(x.shape), x.strides), x.origin)
    return _copied("tile", view, inputs, outputs, constants, Array(y.dtype, shape, wide, y.origin))


def reshape(op: Reshape, inputs: Inputs, outputs: Sequence[Array], constants: Constants) -> Code | None:
    """Each side finds its own place of an element's number."""
    return _copied("reshape", _first(inputs), inputs, outputs, constants)


def concat(op: Concat, inputs: Inputs, outputs: Sequence[Array], constants: Constants) -> Code | None:
    """A kernel for each input that is not empty."""
    y, axis, begin = outputs[0], op.axis, 0
    present = [(number, x) for number, x in enumerate(inputs) if x is not None and x.elements]
    parameters = [*(f"x{place}" for place in range(len(present))), "y"]
    kernels = []
    for place, (_, x) in enumerate(present):
        part = Array(y.dtype, x.shape, y.strides, y.origin + begin * y.strides[axis])
        kernels.append(copy(f"concat_{place}", x, part, parameters, (place, len(present)), aligned(x) and aligned(y)))
        begin += x.shape[axis]
    return Code(tuple(kernels), tuple(operand(number, inputs, constants) for number, _ in present))


def _first(inputs: Inputs) -> Array:
    """The input that is always there."""
    x = inputs[0]
    assert x is not None
    return x


def _alternate(first: Sequence[int], second: Sequence[int]) -> tuple[int, ...]:
    return tuple(value for pair in zip(first, second, strict=True) for value in pair)


def _copied(
    name: str,
    source: Array,
    inputs: Inputs,
    outputs: Sequence[Array],
    constants: Constants,
    target: Array | None = None,
) -> Code:
    """A copy from a view of x to y, or to a view of it."""
    together = aligned(_first(inputs)) and aligned(outputs[0])
    kernel = copy(name, source, target or outputs[0], together=together)
    return Code((kernel,), (operand(0, inputs, constants),))
