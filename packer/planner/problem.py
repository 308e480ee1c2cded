"""The whole graph as one problem: the choices of every node, and what neighbours' choices cost each other."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np

from packer.ir import Graph, Node, TensorType, whole
from packer.planner.adjust import IMPOSSIBLE, Adjust
from packer.planner.bands import SHARING, rows_of
from packer.planner.choices import Choice, choices_of
from packer.planner.costs import Costs, work_of
from packer.planner.pbqp import Solution
from packer.planner.split import NONE, SHARED, Piece, Split
from targets.base import Layout

__all__ = ["IMPOSSIBLE", "Problem", "build"]

_Item = TypeVar("_Item")


@dataclass(frozen=True, slots=True, eq=False)
class Problem:
    """`choices[v]` of node v, their costs in seconds (adjustments of graph inputs and outputs included), the bytes of
    their weights, and the costs of pairs of choices of neighbours: adjustments, or IMPOSSIBLE."""

    graph: Graph
    costs: Costs
    cores: int
    choices: tuple[tuple[Choice, ...], ...]
    own: tuple[np.ndarray, ...]
    weights: tuple[np.ndarray, ...]
    edges: dict[tuple[int, int], np.ndarray]

    def seconds(self, chosen: Sequence[int]) -> float:
        """What a choice for every node costs in all."""
        own = sum(float(self.own[v][i]) for v, i in enumerate(chosen))
        return own + sum(float(matrix[chosen[u], chosen[v]]) for (u, v), matrix in self.edges.items())

    def arithmetic(self, chosen: Sequence[int]) -> tuple[str, ...]:
        """That of each node: what decides the bits of its results."""
        return tuple(own[i].form.arithmetic for own, i in zip(self.choices, chosen, strict=True))

    def among(self, allowed: Callable[[int, Choice], bool]) -> tuple[Problem, list[np.ndarray]]:
        """The problem with such choices of each node alone, by number of node and choice, and where they were."""
        kept = [
            np.array([i for i, choice in enumerate(own) if allowed(v, choice)]) for v, own in enumerate(self.choices)
        ]
        problem = replace(
            self,
            choices=tuple(tuple(own[i] for i in which) for own, which in zip(self.choices, kept, strict=True)),
            own=tuple(own[which] for own, which in zip(self.own, kept, strict=True)),
            weights=tuple(own[which] for own, which in zip(self.weights, kept, strict=True)),
            edges={(u, v): matrix[np.ix_(kept[u], kept[v])] for (u, v), matrix in self.edges.items()},
        )
        return problem, kept

    def solve(self, strategy: Callable[[Problem], Solution], arithmetic: Sequence[str]) -> Solution:
        """What a strategy finds among the choices of this arithmetic."""
        problem, kept = self.among(lambda v, choice: choice.form.arithmetic == arithmetic[v])
        found = strategy(problem)
        return replace(found, chosen=tuple(int(which[i]) for which, i in zip(kept, found.chosen, strict=False)))


def build(
    graph: Graph,
    costs: Costs,
    cores: int,
    implementation: str | None = None,
    partial_sums: bool = False,
) -> Problem:
    """The problem of running `graph` on `cores` cores; the options are those of choices_of."""
    choices = choices_of(graph, costs, cores, implementation, partial_sums)
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
            matrix = _between(adjust, graph, choices[u], slot, node, choices[v], i)
            edges[u, v] = edges[u, v] + matrix if (u, v) in edges else matrix
        for slot, name in enumerate(node.outputs):
            made[name] = (v, slot)
            if name in outputs:
                own[v] = own[v] + _to_output(adjust, graph.type(name), choices[v], slot)
    return Problem(graph, costs, cores, tuple(choices), tuple(own), tuple(_weights(graph, costs, choices)), edges)


def _weights(graph: Graph, costs: Costs, choices: Sequence[Sequence[Choice]]) -> Iterable[np.ndarray]:
    """Bytes of the weights of each choice of each node."""
    for node, own in zip(graph.nodes, choices, strict=True):
        work = work_of(graph, node)
        bytes = {form: costs.target.weights(work, form) for form in dict.fromkeys(choice.form for choice in own)}
        yield np.array([bytes[choice.form] for choice in own], float)


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
    adjust: Adjust, graph: Graph, makers: Sequence[Choice], slot: int, node: Node, users: Sequence[Choice], i: int
) -> np.ndarray:
    """What it costs that `users`, of this node, read as input i what `makers` produce as output `slot`."""
    type = graph.type(node.inputs[i] or "")
    whole_value = Split(NONE, (Piece(0, whole(type)),))  # operators of several outputs are not cut
    gives = [c.split if slot == 0 or c.split.name == SHARED else whole_value for c in makers]
    given, which_given = _distinct(gives, map(id, gives))
    needed, which_needed = _distinct(users, (id(choice.parts) for choice in users))
    wants = [adjust.read(choice.parts, choice.cores, i, type) for choice in needed]
    moves = adjust.moves(type, given, wants)[np.ix_(which_given, which_needed)]
    states = [(choice.form.outputs[slot], choice.split) for choice in makers]
    made, which_made = _distinct(states, ((layout, id(split)) for layout, split in states))
    layouts = [choice.form.inputs[i] for choice in users]
    wanted, which_wanted = _distinct(layouts, layouts)
    change = np.array([[adjust.layouts(type, split, layout, want) for want in wanted] for layout, split in made])
    found = moves + change[np.ix_(which_made, which_wanted)] + _in_bands(adjust, graph, node, i, makers, users, moves)
    out = np.array([choice.streams_out for choice in makers])
    into = np.array([bool(choice.takes) and i == 0 for choice in users])
    if out.any() or into.any():
        found = np.where(out[:, None] | into[None, :], IMPOSSIBLE, found)
        for v in np.flatnonzero(into).tolist():
            found[[u for u in np.flatnonzero(out).tolist() if _streams(makers[u], users[v])], v] = 0.0
    return np.asarray(found)


def _in_bands(
    adjust: Adjust,
    graph: Graph,
    node: Node,
    i: int,
    makers: Sequence[Choice],
    users: Sequence[Choice],
    moves: np.ndarray,
) -> np.ndarray | float:
    """What bands cost: halos are written once more than they are read, and what could share memory but is in other
    bands is copied. Who changes the layout of a value has its rows."""
    out, into = (np.array([choice.banded for choice in choices]) for choices in (makers, users))
    if not isinstance(node.op, SHARING):
        able = [c.split.name != SHARED and c.form.inputs[i] in (Layout.PLANAR, Layout.BLOCK16) for c in users]
        return np.where(out[:, None], np.where(able, moves, IMPOSSIBLE), 0.0)
    if not (out.any() or into.any()):
        return 0.0
    type, result = graph.type(node.inputs[i] or ""), graph.type(node.outputs[0])
    made = [choice.banded and rows_of(choice.split, type) for choice in makers]
    shared = [choice.banded and rows_of(choice.split, result) for choice in users]
    machine = adjust.costs.target.machine
    copied = 2e-9 * type.bytes / machine.cores[0].l2_gbps + machine.step_seconds
    return np.array([[copied if rows != other else 0.0 for other in shared] for rows in made])


def _streams(maker: Choice, user: Choice) -> bool:
    return maker.streams_out and maker.split.pieces == user.takes and maker.form.outputs[0] is user.form.inputs[0]


def _distinct(items: Sequence[_Item], keys: Iterable[object]) -> tuple[list[_Item], np.ndarray]:
    """The items of different keys, and for each item its number among them."""
    numbers: dict[object, int] = {}
    found: list[_Item] = []
    which = []
    for item, key in zip(items, keys, strict=True):
        which.append(numbers.setdefault(key, len(found)))
        if which[-1] == len(found):
            found.append(item)
    return found, np.array(which)
