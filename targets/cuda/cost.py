"""Predicted times on a GPU, for the planner."""

from __future__ import annotations

from packer.ir import DType
from packer.ir.ops import Conv, MatMul, Reshape
from targets.base import Work
from targets.cuda.board import Board
from targets.cuda.costs import dense, generic
from targets.cuda.demand import seconds_of
from targets.cuda.dense.tile import choose
from targets.cuda.geometry import Geometry
from targets.cuda.ranking import parts

__all__ = ["move_seconds", "seconds"]


def seconds(board: Board, work: Work, implementation: str, storage: DType) -> float:
    """Of a node in an implementation, floats stored as `storage`."""
    if isinstance(work.op, Reshape):
        return 0.0
    if isinstance(work.op, Conv) and implementation != "cuda":
        return seconds_of(
            parts(board, Geometry.of(work.op, work.inputs, work.outputs[0], work.density, storage), implementation)
        )
    if isinstance(work.op, MatMul):
        return _product(board, work, storage)
    return seconds_of(generic(board, work, storage))


def move_seconds(board: Board, elements: int) -> float:
    """Of a value between the processor's memory and planes: copied, written and read again, and waited for."""
    return 3 * 4 * elements / (board.gbps * 1e9) + board.launch_seconds + board.wait_seconds


def _product(board: Board, work: Work, storage: DType) -> float:
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
    if rows <= 8:
        return seconds_of(generic(board, work, storage))
    tile = choose(rows, columns, terms, 1, board.multiprocessors)
    bytes = moved[0], sum(moved[1:]), y.elements * float(storage.bytes)
    return seconds_of(dense(board, tile, rows, columns, terms, 1, bytes))
