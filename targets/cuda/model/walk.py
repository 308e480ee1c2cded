"""The way of some blocks through a kernel, and what all blocks do if the others do the same.

Threads that part at a branch go on one after the other, those first whose code comes first, and meet again behind.
Addresses are looked at in the first two visits of a block of code; later ones count as the second.
"""

from __future__ import annotations

import itertools
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from targets.cuda.kernel import Kernel
from targets.cuda.model.machine import cost_of
from targets.cuda.model.memory import bank_cycles, sectors
from targets.cuda.model.pressure import registers
from targets.cuda.model.text import Access, Block, Instruction, Program, parse
from targets.cuda.model.values import APART, Values, needed

__all__ = ["Counts", "Operand", "count"]

_WARP = 32
_MOST_VISITS = 1 << 20  # of all blocks of code together: more is no kernel of this package


@dataclass(slots=True)
class Operand:
    """What is read and written of a parameter: `sectors` of 32 bytes with repetitions; `along` tells for each dimension
    of the grid whether blocks that differ in it touch different places."""

    loads: float = 0.0
    stores: float = 0.0
    along: tuple[bool, bool, bool] = (False, False, False)


@dataclass(slots=True)
class Counts:
    """What all blocks of a kernel execute together: instructions of warps by opcode and type, as the emulator names
    them; requests of memory, sectors of 32 bytes, cycles of the banks of shared memory. `path` has the instructions of
    the longest way of one warp."""

    instructions: dict[str, float] = field(default_factory=lambda: defaultdict(float))
    global_requests: float = 0.0
    global_sectors: float = 0.0
    shared_requests: float = 0.0
    shared_cycles: float = 0.0
    operands: dict[str, Operand] = field(default_factory=dict)
    path: list[tuple[list[Instruction], float]] = field(default_factory=list)
    parameters: tuple[str, ...] = ()
    shared: int = 0  # bytes of a block
    registers: int = 255
    code: Counter[str] = field(default_factory=Counter)  # instructions in the text
    warps: float = 0.0
    slices: int = 1  # ways through the code that blocks take, by the grid's last dimension

    @property
    def issued(self) -> float:
        """Instructions of all warps."""
        return sum(self.instructions.values())

    def executed(self, sm: int) -> dict[str, float]:
        """Machine instructions of warps by class, as far as PTX tells."""
        return _classes(self.instructions, sm)

    def text(self, sm: int) -> dict[str, float]:
        """Machine instructions in the code by class, as far as PTX tells."""
        return _classes(self.code, sm)


def _classes(opcodes: Mapping[str, float], sm: int) -> dict[str, float]:
    found: dict[str, float] = defaultdict(float)
    for opcode, times in opcodes.items():
        cost = cost_of(opcode, sm)
        found[cost.kind] += cost.machine * times
    return found


@dataclass(slots=True)
class _Group:
    """What a block of code does each time: `steps` are instructions that are needed, and accesses with how often."""

    codes: Counter[str]
    control: list[Instruction]
    steps: list[Instruction | tuple[Access, str, bool, int]]
    last: Instruction | None
    visits: int = 0


def count(kernel: Kernel, operands: Sequence[np.ndarray | None] = (), samples: int = 4) -> Counts:
    """Counts over all blocks, from about so many of them in each dimension of the grid (0: all). Of the parameters
    `operands` may say what is in memory."""
    program = parse(kernel.ptx)
    places, weights = _places(kernel.grid, samples)
    return _Walk(program, kernel, operands, places, weights).run()


def _places(grid: tuple[int, int, int], samples: int) -> tuple[np.ndarray, np.ndarray]:
    """Blocks that stand for all, and for how many each. Slices, the last dimension, are all different."""
    own = [_along(extent, samples * (16 if axis == 2 else 1)) for axis, extent in enumerate(grid)]
    found = list(itertools.product(*own))
    places = np.array([[place for place, _ in one] for one in found], np.int64)
    return places, np.array([float(np.prod([weight for _, weight in one])) for one in found])


