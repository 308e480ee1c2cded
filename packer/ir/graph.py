"""The graph: values, nodes in execution order, and the validator that proves it well formed."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from math import prod
from weakref import WeakKeyDictionary

import numpy as np

from packer.ir.ops.base import Op, ShapeError
from packer.ir.types import SINGLE, Block, DType, TensorType

__all__ = ["Extent", "Graph", "Node", "Value"]


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class Value:
    """One tensor of the graph; `data` holds it when it is a constant (read-only, C-contiguous)."""

    name: str
    type: TensorType
    data: np.ndarray | None = None

    @staticmethod
    def constant(name: str, data: np.ndarray) -> Value:
        """A constant value owning a read-only copy of `data`."""
        data = np.array(data, order="C", copy=True)
        data.setflags(write=False)
        return Value(name, TensorType(DType.of(data.dtype), data.shape), data)


_DENSITIES: WeakKeyDictionary[Value, float] = WeakKeyDictionary()  # of constants, counted once
_NONZEROS: WeakKeyDictionary[Value, dict[int, np.ndarray | None]] = WeakKeyDictionary()  # by axis
_UNEVEN = 0.1
_BLOCKS: WeakKeyDictionary[Value, tuple[Block, ...]] = WeakKeyDictionary()
_FILLED = {Block(4, 1): 1.1, Block(1, 4): 1.02}  # how many times the non-zeros may be stored for the sake of blocks
_FILLED_MATRIX = dict.fromkeys(_FILLED, 1.17)  # of a matrix, where both save time as long as they save bytes


@dataclass(frozen=True, slots=True)
class Node:
    """One operator application. An absent optional input is None.

    `sources` are the names of the ONNX nodes it came from, for profiles and messages.
    """

    op: Op
    inputs: tuple[str | None, ...]
    outputs: tuple[str, ...]
    sources: tuple[str, ...] = ()

    def label(self) -> str:
        """How messages name this node."""
        return f"{type(self.op).__name__} '{self.sources[0] if self.sources else self.outputs[0]}'"


@dataclass(frozen=True, slots=True)
class Extent:
    """Only the first `count` (an i64 scalar value) entries of `value` along `axis` are meaningful.

    Operators whose result size depends on data (NonMaxSuppression, NonZero) have outputs of the largest
    possible size and tell the real size in a count; the runtime trims graph outputs by it.
    """

    value: str
    axis: int
    count: str


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class Graph:
    """Nodes in a valid execution order over named values. Never mutated: passes build new graphs."""

    name: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    nodes: tuple[Node, ...]
    values: dict[str, Value] = field(repr=False)
    extents: tuple[Extent, ...] = ()

    def type(self, name: str) -> TensorType:
        return self.values[name].type

    def constant(self, name: str | None) -> np.ndarray | None:
        """The data of a constant value, else None."""
        return None if name is None else self.values[name].data

    def density(self, name: str | None) -> float:
        """The share of a constant's elements that are not zero; 1.0 for any other value."""
        value = None if name is None else self.values[name]
        if value is None or value.data is None or value.data.size == 0:
            return 1.0
        found = _DENSITIES.get(value)
        if found is None:
            found = _DENSITIES[value] = int(np.count_nonzero(value.data)) / value.data.size
        return found

    def nonzeros(self, name: str, axis: int) -> np.ndarray | None:
        """How many elements of a constant are not zero before each index along its first or last axis, and in all: i64
        [extent + 1]. None if the eighths along that axis, of 16 at least, have as many, but for a tenth."""
        value = self.values[name]
        assert value.data is not None
        known = _NONZEROS.setdefault(value, {})
        if axis not in known:
            slices = value.data if axis == 0 else np.moveaxis(value.data, axis, 0)
            before = np.cumsum([0, *map(np.count_nonzero, slices)])
            ends = np.append(np.arange(0, len(slices), max(16, len(slices) // 8)), len(slices))
            share = np.diff(before[ends]) / np.diff(ends) * len(slices)
            known[axis] = before if np.any(np.abs(share - before[-1]) > _UNEVEN * before[-1]) else None
        return known[axis]

    def block(self, name: str | None, group: int) -> Block:
        """In which blocks the non-zeros of constant weights [K, C / group, kernel...], or of a matrix [C, K], lie,
        nearly: 4x1 (of which 16x1 consist), 1x4, or 1x1."""
        value = None if name is None else self.values[name]
        if value is None or value.data is None or value.data.size == 0:
            return SINGLE
        found = _BLOCKS.get(value)
        if found is None:
            most = _FILLED if value.data.ndim > 2 else _FILLED_MATRIX
            held = (block for block, filled in most.items() if _lie_in(value.data, block, filled))
            found = _BLOCKS[value] = tuple(held)
        filters = value.data.shape[0 if value.data.ndim > 2 else 1] // group
        return next((block for block in found if filters % block.filters == 0), SINGLE)

    def consumers(self) -> dict[str, list[Node]]:
        """For each value, the nodes that read it, in execution order."""
        found: dict[str, list[Node]] = {name: [] for name in self.values}
        for node in self.nodes:
            for name in dict.fromkeys(node.inputs):
                if name is not None:
                    found[name].append(node)
        return found

    def producers(self) -> dict[str, Node]:
        """For each computed value, the node that writes it."""
        return {name: node for node in self.nodes for name in node.outputs}

    def replaced(self, nodes: list[Node], new_values: list[Value] = (), **changes: object) -> Graph:  # type: ignore[assignment]
        """This graph with other nodes; unused values are dropped, `new_values` added or overriding."""
        values = dict(self.values)
        values.update((value.name, value) for value in new_values)
        graph = replace(self, nodes=tuple(nodes), values=values, **changes)  # type: ignore[arg-type]
        used = {*graph.inputs, *graph.outputs}
        for node in graph.nodes:
            used.update(name for name in node.inputs if name is not None)
            used.update(node.outputs)
        for extent in graph.extents:
            used.add(extent.count)
        extents = tuple(e for e in graph.extents if e.value in used)
        return replace(graph, values={n: v for n, v in values.items() if n in used}, extents=extents)

    def validate(self) -> None:
        """Raise ShapeError unless every name is defined once before use and every type is what its op infers."""
        defined = set(self.inputs) | {n for n, v in self.values.items() if v.data is not None}
        for node in self.nodes:
            for name in node.inputs:
                if name is not None and name not in defined:
                    raise ShapeError(f"{node.label()}: input '{name}' is used before it is defined")
            types = node.op.infer([None if n is None else self.type(n) for n in node.inputs])
            if len(types) < len(node.outputs):
                raise ShapeError(f"{node.label()}: expected at most {len(types)} outputs, got {len(node.outputs)}")
            for name, inferred in zip(node.outputs, types, strict=False):
                if name in defined:
                    raise ShapeError(f"{node.label()}: output '{name}' is defined twice")
                defined.add(name)
                if self.type(name) != inferred:
                    raise ShapeError(f"{node.label()}: output '{name}' is {self.type(name)}, inferred {inferred}")
        for name in self.outputs:
            if name not in defined:
                raise ShapeError(f"graph output '{name}' is never defined")
        for value in self.values.values():
            data, type = value.data, value.type
            if data is not None and (data.shape != type.shape or data.dtype != type.dtype.numpy):
                raise ShapeError(f"constant '{value.name}' does not match its type {value.type}")


def _lie_in(weights: np.ndarray, block: Block, filled: float) -> bool:
    """Whether blocks of which any element is not zero have, in all, so many times as many elements as are not zero."""
    sides = block if weights.ndim > 2 else block[::-1]
    if any(extent % side != 0 for extent, side in zip(weights.shape, sides, strict=False)):
        return False
    present = (weights != 0).reshape(
        weights.shape[0] // sides[0], sides[0], weights.shape[1] // sides[1], sides[1], prod(weights.shape[2:])
    )
    return block.size * int(np.count_nonzero(present.any((1, 3)))) <= filled * int(np.count_nonzero(present))
