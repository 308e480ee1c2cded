"""Bands: a value stored by who made its rows, so that no two cores meet in a line of the cache.

In one planar tensor the rows of two cores meet in every plane: in a line that both write, and where a core's cache
fetches rows of the other ahead. In bands, a value of one image has for each core a tensor of the rows of all channels
that the core makes, and of those of its neighbours that it reads (halos.py).
"""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from packer.ir import Box, Graph, Node, TensorType
from packer.ir.ops import (
    Binary,
    Cast,
    Concat,
    Conv,
    Lrn,
    Pad,
    Pool,
    Reshape,
    Resize,
    ScaleShift,
    Slice,
    Transpose,
    Unary,
)
from packer.planner.split import Split, together

__all__ = ["SHARING", "Bands", "bandable", "reads_rows", "row_axis", "rows_of"]

SHARING = Concat | Reshape | Slice  # their results may be views of the memory of inputs, or hold it
_READS_ROWS = (  # as they are: others see values under another shape, or need all rows
    Binary | Cast | Concat | Conv | Lrn | Pad | Pool | Reshape | Resize | ScaleShift | Slice | Transpose | Unary
)
_FIRST = 2  # axis of rows: channels lie apart already


@dataclass(frozen=True, slots=True)
class Bands:
    """The begin and end of the rows in the band of each core that has one, along `axis`."""

    axis: int
    rows: Mapping[int, tuple[int, int]]

    def type(self, type: TensorType, core: int) -> TensorType:
        """That of a core's band of a value of this type."""
        begin, end = self.rows[core]
        return TensorType(type.dtype, (*type.shape[: self.axis], end - begin, *type.shape[self.axis + 1 :]))

    def name(self, name: str, core: int) -> str:
        """What a core's band of a value of this name is called."""
        begin, end = self.rows[core]
        return f"{name}:rows{begin}-{end}"

    def within(self, box: Box, core: int) -> Box:
        """Where a box of the value lies in a core's band."""
        begin = self.rows[core][0]
        first, last = box[self.axis]
        return (*box[: self.axis], (first - begin, last - begin), *box[self.axis + 1 :])

    def through(self, box: Box, core: int) -> Box:
        """The box that goes through all rows of a core's band."""
        begin, end = self.rows[core]
        return (*box[: self.axis], (0, end - begin), *box[self.axis + 1 :])


def row_axis(split: Split, type: TensorType) -> int:
    """The one dimension that a split of one image cuts between cores, if it is one of rows; else 0."""
    pieces = together(split.pieces)
    if len(pieces) < 2 or type.rank <= _FIRST or type.shape[0] != 1:
        return 0
    cut = [a for a, extent in enumerate(type.shape) if any(piece.box[a] != (0, extent) for piece in pieces)]
    return cut[0] if len(cut) == 1 and cut[0] >= _FIRST else 0


@functools.lru_cache(maxsize=4096)
def rows_of(split: Split, type: TensorType) -> tuple[tuple[int, tuple[int, int]], ...]:
    """The rows of each core, if they alone are cut."""
    axis = row_axis(split, type)
    return tuple((piece.core, piece.box[axis]) for piece in together(split.pieces)) if axis else ()


def bandable(graph: Graph, node: Node, readers: Sequence[Node], axis: int) -> bool:
    """Whether the output of a node can be made, and read by these nodes, in bands along this axis."""
    name = node.outputs[0]
    if len(node.outputs) > 1 or name in graph.outputs or any(name in (e.value, e.count) for e in graph.extents):
        return False
    if isinstance(node.op, SHARING) and not _keeps_rows(graph, node, graph.type(name), axis):
        return False
    return all(
        reads_rows(reader, name)
        and not (isinstance(reader.op, SHARING) and not _keeps_rows(graph, reader, graph.type(name), axis))
        for reader in readers
    )


def reads_rows(node: Node, name: str) -> bool:
    """Whether a node reads the rows of a value as they are."""
    return isinstance(node.op, _READS_ROWS) and not (isinstance(node.op, Conv) and name in node.inputs[1:3])


def _keeps_rows(graph: Graph, node: Node, type: TensorType, axis: int) -> bool:
    """Whether such a node takes, gives or joins all rows of values, which are along `axis` of this type."""
    if isinstance(node.op, Concat):
        return 0 < node.op.axis < axis
    source, result = (graph.type(name or "") for name in (node.inputs[0], node.outputs[0]))
    if any(name in graph.inputs or graph.constant(name or "") is not None for name in node.inputs[:1]):
        return False
    if isinstance(node.op, Slice):
        cut = [a for a, (own, all) in enumerate(zip(result.shape, source.shape, strict=True)) if own != all]
        return set(node.op.steps) <= {1} and all(0 < a < axis for a in cut)
    below = type.rank - axis
    return (
        min(source.rank, result.rank) > below
        and source.shape[0] == result.shape[0] == 1
        and source.shape[-below:] == result.shape[-below:]
        and math.prod(source.shape[:-below]) == math.prod(result.shape[:-below])
    )
