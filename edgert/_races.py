"""Race freedom of a program: within a phase, no core touches what another one writes."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from edgert.dtypes import Array

if TYPE_CHECKING:
    from edgert.reader import Program, Step, Tensor

__all__ = ["ALL_CORES", "Access", "Races"]

ALL_CORES = 255  # of a step: each core runs a share of its tasks
MAX_RANK = 8
ROWS = 256  # accesses that are compared with all others at a time


class Access(NamedTuple):
    """An operand of a step, by ids."""

    tensor: int
    step: int
    core: int
    writes: bool


class Races:
    """Compares what a program's cores touch: at most `most` pairs of accesses in the same memory, `pairs` so far."""

    def __init__(self, program: Program, most: int) -> None:
        self.program, self.most, self.pairs = program, most, 0
        tensors = program.tensors
        self.boxes = np.array([_box(tensor) for tensor in tensors], np.int64).reshape(len(tensors), 2, MAX_RANK)
        kinds: dict[object, int] = {}
        self.roots = np.array(
            [kinds.setdefault((_memory(t), t.offset, t.dtype, t.layout, t.whole, t.halo), len(kinds)) for t in tensors]
        )

    def find(self) -> Iterator[tuple[Access, Access]]:
        """Pairs that break the rule, the earlier step first; not all of them if `pairs` exceeds `most`."""
        steps = enumerate(self.program.steps)
        for _, phase in itertools.groupby(steps, lambda item: item[1].phase):
            found = list(phase)
            if _several_cores([step for _, step in found]):
                yield from self._phase(found)

    def _phase(self, steps: list[tuple[int, Step]]) -> Iterator[tuple[Access, Access]]:
        accesses = [
            Access(tensor, number, step.core, writes)
            for number, step in steps
            for ids, writes in ((step.inputs, False), (step.outputs, True))
            for tensor in ids
            if tensor >= 0
        ]
        tensors = self.program.tensors
        touching = [a for a in accesses if tensors[a.tensor].place != "segment" and tensors[a.tensor].bytes > 0]
        touching.sort(key=lambda a: (_memory(tensors[a.tensor]), tensors[a.tensor].offset))
        for _, group in itertools.groupby(touching, lambda a: _memory(tensors[a.tensor])):
            yield from self._memory(list(group))

    def _memory(self, accesses: list[Access]) -> Iterator[tuple[Access, Access]]:
        """Accesses of one memory, in the order of where their roots begin."""
        tensors = [self.program.tensors[a.tensor] for a in accesses]
        ends = np.array([t.offset + t.root_bytes for t in tensors], np.uint64)
        until = np.searchsorted(np.array([t.offset for t in tensors], np.uint64), ends)
        self.pairs += int(np.sum(until - np.arange(len(accesses)) - 1))
        if self.pairs > self.most:
            return
        ids, steps, cores, writes = (np.array(column) for column in zip(*accesses, strict=True))
        boxes, roots = self.boxes[ids], self.roots[ids]
        for begin in range(0, len(accesses), ROWS):
            rows = np.arange(begin, min(begin + ROWS, len(accesses)))
            counts = until[rows] - rows - 1
            a = np.repeat(rows, counts)
            b = a + 1 + np.arange(len(a)) - np.repeat(np.cumsum(counts) - counts, counts)
            others = (steps[a] != steps[b]) & ((cores[a] != cores[b]) | (cores[a] == ALL_CORES))
            pairs = np.flatnonzero(others & (writes[a] | writes[b]))
            a, b = a[pairs], b[pairs]
            disjoint = (boxes[a, 0] >= boxes[b, 1]) | (boxes[b, 0] >= boxes[a, 1])
            races = np.flatnonzero(~((roots[a] == roots[b]) & disjoint.any(axis=1)))
            for i, k in zip(a[races].tolist(), b[races].tolist(), strict=True):
                first, second = sorted((accesses[i], accesses[k]), key=lambda access: access.step)
                yield first, second


def _several_cores(steps: Sequence[Step]) -> bool:
    cores = {step.core for step in steps}
    return len(steps) > 1 and (len(cores) > 1 or ALL_CORES in cores)


def _memory(tensor: Tensor) -> tuple[str, int]:
    """Which memory: the arena, the device's, or an input or output."""
    return tensor.place, 0 if tensor.place in ("arena", "device") else tensor.index


def _box(tensor: Tensor) -> tuple[Array, Array]:
    """Begin and end in each of 8 dimensions."""
    begin, end = np.zeros(MAX_RANK, np.int64), np.ones(MAX_RANK, np.int64)
    rank = len(tensor.shape)
    begin[:rank] = tensor.begin or (0,) * rank
    end[:rank] = begin[:rank] + tensor.shape
    return begin, end
