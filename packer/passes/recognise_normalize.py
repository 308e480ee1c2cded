"""Find the normalisations that exporters spell out.

Before: `d = x - mean(x); y = d / sqrt(mean(d^2) + epsilon)`, or the same of x without its mean subtracted (`rms`); the
power may be a product, and the quotient a product with a reciprocal.
After: `y = normalize(x)`, over the axes of those means.
"""

from __future__ import annotations

from packer.ir import DType, Graph, Node
from packer.ir.ops import Binary, Normalize, Op, Reduce, Unary
from packer.passes.rewrite import Uses, number_of

__all__ = ["recognise_normalize"]


def recognise_normalize(graph: Graph) -> Graph:
    """The graph with each such quotient as one operator, if nobody else reads what it divides by or is made of."""
    uses = Uses(graph)
    found = {node.outputs[0]: _Quotient(graph, uses, node).normalized() for node in graph.nodes}
    if not any(found.values()):
        return graph
    return graph.replaced([found[node.outputs[0]] or node for node in graph.nodes])


class _Quotient:
    """What `node` divides, and by what, if it does."""

    def __init__(self, graph: Graph, uses: Uses, node: Node) -> None:
        self._graph, self._uses, self._node = graph, uses, node
        self._absorbed = [node]

    def normalized(self) -> Node | None:
        """The operator that makes the output of the node by itself."""
        node = self._node
        kind = _kind(node.op)
        pairs = {"div": (node.inputs,), "mul": (node.inputs, node.inputs[::-1])}.get(kind, ())
        for d, by in pairs:
            root = self._root(by, node) if kind == "div" else self._root_of_reciprocal(by, node)
            if root is None or d is None or self._graph.type(d) != self._graph.type(node.outputs[0]):
                continue
            variance = self._variance(root, d)
            if variance is None or self._graph.type(d).dtype is not DType.F32:
                continue
            axes, epsilon = variance
            x = self._before_mean(d, axes)
            sources = tuple(source for made in reversed(self._absorbed) for source in made.sources)
            return Node(Normalize(axes, epsilon, rms=x is None), (x or d,), node.outputs, sources)
        return None

    def _root(self, name: str | None, reader: Node) -> Node | None:
        return self._alone(name, reader, "sqrt")

    def _root_of_reciprocal(self, name: str | None, reader: Node) -> Node | None:
        turned = self._alone(name, reader, "reciprocal", "div")
        if turned is None or (len(turned.inputs) > 1 and number_of(self._graph, turned.inputs[0]) != 1.0):
            return None
        return self._root(turned.inputs[-1], turned)

    def _variance(self, root: Node, d: str) -> tuple[tuple[int, ...], float] | None:
        """Axes and epsilon, if `root` is of mean(d^2) + epsilon."""
        sum = self._alone(root.inputs[0], root, "add")
        for mean, constant in (sum.inputs, sum.inputs[::-1]) if sum is not None else ():
            epsilon, folded = number_of(self._graph, constant), self._alone(mean, sum, "mean")
            square = self._alone(folded.inputs[0], folded, "pow", "mul") if folded is not None else None
            if epsilon is None or epsilon < 0 or folded is None or square is None:
                continue
            x, by = square.inputs
            squared = x == d and (by == d if _kind(square.op) == "mul" else number_of(self._graph, by) == 2.0)
            assert isinstance(folded.op, Reduce)
            return (folded.op.axes, epsilon) if squared and folded.op.keepdims else None
        return None

    def _before_mean(self, d: str, axes: tuple[int, ...]) -> str | None:
        """x, if d is x - mean(x) over the axes."""
        made = self._uses.producer.get(d)
        if made is None or _kind(made.op) != "sub":
            return None
        x, mean = made.inputs
        folded = self._uses.producer.get(mean) if mean is not None else None
        if folded is None or folded.op != Reduce("mean", axes) or folded.inputs != (x,):
            return None
        if d not in self._uses.outputs and all(n in self._absorbed for n in self._uses.consumers[d]):
            self._absorbed += (made, folded) if self._uses.only_use(mean, made) else (made,)
        return x

    def _alone(self, name: str | None, reader: Node | None, *kinds: str) -> Node | None:
        """What makes the value for `reader` alone, if it is of one of these kinds."""
        made = self._uses.sole_producer(name, reader) if reader is not None else None
        if made is None or _kind(made.op) not in kinds:
            return None
        self._absorbed.append(made)
        return made


def _kind(op: Op) -> str:
    """What an operator computes by element, or folds; nothing if more comes after it."""
    if isinstance(op, Unary | Reduce):
        return op.kind
    return op.kind if isinstance(op, Binary) and op.activation is None else ""
