"""The time of a kernel on a board, from what each part of the machine needs for what was counted.

issue: schedulers and execution units; latency: warps that wait for memory, with none left to run; dram and l2: bytes;
shared: cycles of the banks of shared memory; code: instructions that no cache holds; launch: starting it. The parts
work at the same time, but not wholly so: together they take their norm of order 3, between the largest and the sum.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from targets.cuda.board import Board
from targets.cuda.kernel import Kernel
from targets.cuda.model.code import MachineCode
from targets.cuda.model.machine import bytes_of_code, cost_of, rate
from targets.cuda.model.text import Instruction
from targets.cuda.model.walk import Counts

__all__ = ["BOUNDS", "Prediction", "classes_of", "dram_bytes", "predict", "resident"]

BOUNDS = ("issue", "latency", "dram", "l2", "shared", "code", "launch")
_ORDER = 3
_WARP, _SECTOR, _SCHEDULERS = 32, 32, 4
_THREADS, _BLOCKS, _REGISTERS = 2048, 32, 65_536  # that a multiprocessor holds
_BARRIER = 20  # cycles
_KEPT = ("ffma", "half", "shared", "global")  # classes of which assemblers neither add nor remove anything


@dataclass(frozen=True, slots=True)
class Prediction:
    """Seconds of a kernel and what they come from: `parts` by bound; machine instructions of warps by class; bytes from
    device memory; bytes of code; blocks that a multiprocessor holds."""

    seconds: float
    bound: str
    parts: Mapping[str, float]
    classes: Mapping[str, float]
    dram: float
    code: float
    resident: int


def predict(
    kernel: Kernel, counts: Counts, board: Board, sizes: Sequence[int], machine: MachineCode | None = None
) -> Prediction:
    """`sizes` are the bytes of the parameters; `machine` the assembler's code (None: as much as the PTX tells)."""
    classes = classes_of(counts, board.sm, machine)
    blocks = math.prod(kernel.grid)
    held = resident(kernel, counts, board, machine.registers if machine else counts.registers)
    together = held * board.multiprocessors
    hertz = board.ghz * 1e9
    # blocks come whole: the multiprocessor with the most of them is the last to end
    each = math.ceil(blocks / board.multiprocessors) / blocks
    units = max(times * _WARP / rate(kind, board.sm, board.lanes) for kind, times in classes.items())
    schedulers = min(_SCHEDULERS, math.ceil(blocks / board.multiprocessors) * -(-kernel.threads // _WARP))
    dram = dram_bytes(kernel, counts, board, sizes, together)
    code = machine.bytes if machine else bytes_of_code(sum(counts.text(board.sm).values()), board.sm)
    parts = {
        "issue": max(_slots(classes, board, machine) / schedulers, units) * each / hertz,
        "latency": math.ceil(blocks / together) * _alone(counts, board) / hertz,
        "dram": dram / (board.gbps * 1e9),
        "l2": counts.global_sectors * _SECTOR * each / (board.l2_bytes_per_cycle * hertz),
        "shared": counts.shared_cycles * each / hertz,
        "code": _supply(code, counts.slices, blocks, held, board) / hertz,
        "launch": board.launch_seconds,
    }
    bound = max(parts, key=lambda name: parts[name])
    inside = sum(parts[name] ** _ORDER for name in BOUNDS if name != "launch") ** (1 / _ORDER)
    return Prediction(board.launch_seconds + inside, bound, parts, classes, dram, code, held)


def classes_of(counts: Counts, sm: int, machine: MachineCode | None = None) -> dict[str, float]:
    """Machine instructions of warps by class. What the assembler made of a class, in the text, tells what it made of
    those that are executed; that it repeated loops is told by more products and accesses than the text has."""
    found, static = counts.executed(sm), counts.text(sm)
    if machine is None or not machine.classes:
        return dict(found)
    repeated = sum(machine.classes.get(kind, 0) for kind in _KEPT) / max(1.0, sum(static[kind] for kind in _KEPT))
    often = sum(found.values()) / sum(static.values())  # an instruction, on average
    return {
        kind: real / max(1.0, repeated) * (found[kind] / static[kind] if static[kind] else often)
        for kind, real in machine.classes.items()
    }


def resident(kernel: Kernel, counts: Counts, board: Board, registers: int) -> int:
    """Blocks that a multiprocessor holds of a kernel with so many registers a thread."""
    own = -(-registers // 8) * 8
    threads = -(-kernel.threads // _WARP) * _WARP
    most = [_BLOCKS, _THREADS // threads, _REGISTERS // (own * threads)]
    if counts.shared:
        most.append(board.shared_bytes // counts.shared)
    return max(1, min(most))


def dram_bytes(kernel: Kernel, counts: Counts, board: Board, sizes: Sequence[int], together: int) -> float:
    """Bytes from and to device memory. An operand that the second-level cache holds is read once; of others each wave
    of blocks that run `together` reads what it touches again."""
    total = 0.0
    waves = math.ceil(math.prod(kernel.grid) / together)
    for name, size in zip(counts.parameters, sizes, strict=True):
        operand = counts.operands.get(name)
        if operand is None:
            continue
        touched = (operand.loads + operand.stores) * _SECTOR
        once = min(float(size), touched)
        if operand.stores:
            total += once + min(once, operand.loads * _SECTOR)
            continue
        places = math.prod(extent for extent, own in zip(kernel.grid, operand.along, strict=True) if own)
        wave = once * min(1.0, _distinct(kernel.grid, operand.along, together) / places)
        total += once if size <= board.l2_bytes / 2 else min(touched, max(once, waves * wave))
    return total


def _distinct(grid: tuple[int, int, int], along: tuple[bool, bool, bool], together: int) -> int:
    """Blocks that differ in the dimensions `along`, of `together` that follow each other."""
    found, left = 1, together
    for extent, own in zip(grid, along, strict=True):
        found *= min(extent, left) if own else 1
        left = -(-left // extent)
    return found


def _slots(classes: Mapping[str, float], board: Board, machine: MachineCode | None) -> float:
    """Cycles of a scheduler for the instructions of all warps: some go together with the one before."""
    every = sum(classes.values())
    if machine is not None:
        return every * (1 - machine.together / machine.instructions)
    memory = classes.get("shared", 0.0) + classes.get("global", 0.0)
    return every - board.dual_issue * min(memory, classes.get("ffma", 0.0))


def _alone(counts: Counts, board: Board) -> float:
    """Cycles of the longest warp if it has a scheduler for itself: loads of a block of code are on the way together,
    and what uses the first of them waits."""
    total = now = 0.0
    arrives: dict[str, float] = {}
    for instructions, times in counts.path:
        begin = now
        for instruction in instructions:
            now = _step(instruction, now, arrives, board)
        total += (now - begin) * times
    return total


def _step(instruction: Instruction, now: float, arrives: dict[str, float], board: Board) -> float:
    """When the next instruction can go."""
    access = instruction.access
    if arrives:
        for name in instruction.operands:
            if name in arrives:
                now = max(now, arrives.pop(name))
    if instruction.code == "bar.sync":
        now += _BARRIER
    if access is not None and access.space == "global" and not access.store:
        for name in instruction.operands:
            if name.startswith("%"):
                arrives[name] = now + board.memory_cycles
    return now + cost_of(instruction.code, board.sm).machine * instruction.count


def _supply(code: float, slices: int, blocks: int, held: int, board: Board) -> float:
    """Cycles in which a multiprocessor gets its code: once each wave of blocks of a slice if the slice is larger than
    the instruction cache, once if not."""
    waves = math.ceil(blocks / slices / (board.multiprocessors * held)) if code / slices > board.code_bytes else 1
    return waves * code / board.code_bytes_per_cycle