def _along(extent: int, samples: int) -> list[tuple[int, float]]:
    """Numbers below the extent and their weights: evenly spread ones, and the last one for itself."""
    if samples == 0 or extent <= samples + 1:
        return [(i, 1.0) for i in range(extent)]
    step = (extent - 1) / samples
    return [(int((i + 0.5) * step) if i else 0, step) for i in range(samples)] + [(extent - 1, 1.0)]


class _Walk:
    def __init__(
        self,
        program: Program,
        kernel: Kernel,
        operands: Sequence[np.ndarray | None],
        places: np.ndarray,
        weights: np.ndarray,
    ) -> None:
        self._program, self._kernel, self._weights = program, kernel, weights
        threads = -(-kernel.threads // _WARP) * _WARP
        self._warps = threads // _WARP
        lanes = np.tile(np.arange(threads), len(places))
        special = {"%tid.x": lanes, "%ntid.x": np.full(len(lanes), kernel.threads), "%laneid": lanes % _WARP}
        for axis, name in enumerate("xyz"):
            special[f"%ctaid.{name}"] = np.repeat(places[:, axis], threads)
            special[f"%nctaid.{name}"] = np.full(len(lanes), kernel.grid[axis])
        self._values = Values(special, program.parameters, operands, program.shared, threads)
        self._places = places
        self._alive = lanes < kernel.threads
        self._counts = Counts(parameters=program.parameters, shared=program.shared, registers=registers(program))
        self._first: dict[str, dict[int, int]] = defaultdict(dict)  # by parameter: least address of each sampled block
        self._groups = self._grouped()

    def run(self) -> Counts:
        program, counts = self._program, self._counts
        count = len(self._places)
        at = np.where(self._alive, 0, len(program.blocks))
        remembered: dict[int, tuple[float, ...]] = {}
        total = np.zeros(len(self._weights))
        runs: dict[int, np.ndarray] = defaultdict(lambda: np.zeros(count))
        for _ in range(_MOST_VISITS):
            number = int(at.min())
            if number >= len(program.blocks):
                break
            mine = np.flatnonzero(at == number)
            group = self._groups[number]
            present = np.zeros(count * self._warps, bool)
            present[mine // _WARP] = True
            warps = present.reshape(count, self._warps).sum(axis=1)
            runs[number] += warps
            if group.visits < 2:
                found = self._memory(group, mine)
                remembered[number] = tuple(value / max(1.0, float(warps @ self._weights)) for value in found)
            else:
                for instruction in group.control:
                    self._values.run(instruction, mine)
                self._again(remembered[number], float(warps @ self._weights))
            group.visits += 1
            at[mine] = number + 1
            last = group.last
            if last is not None:
                taken = mine[self._values.passes(last, mine)]
                at[taken] = program.labels[last.operands[0]] if last.code == "bra" else len(program.blocks)
        else:
            raise ValueError("expected a kernel that ends")
        for number, own in runs.items():
            total += own * self._groups[number].codes.total()
            times = float(own @ self._weights)
            for code, each in self._groups[number].codes.items():
                counts.instructions[code] += each * times
        self._finish(runs, total)
        return counts

    def _finish(self, runs: dict[int, np.ndarray], total: np.ndarray) -> None:
        """What is known when all blocks have been followed."""
        counts = self._counts
        longest = int(total.argmax())
        counts.path = [
            (self._program.blocks[number].instructions, float(own[longest]) / self._warps)
            for number, own in sorted(runs.items())
            if own[longest]
        ]
        for block in self._program.blocks:
            for instruction in block.instructions:
                counts.code[instruction.code] += instruction.count
        counts.warps = float(self._weights.sum()) * self._warps
        ways = {tuple(sorted(number for number, own in runs.items() if own[i])) for i in range(len(self._places))}
        counts.slices = min(len(ways), self._kernel.grid[2])
        for name, first in self._first.items():
            if name in counts.operands:
                counts.operands[name].along = self._along(first)

    def _along(self, first: dict[int, int]) -> tuple[bool, bool, bool]:
        """Whether blocks that differ in one dimension only begin at different addresses."""
        found = [False, False, False]
        for axis in range(3):
            by_rest: dict[tuple[int, ...], set[int]] = defaultdict(set)
            for i, address in first.items():
                by_rest[tuple(np.delete(self._places[i], axis).tolist())].add(address)
            found[axis] |= any(len(addresses) > 1 for addresses in by_rest.values())
        return found[0], found[1], found[2]

    def _grouped(self) -> list[_Group]:
        roots = {i.guard for b in self._program.blocks for i in b.instructions if i.guard and i.code in _BRANCHES}
        control = needed(self._program, roots)
        accesses = [i for b in self._program.blocks for i in b.instructions if i.access is not None]
        every = needed(
            self._program,
            roots | {i.access.register for i in accesses if i.access} | {i.guard for i in accesses if i.guard},
        )
        return [self._group(block, control, every) for block in self._program.blocks]

    def _group(self, block: Block, control: set[str], every: set[str]) -> _Group:
        codes: Counter[str] = Counter()
        own, steps = [], list[Instruction | tuple[Access, str, bool, int]]()
        pending: Counter[tuple[Access, str, bool]] = Counter()
        for instruction in block.instructions:
            codes[instruction.code] += instruction.count
            if (access := instruction.access) is not None:
                offset = access.offset % (32 if access.space == "global" else access.bytes)
                key = Access(access.space, access.store, access.bytes, access.register, offset, access.cached)
                pending[key, instruction.guard, instruction.unless] += 1
            targets = instruction.targets
            if access is not None and access.store and access.space == "shared":
                targets = ("shared",)
            if instruction.code == "fma.rn.f32" or not any(name in every for name in targets):
                continue
            changed = [key for key in pending if key[0].register in targets or key[1] in targets]
            steps += [(*key, pending.pop(key)) for key in changed]
            steps.append(instruction)
            if any(name in control for name in targets):
                own.append(instruction)
        steps += [(*key, times) for key, times in pending.items()]
        last = block.instructions[-1] if block.instructions else None
        return _Group(codes, own, steps, last if last is not None and last.code in _BRANCHES else None)

    def _memory(self, group: _Group, mine: np.ndarray) -> tuple[float, ...]:
        """Do all that addresses need, and count what memory sees: requests and sectors of global memory, requests and
        cycles of shared memory."""
        found = [0.0, 0.0, 0.0, 0.0]
        for step in group.steps:
            if isinstance(step, Instruction):
                self._values.run(step, mine)
                continue
            access, guard, unless, times = step
            at = mine[self._values.passes(Instruction("", (), guard, unless), mine)]
            if not len(at):
                continue
            lanes = np.full(len(self._alive), -1, np.int64)
            lanes[at] = self._values.register(access.register, at) + access.offset
            by_warp = lanes.reshape(-1, _WARP)
            active = np.flatnonzero((by_warp >= 0).any(axis=1))
            weights = self._weights[active // self._warps] * times
            by_warp = by_warp[active]
            if access.space == "global":
                touched = float(sectors(by_warp) @ weights)
                found[0] += float(weights.sum())
                found[1] += touched
                self._note(access, by_warp, active, touched)
            else:
                found[2] += float(weights.sum())
                found[3] += float(bank_cycles(by_warp, access.bytes) @ weights)
        self._counts.global_requests += found[0]
        self._counts.global_sectors += found[1]
        self._counts.shared_requests += found[2]
        self._counts.shared_cycles += found[3]
        return tuple(found)

    def _again(self, each: Sequence[float], warps: float) -> None:
        counts = self._counts
        counts.global_requests += each[0] * warps
        counts.global_sectors += each[1] * warps
        counts.shared_requests += each[2] * warps
        counts.shared_cycles += each[3] * warps

    def _note(self, access: Access, by_warp: np.ndarray, active: np.ndarray, sectors: float) -> None:
        """Which operand that was, and where in it each block begins."""
        top = int(by_warp.max())
        number = (top + APART // 2) // APART - 1
        if not 0 <= number < len(self._program.parameters):
            return
        name = self._program.parameters[number]
        operand = self._counts.operands.setdefault(name, Operand())
        if access.store:
            operand.stores += sectors
        else:
            operand.loads += sectors
        least = np.where(by_warp >= 0, by_warp, top).min(axis=1)
        first = self._first[name]
        for block in np.unique(active // self._warps).tolist():
            own = int(least[active // self._warps == block].min())
            first.setdefault(block, own)


_BRANCHES = ("bra", "ret", "exit")
