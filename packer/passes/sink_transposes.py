"""Move transposes behind operators that compute the same in any order of dimensions, until they meet their inverses.

Before: `y = conv(transpose(relu(transpose(conv(x)))))`, as converters of channels-last networks write it.
After: `y = conv(relu(conv(x)))`, when each two transposes that follow each other have become one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from packer.ir import Graph, Node, TensorType, Value
from packer.ir.ops import (
    Binary,
    Cast,
    Concat,
    DequantizeLinear,
    Op,
    Pad,
    QuantizeLinear,
    Reduce,
    Resize,
    Slice,
    Transpose,
    Unary,
    Where,
)
from packer.passes.rewrite import Uses, fresh

__all__ = ["sink_transposes"]

_Perm = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class _Moved:
    """A value that is `source` with its dimensions in the order `perm`."""

    source: str
    perm: _Perm


def sink_transposes(graph: Graph) -> Graph:
    """The graph with operators that read transposed values, one of which nobody else reads, on what they are transposed
    from, and their outputs transposed: those that read two of them, and those from which a way leads to an inverse."""
    uses, taken = Uses(graph), set[str]()
    wanted: dict[_Perm, set[str]] = {}
    partial = {extent.value for extent in graph.extents}  # only a part of these means something, along one dimension
    made: dict[str, _Moved] = {}
    values: list[Value] = []
    nodes: list[Node] = []
    changed = False
    for node in graph.nodes:
        output = node.outputs[0]
        if isinstance(node.op, Transpose) and output not in partial and node.inputs[0] not in partial:
            made[output] = _Moved(node.inputs[0] or "", node.op.perm)
        perm = _perm_of(uses, node, made) if len(node.outputs) == 1 and output not in partial else None
        found = None
        if perm is not None:
            if perm not in wanted:
                wanted[perm] = _wanted(graph, perm)
            if _joins(node, made) or _needs_none(node.op) or output in wanted[perm]:
                found = _sunk(graph, node, perm, made, taken)
        if perm is None or found is None:
            nodes.append(node)
            continue
        changed = True
        op, inputs, constants = found
        values += constants
        if _needs_none(op):
            nodes.append(Node(op, inputs, node.outputs, node.sources))
            continue
        shape = _ordered(graph.type(output).shape, _inverse(perm))
        values.append(Value(fresh(graph, f"{output}.sunk", taken), TensorType(graph.type(output).dtype, shape)))
        made[output] = _Moved(values[-1].name, perm)
        nodes.append(Node(op, inputs, (values[-1].name,), node.sources))
        nodes.append(Node(Transpose(perm), (values[-1].name,), node.outputs, node.sources))
    return graph.replaced(nodes, values) if changed else graph


def _ordered(items: tuple[int, ...], perm: _Perm) -> tuple[int, ...]:
    return tuple(items[p] for p in perm)


def _inverse(perm: _Perm) -> _Perm:
    return tuple(int(i) for i in np.argsort(perm))


def _perm_of(uses: Uses, node: Node, made: Mapping[str, _Moved]) -> _Perm | None:
    """How inputs of the node are transposed, if it alone reads one of them, so that no transpose is made that none goes
    for."""
    own = [
        made[name].perm
        for name in node.inputs
        if name is not None
        and name in made
        and name not in uses.outputs
        and all(reader is node for reader in uses.consumers[name])
    ]
    return own[0] if own else None


def _needs_none(op: Op) -> bool:
    """Whether the output is the same, if the operator can be reordered at all."""
    return isinstance(op, Reduce) and not op.keepdims


def _joins(node: Node, made: Mapping[str, _Moved]) -> bool:
    """Whether the node reads two values that are transposed."""
    return len({name for name in node.inputs if name in made}) > 1


def _wanted(graph: Graph, perm: _Perm) -> set[str]:
    """The values that may as well come without this transpose: a way leads from them to its inverse, or to a reduction
    that needs none."""
    found: set[str] = set()
    for node in reversed(graph.nodes):
        if isinstance(node.op, Transpose):
            ends = node.op.perm == _inverse(perm)
        else:
            op = _reordered(graph, node, perm)
            ends = op is not None and (node.outputs[0] in found or _needs_none(op))
        if ends:
            found.update(name for name in node.inputs if name is not None)
    return found


def _sunk(
    graph: Graph, node: Node, perm: _Perm, made: Mapping[str, _Moved], taken: set[str]
) -> tuple[Op, tuple[str | None, ...], list[Value]] | None:
    """The operator on values that are not transposed, its inputs, and those of them that are new constants."""
    op = _reordered(graph, node, perm)
    if op is None:
        return None
    inputs: list[str | None] = []
    constants: list[Value] = []
    for i, name in enumerate(node.inputs):
        moved, data = made.get(name or ""), graph.constant(name)
        if i > 0 and not isinstance(op, Binary | Concat | Where):  # a scale, or a number to pad with
            inputs.append(name)
        elif moved is not None and moved.perm == perm:
            inputs.append(moved.source)
        elif data is not None and data.size == 1 and not isinstance(op, Concat):
            inputs.append(name)
        elif data is not None and data.ndim <= len(perm):
            data = data.reshape((1,) * (len(perm) - data.ndim) + data.shape).transpose(_inverse(perm))
            constants.append(Value.constant(fresh(graph, f"{name}.sunk", taken), data))
            inputs.append(constants[-1].name)
        else:
            return None
    return op, tuple(inputs), constants


def _reordered(graph: Graph, node: Node, perm: _Perm) -> Op | None:
    """The operator for values before they are transposed; None if it depends on the order of dimensions."""
    op, back = node.op, _inverse(perm)
    of = node.inputs[0] if isinstance(op, Reduce) else node.outputs[0]
    if graph.type(of or "").rank != len(perm):
        return None
    match op:
        case Unary() | Binary() | Where() | Cast():
            return op
        case Concat():
            return Concat(perm[op.axis])
        case Slice():
            return Slice(_ordered(op.starts, back), _ordered(op.steps, back), _ordered(op.sizes, back))
        case Pad():
            rank = len(perm)
            return replace(op, pads=_ordered(op.pads[:rank], back) + _ordered(op.pads[rank:], back))
        case Resize() if not op.roi:
            return replace(op, shape=_ordered(op.shape, back), scales=tuple(op.scales[p] for p in back))
        case QuantizeLinear() | DequantizeLinear():
            one = graph.type(node.inputs[1] or "").rank == 0
            return op if one else replace(op, axis=perm[op.axis])
        case Reduce():
            left = [p for axis, p in enumerate(perm) if axis not in op.axes]
            if not op.keepdims and left != sorted(left):
                return None
            return replace(op, axes=tuple(sorted(perm[axis] for axis in op.axes)))
    return None
