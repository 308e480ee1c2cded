"""What a target is, and what it produces: steps over tensors with a layout.

A target family lives in its own folder and registers a module path here; nothing else names it.
"""

from __future__ import annotations

import enum
import importlib
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from typing import Protocol

import numpy as np

from packer.ir import SINGLE, Block, Box, DType, Graph, Node, TensorType
from packer.ir.ops import Activation, Op, Part
from targets.machine import Machine

__all__ = [
    "DEVICE_KERNELS",
    "Attribute",
    "Form",
    "Layout",
    "Lowered",
    "Operand",
    "Target",
    "TargetError",
    "Work",
    "attributes_of",
    "block_grain",
    "names",
    "resolve",
    "row_major",
    "stored_bytes",
]


DEVICE_KERNELS = ("launch", "put", "get")  # of steps: the device's work, and copies there and back


class TargetError(ValueError):
    """A target cannot do what was asked; the message says what, and what to do instead."""


class Layout(enum.IntEnum):
    """How a tensor's elements lie in memory; numbers are those of the bundle format.

    PLANAR: row-major.
    BLOCK16: dimension 1 (0 for rank 1) split into blocks of 16, the block index in its place and the lane innermost:
        [N,C,H,W] -> [N, ceil(C/16), H, W, 16]. Lanes past C are unspecified in activations, zero in constants.
    WEIGHT16: convolution weights of logical shape [group, K, C, kernel...] -> per group and block of 16 output
    channels:
        blocks of up to 16 input channels, kernel positions, input channel in the block, 16 output lanes.
        The last block of input channels is as short as C demands; output lanes past K are zero.
    DEPTH16: depthwise weights of logical shape [C, kernel...] -> [ceil(C/16), kernel..., 16]; lanes past C are zero.
    PLANES: row-major in the memory of a device; [N,C,H,W] may have a halo of zeros (top, left, bottom, right) around
        each plane: [N, C, top + H + bottom, left + W + right rounded up to a multiple of 4].
    REGISTERS: nowhere, so without a number of the format: the step that makes the value does the work of the one node
        that reads it, too.
    """

    PLANAR = 0
    BLOCK16 = 1
    WEIGHT16 = 2
    DEPTH16 = 3
    PLANES = 4
    REGISTERS = -1


def block_grain(rank: int) -> tuple[int, ...]:
    """What cuts of an activation must be multiples of so that no block of 16 channels is cut."""
    return tuple(16 if axis == (1 if rank > 1 else 0) else 1 for axis in range(rank))


