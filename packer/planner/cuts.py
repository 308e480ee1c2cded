"""Cuts: a split of a node's output with the sub-operators of its pieces, made once for all nodes that are alike."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from packer.ir import Graph, Node, TensorType, extents_of
from packer.ir.ops import Dependence, Part
from packer.planner.bands import row_axis
from packer.planner.costs import Costs, density_of, uneven, work_of
from packer.planner.split import SHARED, Split, splits, together, weighed
from targets.base import Work

__all__ = ["Cut", "Cuts"]


@dataclass(frozen=True, slots=True, eq=False)
class Cut:
    """`parts` are the sub-operators of the pieces of `split` (None: the whole node). `works` are what they compute, all
    that takes the same time once, each with its number and a core that computes it; `which` tells for each piece which
    of them. `torn` are the inputs of which a part reads a part of a block of channels. `met` are the cache lines of a
    planar output that a core shares with others, `ahead` those of others that are fetched ahead at the end of each run
    of its own, both of the core that has most. `rows` is the axis of rows if they alone are cut, else 0. Cuts of the
    same pieces have the same `state`."""

    split: Split
    parts: tuple[Part | None, ...]
    works: tuple[tuple[Work, int, int], ...]
    which: tuple[int, ...]
    torn: tuple[int, ...]
    met: int
    ahead: float
    rows: int
    state: int


class Cuts:
    """The cuts of a graph's nodes for cores of these speeds, fastest first."""

    def __init__(self, graph: Graph, costs: Costs, speeds: tuple[float, ...]) -> None:
        self.graph = graph
        self.costs = costs
        self.speeds = speeds
        self._of: dict[tuple[object, ...], tuple[Cut, ...]] = {}  # of nodes that are alike
        self._states: dict[tuple[object, ...], int] = {}
        self._met: dict[tuple[int, TensorType], tuple[int, float, int]] = {}  # to `rows`, by state and output

    def grain(self, node: Node) -> tuple[int, ...]:
        """For each dimension of a node's first output, what all its cuts are multiples of."""
        inputs = [None if name is None else self.graph.type(name) for name in node.inputs]
        return tuple(map(math.lcm, node.op.grain(inputs), self.costs.target.grain(self.graph, node)))

    def of(self, node: Node, whole: bool, form_grain: tuple[int, ...]) -> tuple[Cut, ...]:
        """All sensible cuts, for forms of this grain; those of one core alone if it must stay `whole`."""
        inputs = [None if name is None else self.graph.type(name) for name in node.inputs]
        output = self.graph.type(node.outputs[0])
        dependence = (Dependence.FULL,) * output.rank if whole else node.op.dependence(inputs)
        grain = self.grain(node)
        weights = node.inputs[1] if uneven(self.graph, node) is not None else None
        alike = (self.costs.number(work_of(self.graph, node)), weights, dependence, grain, form_grain)
        found = self._of.get(alike)
        if found is None:
            all_splits = splits(output, dependence, self.speeds, grain, form_grain)
            found = self._of[alike] = tuple(self.cut(node, split) for split in all_splits)
        return found

    def weighed(self, node: Node, axis: int, before: np.ndarray, form_grain: tuple[int, ...]) -> list[Cut]:
        """Cuts into pieces of about equal work along an axis, given the work before each of its indices; for forms of
        this grain."""
        inputs = [None if name is None else self.graph.type(name) for name in node.inputs]
        output, dependence = self.graph.type(node.outputs[0]), node.op.dependence(inputs)
        found = weighed(output, dependence, self.speeds, self.grain(node), axis, before, form_grain)
        return [self.cut(node, split) for split in found]

    def cut(self, node: Node, split: Split) -> Cut:
        """The cut of a node into the pieces of `split`."""
        inputs = [None if name is None else self.graph.type(name) for name in node.inputs]
        if len(split.pieces) == 1 and extents_of(split.pieces[0].box) == self.graph.type(node.outputs[0]).shape:
            return self.into(node, split, (None,))
        return self.into(node, split, tuple(node.op.part(piece.box, inputs) for piece in split.pieces))

    def into(self, node: Node, split: Split, parts: tuple[Part | None, ...], cores: Sequence[int] = ()) -> Cut:
        """The cut with these sub-operators, computed by `cores` (none: those of the pieces)."""
        numbers: dict[object, int] = {}
        works: list[tuple[Work, int, int]] = []
        which = []
        alike = uneven(self.graph, node) is None
        for part, core in zip(parts, cores or [piece.core for piece in split.pieces], strict=True):
            kind: object = self.speeds[core]
            if part is not None:
                extents = [e - b for box in (part.writes, *part.reads) for b, e in (_NOTHING if box is None else box)]
                kind = part.op, kind, tuple(extents), alike or density_of(self.graph, node, part)
            number = numbers.setdefault(kind, len(works))
            if number == len(works):
                work = work_of(self.graph, node, part)
                works.append((work, self.costs.number(work), core))
            which.append(number)
        state = self._states.setdefault((split.name == SHARED, split.pieces), len(self._states))
        output = self.graph.type(node.outputs[0])
        met = self._met.get((state, output))
        if met is None:
            met = self._met[state, output] = *_met(split, output), row_axis(split, output)
        return Cut(split, parts, tuple(works), tuple(which), self._torn(node, parts), *met, state)

    def _torn(self, node: Node, parts: Sequence[Part | None]) -> tuple[int, ...]:
        found = []
        for i, name in enumerate(node.inputs):
            shape = () if name is None else self.graph.type(name).shape
            axis = 1 if len(shape) > 1 else 0
            boxes = [part.reads[i] for part in parts if part is not None]
            spans = {box[axis] for box in boxes if box}
            if any(begin % 16 != 0 or (end % 16 != 0 and end != shape[axis]) for begin, end in spans):
                found.append(i)
        return tuple(found)


def _met(split: Split, type: TensorType) -> tuple[int, float]:
    """How many lines of a planar tensor the core that has most of them shares with others; and how many of others'
    lines are fetched ahead of those who go through each run of neighbours in turn."""
    pieces = together(split.pieces)
    most, most_ahead = 0, 0.0
    for piece in pieces if len(pieces) > 1 else ():
        runs, met, ahead = 1, 0, 0.0
        for axis, (span, extent) in enumerate(zip(piece.box, type.shape, strict=True)):
            below = math.prod(type.shape[axis + 1 :]) * type.dtype.bytes
            lines = (span[1] - span[0]) * below / _LINE
            for at in span:
                if at % extent:
                    apart = at * below % _LINE == 0 and extent * below % _LINE == 0
                    met += 0 if apart else runs
                    ahead += runs * min(lines / _AHEAD_AFTER, _MOST_AHEAD)
            runs *= span[1] - span[0]
        most, most_ahead = max(most, met), max(most_ahead, ahead)
    return most, most_ahead


_LINE = 64  # bytes
_AHEAD_AFTER, _MOST_AHEAD = 7, 8  # a run's lines for each that is fetched ahead, and how many at most; measured
_NOTHING = ((1, 0),)
