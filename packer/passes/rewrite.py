"""What rewriting passes share: a view of who uses what, fresh names, new constants, and new nodes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from operator import is_

import numpy as np

from packer.ir import Graph, Node, TensorType, Value
from packer.ir.ops.base import Op

__all__ = ["Rewriting", "Uses", "constants_for", "fresh", "number_of"]


class Uses:
    """Producers and use counts of one graph."""

    def __init__(self, graph: Graph) -> None:
        self.producer = graph.producers()
        self.consumers = graph.consumers()
        self.outputs = set(graph.outputs)

    def only_use(self, name: str | None, node: Node) -> bool:
        """Whether `node` is the one reader of the value, which is no graph output, and reads it once."""
        if name is None or name in self.outputs or len(self.consumers[name]) != 1:
            return False
        return self.consumers[name][0] is node and node.inputs.count(name) == 1

    def sole_reader(self, name: str) -> Node | None:
        """The node that alone reads the value, and once, else None."""
        readers = self.consumers[name]
        return readers[0] if readers and self.only_use(name, readers[0]) else None

    def sole_producer(self, name: str | None, node: Node) -> Node | None:
        """The node that makes the value for `node` alone, else None."""
        return self.producer.get(name) if name is not None and self.only_use(name, node) else None


def fresh(graph: Graph, stem: str, taken: set[str]) -> str:
    """A value name that starts with `stem` and is not used yet; added to `taken`."""
    name, number = stem, 0
    while name in graph.values or name in taken:
        number += 1
        name = f"{stem}.{number}"
    taken.add(name)
    return name


def number_of(graph: Graph, name: str | None) -> float | None:
    """The one number that a value is, if it is a constant of one element."""
    data = graph.constant(name)
    return float(data.reshape(-1)[0]) if data is not None and data.size == 1 else None


def constants_for(graph: Graph, node: Node, parameters: Mapping[str, np.ndarray], taken: set[str]) -> list[Value]:
    """The parameters as constants, each named after the node's output and itself; the names are added to `taken`."""
    return [Value.constant(fresh(graph, f"{node.outputs[0]}.{k}", taken), data) for k, data in parameters.items()]


class Rewriting:
    """The nodes that a pass makes of those of a graph, in order, and the values that are new: each named after a value
    that it is made for and the suffix."""

    def __init__(self, graph: Graph, suffix: str) -> None:
        self.graph = graph
        self.nodes: list[Node] = []
        self._suffix = suffix
        self._values: dict[str, Value] = {}
        self._taken: set[str] = set()

    def type(self, name: str) -> TensorType:
        """That of a value, new or not."""
        return self._values[name].type if name in self._values else self.graph.type(name)

    def constant(self, name: str, data: np.ndarray) -> str:
        """A new constant, made for the value `name`."""
        made = fresh(self.graph, f"{name}.{self._suffix}", self._taken)
        self._values[made] = Value.constant(made, data)
        return made

    def add(self, op: Op, inputs: Sequence[str | None], node: Node, y: str | None = None) -> str:
        """A node that is made for `node`, and its output: `y`, or a new value."""
        if y is None:
            y = fresh(self.graph, f"{node.outputs[0]}.{self._suffix}", self._taken)
            self._values[y] = Value(y, op.infer([None if name is None else self.type(name) for name in inputs])[0])
        self.nodes.append(Node(op, tuple(inputs), (y,), node.sources))
        return y

    def result(self) -> Graph:
        """The graph of these nodes; the old one if they are its own."""
        if len(self.nodes) == len(self.graph.nodes) and all(map(is_, self.nodes, self.graph.nodes)):
            return self.graph
        return self.graph.replaced(self.nodes, list(self._values.values()))
