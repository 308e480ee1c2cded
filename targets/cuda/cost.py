"""Predicted times on a GPU, for the planner."""

from __future__ import annotations

from dataclasses import replace

from packer.ir import DType, TensorType
from packer.ir.ops import Conv, MatMul, Reshape
from targets.base import Work
from targets.cuda.board import Board
from targets.cuda.costs import dense, generic
from targets.cuda.demand import seconds_of
from targets.cuda.dense.tile import choose
from targets.cuda.dense.vector import MOST_ROWS
from targets.cuda.geometry import Geometry
from targets.cuda.matmul import SPARSE
from targets.cuda.ranking import parts, pool_of

__all__ = ["bound", "move_seconds", "seconds"]


def seconds(board: Board, work: Work, implementation: str, storage: DType) -> float:
    """Of a node in an implementation, floats stored as `storage`."""
    return 0.0 if isinstance(work.op, Reshape) else seconds_of(_parts(board, work, implementation, storage))


def bound(board: Board, work: Work, implementation: str, storage: DType) -> str:
    """The part that is the largest of that time, one of demand.BOUNDS; "" for what takes none."""
    if isinstance(work.op, Reshape):
        return ""
    found = _parts(board, work, implementation, storage)
    return max(found, key=lambda name: found[name])


def move_seconds(board: Board, elements: int) -> float:
    """Of a value between the processor's memory and planes: copied, written and read again, and waited for."""
    return 3 * 4 * elements / (board.gbps * 1e9) + board.launch_seconds + board.wait_seconds


def _parts(board: Board, work: Work, implementation: str, storage: DType) -> dict[str, float]:
    if isinstance(work.op, Conv) and implementation != "cuda":
        way, pool = pool_of(implementation)
        return parts(board, Geometry.of(work.op, work.inputs, work.outputs[0], work.density, storage, pool), way)
    return _product(board, work, storage) if isinstance(work.op, MatMul) else generic(board, work, storage)


def _product(board: Board, work: Work, storage: DType) -> dict[str, float]:
    """Of a matrix product. Weights of few vectors are read once, as quickly as memory gives them."""
    a, y = work.inputs[0], work.outputs[0]
    assert a is not None
    moved = [
        t.elements * 4.0 if c else t.elements * storage.bytes
        for t, c in zip(work.inputs, work.constant, strict=True)
        if t
    ]
    columns, terms = y.shape[-1] if y.rank > 1 else 1, a.shape[-1]
    rows = max(1, y.elements // columns)
    if rows <= MOST_ROWS:
        weights = work.inputs[1]
        if work.density <= SPARSE and weights is not None:  # six bytes for each that is not zero
            kept = TensorType(weights.dtype, (int(1.5 * work.density * weights.elements),))
            work = replace(work, inputs=(a, kept, *work.inputs[2:]))
        return generic(board, work, storage)
    tile = choose(rows, columns, terms, 1, board.multiprocessors)
    bytes = moved[0], sum(moved[1:]), y.elements * float(storage.bytes)
    return dense(board, tile, rows, columns, terms, 1, bytes)
