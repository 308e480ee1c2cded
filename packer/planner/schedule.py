"""Turn a graph with chosen forms and splits into a program: steps of cores over tensors and views, in phases."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from packer.bundle.model import ALL_CORES, Module, Place, Program
from packer.ir import Box, Graph, Node, TensorType, extents_of, whole
from packer.ir.ops import Concat, Part, Reshape, Slice
from packer.planner.adjust import reorder_pieces
from packer.planner.choices import Choice
from packer.planner.halos import Halos, apart
from packer.planner.phases import Pending, Phases
from packer.planner.places import Places
from packer.planner.split import SHARED, Piece
from packer.planner.tensors import Tensors
from targets.base import Attribute, Form, Layout, Lowered, Operand, Target

__all__ = ["schedule"]


def schedule(graph: Graph, target: Target, choices: Sequence[Choice], cores: int = 1) -> Program:
    """The program that runs `graph` on `cores` cores of `target` with one choice a node."""
    emitter = _Emitter(graph, target, choices, cores)
    for position, (node, choice) in enumerate(zip(graph.nodes, choices, strict=True)):
        emitter.node(node, choice, position)
    return emitter.finish()


class _Emitter:
    """Emits steps while walking the graph in execution order."""

    def __init__(self, graph: Graph, target: Target, choices: Sequence[Choice], cores: int) -> None:
        self.graph = graph
        self.apart = apart(graph, choices)
        self.places = Places(graph, target, [(choice.form,) for choice in choices], self.apart)
        self.halos = Halos(graph, choices, self.places, self.apart)
        self.target = target
        self.speeds = target.machine.speeds(cores)
        self.tensors = Tensors()
        self.phases = Phases(self.tensors, cores)
        self.inputs = [
            self.tensors.add(name, graph.type(name), Layout.PLANAR, Place.INPUT, index)
            for index, name in enumerate(graph.inputs)
        ]
        self.chosen: dict[str, Choice] = {}  # by output name
        self.waiting: dict[str, tuple[Node, Choice]] = {}  # nodes that run with the one that reads them, by output name
        self.last_use = _last_uses(graph, choices)
        self.slack = 0  # elements behind the device's memory that kernels touch

    def node(self, node: Node, choice: Choice, position: int) -> None:
        self.chosen.update((name, choice) for name in node.outputs)
        if choice.waits:
            self.waiting[node.outputs[0]] = (node, choice)
        elif isinstance(node.op, Concat):
            self.join(node, choice)
        elif isinstance(node.op, Slice) and not self.places.copied(node, choice.form.outputs[0]):
            self.sources(self.target.lower(self.graph, node, choice.form), node)
            self.made(node.outputs[0], choice.form.outputs[0])
        elif not (isinstance(node.op, Reshape) and self.alias(node, choice.form.outputs[0])):
            chain = [(node, choice)]
            while chain[0][1].takes:
                chain.insert(0, self.waiting.pop(chain[0][0].inputs[0] or ""))
            if len(chain) > 1:
                self.stream(chain)
            elif choice.terms:
                self.sum(node, choice)
            else:
                self.pieces(node, choice, position)

    # ---- nodes ----

    def pieces(self, node: Node, choice: Choice, position: int) -> None:
        """One step a piece."""
        maker, form = self.kernel_of(node, choice.form)
        lowered = self.target.lower(self.graph, maker, form)
        if maker is not node:
            node = replace(node, sources=(*maker.sources, *node.sources))
        sources = self.sources(lowered, node)
        over = self.reusable(node, choice, lowered, sources, position)
        outputs = [
            self.made(name, layout, None if slot else over)
            for slot, (name, layout) in enumerate(zip(node.outputs, choice.form.outputs, strict=False))
        ]
        batch = []
        for piece, part in zip(choice.split.pieces, choice.parts, strict=True):
            batch.append(self.step(node, choice.form, part, lowered, sources, outputs, self.core(piece, choice)))
        self.phases.run(batch)
        self.exchange(node.outputs[0])

    def kernel_of(self, node: Node, form: Form) -> tuple[Node, Form]:
        """Whose kernel does a node's work: its own, or that of the node that leaves its output in registers."""
        if form.inputs[:1] != (Layout.REGISTERS,):
            return node, form
        maker, choice = self.waiting.pop(node.inputs[0] or "")
        return maker, choice.form

    def join(self, node: Node, choice: Choice) -> None:
        """Copies of the inputs of a Concat that do not lie in its output; of neighbours among them by one step a
        piece."""
        assert isinstance(node.op, Concat)
        lowered = self.target.lower(self.graph, node, choice.form)
        sources = self.sources(lowered, node)
        layout, axis = choice.form.outputs[0], node.op.axis
        output = self.tensors.holding(node.outputs[0], layout, self.graph.type(node.outputs[0]))
        output = self.made(node.outputs[0], layout) if output is None else output
        types = [self.graph.type(name) for name in node.inputs if name is not None]
        copied = self.places.copied(node, layout)
        spans: list[tuple[int, int]] = []  # along the axis
        at = 0
        for i, type in enumerate(types):
            until = at + type.shape[axis]
            if i in copied:
                spans.append((spans.pop()[0] if spans and spans[-1][1] == at else at, until))
            at = until
        batch = []
        for piece in choice.split.pieces:
            for span in spans:
                box = _within(piece.box, axis, span)
                if 0 not in extents_of(box) or 0 in extents_of(piece.box):
                    part, core = node.op.part(box, types), self.core(piece, choice)
                    batch.append(self.step(node, choice.form, part, lowered, sources, [output], core))
        self.phases.run(batch)
        for span in spans:
            self.exchange(node.outputs[0], (axis, span))

    def exchange(self, name: str, only: tuple[int, tuple[int, int]] | None = None) -> None:
        """Copy what cores read of the rows that others made of a value in bands; `only` a span along another axis."""
        if name not in self.halos.bands:
            return
        tensor = self.tensors.holding(name, Layout.PLANAR, self.graph.type(name))
        assert tensor is not None
        batch = []
        for core, maker, box in self.halos.copies(name):
            if only is not None:
                box = _within(box, *only)
            source, result = (self.tensors.view(tensor, box, of) for of in (maker, core))
            flat = _flat(math.prod(extents_of(box)))
            batch.append(Pending(core, "copy", (), (source,), (result,), flat))
        self.phases.run(batch)

    def core(self, piece: Piece, choice: Choice) -> int:
        """Who computes a piece."""
        return ALL_CORES if choice.split.name == SHARED and len(self.speeds) > 1 else piece.core

    def stream(self, chain: list[tuple[Node, Choice]]) -> None:
        """Depth first: for each tile, the nodes of the chain in turn, what lies between them in private memory."""
        lowered = [self.target.lower(self.graph, node, choice.form) for node, choice in chain]
        sources = [self.sources(lowered[i], node, streamed=i > 0) for i, (node, _) in enumerate(chain)]
        last, last_choice = chain[-1]
        result = self.made(last.outputs[0], last_choice.form.outputs[0])
        batch: list[Pending] = []
        private: dict[int, list[tuple[int, int, int]]] = {}  # by core: tensor, and the steps it lives from and to
        order: dict[int, int] = {}
        for tile, piece in enumerate(last_choice.split.pieces):
            core, between = piece.core, -1
            for link, (node, choice) in enumerate(chain):
                part = choice.parts[tile]
                assert part is not None
                own = sources[link] if link == 0 else (between, *sources[link][1:])
                now = order[core] = order.get(core, -1) + 1
                outputs = [result]
                if link < len(chain) - 1:
                    outputs = [self.tile(node.outputs[0], part.writes, choice.form.outputs[0])]
                    private.setdefault(core, []).append((outputs[0], now, now + 1))
                from_tile, to_tile = link > 0, link < len(chain) - 1
                batch.append(self.step(node, choice.form, part, lowered[link], own, outputs, core, from_tile, to_tile))
                between = outputs[0]
        for core in sorted(private):
            self.tensors.place_private(private[core])
        self.phases.run(batch)
        self.exchange(last.outputs[0])

    def sum(self, node: Node, choice: Choice) -> None:
        """Partial sums of every core, then their sum in pieces."""
        lowered = self.target.lower(self.graph, node, choice.form)
        sources = self.sources(lowered, node)
        type, layout = self.graph.type(node.outputs[0]), choice.form.outputs[0]
        partial_sums = []
        batch = []
        for term, part in zip(choice.terms, choice.parts, strict=True):
            name = f"{node.outputs[0]}:sum{term.core}"
            partial_sums.append(self.tensors.add(name, type, layout, Place.ARENA))
            batch.append(self.step(node, choice.form, part, lowered, sources, partial_sums[-1:], term.core))
        self.phases.run(batch)
        total, others = self.target.lower_sum(node, layout)
        operands = [*partial_sums, *(self.value(name, layout) for name in others)]
        result = self.made(node.outputs[0], layout)
        batch = []
        for piece in choice.split.pieces:
            views = tuple(self.tensors.view(tensor, piece.box, piece.core) for tensor in operands)
            made = (self.tensors.view(result, piece.box, piece.core),)
            batch.append(Pending(piece.core, total.kernel, node.sources, views, made, total.attributes))
        self.phases.run(batch)
        self.exchange(node.outputs[0])

    def step(
        self,
        node: Node,
        form: Form,
        part: Part | None,
        lowered: Lowered,
        sources: Sequence[int],
        outputs: Sequence[int],
        core: int,
        from_tile: bool = False,
        to_tile: bool = False,
    ) -> Pending:
        """The step of a part (None: of the whole node); operands that lie in tiles are taken whole."""
        cut = lowered if part is None else self.target.restrict(self.graph, node, form, lowered, part)
        ins = []
        for slot, (tensor, operand) in enumerate(zip(sources, cut.inputs, strict=True)):
            if operand is None:
                ins.append(-1)
            elif from_tile and slot == 0:
                ins.append(tensor)
            elif operand.box is not None:
                ins.append(self.tensors.view(tensor, operand.box, core))
            elif self.tensors.bands(tensor) is not None:
                ins.append(self.tensors.view(tensor, whole(self.graph.type(operand.value or "")), core))
            else:
                ins.append(tensor)
        if isinstance(node.op, Concat):
            ins = [tensor for tensor in ins if tensor >= 0]  # those the piece has nothing of are left out
        outs = (
            [self.tensors.view(outputs[0], part.writes, core), *outputs[1:]]
            if part is not None and not to_tile
            else outputs
        )
        self.slack = max(self.slack, cut.slack)
        return Pending(core, cut.kernel, node.sources, tuple(ins), tuple(outs), cut.attributes, cut.modules)

    # ---- operands ----

    def sources(self, lowered: Lowered, node: Node, streamed: bool = False) -> tuple[int, ...]:
        """The tensors of all operands of a node; -1 for absent ones, and for the first of one that streams in."""
        return tuple(-1 if streamed and i == 0 else self.operand(o, node) for i, o in enumerate(lowered.inputs))

    def operand(self, operand: Operand | None, node: Node) -> int:
        if operand is None:
            return -1
        if operand.data is not None:
            assert operand.type is not None
            return self.tensors.constant(f"{node.outputs[0]}:constant", operand.type, operand.layout, operand.data)
        assert operand.value is not None
        return self.value(operand.value, operand.layout, operand.type)

    def value(self, name: str, layout: Layout, type: TensorType | None = None) -> int:
        """The tensor that holds a value in `layout` (seen as `type`), changing the layout by steps if there is none
        yet."""
        type = type or self.graph.type(name)
        found = self.tensors.holding(name, layout, type)
        if found is not None:
            return found
        data = self.graph.constant(name)
        if data is not None:
            return self.tensors.constant(name, type, layout, data)
        own = self.graph.type(name)
        if layout is not Layout.PLANAR:
            self.value(name, Layout.PLANAR)  # every change of layout and of shape starts from there
        source = next(lay for lay in Layout if self.tensors.holding(name, lay, own) is not None)
        held = self.tensors.holding(name, source, own)
        assert held is not None
        seen = type.shape != own.shape
        if seen:  # the same elements under another shape
            held = self.tensors.alias(name, type, held)
        made = self.tensors.add(name, type, layout, Place.ARENA) if seen else self.made(name, layout)
        lowered = self.target.reorder(self.graph, name, type, source, layout)
        batch = []
        split = self.chosen[name].split if name in self.chosen and not seen else None
        pieces = reorder_pieces(type, split, self.speeds if layout in _ACTIVATIONS else self.speeds[:1])
        for piece in pieces:
            before, after = (self.tensors.view(tensor, piece.box, piece.core) for tensor in (held, made))
            operands = (before,), (after,)
            batch.append(Pending(piece.core, lowered.kernel, (), *operands, lowered.attributes, lowered.modules))
        self.phases.run(batch)
        return made

    def made(self, name: str, layout: Layout, over: int | None = None) -> int:
        """The tensor to write a value to: the box of another one that it lies in, or else in a buffer, a new one if
        it does not overwrite the value of a tensor."""
        place = self.places.of.get((name, layout))
        if place is None and layout is Layout.PLANES:
            type, halo = self.on_device(name)
            return self.tensors.add(name, type, layout, Place.DEVICE, halo=halo)
        if place is None:
            type = self.graph.type(name)
            if layout is Layout.PLANAR and name in self.halos.bands:
                bands = self.halos.bands[name]
                wider = {core: self.places.wider(name, layout, bands.type(type, core)) for core in bands.rows}
                return self.tensors.add_bands(name, type, bands, over, wider)
            buffer = None if over is None else self.tensors.buffer_of[over]
            if (root := self.places.wider(name, layout, type)) != type:
                return self.tensors.add_spaced(name, type, root, buffer)
            return self.tensors.add(name, type, layout, Place.ARENA, buffer=buffer)
        outer, box = place
        held = self.tensors.holding(outer, layout, self.graph.type(outer))
        return self.tensors.inside(name, self.made(outer, layout) if held is None else held, box)

    def tile(self, name: str, box: Box, layout: Layout) -> int:
        """A tensor for a tile of a value that only the next node reads."""
        type = TensorType(self.graph.type(name).dtype, extents_of(box))
        return self.tensors.private(f"{name}:tile", type, layout, self.places.wider(name, layout, type))

    def alias(self, node: Node, layout: Layout) -> bool:
        """Make a Reshape another view of its input's buffer; False if the input is a constant, in other bands, or has a
        halo, or the result is to have one."""
        source, result = node.inputs[0] or "", node.outputs[0]
        type = self.graph.type(result)
        if self.graph.constant(source) is not None or (source, result) in self.apart:
            return False
        if layout is Layout.PLANES:
            type, halo = self.on_device(result)
            if halo or self.on_device(source)[1]:
                return False
        held = self.value(source, layout if layout is Layout.PLANES else Layout.PLANAR)
        if result in self.halos.bands:
            self.tensors.add_bands(result, type, self.halos.bands[result], held)
        else:
            self.tensors.alias(result, type, held)
        return True

    def on_device(self, name: str) -> tuple[TensorType, tuple[int, ...]]:
        """What a value is in layout PLANES: its type there, and its halo."""
        dtype, halo = self.target.stored(self.graph, name)
        return TensorType(dtype, self.graph.type(name).shape), halo

    def reusable(
        self, node: Node, choice: Choice, lowered: Lowered, sources: tuple[int, ...], position: int
    ) -> int | None:
        """The tensor of a dying input that the first output may overwrite: each piece the same box of it."""
        y, layout = node.outputs[0], choice.form.outputs[0]
        bands = self.halos.bands.get(y)
        if (y, layout) in self.places.of:
            return None
        for slot in node.op.inplace:
            name = node.inputs[slot] if slot < len(node.inputs) else None
            at = next((i for i, o in enumerate(lowered.inputs) if o is not None and o.value == name), -1)
            if name is None or at < 0:
                continue
            tensor = self.tensors.all[sources[at]]
            buffer = self.tensors.buffer_of[sources[at]]
            if buffer < 0 or self.tensors.buffers[buffer].place is not Place.ARENA:
                continue
            seen = tensor.type if bands is None else self.graph.type(name)
            if (seen, tensor.layout) != (self.graph.type(y), layout) or self.tensors.bands(sources[at]) != bands:
                continue
            if (name, layout) in self.places.of:
                continue
            if any(self.places.wider(y, layout, own) != root for own, root in self.tensors.types(sources[at])):
                continue
            if any(part is not None and part.reads[slot] != part.writes for part in choice.parts):
                continue
            holders = self.tensors.names_in(buffer)
            others = [t for i, t in enumerate(sources) if i != at and t >= 0 and self.tensors.buffer_of[t] == buffer]
            if not others and all(self.last_use.get(name, -1) <= position for name in holders):
                return sources[at]
        return None

    # ---- the end ----

    def finish(self) -> Program:
        outputs = self.bind_outputs()
        extents: dict[int, tuple[int, int]] = {}
        kept = []
        for extent in self.graph.extents:
            count = self.value(extent.count, Layout.PLANAR)
            kept.append(count)
            for number, tensor in enumerate(self.tensors.all):
                if tensor.name == extent.value and tensor.layout is Layout.PLANAR and tensor.root < 0:
                    extents[number] = (extent.axis, count)
        self.phases.end_early()
        tensors, arena, device_bytes = self.tensors.placed(self.phases.lives(kept), extents)
        return Program(
            target=self.target.name,
            arch=self.target.arch,
            arena_bytes=arena.bytes,
            arena_floor=arena.floor,
            tensors=tensors,
            steps=tuple(self.phases.steps),
            inputs=tuple(self.inputs),
            outputs=tuple(outputs),
            cores=len(self.speeds),
            speeds=self.speeds if len(set(self.speeds)) > 1 else (),
            device=self.target.device if self.phases.modules else "",
            device_bytes=device_bytes + _LARGEST * self.slack if self.phases.modules else 0,
            modules=tuple(Module(ptx) for ptx in self.phases.modules),
        )

    def bind_outputs(self) -> list[int]:
        """Let the steps write graph outputs straight into the caller's buffers; copy where a value cannot live
        there."""
        outputs: list[int] = []
        for index, name in enumerate(self.graph.outputs):
            tensor = self.value(name, Layout.PLANAR)
            buffer = self.tensors.buffer_of[tensor]
            if buffer >= 0 and self.tensors.buffers[buffer].place is Place.ARENA:
                self.tensors.buffers[buffer].place, self.tensors.buffers[buffer].index = Place.OUTPUT, index
            else:
                source, type = tensor, self.graph.type(name)
                tensor = self.tensors.add(name, type, Layout.PLANAR, Place.OUTPUT, index)
                self.phases.run([Pending(0, "copy", (), (source,), (tensor,), _flat(type.elements))])
            outputs.append(tensor)
        return outputs


def _last_uses(graph: Graph, choices: Sequence[Choice]) -> dict[str, int]:
    """The last node, by position, whose steps read each value: nodes that wait run with the one that reads them."""
    end = len(graph.nodes)
    found = dict.fromkeys((*graph.outputs, *(extent.count for extent in graph.extents)), end)
    for position in reversed(range(end)):
        node = graph.nodes[position]
        runs = found[node.outputs[0]] if choices[position].waits else position
        for name in node.inputs:
            if name is not None:
                found[name] = max(found.get(name, -1), runs)
    return found


def _within(box: Box, axis: int, span: tuple[int, int]) -> Box:
    """What of a box lies in a span along one axis; nothing if it ends before it begins."""
    begin, end = max(box[axis][0], span[0]), min(box[axis][1], span[1])
    return (*box[:axis], (begin, max(begin, end)), *box[axis + 1 :])


def _flat(elements: int) -> tuple[Attribute, ...]:
    """A copy of all elements as they are."""
    return (
        Attribute("offset", ints=(0,)),
        Attribute("shape", ints=(elements,)),
        Attribute("strides", ints=(1,)),
    )


_ACTIVATIONS = (Layout.PLANAR, Layout.BLOCK16)
_LARGEST = 8  # bytes of an element
