"""Which values lie in a box of another value's memory, so that joining and slicing move nothing.

An input of a Concat is produced where the result has it; what a Slice with steps of 1 takes out is a view of its
input. Both nest: a value has at most one place, and what that lies in may have one, too. Whatever cannot lie there has
memory of its own, and is copied by a step: graph inputs and outputs, constants, values that kernels write or read who
take no views with gaps, boxes that cut a block of channels, and all but the first place of a value that has several.

What convolutions write or read may also lie in a larger tensor that nothing else is in, if its own planes would be
badly apart for the caches (`Target.spaced`).
"""

from __future__ import annotations

from collections.abc import Container, Sequence

from packer.ir import Box, Graph, Node, TensorType, whole
from packer.ir.ops import Concat, Conv, Reshape, Slice
from packer.planner.bands import reads_rows
from targets.base import Form, Layout, Target, block_grain

__all__ = ["Places"]

Place = tuple[str, Box]  # the value that another one lies in, and the box


class Places:
    """The places of a graph's values while every node has one of its `forms`: the one that was chosen, or those it may
    have yet; then all places that some choice of forms makes possible. `apart` are the inputs and outputs of nodes that
    cannot share memory."""

    def __init__(
        self,
        graph: Graph,
        target: Target,
        forms: Sequence[tuple[Form, ...]],
        apart: Container[tuple[str, str]] = (),
    ) -> None:
        self.graph = graph
        self.apart = apart
        self.target = target
        self.of: dict[tuple[str, Layout], Place] = {}  # by value and the layout that it has there
        self._made: dict[str, tuple[Node, tuple[Form, ...]]] = {}
        self._read: dict[str, list[tuple[Node, int, tuple[Form, ...]]]] = {}
        for node, own in zip(graph.nodes, forms, strict=True):
            self._made.update((name, (node, own)) for name in node.outputs)
            for i, name in enumerate(node.inputs):
                if name is not None:
                    self._read.setdefault(name, []).append((node, i, own))
        counts = {name for extent in graph.extents for name in (extent.value, extent.count)}
        self._fixed = counts | {*graph.outputs}  # the caller's memory, or trimmed
        self._copied: dict[tuple[str, Layout], tuple[tuple[int, ...], float]] = {}  # by output and its layout
        for node, own in zip(graph.nodes, forms, strict=True):
            for layout in dict.fromkeys(form.outputs[0] for form in own):
                self._place(node, layout)

    def copied(self, node: Node, layout: Layout) -> tuple[int, ...]:
        """The inputs of a Concat or Slice whose elements do not lie where its output has them, in this layout."""
        return self._copied.get((node.outputs[0], layout), ((0,), 1.0))[0]

    def share(self, node: Node, layout: Layout) -> float:
        """How much of a node's work is left to do: what of its output is copied, 0 to 1."""
        return self._copied.get((node.outputs[0], layout), ((), 1.0))[1]

    def _place(self, node: Node, layout: Layout) -> None:
        wanted = _wanted(self.graph, node)
        copied, elements = [], [self.graph.type(value).elements for value, _ in wanted]
        for i, (value, place) in enumerate(wanted):
            source = value if isinstance(node.op, Concat) else place[0]
            free = (value, layout) not in self.of and (source, node.outputs[0]) not in self.apart
            if free and self._may_lie(value, place, layout, written=isinstance(node.op, Concat)):
                self.of[value, layout] = place
            else:
                copied.append(i)
        if wanted:
            share = sum(elements[i] for i in copied) / max(sum(elements), 1)
            self._copied[node.outputs[0], layout] = tuple(copied), share

    def _may_lie(self, value: str, place: Place, layout: Layout, written: bool) -> bool:
        outer, box = place
        if any(self.graph.constant(name) is not None for name in (value, outer)) or not self.graph.type(value).elements:
            return False
        if value in self._fixed and layout is Layout.PLANAR:
            return False
        if layout is Layout.PLANES:
            if not _whole_planes(box, self.graph.type(outer).shape) or not self._alike(value, outer):
                return False
        elif layout is not Layout.PLANAR and not _whole_blocks(box, self.graph.type(outer).shape):
            return False
        readers, gaps = self._read.get(value, ()), layout is Layout.PLANAR and not _in_one(box, self.graph.type(outer))
        if written and not self._written(value, layout, gaps):
            return False
        return all(self._reads(*reader, layout, gaps) for reader in readers)

    def wider(self, value: str, layout: Layout, type: TensorType) -> TensorType:
        """That of the tensor at whose origin a value, or its part of this type, lies if it lies in no other value."""
        if layout is not Layout.PLANAR or (wider := self.target.spaced(type)) == type:
            return type
        return wider if self._may_be_spaced(value) else type

    def _may_be_spaced(self, value: str) -> bool:
        """Whether a convolution writes or reads a value that may lie in a larger planar tensor."""
        layout, readers = Layout.PLANAR, self._read.get(value, ())
        if value not in self._made or value in self._fixed or not self._written(value, layout, True):
            return False
        users = [self._made[value][0], *(node for node, _, _ in readers)]
        return any(isinstance(node.op, Conv) for node in users) and all(
            reads_rows(reader[0], value) and self._reads(*reader, layout, True) for reader in readers
        )

    def _alike(self, value: str, outer: str) -> bool:
        """Whether two values have the same element type and halo on the device."""
        return self.target.stored(self.graph, value) == self.target.stored(self.graph, outer)

    def _written(self, value: str, layout: Layout, gaps: bool) -> bool:
        """Whether a view, perhaps one with gaps, can come to hold a value: from its kernel, or from the step that
        changes its layout."""
        if value not in self._made:
            return layout is not Layout.PLANAR
        node, forms = self._made[value]
        slot = node.outputs.index(value)
        able = len(node.outputs) == 1 and not isinstance(node.op, Reshape)
        return any(
            able and self._takes_views(node, form)
            if form.outputs[slot] is layout
            else _changes(form.outputs[slot], layout, gaps)
            for form in forms
        )

    def _reads(self, node: Node, i: int, forms: tuple[Form, ...], layout: Layout, gaps: bool) -> bool:
        """Whether a node can read its input i from a view, perhaps one with gaps; if it needs another layout, a step
        that can changes it."""
        if isinstance(node.op, Concat | Slice):
            return True
        if isinstance(node.op, Reshape):  # seen under another shape, where it lies in these layouts
            return layout not in (Layout.PLANAR, Layout.PLANES)
        if isinstance(node.op, Conv) and i in _PARAMETERS:
            return layout is not Layout.PLANAR
        return any(
            self._takes_views(node, form) if form.inputs[i] is layout else _changes(layout, form.inputs[i], gaps)
            for form in forms
        )

    def _takes_views(self, node: Node, form: Form) -> bool:
        return self.target.splittable(self.graph, node, form)


