"""Operators with a thread for one element or four: what they read again and again comes from the cache."""

from __future__ import annotations

import math

from packer.ir import DType
from packer.ir.ops import Conv, ConvTranspose, Lrn, Normalize, Pool, Resize, Softmax
from targets.base import Work
from targets.cuda.board import Board
from targets.cuda.costs.memory import SECTOR
from targets.cuda.demand import Demand, held, parts_of

__all__ = ["generic"]

_THREADS, _REGISTERS, _WARP = 256, 48, 32
_READ, _ONCE = 4, 30  # instructions of a thread for an element that it reads, and for one that it makes


def generic(board: Board, work: Work, storage: DType) -> dict[str, float]:
    """Seconds of each of demand.BOUNDS, floats stored as `storage`."""
    y = work.outputs[0]
    size = _size(y.dtype, storage)
    moved = sum(t.elements * _size(t.dtype, storage) for t in (*work.inputs, *work.outputs) if t is not None)
    reads = _reads(work)
    threads = max(1, y.elements)
    blocks, warps = -(-threads // _THREADS), _THREADS // _WARP
    issued = _ONCE + _READ * reads
    own = Demand(
        blocks=blocks,
        warps=warps,
        held=held(board, _THREADS, _REGISTERS, 0),
        slots=blocks * warps * issued,
        units=blocks * warps * reads,
        banks=0.0,
        sectors=(threads * (reads + 1) * size + moved) / SECTOR,
        dram=moved,
        code=0.0,
        slices=1,
        alone=issued + 2 * board.memory_cycles,
    )
    return parts_of(own, board)


def _size(dtype: DType, storage: DType) -> int:
    return storage.bytes if dtype is DType.F32 else dtype.bytes


def _reads(work: Work) -> float:
    """Elements that a thread reads for one of the output."""
    op, weights = work.op, work.inputs[1] if len(work.inputs) > 1 else None
    if isinstance(op, Conv | ConvTranspose) and weights is not None:
        return 2.0 * math.prod(weights.shape[1:])
    if isinstance(op, Pool):
        return float(math.prod(op.kernel))
    if isinstance(op, Lrn):
        return float(op.size)
    if isinstance(op, Softmax | Normalize):
        return 3.0
    if isinstance(op, Resize):
        return {"nearest": 1.0, "linear": 4.0, "cubic": 16.0}[op.mode]
    whole = max((t.elements for t in work.inputs if t is not None), default=0)
    return max(1.0, whole / max(1, work.outputs[0].elements))
