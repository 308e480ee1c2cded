"""A program that lets one piece of work be timed: its step over whole tensors, as a network would run it.

The step is in the program twice, first as a rehearsal with other weights: then its activations, its outputs and its
scratch are in the caches as in the middle of a network, while its own weights are wherever whoever measures left them.

Steps on a device have no times of their own, since they wait for each other there: of those a bundle has two programs,
"once" and "often", which has the step so many more times that the difference is well above what runs differ by.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import ceil, prod
from operator import floordiv

import numpy as np

from edgert import __version__
from packer.assembled import assembled
from packer.bundle.model import Bundle, Place, Program, Step, Tensor
from packer.ir import SINGLE, Block, DType, Graph, Node, TensorType, Value, whole
from packer.ir.ops import Conv, Op, Recurrent, Unary
from packer.planner.choices import Choice
from packer.planner.schedule import schedule
from packer.planner.split import NONE, Piece, Split
from targets.base import Form, Layout, Target, Work

__all__ = ["APART", "LEAST", "OFTEN", "ONCE", "Probe", "probe"]

ONCE, OFTEN = "once", "often"
APART = 200e-6  # seconds that OFTEN should take more than ONCE: some ten times what runs on a device differ by
LEAST = 8  # times more, at least, that OFTEN has the step
_QUICKEST = 1e-6  # seconds that any step on a device takes
_STEP = "probe"
_MOST_COPIED = 64 << 20  # bytes: larger weights have left the caches before they are needed again
_RANDOM = 1 << 16  # different values a constant has


@dataclass(frozen=True, slots=True, eq=False)
class Probe:
    """A bundle of one program, and the number of the step in it that is to be timed; of a device the bundle has two."""

    bundle: Bundle
    step: int


def probe(work: Work, form: Form, target: Target, reader: Op | None = None, apart: float = APART) -> Probe:
    """The probe of `work` in `form`, with that of the operator that reads the output from registers; the same every
    time. What the two programs of a device differ by should take `apart` seconds. Raises TargetError for work the
    target cannot do, and if its assembler is missing."""
    graph = _graph(work, reader)
    if isinstance(work.op, Conv) and reader is None:
        graph = _apart(graph, form, target)
    choices = []
    for node in graph.nodes:
        layout = Layout.PLANAR if reader is None else Layout.REGISTERS
        own = form if node.sources == (_STEP,) else next(f for f in target.forms(graph, node) if layout in f.inputs)
        everything = Split(NONE, (Piece(0, whole(graph.type(node.outputs[0]))),))
        choices.append(Choice(own, everything, (None,), (0.0,)))
    program = assembled(schedule(graph, target, choices), target)
    if program.device:
        seconds = max(target.seconds(work, form, (), 0, 1), _QUICKEST)
        programs, step = _repeated(program, max(ceil(apart / seconds), LEAST))
        return Probe(Bundle(f"edgert {__version__}", _STEP, programs, ()), step)
    program, step = _rehearsed(program)
    return Probe(Bundle(f"edgert {__version__}", _STEP, (program,), ()), step)


def _graph(work: Work, reader: Op | None) -> Graph:
    """A graph of one node, and perhaps one that reads its output; constants are random numbers, small enough that
    results stay finite."""
    random = np.random.default_rng(0)
    values, weights = {}, (1, 2) if isinstance(work.op, Recurrent) else (1,)
    names: list[str | None] = []
    for i, (type, constant) in enumerate(zip(work.inputs, work.constant, strict=True)):
        names.append(None if type is None else f"input{i}")
        if type is not None:
            value = Value(f"input{i}", type)
            if constant:
                density, block = (work.density, work.block) if i in weights else (1.0, SINGLE)
                value = Value.constant(f"input{i}", _numbers(type, density, block, random))
            values[value.name] = value
    outputs = tuple(f"output{i}" for i in range(len(work.outputs)))
    values.update((name, Value(name, type)) for name, type in zip(outputs, work.outputs, strict=True))
    inputs = tuple(name for name, constant in zip(names, work.constant, strict=True) if name and not constant)
    nodes = [Node(work.op, tuple(names), outputs, (_STEP,))]
    if reader is not None:
        values["result"] = Value("result", reader.infer(work.outputs)[0])
        nodes.append(Node(reader, outputs, ("result",), ()))
    return Graph(_STEP, inputs, nodes[-1].outputs, tuple(nodes), values)


def _apart(graph: Graph, form: Form, target: Target) -> Graph:
    """The graph with what lies in larger tensors in a network (`Target.spaced`) made and read by other nodes, since a
    caller's memory cannot be larger."""
    (node,) = graph.nodes
    values, nodes = dict(graph.values), [node]
    inputs, outputs = list(graph.inputs), list(graph.outputs)
    layouts = dict(zip(node.inputs, form.inputs, strict=False)) | dict(zip(node.outputs, form.outputs, strict=True))
    for names, given in ((inputs, True), (outputs, False)):
        for i, name in enumerate(names):
            type = graph.type(name)
            if layouts.get(name) is not Layout.PLANAR or target.spaced(type) == type:
                continue
            names[i] = f"{name}:caller"
            values[names[i]] = Value(names[i], type)
            if given:
                nodes.insert(0, Node(Unary("abs"), (names[i],), (name,), ()))
            else:
                nodes.append(Node(Unary("abs"), (name,), (names[i],), ()))
    return replace(graph, inputs=tuple(inputs), outputs=tuple(outputs), nodes=tuple(nodes), values=values)


