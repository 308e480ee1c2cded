"""What a kernel asks of a board, and the time that it takes for that.

issue: schedulers and execution units; latency: warps that wait for memory, with none left to run; dram and l2: bytes;
shared: cycles of the banks of shared memory; code: instructions that no cache holds; launch: starting it. The parts
work at the same time, but not wholly so: together they take their norm of order 3, between the largest and the sum.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from targets.cuda.board import Board

__all__ = ["BOUNDS", "Demand", "held", "parts_of", "seconds_of"]

BOUNDS = ("issue", "latency", "dram", "l2", "shared", "code", "launch")
_ORDER = 3
_WARP, _SECTOR, _SCHEDULERS = 32, 32, 4
_THREADS, _BLOCKS, _REGISTERS = 2048, 32, 65_536  # that a multiprocessor holds


@dataclass(frozen=True, slots=True)
class Demand:
    """Of all blocks together: cycles of one scheduler (`slots`), of the busiest execution unit of a multiprocessor, of
    the banks of one; sectors of 32 bytes from the second-level cache; bytes from device memory; bytes of `code`, in so
    many `slices` of which a block executes one. `alone` are the cycles of the longest warp that has a scheduler for
    itself; a multiprocessor holds `held` blocks of `warps` warps."""

    blocks: int
    warps: int
    held: int
    slots: float
    units: float
    banks: float
    sectors: float
    dram: float
    code: float
    slices: int
    alone: float


def held(board: Board, threads: int, registers: int, shared: int) -> int:
    """Blocks that a multiprocessor holds."""
    warps = -(-threads // _WARP)
    most = [_BLOCKS, _THREADS // (warps * _WARP), _REGISTERS // (-(-registers // 8) * 8 * warps * _WARP)]
    if shared:
        most.append(board.shared_bytes // shared)
    return max(1, min(most))


def parts_of(demand: Demand, board: Board) -> dict[str, float]:
    """Seconds of each of BOUNDS. Blocks come whole: the multiprocessor with the most of them is the last to end."""
    own = demand
    most = math.ceil(own.blocks / board.multiprocessors)
    each = most / own.blocks
    hertz = board.ghz * 1e9
    return {
        "issue": max(own.slots / min(_SCHEDULERS, most * own.warps), own.units) * each / hertz,
        "latency": math.ceil(own.blocks / (own.held * board.multiprocessors)) * own.alone / hertz,
        "dram": own.dram / (board.gbps * 1e9),
        "l2": own.sectors * _SECTOR * each / (board.l2_bytes_per_cycle * hertz),
        "shared": own.banks * each / hertz,
        "code": _supply(own, board) / hertz,
        "launch": board.launch_seconds,
    }


def seconds_of(parts: Mapping[str, float]) -> float:
    """What the parts take together."""
    inside = sum(parts[name] ** _ORDER for name in BOUNDS if name != "launch")
    return float(parts["launch"] + inside ** (1 / _ORDER))


def _supply(own: Demand, board: Board) -> float:
    """Cycles in which a multiprocessor gets its code: once each slice that it sees; and if the slices that run together
    are larger than the instruction cache, again for each later wave of blocks, which are no longer in step."""
    each, blocks = own.code / own.slices, math.ceil(own.blocks / board.multiprocessors)
    seen = min(own.slices, blocks)
    together = min(seen, 1 + own.held * board.multiprocessors * own.slices // own.blocks)
    again = max(0, math.ceil(blocks / own.held) - seen) if together * each > board.code_bytes else 0
    return each * (seen / board.code_bytes_per_cycle + again / board.code_bytes_per_cycle_again)
