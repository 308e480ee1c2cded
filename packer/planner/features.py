"""What the learned policy sees of a problem: a row of numbers for each node and one for each of its choices.

Counts and sizes are logarithms, kinds of operators and names of algorithms are numbered within the graph.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence

import numpy as np

from packer.ir import Graph, Node, TensorType
from packer.planner.choices import Choice
from packer.planner.problem import IMPOSSIBLE, Problem
from targets.base import Layout

__all__ = ["choice_features", "node_features", "possible"]

_AXES = 5  # of shapes that are told apart: N, C, then space
_LEAST = 1e-7  # seconds: what is less is nothing


def node_features(problem: Problem) -> np.ndarray:
    """[nodes, features]: operator, shape and sizes, the neighbours' operators and sizes, the legal numbers of pieces
    along each axis, and links: how many nodes it reads and feeds, and how far away in execution order they are."""
    graph = problem.graph
    producers, consumers = _neighbours(problem)
    kinds = _one_hot([type(node.op).__name__ for node in graph.nodes])
    sizes = np.array([_sizes(graph, node) for node in graph.nodes])
    near = []
    for v, choices in enumerate(problem.choices):
        row: list[float] = []
        for others in (producers[v], consumers[v]):
            far = max((abs(v - other) for other in others), default=0)
            row += [*kinds[others].sum(axis=0), *np.log2(1 + sizes[others].sum(axis=0))]
            row += [len(others), np.log2(1 + far)]
        pieces = np.array([_pieces(choice) for choice in choices])
        near.append([*row, *np.log2(pieces.max(axis=0)), np.log2(len(choices))])
    shapes = np.array([np.log2(1 + _padded(graph.type(node.outputs[0]))) for node in graph.nodes])
    return _scaled(np.hstack([kinds, shapes, np.log2(1 + sizes), np.array(near)]))


def choice_features(problem: Problem) -> list[np.ndarray]:
    """For each node [choices, features]: the pieces along each axis and a core's tiles, what is shared, summed,
    streamed or in bands, the layouts, the algorithm, and the predicted time, beside the node's best and in seconds."""
    every = [choice for choices in problem.choices for choice in choices]
    algorithms = _one_hot([choice.form.implementation for choice in every])
    layouts = np.eye(len(Layout))
    rows = []
    for choice, own, least in zip(every, *_prices(problem), strict=True):
        inputs, outputs = choice.form.inputs, choice.form.outputs
        cores = len({piece.core for piece in choice.split.pieces})
        rows.append(
            [
                *np.log2(_pieces(choice)),
                np.log2(len(choice.split.pieces) / cores),
                choice.split.name == "shared",
                bool(choice.terms),
                bool(choice.takes),
                choice.streams_out,
                choice.banded,
                *(layouts[inputs[0]] if inputs else np.zeros(len(Layout))),
                *layouts[outputs[0]],
                np.log2((own + _LEAST) / (least + _LEAST)),
                np.log2(own + _LEAST),
            ]
        )
    table = _scaled(np.hstack([np.array(rows, float), algorithms]))
    ends = np.cumsum([len(choices) for choices in problem.choices])
    return np.split(table, ends[:-1])


def possible(problem: Problem) -> list[np.ndarray]:
    """For each node which of its choices can be part of a plan.

    What a node streams out only its one consumer reads, so a choice is possible if one of each consumer's possible
    choices goes with it; taken in execution order such choices, those that go with the ones before never run out.
    """
    found = [own < IMPOSSIBLE for own in problem.own]
    for (u, v), matrix in sorted(problem.edges.items(), reverse=True):
        found[u] = found[u] & (matrix[:, found[v]] < IMPOSSIBLE).any(axis=1)
    return found


def _neighbours(problem: Problem) -> tuple[list[list[int]], list[list[int]]]:
    """For each node the nodes it reads and the nodes it feeds."""
    producers: list[list[int]] = [[] for _ in problem.choices]
    consumers: list[list[int]] = [[] for _ in problem.choices]
    for u, v in problem.edges:
        producers[v].append(u)
        consumers[u].append(v)
    return producers, consumers


def _sizes(graph: Graph, node: Node) -> list[float]:
    """Bytes of its constants, of its other inputs, and of its outputs."""
    inputs = [(graph.constant(name) is not None, graph.type(name).bytes) for name in node.inputs if name is not None]
    constant = sum(size for known, size in inputs if known)
    return [constant, sum(size for _, size in inputs) - constant, sum(graph.type(name).bytes for name in node.outputs)]


def _padded(type: TensorType) -> np.ndarray:
    return np.array([*type.shape, *[0] * _AXES][:_AXES], float)


def _pieces(choice: Choice) -> np.ndarray:
    """Pieces along each axis."""
    boxes = [piece.box for piece in choice.split.pieces]
    counts = [len({box[axis] for box in boxes}) for axis in range(len(boxes[0]))]
    return np.array([*counts, *[1] * _AXES][:_AXES], float)


def _prices(problem: Problem) -> tuple[list[float], list[float]]:
    """Of every choice the predicted seconds, and those of the node's best."""
    own = [np.where(costs < IMPOSSIBLE, costs, costs.min()) for costs in problem.own]
    least = [np.full(len(costs), costs.min()) for costs in own]
    return np.concatenate(own).tolist(), np.concatenate(least).tolist()


def _one_hot(items: Sequence[Hashable]) -> np.ndarray:
    known: Iterable[Hashable] = dict.fromkeys(items)
    numbers = {item: i for i, item in enumerate(known)}
    return np.eye(len(numbers))[[numbers[item] for item in items]]


def _scaled(table: np.ndarray) -> np.ndarray:
    """Columns of mean 0 and standard deviation 1; those that are all alike are 0."""
    deviation = table.std(axis=0)
    scaled: np.ndarray = (table - table.mean(axis=0)) / np.where(deviation > 1e-9, deviation, 1.0)
    return scaled.astype(np.float32)
