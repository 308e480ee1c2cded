"""Find the Gaussian error linear units that exporters spell out.

Before: `y = x * 0.5 * (1 + erf(x / sqrt(2)))`, or `y = 0.5 * x * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 * x^3)))`.
After: `y = gelu(x)`, `y = gelu_tanh(x)`.

Where exporters put factors and constants differs, so what is compared are sums of c x^n f, multiplied out, where f is
1, or the erf or tanh of such a sum.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from packer.ir import DType, Graph, Node
from packer.ir.ops import Binary, Unary

__all__ = ["recognise_gelu"]

_Sum = dict[tuple[int, str], float]
"""(power n of x, function f or "") -> factor c."""

_ROOT = math.sqrt(2 / math.pi)
# f -> what it is applied to, and the name of x / 2 + x / 2 f
_FORMS: dict[str, tuple[_Sum, str]] = {
    "erf": ({(1, ""): math.sqrt(0.5)}, "gelu"),
    "tanh": ({(1, ""): _ROOT, (3, ""): _ROOT * 0.044715}, "gelu_tanh"),
}
_HIGHEST = 3  # power of x
_DEPTH = 10  # operators from y back to x; the longest form, with 0.5 last and x^3 as two products, has 9


def recognise_gelu(graph: Graph) -> Graph:
    """The graph with each product that is a GELU, and whose pieces nobody else reads, as one operator."""
    producers, consumers = graph.producers(), graph.consumers()
    found: dict[str, Node] = {}
    absorbed: set[str] = set()
    for node in graph.nodes:
        for x in _arguments(graph, node, producers):
            terms = _Terms(graph, producers, x)
            result = terms.of(node.outputs[0], _DEPTH)
            kind = next((kind for f, (_, kind) in _FORMS.items() if _same(result, {(1, ""): 0.5, (1, f): 0.5})), None)
            inner = terms.names - {node.outputs[0]}
            if kind is None or any(n in graph.outputs or _read_beside(consumers[n], terms.names) for n in inner):
                continue
            sources = tuple(s for n in graph.nodes if n.outputs[0] in terms.names for s in n.sources)
            found[node.outputs[0]] = Node(Unary(kind), (x,), node.outputs, sources)
            absorbed |= inner
            break
    if not found:
        return graph
    return graph.replaced([found.get(n.outputs[0], n) for n in graph.nodes if n.outputs[0] not in absorbed])


def _arguments(graph: Graph, node: Node, producers: dict[str, Node]) -> Iterator[str]:
    """What could be x if `node` is the last product: its factors, and theirs."""
    level = [node]
    for _ in range(2):
        level = [n for n in level if isinstance(n.op, Binary) and n.op.kind in ("mul", "div")]
        names = [name for n in level for name in n.inputs if name is not None and graph.constant(name) is None]
        yield from dict.fromkeys(names)
        level = [producers[name] for name in names if name in producers]


def _read_beside(readers: list[Node], names: set[str]) -> bool:
    return any(reader.outputs[0] not in names for reader in readers)


def _same(a: _Sum | None, b: _Sum) -> bool:
    """Whether the factors agree but for the rounding of float constants."""
    return a is not None and a.keys() == b.keys() and all(math.isclose(a[k], b[k], rel_tol=1e-6) for k in b)


class _Terms:
    """Values as sums of powers of x, all being f32 of the shape of x. `names` are the outputs of the nodes used."""

    def __init__(self, graph: Graph, producers: dict[str, Node], x: str) -> None:
        self.names: set[str] = set()
        self._graph, self._producers, self._x = graph, producers, x
        self._type = graph.type(x)
        self._known: dict[str, _Sum | None] = {x: {(1, ""): 1.0} if self._type.dtype is DType.F32 else None}

    def of(self, name: str | None, depth: int) -> _Sum | None:
        """The value as a sum, by at most `depth` operators in a row; None if it is none of those looked for."""
        if name is None:
            return None
        if name not in self._known:
            self._known[name] = self._constant(name) or self._made(name, depth)
        return self._known[name]

    def _constant(self, name: str) -> _Sum | None:
        data = self._graph.constant(name)
        if data is None or data.size != 1 or data.dtype != np.float32:
            return None
        return {(0, ""): float(data.reshape(-1)[0])}

    def _made(self, name: str, depth: int) -> _Sum | None:
        node = self._producers.get(name)
        if node is None or depth == 0 or self._graph.type(name) != self._type:
            return None
        self.names.add(name)
        operands = [self.of(n, depth - 1) for n in node.inputs]
        if isinstance(node.op, Unary) and operands[0] is not None:
            return _function(node.op.kind, operands[0])
        if isinstance(node.op, Binary) and node.op.activation is None:
            a, b = operands
            return _combined(node.op.kind, a, b) if a is not None and b is not None else None
        return None


def _function(kind: str, a: _Sum) -> _Sum | None:
    negated = {k: -c for k, c in a.items()}
    if kind == "neg":
        return negated
    if kind not in _FORMS:
        return None
    argument = _FORMS[kind][0]
    if _same(a, argument):
        return {(0, kind): 1.0}
    return {(0, kind): -1.0} if _same(negated, argument) else None  # both functions are odd


def _combined(kind: str, a: _Sum, b: _Sum) -> _Sum | None:
    number = b.get((0, ""), 0.0) if b.keys() <= {(0, "")} else None
    if kind in ("add", "sub"):
        sign = 1.0 if kind == "add" else -1.0
        return {k: a.get(k, 0.0) + sign * b.get(k, 0.0) for k in a | b}
    if kind == "mul":
        return _product(a, b)
    if kind == "div" and number:
        return {k: c / number for k, c in a.items()}
    if kind == "pow" and number in (2.0, 3.0):
        square = _product(a, a)
        return square if number == 2.0 or square is None else _product(square, a)
    return None


def _product(a: _Sum, b: _Sum) -> _Sum | None:
    """The product, unless it has powers or functions that none of the forms has."""
    y: _Sum = {}
    for (n, f), c in a.items():
        for (m, g), d in b.items():
            if n + m > _HIGHEST or (f and g):
                return None
            y[n + m, f or g] = y.get((n + m, f or g), 0.0) + c * d
    return y
