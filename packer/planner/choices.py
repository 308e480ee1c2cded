"""Every way each node can run: form (layouts, algorithm) x split over the cores x depth-first tiles, and what it costs.

A choice fixes the states of its node's operands, which are layout, split and bands here (one device and one element
type a value): the state its output is produced in, and the states its inputs are needed in, the halo included. Where
the state of a value and the needed one differ, an adjustment (adjust.py) stands between them.

Depth-first tiling is a choice, too: a node whose one consumer takes its output tile by tile *streams* it. Then both run
in turn on one core, on tiles that stay in its cache, and rows that neighbouring tiles need twice are computed twice.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from packer.ir import Box, Graph, TensorType, extents_of
from packer.ir.ops import Binary, Concat, Conv, Dependence, Expand, Part, Reshape, Slice, Tile, Transpose
from packer.planner.bands import bandable
from packer.planner.costs import Costs, work_of
from packer.planner.cuts import Cut, Cuts
from packer.planner.places import Places
from packer.planner.split import SHARED, Piece, Split, balanced, splits
from targets.base import Form, Layout, Target, TargetError, Work, block_grain, stored_bytes

__all__ = ["Choice", "Term", "choices_of"]

TILE_AXIS = 2  # the first spatial dimension: rows of an image
_RUN = 256  # elements that are together in a tile, at least: shorter runs, in rows that lie apart, take longer
MOST_STREAMED = 4  # nodes that stream into one another
_MET = 0.2  # of the time of a line from one core to another: one that both write, or that was fetched ahead; measured
TERM_BLOCK = 16  # input channels are cut between blocks
_STRIDED = Concat | Expand | Reshape | Slice | Tile | Transpose  # parts of them read places of the whole input


@dataclass(frozen=True, slots=True)
class Term:
    """Partial sums of all outputs over the terms (input channels) [begin, end), computed by one core."""

    core: int
    begin: int
    end: int


@dataclass(frozen=True, slots=True, eq=False)
class Choice:
    """One way a node can run.

    `split` is that of its output, with several pieces a core if it is computed in tiles; `parts` are the sub-operators
    of the pieces (None: the whole node). `busy` is the time in seconds of each core. If there are `terms`, the cores
    compute partial sums first, which are then added up in the pieces of `split`. `takes` are the tiles of the first
    input, if it streams in; with `streams_out` the output is left in tiles. With `banded` it is stored in bands of
    rows. `dominates` is the next best of those that neighbours cannot tell from this one.
    """

    form: Form
    split: Split
    parts: tuple[Part | None, ...]
    busy: tuple[float, ...]
    terms: tuple[Term, ...] = ()
    takes: tuple[Piece, ...] = ()
    streams_out: bool = False
    banded: bool = False
    dominates: Choice | None = None

    @property
    def cores(self) -> list[int]:
        """Which core computes each part."""
        return [term.core for term in self.terms] or [piece.core for piece in self.split.pieces]

    @property
    def waits(self) -> bool:
        """Whether its steps are those of the node that reads its output, which is in tiles or registers."""
        return self.streams_out or Layout.REGISTERS in self.form.outputs

    @property
    def alone(self) -> bool:
        """Whether it runs without a neighbour."""
        return not (self.takes or self.waits or Layout.REGISTERS in self.form.inputs)

    @property
    def seconds(self) -> float:
        """Until the last core is done."""
        return max(self.busy)


def choices_of(
    graph: Graph,
    costs: Costs,
    cores: int,
    implementation: str | None = None,
    partial_sums: bool = False,
) -> list[tuple[Choice, ...]]:
    """The choices of every node on `cores` cores; of several that differ in cost alone only the cheapest.

    Nodes that offer `implementation` use it; TargetError if none does. Without `partial_sums` input channels are not
    split: then all plans whose nodes have the same arithmetic give the same bits.
    """
    known: dict[Form, Form] = {}  # the same objects, which compare faster
    forms = [tuple(known.setdefault(f, f) for f in costs.target.forms(graph, node)) for node in graph.nodes]
    if implementation is not None:
        forms = _only(forms, implementation)
    return _Nodes(graph, costs, cores, partial_sums).build(forms)


class _Nodes:
    """Builds the choices of all nodes, last node first: consumers say which tiles they would take."""

    def __init__(self, graph: Graph, costs: Costs, cores: int, partial_sums: bool) -> None:
        self.graph = graph
        self.costs = costs
        self.target = costs.target
        self.speeds = costs.target.machine.speeds(cores)
        self.partial_sums = partial_sums
        self.traffic = _traffic(graph)
        self.made_by = {name: v for v, node in enumerate(graph.nodes) for name in node.outputs}
        self.consumers = graph.consumers()
        self.cuts = Cuts(graph, costs, self.speeds)
        self.wanted: dict[int, dict[tuple[Piece, ...], tuple[Split, int]]] = {}  # by node: tiles consumers would take
        self.sizes: dict[tuple[int, int], tuple[list[int], int]] = {}  # by numbers of work and form
        self.touched: dict[str, int] = {}  # in a run of the network, by implementation
        self.in_bands: dict[tuple[int, int], bool] = {}  # by node and axis

    def build(self, forms: Sequence[tuple[Form, ...]]) -> list[tuple[Choice, ...]]:
        self.places = Places(self.graph, self.target, forms)
        self.touched = _touched(self.graph, self.target, forms, self.traffic[-1])
        found = [self.of(v, forms[v]) for v in reversed(range(len(forms)))]
        return found[::-1]

    def of(self, v: int, forms: tuple[Form, ...]) -> tuple[Choice, ...]:
        node = self.graph.nodes[v]
        able = tuple(form for form in forms if self.target.splittable(self.graph, node, form))
        source = self.streamable_source(v)
        found = _Found()
        for grain in dict.fromkeys(form.grain for form in forms):
            cuts = self.cuts.of(node, len(node.outputs) > 1 or not able, grain)
            own = [form for form in able if form.grain == grain]
            for cut in cuts:
                undivided = cut.parts == (None,)
                self.among(found, v, [f for f in forms if f.grain == grain] if undivided else _fitting(own, cut), cut)
            if source is not None:
                for cut in self.tiled(v, cuts, grain):
                    takes = self.want(source, cut, 1)
                    if takes:
                        self.among(found, v, _fitting(own, cut), cut, takes)
        for form in able if len(self.speeds) > 1 else ():
            for axis, before in self.target.work(self.graph, node, form):
                for cut in self.cuts.weighed(node, axis, before, form.grain):
                    self.among(found, v, _fitting([form], cut), cut)
        for split, depth in self.wanted.get(v, {}).values():
            cut = self.cuts.cut(node, split)
            own = _fitting(able, cut)
            self.among(found, v, own, cut, (), True)
            if own and source is not None and depth < MOST_STREAMED:
                takes = self.want(source, cut, depth + 1)
                if takes:
                    self.among(found, v, own, cut, takes, True)
        if self.partial_sums and len(self.speeds) > 1:
            self.summed(found, v, able)
        return found.undominated()

    def among(
        self,
        found: _Found,
        v: int,
        forms: Sequence[Form],
        cut: Cut,
        takes: tuple[Piece, ...] = (),
        streams_out: bool = False,
    ) -> None:
        """Find the choice of each form in these pieces."""
        cores = [piece.core for piece in cut.split.pieces]
        shared = cut.split.name == SHARED
        active = len(self.speeds) if shared else len(set(cores))
        for form in forms:
            known = [
                self.seconds(v, form, work, number, core, active, bool(takes), streams_out)
                for work, number, core in cut.works
            ]
            busy = [0.0] * len(self.speeds)
            for core, which in zip(cores, cut.which, strict=True):
                busy[core] += known[which]
            lines = cut.met + (cut.ahead if self.goes_through(v) else 0)
            if lines and form.outputs[0] is Layout.PLANAR and not streams_out:
                if self.bandable(v, cut.rows):
                    found.add(cut, Choice(form, cut.split, cut.parts, tuple(busy), (), takes, banded=True))
                met = _MET * lines * self.target.machine.transfer_seconds
                busy = [seconds + met if seconds else 0.0 for seconds in busy]
            if shared:
                busy = [busy[0] / sum(self.speeds)] * len(self.speeds)
            found.add(cut, Choice(form, cut.split, cut.parts, tuple(busy), (), takes, streams_out))

    def seconds(
        self,
        v: int,
        form: Form,
        work: Work,
        number: int,
        core: int,
        active: int,
        streams_in: bool = False,
        streams_out: bool = False,
    ) -> float:
        """Time of a part of node v. What was touched last in a tile is near; else all that was touched since counts."""
        node = self.graph.nodes[v]
        share = 0.0 if isinstance(node.op, Reshape) else self.places.share(node, form.outputs[0])
        if share == 0.0:
            return 0.0
        numbers = number, self.costs.number(form)
        if numbers not in self.sizes:
            self.sizes[numbers] = _sizes(work, form, int(self.target.weights(work, form)))
        own, around = self.sizes[numbers]
        distances = []
        for i, name in enumerate(node.inputs):
            if name is None or work.inputs[i] is None:
                distances.append(0)
            elif work.constant[i] and (streams_in or streams_out):
                distances.append(own[i] + around)  # of the tile before
            elif work.constant[i]:
                touched = self.touched.get(form.implementation, self.traffic[-1])
                distances.append(max(own[i], touched // active))
            elif streams_in and i == 0:
                distances.append(around)
            else:
                since = self.traffic[v] - self.traffic[self.made_by.get(name, 0)]
                distances.append(own[i] + since // active)
        distances += [around if streams_out else 2 * around] * len(work.outputs)
        return share * self.costs.seconds(work, form, numbers, distances, core, active)

    def bandable(self, v: int, axis: int) -> bool:
        """Whether node v's output can be in bands of rows, along this axis if it is not 0."""
        if axis and (v, axis) not in self.in_bands:
            node = self.graph.nodes[v]
            self.in_bands[v, axis] = bandable(self.graph, node, self.consumers[node.outputs[0]], axis)
        return axis > 0 and self.in_bands[v, axis]

    def goes_through(self, v: int) -> bool:
        """Whether node v goes through its planes one after the other; other convolutions have a tile of all of them."""
        node = self.graph.nodes[v]
        return not isinstance(node.op, Conv) or self.graph.type(node.inputs[1] or "").shape[1] == 1

    # ---- depth-first tiles ----

    def streamable_source(self, v: int) -> int | None:
        """The node whose output node v alone reads, as its first input, if it can be cut into tiles of rows, and node v
        has one output and does not tell where elements lie in all of the input."""
        node = self.graph.nodes[v]
        single = len(node.outputs) == 1 and not isinstance(node.op, _STRIDED)
        name = node.inputs[0] if node.inputs and single else None
        if name is None or name not in self.made_by or name in self.graph.outputs or node.inputs.count(name) > 1:
            return None
        u = self.made_by[name]
        source = self.graph.nodes[u]
        if len(self.consumers[name]) > 1 or isinstance(source.op, Concat | Reshape | Slice):
            return None
        if any(self.consumers[other] or other in self.graph.outputs for other in source.outputs[1:]):
            return None
        if any(extent.value == name or extent.count in source.outputs for extent in self.graph.extents):
            return None
        dependence = source.op.dependence([None if n is None else self.graph.type(n) for n in source.inputs])
        return u if len(dependence) > TILE_AXIS and dependence[TILE_AXIS] is not Dependence.FULL else None

    def tiled(self, v: int, cuts: Sequence[Cut], grain: tuple[int, ...]) -> list[Cut]:
        """Cuts whose pieces are rows for every core, and computed in tiles; for forms of this grain."""
        node = self.graph.nodes[v]
        output = self.graph.type(node.outputs[0])
        dependence = node.op.dependence([None if name is None else self.graph.type(name) for name in node.inputs])
        if output.rank <= TILE_AXIS or dependence[TILE_AXIS] is Dependence.FULL:
            return []
        rows = [cut.split for cut in cuts if all(_is_rows(piece.box, output) for piece in cut.split.pieces)]
        split = max(rows, key=lambda split: len(split.pieces))
        if len(split.pieces) == 1 < len(self.speeds):
            return []
        unit = math.lcm(self.cuts.grain(node)[TILE_AXIS], grain[TILE_AXIS] if grain else 1)
        found = []
        for count in self.tile_counts(v, split, output, unit):
            tiles = tuple(tile for piece in split.pieces for tile in _tiles(piece, count, unit))
            found.append(self.cuts.cut(node, Split(f"{split.name}/{count}", tiles)))
        return found

    def tile_counts(self, v: int, split: Split, output: TensorType, unit: int) -> list[int]:
        """Tiles a piece such that what they read and write fits half of the core's cache, or a quarter; none if all
        does already. They begin at multiples of `unit` rows."""
        name = self.graph.nodes[v].inputs[0]
        assert name is not None
        between = self.graph.type(name).bytes // len(split.pieces)
        room = self.target.machine.private_cache(0) // 2
        rows = min(end - begin for begin, end in (piece.box[TILE_AXIS] for piece in split.pieces))
        most = -(-rows // unit) if output.rank > TILE_AXIS + 1 else rows // max(unit, _RUN)
        if between <= room or most < 2:
            return []
        least = -(-(between + output.bytes // len(split.pieces)) // room)
        return sorted({min(count, most) for count in (least, 2 * least)})

    def want(self, source: int, cut: Cut, depth: int) -> tuple[Piece, ...]:
        """Ask the source for the tiles of its output that the parts of `cut` read; none if it cannot give them, or if
        some of its channels are not read: channels that a form's grain holds together are made together."""
        node = self.graph.nodes[source]
        output = self.graph.type(node.outputs[0])
        dependence = node.op.dependence([None if n is None else self.graph.type(n) for n in node.inputs])
        unit, extent = self.cuts.grain(node)[TILE_AXIS], output.shape[TILE_AXIS]
        takes = []
        for tile, part in zip(cut.split.pieces, cut.parts, strict=True):
            box = part.reads[0] if part is not None else None
            if box is None or 0 in extents_of(box):
                return ()
            if any(at % unit and at != extent for at in box[TILE_AXIS]):
                return ()
            for axis, (span, most, kind) in enumerate(zip(box, output.shape, dependence, strict=True)):
                if (axis < TILE_AXIS or kind is Dependence.FULL) and span != (0, most):
                    return ()
            takes.append(Piece(tile.core, box))
        tiles = Split(cut.split.name, tuple(takes))
        split, _ = self.wanted.setdefault(source, {}).setdefault(tiles.pieces, (tiles, depth))
        return split.pieces

    # ---- partial sums ----

    def summed(self, found: _Found, v: int, forms: Sequence[Form]) -> None:
        """Find choices that give each core a share of the input channels, and add up the partial sums in pieces."""
        node = self.graph.nodes[v]
        inputs = [None if name is None else self.graph.type(name) for name in node.inputs]
        output = self.graph.type(node.outputs[0])
        extent = node.op.terms(inputs)
        cores = len(self.speeds)
        if extent < TERM_BLOCK * cores:
            return
        terms, at = [], 0
        for core, share in enumerate(balanced(-(-extent // TERM_BLOCK), self.speeds)):
            until = min(at + share * TERM_BLOCK, extent)
            terms.append(Term(core, at, until))
            at = until
        anywhere = (Dependence.POINTWISE,) * output.rank
        splits_of_sum = splits(output, anywhere, self.speeds, block_grain(output.rank))
        pieces = max(splits_of_sum, key=lambda split: len(split.pieces)).pieces
        parts = tuple(node.op.partial(term.begin, term.end, inputs) for term in terms)
        cut = self.cuts.into(node, Split(f"sum{cores}", pieces), parts, range(cores))
        for form in _fitting(forms, cut):
            if form.leaves_out_zeros:
                continue  # the tiles of its stream need not end where terms do
            busy = [self.target.machine.barrier(cores)] * cores
            for term, i in zip(terms, cut.which, strict=True):
                busy[term.core] += self.seconds(v, form, *cut.works[i], cores)
            layout = form.outputs[0]
            added = Form((layout, layout), (layout,))
            for piece in pieces:
                type = TensorType(output.dtype, extents_of(piece.box))
                work = Work(Binary("add"), (type, type), (type,), (False, False))
                numbers = self.costs.number(work), self.costs.number(added)
                distances = [2 * stored_bytes(type, layout)] * 3
                one = self.costs.seconds(work, added, numbers, distances, piece.core, cores)
                busy[piece.core] += one * (cores - 1)
            found.add(cut, Choice(form, cut.split, parts, tuple(busy), tuple(terms)))


class _Found:
    """The choices of a node so far, by what neighbours can tell apart (layouts, pieces and streams) and arithmetic."""

    def __init__(self) -> None:
        self._alike: dict[tuple[object, ...], list[Choice]] = {}

    def add(self, cut: Cut, choice: Choice) -> None:
        form = choice.form
        sums = form.arithmetic, bool(choice.terms)
        key = (form.inputs, form.outputs, sums, cut.state, id(choice.takes), choice.streams_out, choice.banded)
        self._alike.setdefault(key, []).append(choice)

    def undominated(self) -> tuple[Choice, ...]:
        """Of each kind the cheapest."""
        found = []
        for alike in self._alike.values():
            first, *second = sorted(alike, key=lambda choice: choice.seconds)[:2]
            if second:
                first = replace(first, dominates=second[0])
            found.append(first)
        return tuple(found)


def _fitting(forms: Sequence[Form], cut: Cut) -> list[Form]:
    """The forms that can run in these parts: they may begin there, and none reads a part of a block."""
    return [
        form
        for form in forms
        if not any(form.inputs[i] is Layout.BLOCK16 for i in cut.torn)
        and (not form.grain or all(form.fits(piece.box) for piece in cut.split.pieces))
    ]


def _only(forms: list[tuple[Form, ...]], name: str) -> list[tuple[Form, ...]]:
    """The forms of that implementation wherever there is one."""
    known = sorted({form.implementation for own in forms for form in own if form.implementation})
    if name not in known:
        raise TargetError(f"no node can run as '{name}'; implementations here: {', '.join(known) or 'none to choose'}")
    return [tuple(form for form in own if form.implementation == name) or own for own in forms]


def _sizes(work: Work, form: Form, weights: int) -> tuple[list[int], int]:
    """Bytes of each input, of weights as many as they are stored in if that is known; and of all that is not constant,
    outputs included."""
    own = [0 if t is None else stored_bytes(t, lay) for t, lay in zip(work.inputs, form.inputs, strict=True)]
    if weights > 0:
        own[1] = weights
    made = sum(stored_bytes(t, lay) for t, lay in zip(work.outputs, form.outputs, strict=False))
    return own, made + sum(size for size, constant in zip(own, work.constant, strict=True) if not constant)


def _is_rows(box: Box, type: TensorType) -> bool:
    """Whether a box is cut along the axis of tiles alone."""
    return all(
        axis == TILE_AXIS or span == (0, extent)
        for axis, (span, extent) in enumerate(zip(box, type.shape, strict=True))
    )


def _tiles(piece: Piece, count: int, unit: int) -> list[Piece]:
    """A piece, which begins at a multiple of `unit` rows, as `count` bands that do so, in order."""
    begin, end = piece.box[TILE_AXIS]
    found, at = [], begin
    for share in balanced(-(-(end - begin) // unit), (1.0,) * count):
        until = min(at + share * unit, end)
        found.append(Piece(piece.core, (*piece.box[:TILE_AXIS], (at, until), *piece.box[TILE_AXIS + 1 :])))
        at = until
    return found


def _touched(graph: Graph, target: Target, forms: Sequence[tuple[Form, ...]], total: int) -> dict[str, int]:
    """Bytes of weights and outputs that a run touches, by the implementation of a node's form, where it is `total` as
    they are: as long as the others have not chosen, all that can store their weights as that implementation does are
    taken to do so."""
    found: dict[str, float] = {}
    for node, own in zip(graph.nodes, forms, strict=True):
        work = work_of(graph, node)
        weights = work.inputs[1] if len(work.inputs) > 1 else None
        for form in {form.implementation: form for form in own}.values():
            stored = target.weights(work, form)
            if stored > 0 and weights is not None:
                found[form.implementation] = found.get(form.implementation, total) + stored - weights.bytes
    return {implementation: int(bytes) for implementation, bytes in found.items()}


def _traffic(graph: Graph) -> list[int]:
    """Bytes of weights and outputs that nodes before each node touch; the last entry is the whole network's."""
    found = [0]
    for node in graph.nodes:
        weights = sum(
            graph.type(name).bytes for name in node.inputs if name is not None and graph.constant(name) is not None
        )
        found.append(found[-1] + weights + sum(graph.type(name).bytes for name in node.outputs))
    return found
