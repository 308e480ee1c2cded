"""Operators with a thread for one element or four: what they read again and again comes from the cache."""

from __future__ import annotations

import math
from dataclasses import dataclass

from packer.ir import DType
from packer.ir.ops import Binary, Conv, ConvTranspose, Lrn, Normalize, Op, Pool, Resize, ScaleShift, Softmax, Unary
from targets.base import Work
from targets.cuda.board import Board
from targets.cuda.costs.memory import SECTOR
from targets.cuda.demand import Demand, held, parts_of

__all__ = ["generic"]

_THREADS, _REGISTERS, _WARP = 256, 48, 32


@dataclass(frozen=True, slots=True)
class _Family:
    """What kernels of a family do for an element of the output: `once` instructions and `each` for an element that is
    read, of which a `share` comes from the second-level cache again. A thread makes `together` of them."""

    once: float = 40
    each: float = 4
    share: float = 1.0
    together: float = 1.0


_FAMILIES: dict[type[Op], _Family] = {
    Binary: _Family(50, 7, 0.0, 3.0),
    Unary: _Family(50, 7, 0.0, 3.0),
    ScaleShift: _Family(50, 7, 0.0, 3.0),
    Conv: _Family(10, 1, 0.2, 1.0),
    Pool: _Family(20, 9, 1.6, 1.0),
    Lrn: _Family(60, 7, 0.1, 6.0),
}
_OTHER = _Family()


def generic(board: Board, work: Work, storage: DType) -> dict[str, float]:
    """Seconds of each of demand.BOUNDS, floats stored as `storage`."""
    y, own = work.outputs[0], _FAMILIES.get(type(work.op), _OTHER)
    size = _size(y.dtype, storage)
    moved = sum(t.elements * _size(t.dtype, storage) for t in (*work.inputs, *work.outputs) if t is not None)
    reads, strides = _reads(work), getattr(work.op, "strides", ())
    share = 0.8 if isinstance(work.op, Conv) and max(strides) > 1 else own.share  # lanes skip elements
    blocks, warps = -(-max(1, y.elements) // int(_THREADS * own.together)), _THREADS // _WARP
    issued = (own.once + own.each * reads) * own.together
    demand = Demand(
        blocks=blocks,
        warps=warps,
        held=held(board, _THREADS, _REGISTERS, 0),
        slots=blocks * warps * issued,
        units=blocks * warps * reads,
        banks=0.0,
        sectors=(y.elements * reads * share * size + moved) / SECTOR,
        dram=moved,
        code=0.0,
        slices=1,
        alone=issued + 2 * board.memory_cycles,
    )
    return parts_of(demand, board)


def _size(dtype: DType, storage: DType) -> int:
    return storage.bytes if dtype is DType.F32 else dtype.bytes


def _reads(work: Work) -> float:
    """Elements that are read for one of the output."""
    op, weights = work.op, work.inputs[1] if len(work.inputs) > 1 else None
    if isinstance(op, Conv | ConvTranspose) and weights is not None:
        return float(math.prod(weights.shape[1:]))
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
