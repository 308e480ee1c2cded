"""The whole graph as one problem: the choices of every node, and what neighbours' choices cost each other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from packer.ir import Graph, TensorType, whole
from packer.planner.adjust import Adjust
from packer.planner.choices import Choice, choices_of
from packer.planner.costs import Costs
from packer.planner.split import NONE, SHARED, Piece, Split
from targets.base import Layout

__all__ = ["IMPOSSIBLE", "Problem", "build"]

IMPOSSIBLE = 1e6  # seconds: what two choices cost that do not go together


@dataclass(frozen=True, slots=True, eq=False)
class Problem:
    """`choices[v]` of node v, their costs in seconds (adjustments of graph inputs and outputs included), and the
    costs of pairs of choices of neighbours: adjustments, or IMPOSSIBLE."""

    graph: Graph
    costs: Costs
    cores: int
    choices: tuple[tuple[Choice, ...], ...]
    own: tuple[np.ndarray, ...]
    edges: dict[tuple[int, int], np.ndarray]

    def seconds(self, chosen: Sequence[int]) -> float:
        """What a choice for every node costs in all."""
        own = sum(float(self.own[v][i]) for v, i in enumerate(chosen))
        return own + sum(float(matrix[chosen[u], chosen[v]]) for (u, v), matrix in self.edges.items())


def build(
    graph: Graph,
    costs: Costs,
    cores: int,
    implementation: str | None = None,
    partial_sums: bool = False,
    arithmetic: Sequence[str] | None = None,
) -> Problem:
    """The problem of running `graph` on `cores` cores; the options are those of choices_of."""
    choices = choices_of(graph, costs, cores, implementation, partial_sums, arithmetic)
    adjust = Adjust(costs, cores)
    own = [np.array([choice.seconds for choice in alternatives]) for alternatives in choices]
    edges: dict[tuple[int, int], np.ndarray] = {}
    made: dict[str, tuple[int, int]] = {}
    outputs = set(graph.outputs)
    for v, node in enumerate(graph.nodes):
        for i, name in enumerate(node.inputs):
            if name is None or graph.constant(name) is not None:
                continue
            if name not in made:
                own[v] = own[v] + _from_input(adjust, graph.type(name), choices[v], i)
                continue
            u, slot = made[name]
            matrix = _between(adjust, graph, name, choices[u], slot, choices[v], i)
            edges[u, v] = edges[u, v] + matrix if (u, v) in edges else matrix
        for slot, name in enumerate(node.outputs):
            made[name] = (v, slot)
            if name in outputs:
                own[v] = own[v] + _to_output(adjust, graph.type(name), choices[v], slot)
    return Problem(graph, costs, cores, tuple(choices), tuple(own), edges)


def _from_input(adjust: Adjust, type: TensorType, choices: Sequence[Choice], i: int) -> np.ndarray:
    """An input of the graph is planar, and in nobody's cache."""
    return np.array([adjust.layouts(type, None, Layout.PLANAR, choice.form.inputs[i]) for choice in choices])


def _to_output(adjust: Adjust, type: TensorType, choices: Sequence[Choice], slot: int) -> np.ndarray:
    """An output of the graph is planar."""
    return np.array(
        [
            IMPOSSIBLE if c.streams_out else adjust.layouts(type, c.split, c.form.outputs[slot], Layout.PLANAR)
            for c in choices
        ]
    )


def _between(
    adjust: Adjust, graph: Graph, name: str, makers: Sequence[Choice], slot: int, users: Sequence[Choice], i: int
) -> np.ndarray:
    """What it costs that `users` read as input i what `makers` produce as output `slot`."""
    type = graph.type(name)
    given, which_given = _distinct([_gives(choice, slot, type) for choice in makers])
    needed, which_needed = _distinct([_needs(choice, i, type) for choice in users])
    moves = adjust.moves(type, given, needed)[np.ix_(which_given, which_needed)]
    made, which_made = _distinct([(choice.form.outputs[slot], choice.split) for choice in makers])
    wanted, which_wanted = _distinct([choice.form.inputs[i] for choice in users])
    change = np.array([[adjust.layouts(type, split, layout, want) for want in wanted] for layout, split in made])
    found = moves + change[np.ix_(which_made, which_wanted)]
    out = np.array([choice.streams_out for choice in makers])
    into = np.array([bool(choice.takes) and i == 0 for choice in users])
    if out.any() or into.any():
        fits = np.array([[_streams(maker, user) for user in users] for maker in makers])
        streamed = out[:, None] | into[None, :]
        return np.where(streamed, np.where(fits, 0.0, IMPOSSIBLE), found)
    return np.asarray(found)


def _streams(maker: Choice, user: Choice) -> bool:
    return maker.streams_out and maker.split.pieces == user.takes and maker.form.outputs[0] is user.form.inputs[0]


def _gives(choice: Choice, slot: int, type: TensorType) -> Split:
    """How output `slot` is split. Operators of several outputs are not cut."""
    if slot == 0 or choice.split.name == SHARED:
        return choice.split
    return Split(NONE, (Piece(0, whole(type)),))


def _needs(choice: Choice, i: int, type: TensorType) -> tuple[Piece, ...]:
    """The part of input i that each core reads."""
    cores = [term.core for term in choice.terms] or [piece.core for piece in choice.split.pieces]
    found = []
    for core, part in zip(cores, choice.parts, strict=True):
        box = whole(type) if part is None else part.reads[i]
        if box is not None:
            found.append(Piece(core, box))
    return tuple(found)


def _distinct(items: Sequence[object]) -> tuple[list, np.ndarray]:  # type: ignore[type-arg]
    """The different items, and for each item its number among them."""
    numbers: dict[object, int] = {}
    which = [numbers.setdefault(item, len(numbers)) for item in items]
    return list(numbers), np.array(which)
