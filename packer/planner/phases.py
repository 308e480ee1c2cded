"""Steps in phases: within a phase each core goes through its own steps in order; between phases all wait for each
other.

A new phase begins when a step touches memory that another core touches in this phase, if one of both writes it. Cores
that only use what they made themselves run on without waiting, as long as that does not take much more memory.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from packer.bundle.model import ALL_CORES, Place, Step
from packer.ir import Box, whole
from packer.planner.tensors import Tensors
from targets.base import DEVICE_KERNELS, Attribute

__all__ = ["Pending", "Phases"]

WORTH_WAITING = 1 << 19  # bytes that can be used again: far more than cores move while they wait
MOST_TOUCHES = 4096  # in one phase of several cores: what a loader checks


@dataclass(frozen=True, slots=True)
class Pending:
    """A step without a phase yet."""

    core: int
    kernel: str
    nodes: tuple[str, ...]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    attributes: tuple[Attribute, ...]
    modules: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _Touch:
    """A core reads or writes a box of a tensor; those of one kind in one buffer are compared as boxes."""

    core: int
    kind: tuple[object, ...]
    box: Box
    writes: bool

    def conflicts(self, other: _Touch) -> bool:
        if not (self.writes or other.writes) or (self.core == other.core and self.core != ALL_CORES):
            return False
        if self.kind != other.kind:
            return True
        return all(a < d and c < b for (a, b), (c, d) in zip(self.box, other.box, strict=True))


class Phases:
    """The steps so far, and what has been touched in the last phase."""

    def __init__(self, tensors: Tensors, cores: int) -> None:
        self.tensors = tensors
        self.cores = cores
        self.steps: list[Step] = []
        self.modules: dict[str, int] = {}  # PTX of the device's code, by its number
        self.phase = 0
        self._batches: list[int] = []  # the first step of each
        self._touched: dict[int, list[_Touch]] = {}  # by buffer
        self._count = 0

    def run(self, batch: Sequence[Pending]) -> None:
        """Append steps that do not depend on each other, unless they are of one core: all in one phase."""
        touches = [touch for pending in batch for touch in self._touches(pending)] if self.cores > 1 else []
        full = self._count + len(touches) > MOST_TOUCHES
        if full or any(t.conflicts(other) for b, t in touches for other in self._touched.get(b, ())):
            self.phase += 1
            self._touched.clear()
            self._count = 0
        for buffer, touch in touches:
            self._touched.setdefault(buffer, []).append(touch)
        self._count += len(touches)
        if batch:
            self._batches.append(len(self.steps))
        for p in batch:
            attributes = p.attributes
            if p.kernel in DEVICE_KERNELS:
                own = (self.modules.setdefault(text, len(self.modules)) for text in p.modules)
                attributes = (*attributes, Attribute("module", ints=tuple(own)))
            self.steps.append(Step(p.kernel, p.nodes, p.inputs, p.outputs, attributes, p.core, self.phase))

    def end_early(self) -> None:
        """Let phases end, too, where a good part of their memory was used for the last time and can be used again: that
        lies in a cache, and other memory need not."""
        if self.cores == 1:
            return
        batches = list(itertools.pairwise((*self._batches, len(self.steps))))
        spans: dict[int, tuple[int, int]] = {}  # the first and last batch in which each buffer is used
        for i, (begin, end) in enumerate(batches):
            for buffer in itertools.chain.from_iterable(map(self._buffers, self.steps[begin:end])):
                spans[buffer] = (spans.get(buffer, (i, i))[0], i)
        taken: Counter[int] = Counter()  # bytes, by batch
        freed: Counter[int] = Counter()
        for buffer, (first, last) in spans.items():
            taken[first] += self.tensors.buffers[buffer].bytes
            freed[last] += self.tensors.buffers[buffer].bytes
        before = free = added = 0  # the phase of the batch before; bytes freed in this one; phases
        for i, (begin, end) in enumerate(batches):
            phase = self.steps[begin].phase
            if phase > before:
                free = 0
            elif min(free, taken[i]) >= WORTH_WAITING:
                free, added = 0, added + 1
            before, free = phase, free + freed[i]
            self.steps[begin:end] = [replace(step, phase=phase + added) for step in self.steps[begin:end]]

    def _buffers(self, step: Step) -> Iterator[int]:
        """Those in the arena that a step touches."""
        for tensor in (*step.inputs, *step.outputs):
            buffer = self.tensors.buffer_of[tensor] if tensor >= 0 else -1
            if buffer >= 0 and self.tensors.buffers[buffer].place is Place.ARENA:
                yield buffer

    def lives(self, kept: Iterable[int]) -> dict[int, tuple[int, int]]:
        """The first and last step in which each buffer is used: all steps of a phase are at once, unless one core does
        them all. The tensors `kept` live to the end."""
        spans: dict[int, tuple[int, int]] = {}
        cores: dict[int, set[int]] = {}
        for number, step in enumerate(self.steps):
            spans[step.phase] = (spans.get(step.phase, (number, 0))[0], number)
            cores.setdefault(step.phase, set()).add(step.core)
        lives: dict[int, tuple[int, int]] = {}
        for number, step in enumerate(self.steps):
            first = last = number
            if len(cores[step.phase]) > 1 or ALL_CORES in cores[step.phase]:
                first, last = spans[step.phase]
            for tensor in (*step.inputs, *step.outputs):
                buffer = self.tensors.buffer_of[tensor] if tensor >= 0 else -1
                if buffer >= 0:
                    before = lives.get(buffer, (first, last))
                    lives[buffer] = (min(before[0], first), max(before[1], last))
        for tensor in kept:
            buffer = self.tensors.buffer_of[tensor]
            if buffer in lives:
                lives[buffer] = (lives[buffer][0], len(self.steps))
        return lives

    def _touches(self, pending: Pending) -> Iterable[tuple[int, _Touch]]:
        for tensors, writes in ((pending.inputs, False), (pending.outputs, True)):
            for number in tensors:
                buffer = self.tensors.buffer_of[number] if number >= 0 else -1
                if buffer >= 0:
                    tensor = self.tensors.all[number]
                    root = self.tensors.all[tensor.root] if tensor.root >= 0 else tensor
                    box = tensor.within if tensor.root >= 0 else whole(tensor.type)
                    yield buffer, _Touch(pending.core, (root.layout, root.type), box, writes)