_PARAMETERS = (1, 2)  # of a convolution: weights and bias


def _changes(source: Layout, destination: Layout, gaps: bool) -> bool:
    """Whether a step that changes one layout to another takes a view, perhaps one with gaps, which copies from and to a
    device do not."""
    return not (gaps and Layout.PLANES in (source, destination))


def _in_one(box: Box, type: TensorType) -> bool:
    """Whether the elements of a box follow each other, row-major."""
    cut = [axis for axis, span in enumerate(box) if span != (0, type.shape[axis])]
    return not cut or all(extent == 1 for extent in type.shape[: cut[0]])


def _wanted(graph: Graph, node: Node) -> list[tuple[str, Place]]:
    """The values that would lie in others if all went well: a Concat's inputs in its output, or a Slice's output in
    its input."""
    op, y = node.op, node.outputs[0]
    if isinstance(op, Slice) and set(op.steps) <= {1} and node.inputs[0] is not None:
        return [(y, (node.inputs[0], tuple((b, b + n) for b, n in zip(op.starts, op.sizes, strict=True))))]
    if not isinstance(op, Concat):
        return []
    found, at = [], 0
    box = whole(graph.type(y))
    for name in node.inputs:
        assert name is not None  # only parts have none of an input
        until = at + graph.type(name).shape[op.axis]
        found.append((name, (y, (*box[: op.axis], (at, until), *box[op.axis + 1 :]))))
        at = until
    return found


def _whole_planes(box: Box, shape: tuple[int, ...]) -> bool:
    """Whether a box of one image is cut along channels alone."""
    whole = all(span == (0, extent) for span, extent in zip(box[2:], shape[2:], strict=True))
    return len(shape) > 1 and shape[0] == 1 and whole


def _whole_blocks(box: Box, shape: tuple[int, ...]) -> bool:
    """Whether no block of 16 channels is cut."""
    grains = zip(box, shape, block_grain(len(shape)), strict=True)
    return all(begin % grain == 0 and (end % grain == 0 or end == extent) for (begin, end), extent, grain in grains)
