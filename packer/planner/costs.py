"""What work costs: the target's analytic model, overruled by what was measured on the device."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from packer.ir import SINGLE, Block, Graph, Node, TensorType
from packer.ir.ops import Conv, MatMul, Part, QuantizedConv, Recurrent
from targets.base import Form, Layout, Target, Work

__all__ = ["Costs", "density_of", "signature", "uneven", "work_of"]

Signature = str
_FEW_BYTES = 0.7  # share of bytes that are not zero, from which on none is left out
_DENSE = 0.9  # all parts of weights of more non-zeros are alike


def _rounded(distance: int) -> int:
    """Up to an eighth more, so that few distances differ."""
    unit = max(distance.bit_length() - 4, 0)
    return -(-distance >> unit) << unit


def work_of(graph: Graph, node: Node, part: Part | None = None) -> Work:
    """A node, or a part of it, as an operator over tensors of its own."""
    constant = tuple(name is not None and graph.constant(name) is not None for name in node.inputs)
    density = density_of(graph, node, part)
    block = _block_of(graph, node) if density < 1 else SINGLE
    if part is None:
        types = tuple(None if name is None else graph.type(name) for name in node.inputs)
        return Work(node.op, types, tuple(graph.type(name) for name in node.outputs), constant, density, block)
    inputs = tuple(
        None if name is None or box is None else TensorType(graph.type(name).dtype, tuple(e - b for b, e in box))
        for name, box in zip(node.inputs, part.reads, strict=True)
    )
    output = TensorType(graph.type(node.outputs[0]).dtype, tuple(e - b for b, e in part.writes))
    of = work_of(graph, node) if isinstance(node.op, Conv) and graph.density(node.inputs[1]) <= _DENSE else None
    return Work(part.op, inputs, (output,), constant, density, block, of)


def _block_of(graph: Graph, node: Node) -> Block:
    """In which blocks the constant weights of a convolution lie, or the constant matrix of a product."""
    if isinstance(node.op, Conv | QuantizedConv):
        return graph.block(node.inputs[1], node.op.group)
    return graph.block(node.inputs[1], 1) if graph.type(node.inputs[1] or "").rank == 2 else SINGLE


def density_of(graph: Graph, node: Node, part: Part | None = None) -> float:
    """The share of the weights of a convolution, matrix product or recurrent layer, or of those that a part of it has,
    that are not zero, to two digits; 1.0 for other nodes."""
    if isinstance(node.op, Recurrent):
        elements = [graph.type(name or "").elements for name in node.inputs[1:3]]
        shares = [graph.density(name) * n for name, n in zip(node.inputs[1:3], elements, strict=True)]
        return float(f"{sum(shares) / max(sum(elements), 1):.2g}")
    if isinstance(node.op, QuantizedConv):
        share = graph.density(node.inputs[1])
        return float(f"{share:.2g}") if share <= _FEW_BYTES else 1.0
    if not isinstance(node.op, Conv | MatMul):
        return 1.0
    weights, box = node.inputs[1], None if part is None else part.reads[1]
    found, before = graph.density(weights), None if box is None else uneven(graph, node)
    if weights is not None and box is not None and before is not None:
        begin, end = box[0 if isinstance(node.op, Conv) else -1]
        found = int(before[end] - before[begin]) * (len(before) - 1) / ((end - begin) * graph.type(weights).elements)
    return float(f"{found:.2g}")


def uneven(graph: Graph, node: Node) -> np.ndarray | None:
    """The non-zeros before each filter of a convolution or column of a matrix product, if some have far more than
    others."""
    weights = node.inputs[1] if isinstance(node.op, Conv | MatMul) else None
    if weights is None or graph.density(weights) > _DENSE:
        return None
    return graph.nonzeros(weights, 0 if isinstance(node.op, Conv) else -1)


def signature(work: Work, form: Form) -> Signature:
    """What two pieces of work have in common exactly if one time holds for both on the same device."""
    operands = ", ".join(
        "none" if type is None else f"{type}:{layout.name.lower()}{':constant' if constant else ''}"
        for type, layout, constant in zip(work.inputs, form.inputs, work.constant, strict=True)
    )
    outputs = ", ".join(f"{t}:{layout.name.lower()}" for t, layout in zip(work.outputs, form.outputs, strict=False))
    density = f" density {work.density:g}" if work.density < 1 else ""
    density += f" of {work.block}" if work.block.size > 1 else ""
    return f"{work.op!r} {form.implementation or '-'} ({operands}) -> {outputs}{density}"


@dataclass(slots=True)
class Costs:
    """Seconds of one core, remembered by what they depend on.

    `records` holds seconds by signature, measured on the fastest core while no other was busy; the model answers for
    what is not in it.
    """

    target: Target
    records: Mapping[Signature, float] = field(default_factory=dict)
    _seconds: dict[tuple[object, ...], float] = field(default_factory=dict)
    _numbers: dict[Work | Form, int] = field(default_factory=dict)
    _speeds: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        self._speeds = self.target.machine.speeds(len(self.target.machine.cores))

    def number(self, item: Work | Form) -> int:
        """A number for all that is the same, a cheap key."""
        return self._numbers.setdefault(item, len(self._numbers))

    def seconds(
        self, work: Work, form: Form, numbers: tuple[int, int], distances: Sequence[int], core: int, active: int
    ) -> float:
        """Time of `work` in `form` (which have these numbers) on one of `active` busy cores, its operands touched
        `distances` bytes ago."""
        speed = self._speeds[core]
        rounded = tuple([_rounded(distance) for distance in distances])
        key = (numbers, rounded, speed, active)
        found = self._seconds.get(key)
        if found is None:
            found = self.target.seconds(work, form, rounded, core, active)
            measured = self.records.get(signature(work, form)) if self.records else None
            if measured is not None:  # on one busy core; what sharing memory with others adds is the model's
                found *= measured / speed / self.target.seconds(work, form, rounded, core, 1)
            self._seconds[key] = found
        return found

    def reorder(self, type: TensorType, source: Layout, destination: Layout, core: int, active: int) -> float:
        """Time to change the layout of `type`, just written, on one of `active` busy cores."""
        key = (type, source, destination, self._speeds[core], active)
        found = self._seconds.get(key)
        if found is None:
            found = self._seconds[key] = self.target.reorder_seconds(type, source, destination, core, active)
        return found