def _numbers(type: TensorType, density: float, block: Block, random: np.random.Generator) -> np.ndarray:
    """Standard normal floats, of which so many are not zero, in such blocks; integers 0 or 1.
    Repeated where there are many."""
    count = min(type.elements, _RANDOM)
    if type.dtype is DType.F32:
        numbers = np.resize(random.standard_normal(count, np.float32), type.shape)
        if density < 1:
            lengths = block if type.rank > 2 else block[::-1]  # a matrix has inputs first
            shape = tuple(map(floordiv, type.shape, (*lengths, *(1,) * type.rank)))
            zeros = np.resize(random.random(min(prod(shape), _RANDOM)) >= density, shape)
            for axis in range(min(type.rank, 2)):
                zeros = zeros.repeat(lengths[axis], axis)
            numbers[zeros] = 0
        return numbers
    return np.resize(random.integers(0, 2, count), type.shape).astype(type.dtype.numpy)


def _rehearsed(program: Program) -> tuple[Program, int]:
    """The program with its step run once before, with copies of the constants; and the step's number."""
    number = next(i for i, step in enumerate(program.steps) if _STEP in step.nodes)
    step = program.steps[number]
    tensors = list(program.tensors)
    inputs = []
    for operand in step.inputs:
        if operand >= 0 and tensors[operand].place is Place.SEGMENT:
            other = _other(tensors[operand])
            if other is not None:
                tensors.append(other)
                operand = len(tensors) - 1
        inputs.append(operand)
    before: Step = replace(step, nodes=(), inputs=tuple(inputs))
    steps = (*program.steps[:number], before, *program.steps[number:])
    return replace(program, tensors=tuple(tensors), steps=steps), number + 1


def _repeated(program: Program, more: int) -> tuple[tuple[Program, Program], int]:
    """The program, and one with its step so many more times, by the names of targets; and the step's number."""
    number = next(i for i, step in enumerate(program.steps) if _STEP in step.nodes)
    step = program.steps[number]
    steps = (*program.steps[:number], *[step] * more, *program.steps[number:])
    return (replace(program, target=ONCE), replace(program, target=OFTEN, steps=steps)), number


def _other(tensor: Tensor) -> Tensor | None:
    """A constant of other contents, which a bundle therefore keeps apart; none for a large one and for integers."""
    data = tensor.data
    if data is None or data.dtype != np.float32 or data.nbytes > _MOST_COPIED:
        return None
    return replace(tensor, data=-data)
