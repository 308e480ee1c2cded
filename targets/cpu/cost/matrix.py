"""Matrix products: with packed weights, of two activations, over patches of an image; transposed convolution."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from packer.ir.ops import Conv, ConvTranspose, MatMul
from targets.base import Form, Work
from targets.cpu.cost.at import At
from targets.cpu.cost.conv import geometry
from targets.cpu.cost.dense import dense_seconds
from targets.cpu.cost.operands import stored
from targets.cpu.cost.pointwise import activation_cycles
from targets.cpu.precision import stored_type

__all__ = ["COPIED", "TURNED", "conv_transpose_seconds", "im2col_seconds", "matmul_seconds"]

_BAND = 128 * 1024  # floats of the rows of a band (linear.c)
_PACKED = 64 * 1024  # floats of the second matrix packed at a time (gemm.c)
COPIED, TURNED = 0.12, 0.45  # cycles to pack an element of it, from rows and from columns
_COLLIDING = 512  # floats between rows, or a multiple: such rows are copied to lie apart
_VECTOR, _OUTPUT = 1.3, 6.0  # cycles of a vector of a matrix that is multiplied by a vector, and of an output


def _gemm_seconds(at: At, rows: int, depth: int, columns: int, distance: float, transposed: bool = False) -> float:
    """rows x depth times depth x columns, whose columns are packed in groups before they are multiplied (gemm.c)."""
    blocks = -(-columns // 16)
    group = max(1, min(blocks, _PACKED // 16 // max(depth, 1)))
    pack = depth * columns * (TURNED if transposed else COPIED) * at.cycle / at.efficiency.move
    pack = max(pack, at.moved(depth * columns * 4.0, distance))
    return pack + blocks / group * dense_seconds(at, 1, rows, group, depth, 1, 0.0)


def matmul_seconds(work: Work, form: Form, distances: Sequence[float], at: At) -> float:
    op, a, b, y = work.op, work.inputs[0], work.inputs[1], work.outputs[0]
    assert isinstance(op, MatMul)
    assert a is not None
    assert b is not None
    if not a.dtype.is_float:
        return a.elements / max(a.shape[-1], 1) * b.elements * at.cycle / at.efficiency.scalar
    depth, columns = a.shape[-1], b.shape[-1] if b.rank > 1 else 1
    rows = y.elements // max(columns, 1)
    late = activation_cycles(op.activation, y.elements / at.lanes, at) * at.cycle / at.efficiency.elementwise
    late += 0.4 * at.moved(a.bytes, distances[0]) + 0.8 * at.moved(y.bytes, distances[-1])
    blocks = -(-columns // 16)
    if work.constant[1] and b.rank == 2:  # linear
        bands = -(-rows // max(_BAND // max(depth, 1), 14))
        band = -(-rows // bands)
        row = stored_type(form.implementation).bytes * 16.0
        busy = dense_seconds(at, 1, band, blocks, depth, 1, distances[1], row)
        if bands > 1:
            busy += (bands - 1) * dense_seconds(at, 1, band, blocks, depth, 1, blocks * depth * row, row)
        return busy + late
    batches = prod(y.shape[:-2]) if y.rank > 2 else 1
    each = rows // max(batches, 1)
    if min(each, columns) == 1:
        return late + batches * _vector_seconds(at, max(each, columns), depth, distances[int(each == 1)])
    return late + batches * _gemm_seconds(at, each, depth, columns, distances[1])


def _vector_seconds(at: At, outputs: int, depth: int, distance: float) -> float:
    """A vector times a matrix, which is read once."""
    cycles = outputs * (_OUTPUT + depth / at.lanes * _VECTOR / at.load)
    return max(cycles * at.cycle / at.efficiency.move, at.moved(outputs * depth * 4.0, distance))


def im2col_seconds(work: Work, form: Form, distances: Sequence[float], at: At) -> float:
    """Patches are written, packed, and read as the second matrix of a product."""
    op, g = work.op, geometry(work)
    assert isinstance(op, Conv)
    assert work.inputs[0] is not None
    positions, depth, count = prod(g.out), g.channels * prod(g.kernel), g.images * g.groups
    patches, as_rows = depth * positions * 4.0, form.implementation == "im2col-nhwc"
    if as_rows:
        runs = positions * prod(g.kernel[:2]) * (1 if g.dilation[2] == 1 else g.kernel[2])
        cycles = 0.5 * g.channels * prod(g.inside) + 6.0 * runs + 0.6 * depth * positions
    else:
        cycles = 4.3 * depth * positions
    copy = max((cycles + 2000.0) * at.cycle / at.efficiency.scalar, 2 * at.moved(patches, patches))
    weights = g.filters * depth * 4.0
    copy += at.moved(weights, distances[1])
    if g.filters > 1 and depth % _COLLIDING == 0:
        copy += 2 * at.moved(weights, weights)
    total = count * (copy + _gemm_seconds(at, g.filters, depth, positions, patches, as_rows))
    y = work.outputs[0]
    total += at.moved(work.inputs[0].bytes, distances[0]) + 2 * at.moved(y.bytes, distances[-1])
    cycles = activation_cycles(op.activation, y.elements / at.lanes, at) / at.efficiency.elementwise
    if any(type is not None for type in work.inputs[2:]):
        cycles += 3.3 * y.elements / at.efficiency.scalar  # outputs start from bias and residual
    return total + cycles * at.cycle


def conv_transpose_seconds(work: Work, form: Form, distances: Sequence[float], at: At) -> float:
    """An ordinary convolution for each phase of the strides, with weights packed as the program runs."""
    op, x, w, y = work.op, work.inputs[0], work.inputs[1], work.outputs[0]
    assert isinstance(op, ConvTranspose)
    assert x is not None
    assert w is not None
    phases = prod(op.strides)
    taps = max(1, prod(w.shape[2:]) // phases) * w.shape[0] // op.group
    count = [-(-n // s) for n, s in zip(y.shape[2:], op.strides, strict=True)]
    blocks = -(-w.shape[1] // 16)
    busy = dense_seconds(at, prod(count[:-1]), count[-1], blocks, taps, -(-taps // 16), 0.0)
    bands = max(1, x.elements // x.shape[0] // (256 * 1024))
    cycles = bands * x.shape[0] * w.elements * 4.0 + y.elements * 2.0
    moved = stored(x, form.inputs[0]) + stored(y, form.outputs[0])
    return (
        x.shape[0] * op.group * phases * busy
        + cycles * at.cycle / at.efficiency.scalar
        + at.moved(moved, distances[-1])
    )
