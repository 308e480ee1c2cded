"""Convolution and matrix products with sparse weights (runtime_c/src/kernels/conv_sparse.c, linear_sparse.c,
linear_masked.c, linear_sliced.c)."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf

from packer.ir.ops import Conv, MatMul
from targets.base import Form, Work
from targets.cpu.cost.at import At
from targets.cpu.cost.conv import geometry
from targets.cpu.cost.pointwise import activation_cycles
from targets.cpu.masked import INPUTS
from targets.cpu.precision import stored_type
from targets.cpu.sliced import SLICE, STEP_BYTES, steps_of
from targets.cpu.sparse import MATRIX_CHANNELS
from targets.cpu.tiling import Engine, cycles, tiling

__all__ = [
    "conv_sparse_seconds",
    "linear_masked_seconds",
    "linear_sliced_seconds",
    "linear_sparse_seconds",
    "slices_seconds",
]

_PLACE = 1.1  # bytes that tell where a non-zero is, counts included
_READ, _WRITTEN = 0.3, 0.5  # what part of moving inputs and outputs does not hide behind computing
_ENTRY = {1: 1.1, 4: 1.4}  # cycles of an entry of a matrix times one row, by its values
_ROWS = 4, 8, 16  # that are computed together; of entries of four, and of masks, the fewest
# Cycles of a single entry then: of whatever rows, of each, and of each vector but one.
_ENTRY_OF_ROWS, _OF_ROW, _OF_VECTOR = 1.07, 0.07, 0.5
_BLOCK_OF_ROWS, _PRODUCTS = 1.0, 17.6  # of an entry of four: of whatever vectors, and of a vector of one float
_SPILLED = 0.6  # cycles that an entry takes longer if the inputs of a tile exceed the first cache
_TILE = 12.0  # cycles of a row to go on to the next tile
_WAITED = {1: 0.1, 4: 0.55}  # what part of the lesser of computing and fetching is not hidden, by values of an entry
# Of a matrix with a bit for every weight, by lanes of vectors: cycles of 16 inputs of a column, with one row and with a
# band of them; of a column besides; and what part as above.
_MASK = {16: (3.1, 6.2), 8: (4.5, 9.0), 4: (14.0, 34.0)}
_MASKED_COLUMN, _MASKED_WAITED = 14.0, 0.1

# Of a matrix in slices, by lanes of vectors: cycles of a step; of a slice besides; what part as above; and by how much
# its three streams take longer to fetch than one.
_STEP = {16: 3.3, 8: 4.0, 4: 40.0}
_SLICE, _SLICED_WAITED, _STREAMS = 12.0, 0.1, 1.25


def conv_sparse_seconds(work: Work, form: Form, distances: Sequence[float], at: At) -> float:
    op, g, x, y, w = work.op, geometry(work), work.inputs[0], work.outputs[0], work.inputs[1]
    assert isinstance(op, Conv)
    assert x is not None
    assert w is not None
    engine, of = Engine(at.lanes, at.fma, at.latency, int(at.levels[0][0])), work.of or work
    cut = tiling(geometry(of), of.density, engine, work.block)
    if cut is None:
        return inf
    busy = cycles(g, work.density, engine, cut) * at.cycle / at.efficiency.sparse
    fetch = at.moved(work.density * w.elements * _bytes(form, cut.block.size), distances[1])
    moved = _READ * at.moved(x.bytes, distances[0]) + _WRITTEN * at.moved(y.bytes, distances[-1])
    if len(work.inputs) > 3 and work.inputs[3] is not None:
        moved += _WRITTEN * at.moved(y.bytes, distances[3])
    late = activation_cycles(op.activation, y.elements / at.lanes, at) * at.cycle / at.efficiency.elementwise
    return max(busy, fetch) + moved + late


def linear_sparse_seconds(work: Work, form: Form, distances: Sequence[float], at: At) -> float:
    b, y = work.inputs[1], work.outputs[0]
    assert b is not None
    depth, columns = b.shape
    rows, nonzeros, size = y.elements // max(columns, 1), work.density * b.elements, work.block.size
    bands, entry = rows, _ENTRY[size]
    if rows > 1:
        together = _ROWS[0] if size > 1 else next((lanes for lanes in _ROWS if lanes >= rows), _ROWS[-1])
        bands, entry = -(-rows // together), _BLOCK_OF_ROWS + _PRODUCTS / at.lanes
        if size == 1:
            entry = _ENTRY_OF_ROWS + _OF_ROW * together + _OF_VECTOR * (-(-together // at.lanes) - 1)
        if 4 * together * min(depth, MATRIX_CHANNELS) > at.levels[0][0]:
            entry += _SPILLED
    spent = nonzeros / size * entry + -(-depth // MATRIX_CHANNELS) * columns / work.block.filters * _TILE
    busy = bands * spent * at.cycle / at.efficiency.scalar
    fetch = at.moved(nonzeros * _bytes(form, size), distances[1])
    return _together(busy, fetch, _WAITED[size]) + _late(work, distances, at)


def linear_masked_seconds(work: Work, form: Form, distances: Sequence[float], at: At) -> float:
    b, y = work.inputs[1], work.outputs[0]
    assert b is not None
    depth, columns = b.shape
    rows, groups = y.elements // max(columns, 1), -(-depth // INPUTS) * columns
    bands = -(-rows // _ROWS[0])
    busy = bands * (groups * _MASK[at.lanes][rows > 1] + columns * _MASKED_COLUMN) * at.cycle / at.efficiency.sparse
    bytes = work.density * b.elements * stored_type(form.implementation).bytes + 2 * groups
    fetch = at.moved(bytes, distances[1]) + (bands - 1) * at.moved(bytes, bytes)
    return _together(busy, fetch, _MASKED_WAITED) + _late(work, distances, at)


def linear_sliced_seconds(work: Work, form: Form, distances: Sequence[float], at: At) -> float:
    b, y = work.inputs[1], work.outputs[0]
    assert b is not None
    depth, columns = b.shape
    rows, bytes = y.elements // max(columns, 1), steps_of(work.density, depth, columns) * STEP_BYTES
    first = slices_seconds(at, work.density, depth, columns, distances[1])
    return first + (rows - 1) * slices_seconds(at, work.density, depth, columns, bytes) + _late(work, distances, at)


def slices_seconds(at: At, density: float, depth: int, columns: int, distance: float) -> float:
    """Seconds of a row of inputs times slices, last touched `distance` bytes ago."""
    steps = steps_of(density, depth, columns)
    busy = (steps * _STEP[at.lanes] + -(-columns // SLICE) * _SLICE) * at.cycle / at.efficiency.sparse
    return _together(busy, _STREAMS * at.moved(steps * STEP_BYTES, distance), _SLICED_WAITED)


def _late(work: Work, distances: Sequence[float], at: At) -> float:
    """Seconds of a matrix product's activation, and of what does not hide of moving inputs and outputs."""
    op, a, y = work.op, work.inputs[0], work.outputs[0]
    assert isinstance(op, MatMul)
    assert a is not None
    applied = activation_cycles(op.activation, y.elements / at.lanes, at) * at.cycle / at.efficiency.elementwise
    return applied + 0.4 * at.moved(a.bytes, distances[0]) + 0.8 * at.moved(y.bytes, distances[-1])


def _together(busy: float, fetch: float, waited: float) -> float:
    """Seconds of computing and fetching at the same time, of the lesser of which so much is not hidden."""
    return max(busy, fetch) + waited * min(busy, fetch)


def _bytes(form: Form, together: int = 1) -> float:
    """Of a non-zero, of which so many have one place."""
    return stored_type(form.implementation).bytes + _PLACE / together
