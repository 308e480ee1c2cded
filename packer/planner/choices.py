"""Every way each node can run: form (layouts, algorithm) x split over the cores x depth-first tiles, and what it costs.

A choice fixes the states of its node's operands, which are layout and split here (one device and one element type a
value): the state its output is produced in, and the states its inputs are needed in, the halo included. Where the state
of a value and the needed one differ, an adjustment (adjust.py) stands between them.

Depth-first tiling is a choice, too: a node whose one consumer takes its output tile by tile *streams* it. Then both run
in turn on one core, on tiles that stay in its cache, and rows that neighbouring tiles need twice are computed twice.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from packer.ir import Box, Graph, Node, TensorType, extents_of
from packer.ir.ops import Binary, Concat, Dependence, Op, Part, Reshape, Slice
from packer.planner.costs import Costs, work_of
from packer.planner.places import Places
from packer.planner.split import NONE, SHARED, Piece, Split, balanced, splits
from targets.base import Form, Layout, TargetError, Work, block_grain, stored_bytes

__all__ = ["Choice", "Term", "choices_of"]

TILE_AXIS = 2  # the first spatial dimension: rows of an image
MOST_STREAMED = 4  # nodes that stream into one another
TERM_BLOCK = 16  # input channels are cut between blocks


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
    input, if it streams in; with `streams_out` the output is left in tiles. `dominates` is the next best of those that
    neighbours cannot tell from this one.
    """

    form: Form
    split: Split
    parts: tuple[Part | None, ...]
    busy: tuple[float, ...]
    terms: tuple[Term, ...] = ()
    takes: tuple[Piece, ...] = ()
    streams_out: bool = False
    dominates: Choice | None = None

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
    arithmetic: Sequence[str] | None = None,
) -> list[tuple[Choice, ...]]:
    """The choices of every node on `cores` cores; of several that differ in cost alone only the cheapest.

    Nodes that offer `implementation` use it; TargetError if none does. With `arithmetic` each node has forms of that
    arithmetic alone. Without `partial_sums` input channels are not split: then all plans whose nodes have the same
    arithmetic give the same bits.
    """
    forms = [costs.target.forms(graph, node) for node in graph.nodes]
    if implementation is not None:
        forms = _only(forms, implementation)
    if arithmetic is not None:
        decided = zip(forms, arithmetic, strict=True)
        forms = [tuple(form for form in own if form.arithmetic == name) for own, name in decided]
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
        self.wanted: dict[int, dict[tuple[Piece, ...], tuple[str, int]]] = {}  # by node: tiles consumers would take

    def build(self, forms: Sequence[tuple[Form, ...]]) -> list[tuple[Choice, ...]]:
        self.places = Places(self.graph, self.target, forms)
        found = [self.of(v, forms[v]) for v in reversed(range(len(forms)))]
        return found[::-1]

    def of(self, v: int, forms: tuple[Form, ...]) -> tuple[Choice, ...]:
        node = self.graph.nodes[v]
        inputs = [None if name is None else self.graph.type(name) for name in node.inputs]
        output = self.graph.type(node.outputs[0])
        dependence = node.op.dependence(inputs)
        if len(node.outputs) > 1 or not any(self.target.splittable(self.graph, node, form) for form in forms):
            dependence = (Dependence.FULL,) * output.rank
        grain = tuple(map(math.lcm, node.op.grain(inputs), self.target.grain(self.graph, node)))
        source = self.streamable_source(v)
        found: list[Choice] = []
        for form_grain in dict.fromkeys(form.grain for form in forms):
            own = tuple(form for form in forms if form.grain == form_grain)
            for split in splits(output, dependence, self.speeds, grain, form_grain):
                parts = _parts(node.op, inputs, output, split.pieces)
                found += self.among(v, own, split, parts)
                if source is not None and split.name.partition("@")[0] == self.tiled_split(output):
                    found += self.tiled(v, own, split, inputs, output, source)
        for tiles, (name, depth) in self.wanted.get(v, {}).items():
            split, parts = Split(name, tiles), _parts(node.op, inputs, output, tiles)
            able = tuple(form for form in forms if all(form.fits(tile.box) for tile in tiles))
            found += self.among(v, able, split, parts, (), True)
            if able and source is not None and depth < MOST_STREAMED:
                takes = self.want(source, name, tiles, parts, depth + 1)
                if takes:
                    found += self.among(v, able, split, parts, takes, True)
        if self.partial_sums and len(self.speeds) > 1:
            found += self.summed(v, forms, inputs, output)
        return _undominated(found)

    def fitting(self, v: int, forms: tuple[Form, ...], parts: tuple[Part | None, ...]) -> tuple[Form, ...]:
        """The forms that can run in these parts: no part reads a part of a block."""
        if parts == (None,):
            return forms
        node = self.graph.nodes[v]
        cut = {
            i for part in parts if part is not None for i, box in enumerate(part.reads) if self.cuts_block(node, i, box)
        }
        return tuple(
            form
            for form in forms
            if self.target.splittable(self.graph, node, form) and not any(form.inputs[i] is Layout.BLOCK16 for i in cut)
        )

    def cuts_block(self, node: Node, i: int, box: Box | None) -> bool:
        """Whether a box of input i begins or ends within a block of channels."""
        if box is None or not box:
            return False
        shape = self.graph.type(node.inputs[i] or "").shape
        axis = 1 if len(shape) > 1 else 0
        begin, end = box[axis]
        return begin % 16 != 0 or (end % 16 != 0 and end != shape[axis])

    def among(
        self,
        v: int,
        forms: tuple[Form, ...],
        split: Split,
        parts: tuple[Part | None, ...],
        takes: tuple[Piece, ...] = (),
        streams_out: bool = False,
    ) -> list[Choice]:
        """The choice of each form in these pieces."""
        cores = len(self.speeds)
        numbers: dict[Work, int] = {}
        which = [numbers.setdefault(work_of(self.graph, self.graph.nodes[v], part), len(numbers)) for part in parts]
        works = [(work, self.costs.number(work)) for work in numbers]
        active = cores if split.name == SHARED else len({piece.core for piece in split.pieces})
        found = []
        for form in self.fitting(v, forms, parts):
            known: dict[tuple[int, float], float] = {}
            busy = [0.0] * cores
            for piece, i in zip(split.pieces, which, strict=True):
                kind = (i, self.speeds[piece.core])
                if kind not in known:
                    known[kind] = self.seconds(v, form, *works[i], piece.core, active, bool(takes), streams_out)
                busy[piece.core] += known[kind]
            if split.name == SHARED:
                busy = [busy[0] / sum(self.speeds)] * cores
            found.append(Choice(form, split, parts, tuple(busy), (), takes, streams_out))
        return found

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
        own = [0 if t is None else stored_bytes(t, lay) for t, lay in zip(work.inputs, form.inputs, strict=True)]
        made = sum(stored_bytes(t, lay) for t, lay in zip(work.outputs, form.outputs, strict=False))
        around = made + sum(size for size, constant in zip(own, work.constant, strict=True) if not constant)
        distances = []
        for i, name in enumerate(node.inputs):
            if name is None or work.inputs[i] is None:
                distances.append(0)
            elif work.constant[i] and (streams_in or streams_out):
                distances.append(own[i] + around)  # of the tile before
            elif work.constant[i]:
                distances.append(max(own[i], self.traffic[-1] // active))
            elif streams_in and i == 0:
                distances.append(around)
            else:
                since = self.traffic[v] - self.traffic[self.made_by.get(name, 0)]
                distances.append(own[i] + since // active)
        distances += [around if streams_out else 2 * around] * len(work.outputs)
        return share * self.costs.seconds(work, number, form, tuple(distances), core, active)

    # ---- depth-first tiles ----

    def streamable_source(self, v: int) -> int | None:
        """The node whose output node v alone reads, as its first input, if it can be cut into tiles of rows."""
        node = self.graph.nodes[v]
        name = node.inputs[0] if node.inputs and not isinstance(node.op, Concat | Slice) else None
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

    def tiled_split(self, output: TensorType) -> str:
        """The split whose pieces are computed in tiles: rows for every core."""
        cores = len(self.speeds)
        if cores == 1 or output.rank <= TILE_AXIS:
            return NONE
        return f"H{min(cores, output.shape[TILE_AXIS])}"

    def tiled(
        self,
        v: int,
        forms: tuple[Form, ...],
        split: Split,
        inputs: Sequence[TensorType | None],
        output: TensorType,
        source: int,
    ) -> list[Choice]:
        """Choices of forms of one grain that compute the pieces of `split` tile by tile, and take the first input in
        tiles."""
        found: list[Choice] = []
        if output.rank <= TILE_AXIS:
            return found
        unit = forms[0].grain[TILE_AXIS] if forms[0].grain else 1
        for count in self.tile_counts(v, split, output, unit):
            tiles = tuple(tile for piece in split.pieces for tile in _tiles(piece, count, unit))
            parts = _parts(self.graph.nodes[v].op, inputs, output, tiles)
            name = f"{split.name}/{count}"
            takes = self.want(source, name, tiles, parts, 1)
            if takes:
                found += self.among(v, forms, Split(name, tiles), parts, takes)
        return found

    def tile_counts(self, v: int, split: Split, output: TensorType, unit: int) -> list[int]:
        """Tiles a piece such that what they read and write fits half of the core's cache, or a quarter; none if all
        does already. They begin at multiples of `unit` rows."""
        name = self.graph.nodes[v].inputs[0]
        assert name is not None
        between = self.graph.type(name).bytes // len(split.pieces)
        room = self.target.machine.private_cache(0) // 2
        most = min(-(-(end - begin) // unit) for begin, end in (piece.box[TILE_AXIS] for piece in split.pieces))
        if between <= room or most < 2:
            return []
        least = -(-(between + output.bytes // len(split.pieces)) // room)
        return sorted({min(count, most) for count in (least, 2 * least)})

    def want(
        self, source: int, name: str, tiles: Sequence[Piece], parts: Sequence[Part | None], depth: int
    ) -> tuple[Piece, ...]:
        """Ask the source for the tiles of its output that `parts` read; none if it cannot give them."""
        node = self.graph.nodes[source]
        output = self.graph.type(node.outputs[0])
        dependence = node.op.dependence([None if n is None else self.graph.type(n) for n in node.inputs])
        takes = []
        for tile, part in zip(tiles, parts, strict=True):
            box = part.reads[0] if part is not None else None
            if box is None or 0 in extents_of(box):
                return ()
            for span, extent, kind in zip(box, output.shape, dependence, strict=True):
                if kind is Dependence.FULL and span != (0, extent):
                    return ()
            takes.append(Piece(tile.core, box))
        self.wanted.setdefault(source, {}).setdefault(tuple(takes), (name, depth))
        return tuple(takes)

    # ---- partial sums ----

    def summed(
        self, v: int, forms: tuple[Form, ...], inputs: Sequence[TensorType | None], output: TensorType
    ) -> list[Choice]:
        """Choices that give each core a share of the input channels, and add up the partial sums in pieces."""
        node = self.graph.nodes[v]
        extent = node.op.terms(inputs)
        cores = len(self.speeds)
        if extent < TERM_BLOCK * cores:
            return []
        terms, at = [], 0
        for core, share in enumerate(balanced(-(-extent // TERM_BLOCK), self.speeds)):
            until = min(at + share * TERM_BLOCK, extent)
            terms.append(Term(core, at, until))
            at = until
        parts = tuple(node.op.partial(term.begin, term.end, inputs) for term in terms)
        anywhere = (Dependence.POINTWISE,) * output.rank
        cuts = splits(output, anywhere, self.speeds, block_grain(output.rank))
        split = max(cuts, key=lambda cut: len(cut.pieces))
        add = Binary("add")
        found = []
        for form in self.fitting(v, forms, parts):
            busy = [0.0] * cores
            for term, part in zip(terms, parts, strict=True):
                work = work_of(self.graph, node, part)
                busy[term.core] += self.seconds(v, form, work, self.costs.number(work), term.core, cores)
            for piece in split.pieces:
                sum_type = TensorType(output.dtype, extents_of(piece.box))
                work = Work(add, (sum_type, sum_type), (sum_type,), (False, False))
                lay = form.outputs[0]
                size = stored_bytes(sum_type, lay)
                number = self.costs.number(work)
                one = self.costs.seconds(work, number, Form((lay, lay), (lay,)), (2 * size,) * 3, piece.core, cores)
                busy[piece.core] += one * (cores - 1)
            busy = [seconds + self.target.machine.barrier(cores) for seconds in busy]
            found.append(Choice(form, Split(f"sum{cores}", split.pieces), parts, tuple(busy), tuple(terms)))
        return found


def _only(forms: list[tuple[Form, ...]], name: str) -> list[tuple[Form, ...]]:
    """The forms of that implementation wherever there is one."""
    known = sorted({form.implementation for own in forms for form in own if form.implementation})
    if name not in known:
        raise TargetError(f"no node can run as '{name}'; implementations here: {', '.join(known) or 'none to choose'}")
    return [tuple(form for form in own if form.implementation == name) or own for own in forms]


def _parts(
    op: Op, inputs: Sequence[TensorType | None], output: TensorType, pieces: Sequence[Piece]
) -> tuple[Part | None, ...]:
    """The sub-operators of the pieces; None for one piece that is everything."""
    if len(pieces) == 1 and extents_of(pieces[0].box) == output.shape:
        return (None,)
    return tuple(op.part(piece.box, inputs) for piece in pieces)


def _tiles(piece: Piece, count: int, unit: int) -> list[Piece]:
    """A piece, which begins at a multiple of `unit` rows, as `count` bands that do so, in order."""
    begin, end = piece.box[TILE_AXIS]
    found, at = [], begin
    for share in balanced(-(-(end - begin) // unit), (1.0,) * count):
        until = min(at + share * unit, end)
        found.append(Piece(piece.core, (*piece.box[:TILE_AXIS], (at, until), *piece.box[TILE_AXIS + 1 :])))
        at = until
    return found


def _undominated(choices: Sequence[Choice]) -> tuple[Choice, ...]:
    """Of choices that neighbours cannot tell apart, the cheapest: layouts, split and streams are all that they see."""
    found: dict[tuple[object, ...], list[Choice]] = {}
    for choice in choices:
        layouts: tuple[Layout, ...] = (*choice.form.inputs, *choice.form.outputs)
        shared = choice.split.name == SHARED
        key = (layouts, choice.split.pieces, shared, bool(choice.terms), choice.takes, choice.streams_out)
        found.setdefault(key, []).append(choice)
    best = [sorted(alike, key=lambda choice: choice.seconds)[:2] for alike in found.values()]
    return tuple(replace(first, dominates=second[0]) if second else first for first, *second in best)


def _traffic(graph: Graph) -> list[int]:
    """Bytes of weights and outputs that nodes before each node touch; the last entry is the whole network's."""
    found = [0]
    for node in graph.nodes:
        weights = sum(
            graph.type(name).bytes for name in node.inputs if name is not None and graph.constant(name) is not None
        )
        found.append(found[-1] + weights + sum(graph.type(name).bytes for name in node.outputs))
    return found
