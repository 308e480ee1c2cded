"""Turn a graph with chosen forms into a program: steps over tensors, tensors in buffers, buffers in the arena."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from packer.bundle.model import Place, Program, Step, Tensor
from packer.ir import Graph, Node, TensorType
from packer.ir.ops import Reshape
from packer.planner.memory import Buffer, place
from targets.base import Attribute, Form, Layout, Lowered, Operand, Target, stored_bytes

__all__ = ["schedule"]


def schedule(graph: Graph, target: Target, forms: Sequence[Form]) -> Program:
    """The program that runs `graph` on `target` with one form a node."""
    emitter = _Emitter(graph, target)
    for name in graph.inputs:
        emitter.inputs[name] = emitter.add(
            name, graph.type(name), Layout.PLANAR, Place.INPUT, index=len(emitter.inputs)
        )
    for position, (node, form) in enumerate(zip(graph.nodes, forms, strict=True)):
        emitter.emit(node, form, position)
    return emitter.finish()


@dataclass(slots=True)
class _Buffer:
    """Memory one or more tensors live in, one after the other or under several shapes."""

    bytes: int
    place: Place
    index: int
    first: int
    last: int


class _Emitter:
    """Collects tensors, buffers and steps while walking the graph in execution order."""

    def __init__(self, graph: Graph, target: Target) -> None:
        self.graph = graph
        self.target = target
        self.tensors: list[Tensor] = []
        self.buffer_of: list[int] = []  # by tensor; -1 for constants
        self.buffers: list[_Buffer] = []
        self.steps: list[Step] = []
        self.inputs: dict[str, int] = {}
        self.found: dict[tuple[str, Layout, tuple[int, ...]], int] = {}  # tensors that hold a value
        self.constants: dict[tuple[object, ...], int] = {}
        self.last_use: dict[str, int] = {}
        for position, node in enumerate(graph.nodes):
            self.last_use.update((name, position) for name in node.inputs if name is not None)
        self.last_use.update((name, len(graph.nodes)) for name in graph.outputs)
        self.last_use.update((extent.count, len(graph.nodes)) for extent in graph.extents)

    # ---- tensors ----

    def add(
        self, name: str, type: TensorType, layout: Layout, where: Place, index: int = 0, buffer: int | None = None
    ) -> int:
        """A new tensor holding `name`, in a new buffer unless it shares one."""
        number = len(self.tensors)
        if buffer is None:
            buffer = len(self.buffers)
            self.buffers.append(_Buffer(stored_bytes(type, layout), where, index, len(self.steps), len(self.steps)))
        self.tensors.append(Tensor(name, type, layout, where, index))
        self.buffer_of.append(buffer)
        self.found[name, layout, type.shape] = number
        return number

    def constant(self, name: str, type: TensorType, layout: Layout, data: np.ndarray) -> int:
        key = (data.tobytes() if data.nbytes <= 64 else id(data), type, layout)
        if key not in self.constants:
            self.constants[key] = len(self.tensors)
            self.tensors.append(Tensor(name, type, layout, Place.SEGMENT, data=data))
            self.buffer_of.append(-1)
        return self.constants[key]

    def value(self, name: str, layout: Layout, type: TensorType | None = None) -> int:
        """The tensor that holds a value in `layout` (seen as `type`), changing the layout by a step if there is none
        yet."""
        type = type or self.graph.type(name)
        if (name, layout, type.shape) in self.found:
            return self.found[name, layout, type.shape]
        data = self.graph.constant(name)
        if data is not None:
            return self.constant(name, type, layout, data)
        own = self.graph.type(name)
        if layout is not Layout.PLANAR:
            self.value(name, Layout.PLANAR)  # every change of layout and of shape starts from there
        source = next(lay for lay in Layout if (name, lay, own.shape) in self.found)
        held = self.found[name, source, own.shape]
        if type.shape != own.shape:  # the same elements under another shape
            tensor = self.tensors[held]
            held = self.add(name, type, source, tensor.place, tensor.index, self.buffer_of[held])
        lowered, _ = self.target.reorder(type, source, layout)
        made = self.add(name, type, layout, Place.ARENA)
        self.step(lowered.kernel, (), (held,), (made,), lowered.attributes)
        return made

    def operand(self, operand: Operand | None, node: Node) -> int:
        if operand is None:
            return -1
        if operand.data is not None:
            assert operand.type is not None
            return self.constant(f"{node.outputs[0]}:constant", operand.type, operand.layout, operand.data)
        assert operand.value is not None
        return self.value(operand.value, operand.layout, operand.type)

    # ---- steps ----

    def step(
        self,
        kernel: str,
        nodes: tuple[str, ...],
        ins: tuple[int, ...],
        outs: tuple[int, ...],
        attributes: tuple[Attribute, ...],
    ) -> None:
        for tensor in (*ins, *outs):
            if tensor >= 0 and self.buffer_of[tensor] >= 0:
                self.buffers[self.buffer_of[tensor]].last = len(self.steps)
        self.steps.append(Step(kernel, nodes, ins, outs, attributes))

    def emit(self, node: Node, form: Form, position: int) -> None:
        if isinstance(node.op, Reshape) and self.alias(node):
            return
        lowered = self.target.lower(self.graph, node, form)
        inputs = tuple(self.operand(operand, node) for operand in lowered.inputs)
        outputs = []
        for slot, name in enumerate(node.outputs):
            buffer = self.reusable(node, form, lowered, inputs, position) if slot == 0 else None
            outputs.append(self.add(name, self.graph.type(name), form.outputs[slot], Place.ARENA, buffer=buffer))
        self.step(lowered.kernel, node.sources, inputs, tuple(outputs), lowered.attributes)

    def alias(self, node: Node) -> bool:
        """Make a Reshape another view of its input's buffer; False if the input is a constant."""
        source, result = node.inputs[0] or "", node.outputs[0]
        if self.graph.constant(source) is not None:
            return False
        tensor = self.value(source, Layout.PLANAR)
        held = self.tensors[tensor]
        self.add(result, self.graph.type(result), Layout.PLANAR, held.place, held.index, self.buffer_of[tensor])
        return True

    def reusable(self, node: Node, form: Form, lowered: Lowered, inputs: tuple[int, ...], position: int) -> int | None:
        """The buffer of a dying input that the first output may overwrite."""
        output = self.graph.type(node.outputs[0])
        for slot in node.op.inplace:
            if slot >= len(inputs) or inputs[slot] < 0:
                continue
            tensor = self.tensors[inputs[slot]]
            buffer = self.buffer_of[inputs[slot]]
            if buffer < 0 or self.buffers[buffer].place is not Place.ARENA:
                continue
            if (tensor.type, tensor.layout) != (output, form.outputs[0]):
                continue
            holders = {t.name for t, b in zip(self.tensors, self.buffer_of, strict=True) if b == buffer}
            others = [t for i, t in enumerate(inputs) if i != slot and t >= 0 and self.buffer_of[t] == buffer]
            if not others and all(self.last_use.get(name, -1) <= position for name in holders):
                return buffer
        return None

    # ---- the end ----

    def finish(self) -> Program:
        outputs = self.bind_outputs()
        end = len(self.steps)
        extents: dict[int, tuple[int, int]] = {}
        for extent in self.graph.extents:
            count = self.value(extent.count, Layout.PLANAR)
            if self.buffer_of[count] >= 0:
                self.buffers[self.buffer_of[count]].last = end
            for number, tensor in enumerate(self.tensors):
                if tensor.name == extent.value and tensor.layout is Layout.PLANAR:
                    extents[number] = (extent.axis, count)
        in_arena = [i for i, b in enumerate(self.buffers) if b.place is Place.ARENA]
        arena = place([Buffer(self.buffers[i].bytes, self.buffers[i].first, self.buffers[i].last) for i in in_arena])
        offsets = dict(zip(in_arena, arena.offsets, strict=True))
        tensors = []
        for number, tensor in enumerate(self.tensors):
            if self.buffer_of[number] >= 0:
                buffer = self.buffers[self.buffer_of[number]]
                offset = offsets.get(self.buffer_of[number], 0)
                tensor = replace(
                    tensor, place=buffer.place, index=buffer.index, offset=offset, extent=extents.get(number)
                )
            tensors.append(tensor)
        return Program(
            target=self.target.name,
            arch=self.target.arch,
            arena_bytes=arena.bytes,
            arena_floor=arena.floor,
            tensors=tuple(tensors),
            steps=tuple(self.steps),
            inputs=tuple(self.inputs.values()),
            outputs=tuple(outputs),
        )

    def bind_outputs(self) -> list[int]:
        """Let the steps write graph outputs straight into the caller's buffers; copy where a value cannot live
        there."""
        outputs: list[int] = []
        for index, name in enumerate(self.graph.outputs):
            tensor = self.value(name, Layout.PLANAR)
            buffer = self.buffer_of[tensor]
            if buffer >= 0 and self.buffers[buffer].place is Place.ARENA:
                self.buffers[buffer].place, self.buffers[buffer].index = Place.OUTPUT, index
            else:
                source, type = tensor, self.graph.type(name)
                tensor = self.add(name, type, Layout.PLANAR, Place.OUTPUT, index)
                flat = (
                    Attribute("offset", ints=(0,)),
                    Attribute("shape", ints=(type.elements,)),
                    Attribute("strides", ints=(1,)),
                )
                self.step("copy", (), (source,), (tensor,), flat)
            outputs.append(tensor)
        return outputs
