"""Local response normalisation: a thread goes along some channels of a pixel, so that it squares each value once."""

from __future__ import annotations

from collections.abc import Sequence

from packer.ir import DType
from packer.ir.ops import Lrn
from targets.cuda.array import Array
from targets.cuda.emit.exponential import exp, log
from targets.cuda.emit.joins import total
from targets.cuda.emit.ptx import Builder, f32
from targets.cuda.generic.access import Constants, Inputs, Walk, address, coordinates, kernel, load, offsets, store
from targets.cuda.generic.team import tree
from targets.cuda.generic.window import Axis
from targets.cuda.kernel import Code

__all__ = ["lrn"]

_CHANNELS = 8  # of a thread
_MOST = 64  # values that a thread has


def lrn(op: Lrn, inputs: Inputs, outputs: Sequence[Array], constants: Constants) -> Code | None:
    """Of floats; sums over up to `_MOST` - `_CHANNELS` channels."""
    x, y = inputs[0], outputs[0]
    if x is None or x.dtype not in (DType.F32, DType.F16) or op.size + _CHANNELS > _MOST:
        return None
    own = min(_CHANNELS, y.shape[1])
    parts = -(-y.shape[1] // own)
    shape = (y.shape[0], parts, *y.shape[2:])
    # Threads that have the last channels have those before, too, where not all have as many.
    last = y.shape[1] - own
    before = (op.size - 1) // 2
    values = own + op.size - 1
    axis = Axis(x.shape[1], last + 1, values, 1, 1, before - op.halo[0])
    walk = Walk.over(shape, *((a.strides[0], 0, *a.strides[2:]) for a in (x, y)))

    def body(b: Builder, index: str) -> None:
        part = coordinates(b, index, shape)[1]
        first = b.new("r", "min.u32", b.new("r", "mul.lo.u32", part, own), last)
        begins = offsets(b, walk, index, (x.origin - axis.begin * x.strides[1], y.origin))
        begin, end = (
            b.new("r", "mad.lo.u32", first, array.strides[1], place)
            for array, place in zip((x, y), begins, strict=True)
        )
        at, out = address(b, "x", begin, x.dtype), address(b, "y", end, y.dtype)
        found = [
            load(b, x.dtype, at, k * x.strides[1] * x.dtype.bytes, True, axis.inside(b, first, k))
            for k in range(values)
        ]
        squares = [b.new("f", "mul.rn.f32", value, value) for value in found]
        for k in range(own):
            (sum_,) = tree(b, [(square,) for square in squares[k : k + op.size]], total)
            base = b.new("f", "fma.rn.f32", sum_, f32(op.alpha / op.size), f32(op.bias))
            factor = exp(b, b.new("f", "mul.rn.f32", log(b, base), f32(-op.beta)))
            result = b.new("f", "mul.rn.f32", found[k + before], factor)
            store(b, y.dtype, out, result, k * y.strides[1] * y.dtype.bytes)

    return Code((kernel("lrn", ("x", "y"), walk.elements, body),), (0,))