def row_major(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Strides in elements of a tensor without gaps."""
    return tuple(math.prod(shape[axis + 1 :]) for axis in range(len(shape)))


def stored_bytes(type: TensorType, layout: Layout, halo: tuple[int, ...] = ()) -> int:
    """Bytes a tensor occupies in `layout`, lanes of padding and halos included."""
    if layout is Layout.REGISTERS:
        return 0
    shape = list(type.shape)
    if halo and type.elements:
        top, left, bottom, right = halo
        shape[2:] = top + shape[2] + bottom, -(-(left + shape[3] + right) // 4) * 4
    if layout not in (Layout.PLANAR, Layout.PLANES):
        axis = 0 if layout is Layout.DEPTH16 or len(shape) == 1 else 1
        shape[axis] = -(-shape[axis] // 16) * 16
    return math.prod(shape) * type.dtype.bytes


@dataclass(frozen=True, slots=True)
class Attribute:
    """A named parameter of a step: integers, floats or text (one of them)."""

    name: str
    ints: tuple[int, ...] = ()
    floats: tuple[float, ...] = ()
    text: str = ""


@dataclass(frozen=True, slots=True)
class Form:
    """One way a node can run: the layout of each input and output.

    `implementation` names the algorithm where the target has several, such as "im2col-nhwc" for a convolution. `grain`
    holds for each dimension of the first output what pieces must begin at multiples of, besides the target's own grain
    (empty: nothing): a Winograd form of 4x4 tiles has (1, 1, 4, 4). Forms of one node that have the same `arithmetic`
    give the same bits in all pieces; others may not, since they add in another order.
    """

    inputs: tuple[Layout, ...]
    outputs: tuple[Layout, ...]
    implementation: str = ""
    grain: tuple[int, ...] = ()
    arithmetic: str = ""

    @property
    def leaves_out_zeros(self) -> bool:
        """Whether weights that are zero cost nothing in its arithmetic."""
        return self.arithmetic.startswith(("sparse", "masked", "sliced", "unrolled"))

    def fits(self, box: Box) -> bool:
        """Whether a piece of the first output may begin where `box` does."""
        return all(begin % unit == 0 for (begin, _), unit in zip(box, self.grain, strict=False))


@dataclass(frozen=True, slots=True)
class Work:
    """An operator over tensors of these types: a node, or the part of one that a core runs at a time.

    `constant` tells which inputs are known when packing, `density` the share of its constant weights that are not zero,
    to two digits, `block` in which blocks those lie.
    `of` is the work of the whole node, if this is a part of a convolution with many zeros: streams are made for that.
    """

    op: Op
    inputs: tuple[TensorType | None, ...]
    outputs: tuple[TensorType, ...]
    constant: tuple[bool, ...]
    density: float = 1.0
    block: Block = SINGLE
    of: Work | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Operand:
    """An input of a lowered step: a value of the graph by name, or a constant prepared for the kernel."""

    value: str | None = None
    data: np.ndarray | None = None  # exact bytes to store, already in `layout`
    type: TensorType | None = None  # logical type of `data`, or of the value if it is seen under another shape
    layout: Layout = Layout.PLANAR
    box: Box | None = None  # the part of it that is read; None: all


@dataclass(frozen=True, slots=True, eq=False)
class Lowered:
    """A node turned into one step of the runtime; an absent optional input is None."""

    kernel: str
    inputs: tuple[Operand | None, ...]
    attributes: tuple[Attribute, ...] = ()
    modules: tuple[str, ...] = ()  # PTX of each of a device's entries that `attributes` name
    slack: int = 0  # elements behind the device's memory that its kernels may touch


class Target(Protocol):
    """One board or machine that programs are made for."""

    @property
    def name(self) -> str:
        """What `--target` calls it."""
        ...

    @property
    def arch(self) -> str:
        """The machine its programs need: "x86_64" or "aarch64"."""
        ...

    @property
    def description(self) -> str:
        """One line for people."""
        ...

    def forms(self, graph: Graph, node: Node) -> tuple[Form, ...]:
        """The ways `node` can run here, never empty; raises TargetError if it cannot run at all."""
        ...

    @property
    def core_counts(self) -> tuple[int, ...]:
        """For how many cores programs are made unless told otherwise."""
        ...

    @property
    def machine(self) -> Machine:
        """What the cost model knows of it."""
        ...

    def on(self, machine: Machine) -> Target:
        """The same target as the cost model sees it on another machine."""
        ...

    def seconds(self, work: Work, form: Form, distances: Sequence[int], core: int, active: int) -> float:
        """Predicted time of `work` on core number `core` (0: the fastest) while `active` cores are busy.

        `distances` are reuse distances in bytes, of every input and then every output: how much memory the core touches
        between the last touch of that operand and this one, which tells the cache it comes from.
        """
        ...

    def bound(self, work: Work, form: Form) -> str:
        """What the predicted time is mostly spent on, in a word such as "dram"; "" if the model does not tell."""
        ...

    def weights(self, work: Work, form: Form) -> float:
        """Bytes of the constant weights of `work` as `form` stores them."""
        ...

    def reorder_seconds(self, type: TensorType, source: Layout, destination: Layout, core: int, active: int) -> float:
        """Predicted time to change the layout of a tensor that was just written."""
        ...

    def grain(self, graph: Graph, node: Node) -> tuple[int, ...]:
        """For each dimension of the first output, what cuts must be multiples of for the sake of layouts."""
        ...

    def work(self, graph: Graph, node: Node, form: Form) -> tuple[tuple[int, np.ndarray], ...]:
        """Dimensions of the first output along which pieces of equal size are unequal work, and the work before each
        index, and of all, in units of any size: [extent + 1]."""
        ...

    def splittable(self, graph: Graph, node: Node, form: Form) -> bool:
        """Whether the kernel takes operands that are views with gaps, so that `restrict` may be called."""
        ...

    def spaced(self, type: TensorType) -> TensorType:
        """The planar tensor that a value of this type, whose channels are read and written together, had best lie at
        the origin of; the type itself if it needs no larger one."""
        ...

    def lower(self, graph: Graph, node: Node, form: Form) -> Lowered:
        """The step for `node` in the chosen form; where that leaves its output in registers, the step makes what the
        node that reads it makes of it."""
        ...

    def restrict(self, graph: Graph, node: Node, form: Form, lowered: Lowered, part: Part) -> Lowered:
        """The step for a part of `node`: what `lower` gave, with the part's attributes and the boxes of its
        operands."""
        ...

    def reorder(self, graph: Graph, name: str, type: TensorType, source: Layout, destination: Layout) -> Lowered:
        """The step that changes the layout of a value, seen as `type`; its one input is filled in by the planner."""
        ...

    def stored(self, graph: Graph, name: str) -> tuple[DType, tuple[int, ...]]:
        """The element type and the halo that a value has in layout PLANES."""
        ...

    @property
    def device(self) -> str:
        """What programs need beside the processor, such as "sm_62"; "" for nothing."""
        ...

    @property
    def attends(self) -> bool:
        """Whether it computes attention as one operator, rather than as the products and the softmax it is made of."""
        ...

    @property
    def fallback(self) -> str:
        """The target whose programs are put behind its own, for machines where the device cannot be used; or ""."""
        ...

    @property
    def budget(self) -> float:
        """How far rounded weights may move the network's outputs, relative to the largest number of each: 0 if none are
        rounded, infinite if all are that can be."""
        ...

    def keeping(self, exact: frozenset[str]) -> Target:
        """The target that rounds none of these weights."""
        ...

    def rounded(self, graph: Graph, node: Node, form: Form) -> np.ndarray | None:
        """The constant weights of `node`, its second input, as `form` rounds them; None if it does not."""
        ...

    def noise(self, form: Form) -> float:
        """How far off results of `form` are in multiples of what its rounded weights alone do: 1, or more where inputs
        are rounded too."""
        ...

    def narrows(self, form: Form) -> bool:
        """Whether products and sums in `form` are of float16."""
        ...

    def assemble(
        self, modules: Sequence[str], progress: Callable[[int, int], None] | None = None
    ) -> tuple[bytes | None, ...]:
        """Machine code of modules of PTX; `progress` is told how many bytes of how many are done. Raises TargetError if
        there is no assembler, even for no modules."""
        ...

    def lower_sum(self, node: Node, layout: Layout) -> tuple[Lowered, tuple[str, ...]]:
        """The step that adds partial sums of `node` (its inputs are filled in by the planner), with what `node` does
        afterwards; and the values that are added as well."""
        ...


def attributes_of(op: Op) -> tuple[Attribute, ...]:
    """The fields of an operator as step attributes, sorted by name.

    int, bool and their tuples become ints, float and tuples of float floats, str text; None is left out; a tuple of str
    becomes text joined by commas. An Activation becomes `activation` (text) and `activation_parameters` (floats
    alpha, beta).
    """
    found: list[Attribute] = []
    for field in fields(op):
        value, name = getattr(op, field.name), field.name
        if value is None:
            continue
        if isinstance(value, Activation):
            found.append(Attribute(name, text=value.kind))
            found.append(Attribute(f"{name}_parameters", floats=(value.alpha, value.beta)))
        elif isinstance(value, str):
            found.append(Attribute(name, text=value))
        elif isinstance(value, float):
            found.append(Attribute(name, floats=(value,)))
        elif isinstance(value, int):
            found.append(Attribute(name, ints=(int(value),)))
        elif "float" in str(field.type):
            found.append(Attribute(name, floats=tuple(map(float, value))))
        elif "str" in str(field.type):
            found.append(Attribute(name, text=",".join(value)))
        else:
            found.append(Attribute(name, ints=tuple(map(int, value))))
    return tuple(sorted(found, key=lambda a: a.name))


_FAMILIES = {"cpu": "targets.cpu", "cuda": "targets.cuda"}


def names() -> dict[str, str]:
    """Every target name with its one-line description, in order."""
    found: dict[str, str] = {}
    for module in _FAMILIES.values():
        found.update(importlib.import_module(module).TARGETS)
    return found


def resolve(name: str, **settings: str) -> Target:
    """The target called `name` with those of the settings, such as `winograd`, that its family has; raises TargetError
    that lists the known ones."""
    for module in _FAMILIES.values():
        family = importlib.import_module(module)
        if name in family.TARGETS:
            target: Target = family.create(name, **{key: settings[key] for key in family.SETTINGS if key in settings})
            return target
    raise TargetError(f"unknown target '{name}'; known: {', '.join(names())}")
