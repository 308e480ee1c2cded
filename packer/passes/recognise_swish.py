"""Find the swish functions that exporters spell out.

Before: `y = x * sigmoid(x * alpha)`, `y = x * (clip(x + 3, 0, 6) / 6)`, or `y = x * tanh(softplus(x))`.
After: `y = silu(x)`, `y = hard_swish(x)`, `y = mish(x)`.
"""

from __future__ import annotations

import math

import numpy as np

from packer.ir import Graph, Node
from packer.ir.ops import Binary, Op, Unary

__all__ = ["recognise_swish"]


def recognise_swish(graph: Graph) -> Graph:
    """The graph with hard sigmoids, then products of x with a (hard) sigmoid of x, as one operator each."""
    made: dict[str, Node] = {}
    nodes: list[Node] = []
    changed = False
    for original in graph.nodes:
        node = _hard_sigmoid(graph, original, made) or original
        node = _swish(graph, node, made) or node
        changed |= node is not original
        made.update((name, node) for name in node.outputs)
        nodes.append(node)
    return graph.replaced(nodes) if changed else graph


def _scalar(graph: Graph, name: str | None) -> float | None:
    data = graph.constant(name)
    return float(data.reshape(-1)[0]) if data is not None and data.size == 1 and data.dtype == np.float32 else None


def _scaled(graph: Graph, node: Node) -> tuple[str, float] | None:
    """(x, k) for x * k or x / (1 / k) with a constant k."""
    if not isinstance(node.op, Binary) or node.op.activation is not None or node.op.kind not in ("mul", "div"):
        return None
    a, b = node.inputs
    if (k := _scalar(graph, b)) and graph.type(a or "") == graph.type(node.outputs[0]):
        return a or "", k if node.op.kind == "mul" else 1.0 / k
    if node.op.kind == "mul" and (k := _scalar(graph, a)) and graph.type(b or "") == graph.type(node.outputs[0]):
        return b or "", k
    return None


def _factor(graph: Graph, name: str | None, x: str, made: dict[str, Node]) -> float | None:
    """k, if the value is x k and k is an f32."""
    maker = made.get(name or "")
    scaled = (name, 1.0) if name == x else _scaled(graph, maker) if maker is not None else None
    if scaled is None or scaled[0] != x or abs(scaled[1]) > np.finfo(np.float32).max:
        return None
    return scaled[1]


def _ramp(graph: Graph, name: str | None, made: dict[str, Node]) -> tuple[str, float, float] | None:
    """(x, offset, top) for clip(x + offset, 0, top)."""
    clip = made.get(name or "")
    if clip is None or not isinstance(clip.op, Unary) or clip.op.kind != "clip" or clip.op.alpha != 0.0:
        return None
    if clip.op.beta <= 0.0:  # the limits are the wrong way round: no ramp
        return None
    add = made.get(clip.inputs[0] or "")
    if add is None or not isinstance(add.op, Binary) or add.op.kind != "add" or add.op.activation is not None:
        return None
    for x, other in (add.inputs, add.inputs[::-1]):
        offset = _scalar(graph, other)
        if offset is not None and graph.type(x or "") == graph.type(clip.outputs[0]):
            return x or "", offset, clip.op.beta
    return None


def _unary(op: Op, x: str, node: Node) -> Node:
    return Node(op, (x,), node.outputs, node.sources)


def _is_softplus(node: Node | None, x: str) -> bool:
    return node is not None and node.op == Unary("softplus") and node.inputs == (x,)


def _hard_sigmoid(graph: Graph, node: Node, made: dict[str, Node]) -> Node | None:
    """clip(x + offset, 0, top) / top."""
    scaled = _scaled(graph, node)
    ramp = _ramp(graph, scaled[0], made) if scaled is not None else None
    if scaled is None or ramp is None or not math.isclose(ramp[2] * scaled[1], 1.0, rel_tol=1e-6):
        return None
    return _unary(Unary("hard_sigmoid", scaled[1], ramp[1] * scaled[1]), ramp[0], node)


def _swish(graph: Graph, node: Node, made: dict[str, Node]) -> Node | None:
    """x * sigmoid(x k), x * hard_sigmoid(x), (x * clip(x + offset, 0, top)) / top, or x * tanh(softplus(x))."""
    scaled = _scaled(graph, node)
    product = made.get(scaled[0]) if scaled is not None else node
    if (
        product is None
        or not isinstance(product.op, Binary)
        or product.op.kind != "mul"
        or product.op.activation is not None
    ):
        return None
    for x, gate in (product.inputs, product.inputs[::-1]):
        maker = made.get(gate or "")
        if maker is None or x is None:
            continue
        if scaled is None and isinstance(maker.op, Unary):
            if maker.op.kind == "sigmoid" and (alpha := _factor(graph, maker.inputs[0], x, made)):
                return _unary(Unary("silu", alpha), x, node)
            if maker.op.kind == "hard_sigmoid" and maker.inputs[0] == x:
                return _unary(Unary("hard_swish", maker.op.alpha, maker.op.beta), x, node)
            if maker.op.kind == "tanh" and _is_softplus(made.get(maker.inputs[0] or ""), x):
                return _unary(Unary("mish"), x, node)
        ramp = _ramp(graph, gate, made) if scaled is not None else None
        if (
            ramp is not None
            and scaled is not None
            and ramp[0] == x
            and math.isclose(ramp[2] * scaled[1], 1.0, rel_tol=1e-6)
        ):
            return _unary(Unary("hard_swish", scaled[1], ramp[1] * scaled[1]), x, node)
    return None
