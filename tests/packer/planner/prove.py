"""A program executed symbolically: every element that a step reads is the one that was meant, whatever cores do
first."""

from __future__ import annotations

import re
from itertools import combinations

import numpy as np

from packer.bundle.model import ALL_CORES, Place, Program, Step, Tensor
from packer.ir import Graph, Node, whole
from packer.ir.ops import Concat, Reshape, Slice
from targets.base import Layout, stored_bytes

__all__ = ["band", "prove"]

_WIDER = ":spaced"


class _Memory:
    """What lies where: for each byte that an element begins at, a number for the value, its layout and the element."""

    def __init__(self, graph: Graph, program: Program) -> None:
        self.graph = graph
        self.program = program
        self.held: dict[tuple[Place, int], np.ndarray] = {}
        self.names: dict[tuple[str, Layout], np.ndarray] = {}  # what the elements of values are called
        self.numbers: dict[object, int] = {}
        self.moved: dict[str, Node] = {}  # what is made of the elements of other values
        for node in graph.nodes:
            if isinstance(node.op, Reshape | Concat | Slice):
                self.moved[node.outputs[0]] = node
        self.spaced: dict[int, Tensor] = {}  # what lies at the origin of a wider tensor
        for tensor in program.tensors:
            if tensor.root >= 0 and program.tensors[tensor.root].name == tensor.name + _WIDER:
                self.spaced.setdefault(tensor.root, tensor)
        self.begins: dict[tuple[str, int], np.ndarray] = {}  # where a value begins in a root of another one
        for tensor in program.tensors:
            if tensor.root >= 0 and tensor.name != self.outer(tensor.root).name:
                key, begin = (tensor.name, tensor.root), np.array([begin for begin, _ in tensor.within])
                self.begins[key] = np.minimum(begin, self.begins.get(key, begin))

    def root(self, number: int) -> tuple[int, Tensor]:
        tensor = self.program.tensors[number]
        return (number, tensor) if tensor.root < 0 else (tensor.root, self.program.tensors[tensor.root])

    def outer(self, number: int) -> Tensor:
        """The tensor of a value that a root is, or that lies at its origin."""
        return self.spaced.get(number, self.program.tensors[number])

    def addresses(self, number: int) -> np.ndarray:
        """Of every element of a tensor, in bytes, in the memory it lies in."""
        tensor, (_, root) = self.program.tensors[number], self.root(number)
        assert tensor.offset % 64 == 0 or root.place is not Place.ARENA
        if root.place is Place.ARENA:
            assert root.offset + stored_bytes(root.type, root.layout) <= self.program.arena_bytes, root
        shape, box = root.type.shape, tensor.within if tensor.root >= 0 else whole(tensor.type)
        index = np.meshgrid(*(np.arange(b, e, dtype=np.int64) for b, e in box), indexing="ij")
        at: np.ndarray = np.zeros(tensor.type.shape, np.int64)
        blocked = 1 if len(shape) > 1 else 0
        if root.layout is Layout.PLANAR:
            for extent, i in zip(shape, index, strict=True):
                at = at * extent + i
        else:
            assert root.layout in (Layout.BLOCK16, Layout.WEIGHT16)
            for axis, (extent, i) in enumerate(zip(shape, index, strict=True)):
                at = at * -(-extent // 16) + i // 16 if axis == blocked else at * extent + i
            at = at * 16 + index[blocked] % 16
        return root.offset + at * root.type.dtype.bytes

    def elements(self, number: int) -> np.ndarray:
        """What the elements of a tensor are called: those of a value that is joined, cut out or reshaped keep their
        names."""
        tensor, key = self.program.tensors[number], self.root(number)[0]
        root = self.outer(key)
        box = tensor.within if tensor.root >= 0 else whole(tensor.type)
        begin = self.begins.get((tensor.name, key), np.zeros(len(box), np.int64))
        part = tuple(slice(b - at, e - at) for (b, e), at in zip(box, begin, strict=True))
        name, rows = band(tensor.name)
        if root.name.endswith(":tile") or name not in self.graph.values:
            return self.fresh((key, root.name), root.type.shape)[part]
        own = self.value(name, root.layout)
        if rows is not None:
            whole_root = self.graph.type(band(root.name)[0]).shape
            cut = [
                axis for axis, (all, some) in enumerate(zip(whole_root, root.type.shape, strict=True)) if all != some
            ]
            own = own.take(np.arange(*rows), cut[0]) if cut else own
        return own.reshape(root.type.shape if tensor.name == root.name else own.shape)[part]

    def value(self, name: str, layout: Layout) -> np.ndarray:
        found = self.names.get((name, layout))
        if found is None:
            node = self.moved.get(name)
            if node is None:
                found = self.fresh((name, layout), self.graph.type(name).shape)
            else:
                sources = [self.value(source, layout) for source in node.inputs if source is not None]
                (found,) = node.op.reference(*sources)
            self.names[name, layout] = found
        return found

    def fresh(self, value: object, shape: tuple[int, ...]) -> np.ndarray:
        linear = np.arange(np.prod(shape, dtype=np.int64)).reshape(shape)
        return (self.numbers.setdefault(value, len(self.numbers) + 1) << 40) + linear

    def cells(self, number: int) -> np.ndarray:
        _, root = self.root(number)
        memory = (root.place, root.index if root.place is not Place.ARENA else 0)
        size = self.program.arena_bytes if root.place is Place.ARENA else stored_bytes(root.type, root.layout)
        return self.held.setdefault(memory, np.zeros(size + 64, np.int64))

    def write(self, number: int) -> None:
        self.cells(number)[self.addresses(number)] = self.elements(number)

    def expect(self, number: int, reader: str) -> None:
        tensor = self.program.tensors[number]
        if tensor.place is not Place.SEGMENT:
            found = self.cells(number)[self.addresses(number)]
            assert np.array_equal(found, self.elements(number)), f"{reader} reads '{tensor.name}'"

    def touched(self, number: int) -> tuple[tuple[Place, int], np.ndarray]:
        _, root = self.root(number)
        return (root.place, root.index if root.place is not Place.ARENA else 0), self.addresses(number).reshape(-1)


def prove(graph: Graph, program: Program) -> int:
    """Execute the program over its memory; how many steps write over an input."""
    memory = _Memory(graph, program)
    producers = graph.producers()
    overwritten = 0
    for name, number in zip(graph.inputs, program.inputs, strict=True):
        tensor = program.tensors[number]
        assert (tensor.name, tensor.place, tensor.layout) == (name, Place.INPUT, Layout.PLANAR)
        memory.write(number)
    for step in program.steps:
        assert step.core < program.cores or step.core == ALL_CORES
        for number in step.inputs:
            if number >= 0:
                memory.expect(number, step.kernel)
        overwritten += _overwrites(memory, step, producers)
        for number in step.outputs:
            assert program.tensors[number].place in (Place.ARENA, Place.OUTPUT)
            memory.write(number)
    for position, (name, number) in enumerate(zip(graph.outputs, program.outputs, strict=True)):
        tensor = program.tensors[number]
        assert (tensor.name, tensor.place, tensor.index) == (name, Place.OUTPUT, position)
        assert (tensor.type, tensor.layout) == (graph.type(name), Layout.PLANAR)
        memory.expect(number, "the caller")
        if tensor.extent is not None:
            memory.expect(tensor.extent[1], "the caller")
    assert program.arena_floor <= program.arena_bytes
    _no_races(memory, program)
    return overwritten


def band(name: str) -> tuple[str, tuple[int, int] | None]:
    """The value that a tensor is of, and the rows that it has, if it is one of its bands."""
    found = re.fullmatch(r"(.*):rows(\d+)-(\d+)", name)
    return (name, None) if found is None else (found[1], (int(found[2]), int(found[3])))


def _overwrites(memory: _Memory, step: Step, producers: dict[str, Node]) -> bool:
    """Whether a step writes over an input, which its operator must allow: exactly, and only one."""
    tensors = memory.program.tensors
    outputs = [memory.touched(number) for number in step.outputs]
    for (a, one), (b, other) in combinations(outputs, 2):
        assert a != b or not np.intersect1d(one, other).size, f"outputs of {step.kernel} overlap"
    over = []
    for slot, number in enumerate(step.inputs):
        if number >= 0 and tensors[number].place is not Place.SEGMENT:
            where, bytes = memory.touched(number)
            if any(where == b and np.intersect1d(bytes, other).size for b, other in outputs):
                over.append(slot)
    assert len(over) <= 1, f"{step.kernel} writes over two of its inputs"
    for slot in over:
        made = tensors[step.outputs[0]]
        read = tensors[step.inputs[slot]]
        assert step.nodes, f"{step.kernel} writes over its input {slot}"
        maker = producers[band(made.name)[0]]
        allowed = [maker.inputs[i] for i in maker.op.inplace if i < len(maker.inputs)]
        root = memory.root(step.inputs[slot])[1]  # a piece of a joined value may be called what it was joined of
        assert {band(read.name)[0], band(root.name)[0]} & {*allowed}, f"{step.kernel} writes over its input {slot}"
        assert (read.type, read.layout) == (made.type, made.layout)
        assert np.array_equal(memory.addresses(step.inputs[slot]), memory.addresses(step.outputs[0]))
    return bool(over)


def _no_races(memory: _Memory, program: Program) -> None:
    """Within a phase no core touches what another one writes."""
    phases: dict[int, list[Step]] = {}
    last = 0
    for step in program.steps:
        assert last <= step.phase <= last + 1
        last = step.phase
        phases.setdefault(step.phase, []).append(step)
    for steps in phases.values():
        written: dict[tuple[tuple[Place, int], int], np.ndarray] = {}
        for number, step in enumerate(steps):
            own = number + 1000 if step.core == ALL_CORES else step.core
            for tensor in step.outputs:
                where, bytes = memory.touched(tensor)
                key = (where, own)
                written[key] = np.concatenate([written.get(key, np.array([], np.int64)), bytes])
        for number, step in enumerate(steps):
            own = number + 1000 if step.core == ALL_CORES else step.core
            for tensor in (*step.inputs, *step.outputs):
                if tensor < 0 or program.tensors[tensor].place is Place.SEGMENT:
                    continue
                where, bytes = memory.touched(tensor)
                for (place, core), others in written.items():
                    race = place == where and core != own and np.intersect1d(bytes, others).size
                    assert not race, f"cores {own} and {core} race for '{program.tensors[tensor].name}'"
