"""What there is to measure for a network, and what of it matters most."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from packer.ir import Graph, Node
from packer.ir.ops import Concat, Op, Reshape, Slice
from packer.planner.choices import Choice, choices_of
from packer.planner.costs import Costs, Signature, signature, work_of
from packer.planner.split import SHARED
from targets.base import Form, Layout, Target, Work, stored_bytes

__all__ = ["Candidate", "Candidates"]

_FREE = Concat | Reshape | Slice  # views where that can be: what is copied of them depends on their neighbours


@dataclass(frozen=True, slots=True)
class Candidate:
    """A piece of work in one form, of those that a plan may consist of. Where that leaves the output in registers,
    `reader` is the operator that reads it, whose work it does, too."""

    signature: Signature
    work: Work
    form: Form
    reader: Op | None = None


class Candidates:
    """All distinct candidates of a network for several numbers of cores, and what is known of their times.

    They are asked for best first: a candidate's `excess` is how much longer the best choice that needs it takes than
    the best choice its node has (1.0: it is part of the best), by what was measured where that is known and by the
    target's model elsewhere. So what the planner would take next is measured next.
    """

    def __init__(self, graph: Graph, target: Target, cores: Sequence[int], known: Mapping[Signature, float]) -> None:
        self.all: list[Candidate] = []
        self._numbers: dict[tuple[Work, Form], int] = {}
        self._nodes = 0
        self._node_of: list[int] = []  # by choice
        self._piece_choice: list[int] = []
        self._piece_core: list[int] = []
        self._piece_speed: list[float] = []
        self._piece_candidate: list[int] = []
        for count in cores:
            sized = target.on(target.machine.sized(count))
            for v, choices in enumerate(choices_of(graph, Costs(sized), count)):
                if not isinstance(graph.nodes[v].op, _FREE):
                    self._add(graph, sized, v, choices, count)
        one = target.on(target.machine.sized(1))
        touched = sum(value.type.bytes for value in graph.values.values())
        predicted = [_predicted(one, candidate, touched) for candidate in self.all]
        self._seconds = np.array([known.get(c.signature, t) for c, t in zip(self.all, predicted, strict=True)])
        self._open = np.array([c.signature not in known for c in self.all], bool)
        self._choice, self._core = np.array(self._piece_choice, int), np.array(self._piece_core, int)
        self._speed, self._candidate = np.array(self._piece_speed), np.array(self._piece_candidate, int)
        self._cores = max(cores)
        self._by_signature = {candidate.signature: i for i, candidate in enumerate(self.all)}

    @property
    def left(self) -> int:
        """How many are neither known nor handed out."""
        return int(self._open.sum())

    def next(self) -> Candidate | None:
        """The open candidate that matters most, which is open no longer; of equals the one that takes longest."""
        excess = np.where(self._open, self.excess(), math.inf)
        best = np.lexsort((-self._seconds, excess))[0] if self.left else -1
        if best < 0:
            return None
        self._open[best] = False
        return self.all[best]

    def learn(self, candidate: Candidate, seconds: float) -> None:
        """What a candidate takes has been measured."""
        self._seconds[self._by_signature[candidate.signature]] = seconds

    def reopen(self, candidate: Candidate) -> None:
        """A candidate was handed out for nothing."""
        self._open[self._by_signature[candidate.signature]] = True

    def excess(self) -> np.ndarray:
        """The excess of every candidate."""
        spent = self._seconds[self._candidate] / self._speed
        shape = len(self._node_of), self._cores
        busy = np.bincount(self._choice * self._cores + self._core, spent, math.prod(shape)).reshape(shape)
        seconds = busy.max(1)
        best = np.full(self._nodes, math.inf)
        np.minimum.at(best, self._node_of, seconds)
        excess = np.full(len(self.all), math.inf)
        np.minimum.at(excess, self._candidate, (seconds / best[self._node_of])[self._choice])
        return excess

    def _add(self, graph: Graph, target: Target, v: int, choices: Sequence[Choice], cores: int) -> None:
        """The choices of a node, each with every implementation of its layouts: which is cheapest is not known yet."""
        node = graph.nodes[v]
        forms = [form for form in target.forms(graph, node) if Layout.REGISTERS not in form.inputs]
        for choice in choices:
            works = [work_of(graph, node, part) for part in choice.parts]
            shared = choice.split.name == SHARED
            for form in forms:
                if (form.inputs, form.outputs) != (choice.form.inputs, choice.form.outputs):
                    continue
                if form.arithmetic != choice.form.arithmetic:
                    continue
                if choice.parts != (None,) and not target.splittable(graph, node, form):
                    continue
                if not all(form.fits(piece.box) for piece in choice.split.pieces):
                    continue
                for piece, work in zip(choice.split.pieces, works, strict=True):
                    speeds = target.machine.speeds(cores)
                    self._piece_choice.append(len(self._node_of))
                    self._piece_core.append(piece.core)
                    self._piece_speed.append(sum(speeds) if shared else speeds[piece.core])
                    self._piece_candidate.append(self._number(work, form, _reader(graph, node, form)))
                self._node_of.append(self._nodes)
        self._nodes += 1

    def _number(self, work: Work, form: Form, reader: Op | None) -> int:
        number = self._numbers.setdefault((work, form), len(self.all))
        if number == len(self.all):
            self.all.append(Candidate(signature(work, form), work, form, reader))
        return number


def _reader(graph: Graph, node: Node, form: Form) -> Op | None:
    """The operator that reads from registers what a node makes."""
    if Layout.REGISTERS not in form.outputs:
        return None
    return next(other.op for other in graph.nodes if node.outputs[0] in other.inputs)


def _predicted(target: Target, candidate: Candidate, touched: int) -> float:
    """What the model says to the conditions in which candidates are measured: weights were touched a run ago,
    everything else just now."""
    work, form = candidate.work, candidate.form
    sizes = [0 if t is None else stored_bytes(t, lay) for t, lay in zip(work.inputs, form.inputs, strict=True)]
    made = [stored_bytes(type, layout) for type, layout in zip(work.outputs, form.outputs, strict=False)]
    near = sum(sizes) + sum(made)
    distances = [max(touched, size) if constant else near for size, constant in zip(sizes, work.constant, strict=True)]
    return target.seconds(work, form, [*distances, *[near] * len(work.outputs)], 0, 1)
