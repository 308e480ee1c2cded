"""Which values of a plan are in bands, what rows each band has, and which of them are copied from another core's."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from packer.ir import Box, Graph, Node, whole
from packer.ir.ops import Reshape
from packer.planner.bands import SHARING, Bands, row_axis, rows_of
from packer.planner.choices import Choice
from packer.planner.places import Places
from targets.base import Layout

__all__ = ["Halos", "apart"]

_Rows = dict[int, tuple[int, int]]  # begin and end, by core


@dataclass(frozen=True, slots=True)
class _Value:
    """The axis of rows; the rows that each core makes, and those it has at the end."""

    axis: int
    made: _Rows
    held: _Rows


def apart(graph: Graph, choices: Sequence[Choice]) -> set[tuple[str, str]]:
    """The inputs and outputs that might share memory, but are in other bands, or only one in any."""
    rows: dict[str, object] = {}
    found: set[tuple[str, str]] = set()
    for node, choice in zip(graph.nodes, choices, strict=True):
        name = node.outputs[0]
        rows[name] = choice.banded and rows_of(choice.split, graph.type(name))
        if isinstance(node.op, SHARING):
            found.update((x, name) for x in node.inputs if x is not None and rows.get(x, False) != rows[name])
    return found


class Halos:
    """The values in bands of a graph with one choice a node; `separate` are those that `apart` finds."""

    def __init__(
        self, graph: Graph, choices: Sequence[Choice], places: Places, separate: Container[tuple[str, str]]
    ) -> None:
        self._graph = graph
        self._values: dict[str, _Value] = {}
        lies_in: dict[str, str] = {}  # which value in bands another one shares memory with
        pairs = list(zip(graph.nodes, choices, strict=True))
        for node, choice in pairs:
            if choice.banded:
                name, type = node.outputs[0], graph.type(node.outputs[0])
                made = dict(rows_of(choice.split, type))
                self._values[name] = _Value(row_axis(choice.split, type), made, dict(made))
                source = node.inputs[0] or ""
                if isinstance(node.op, Reshape) and (source, name) not in separate:
                    lies_in[name] = source
        for name in self._values:
            outer = places.of.get((name, Layout.PLANAR))
            if outer is not None and outer[0] in self._values:
                lies_in[name] = outer[0]
        for node, choice in reversed(pairs):
            self._read(node, choice, lies_in)
        self.bands = self._stored(lies_in)

    def copies(self, name: str) -> Iterator[tuple[int, int, Box]]:
        """The halo of a value: a core, the one that makes rows that it reads, and those rows."""
        value, box = self._values[name], whole(self._graph.type(name))
        for core, (begin, end) in value.held.items():
            for maker, (first, last) in value.made.items():
                rows = max(begin, first), min(end, last)
                if maker != core and rows[0] < rows[1]:
                    yield core, maker, (*box[: value.axis], rows, *box[value.axis + 1 :])

    def _read(self, node: Node, choice: Choice, lies_in: Mapping[str, str]) -> None:
        """Add what a node reads of values in bands: of one that shares memory with the output, what that has."""
        for i, name in enumerate(node.inputs):
            value = self._values.get(name or "")
            if value is None or name is None:
                continue
            result = node.outputs[0]
            if lies_in.get(name) == result or lies_in.get(result) == name:
                _extend(value.held, self._values[result].held.items())
            else:
                boxes = [whole(self._graph.type(name)) if part is None else part.reads[i] for part in choice.parts]
                read = ((c, box[value.axis]) for c, box in zip(choice.cores, boxes, strict=True) if box is not None)
                _extend(value.held, read)

    def _stored(self, lies_in: Mapping[str, str]) -> dict[str, Bands]:
        """The bands of each value; those of values that share memory have the same rows."""
        roots: dict[str, str] = {}
        rows: dict[str, _Rows] = {}
        for name, value in self._values.items():
            root = name
            while root in lies_in:
                root = lies_in[root]
            roots[name] = root
            _extend(rows.setdefault(root, {}), value.held.items())
        return {
            name: Bands(value.axis, dict(sorted(rows[roots[name]].items()))) for name, value in self._values.items()
        }


def _extend(rows: _Rows, more: Iterable[tuple[int, tuple[int, int]]]) -> None:
    for core, (begin, end) in more:
        if begin < end:
            before = rows.get(core, (begin, end))
            rows[core] = (min(before[0], begin), max(before[1], end))
