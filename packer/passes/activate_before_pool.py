"""Apply a rising function before a maximum is taken, where it can be fused into what makes the argument.

Before: `c = conv(x, w); p = max_pool(c); y = relu(p)`. After: `c = conv(x, w); a = relu(c); y = max_pool(a)`.
"""

from __future__ import annotations

from packer.ir import Graph, Node, Value
from packer.ir.ops import Conv, ConvTranspose, Pool, ScaleShift, Unary
from packer.passes.rewrite import Uses, fresh

__all__ = ["activate_before_pool"]

_RISING = ("relu", "clip")
_RISING_WITH = ("leaky_relu", "hard_sigmoid")  # with a slope that is not negative


def activate_before_pool(graph: Graph) -> Graph:
    """The graph with rising functions before the max pooling behind convolutions and scale-shifts, not after it."""
    uses = Uses(graph)
    taken: set[str] = set()
    nodes: dict[str, Node] = {}  # by first output, in order
    values = []
    for node in graph.nodes:
        pool = _pool_before(uses, node)
        if pool is None:
            nodes[node.outputs[0]] = node
            continue
        del nodes[pool.outputs[0]]
        source = pool.inputs[0] or ""
        values.append(Value(fresh(graph, node.outputs[0], taken), graph.type(source)))
        active = values[-1].name
        nodes[active] = Node(node.op, pool.inputs, (active,), node.sources)
        nodes[node.outputs[0]] = Node(pool.op, (active,), node.outputs, pool.sources)
    return graph.replaced(list(nodes.values()), values) if values else graph


def _pool_before(uses: Uses, node: Node) -> Node | None:
    """The pooling whose result a rising function takes, if that can be fused before it."""
    op = node.op
    if not isinstance(op, Unary) or not (op.kind in _RISING or (op.kind in _RISING_WITH and op.alpha >= 0)):
        return None
    pool = uses.sole_producer(node.inputs[0], node)
    if pool is None or not isinstance(pool.op, Pool) or pool.op.kind != "max" or len(pool.outputs) > 1:
        return None
    size = len(pool.op.kernel)
    filled = all(max(pool.op.pads[i], pool.op.pads[i + size]) < pool.op.kernel[i] for i in range(size))
    if not filled or set(pool.op.dilations) != {1}:  # windows of padding alone have the lowest value
        return None
    maker = uses.sole_producer(pool.inputs[0], pool)
    able = maker is not None and isinstance(maker.op, Conv | ConvTranspose | ScaleShift) and maker.op.activation is None
    return pool if able else None
