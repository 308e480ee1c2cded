"""The time of a kernel on a board, from what it executes."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from targets.cuda.board import Board
from targets.cuda.demand import Demand, held, parts_of, seconds_of
from targets.cuda.kernel import Kernel
from targets.cuda.model.code import MachineCode
from targets.cuda.model.machine import bytes_of_code, cost_of, rate
from targets.cuda.model.text import Instruction
from targets.cuda.model.walk import Counts

__all__ = ["Prediction", "classes_of", "dram_bytes", "predict"]

_WARP, _SECTOR = 32, 32
_LOOPS = 1.2  # times as many products and accesses: loops were repeated
_BARRIER = 20  # cycles
_KEPT = ("ffma", "half", "shared", "global")  # classes of which assemblers neither add nor remove anything


@dataclass(frozen=True, slots=True)
class Prediction:
    """Seconds of a kernel and what they come from: `parts` by bound; machine instructions of warps by class; and what
    it asks of the board."""

    seconds: float
    bound: str
    parts: Mapping[str, float]
    classes: Mapping[str, float]
    demand: Demand


def predict(
    kernel: Kernel, counts: Counts, board: Board, sizes: Sequence[int], machine: MachineCode | None = None
) -> Prediction:
    """`sizes` are the bytes of the parameters; `machine` the assembler's code (None: as much as the PTX tells)."""
    classes = classes_of(counts, board.sm, machine)
    registers = machine.registers if machine else counts.registers
    together = held(board, kernel.threads, registers, counts.shared)
    dram = dram_bytes(kernel, counts, board, sizes, together * board.multiprocessors)
    demand = Demand(
        blocks=math.prod(kernel.grid),
        warps=-(-kernel.threads // _WARP),
        held=together,
        slots=_slots(classes, board, machine),
        units=max(times * _WARP / rate(kind, board.sm, board.lanes) for kind, times in classes.items()),
        banks=counts.shared_cycles,
        sectors=counts.global_sectors,
        dram=dram,
        code=machine.bytes if machine else bytes_of_code(sum(counts.text(board.sm).values()), board.sm),
        slices=counts.slices,
        alone=_alone(counts, board),
    )
    parts = parts_of(demand, board)
    bound = max(parts, key=lambda name: parts[name])
    return Prediction(seconds_of(parts), bound, parts, classes, demand)


def classes_of(counts: Counts, sm: int, machine: MachineCode | None = None) -> dict[str, float]:
    """Machine instructions of warps by class. What the assembler made of a class, in the text, tells what it made of
    those that are executed; that it repeated loops is told by more products and accesses than the text has."""
    found, static = counts.executed(sm), counts.text(sm)
    if machine is None or not machine.classes:
        return dict(found)
    repeated = sum(machine.classes.get(kind, 0) for kind in _KEPT) / max(1.0, sum(static[kind] for kind in _KEPT))
    often = sum(found.values()) / sum(static.values())  # an instruction, on average
    return {
        kind: real / (repeated if repeated > _LOOPS else 1.0) * (found[kind] / static[kind] if static[kind] else often)
        for kind, real in machine.classes.items()
    }


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
    return every - board.dual_issue * min(memory, classes.get("ffma", 0.0) + classes.get("half", 0.0))


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
