"""What rewriting passes share: a view of who uses what, fresh names, and new constants."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from packer.ir import Graph, Node, Value

__all__ = ["Uses", "constants_for", "fresh"]


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


def constants_for(graph: Graph, node: Node, parameters: Mapping[str, np.ndarray], taken: set[str]) -> list[Value]:
    """The parameters as constants, each named after the node's output and itself; the names are added to `taken`."""
    return [Value.constant(fresh(graph, f"{node.outputs[0]}.{k}", taken), data) for k, data in parameters.items()]
