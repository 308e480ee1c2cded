"""Elements of values in device memory: where they lie, how they are loaded and stored."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from packer.ir import DType
from targets.cuda.array import Array
from targets.cuda.emit.address import divide
from targets.cuda.emit.ptx import Builder, f32, module
from targets.cuda.kernel import Kernel

__all__ = [
    "THREADS",
    "Constants",
    "Inputs",
    "Walk",
    "address",
    "aligned",
    "coordinates",
    "kernel",
    "load",
    "load_each",
    "offsets",
    "operand",
    "store",
    "store_each",
    "strides_over",
]

Inputs = Sequence[Array | None]
Constants = Sequence[np.ndarray | None]  # of each input, its value where it is known when packing

THREADS = 256
_WORD = 1 << 32
# element type -> kind of register that holds it, type of the instruction that moves it
_MOVES = {
    DType.F32: ("f", "f32"), DType.U8: ("r", "u8"), DType.I8: ("r", "s8"), DType.U16: ("r", "u16"),
    DType.I16: ("r", "s16"), DType.I32: ("r", "u32"), DType.U32: ("r", "u32"), DType.I64: ("d", "u64"),
    DType.U64: ("d", "u64"), DType.BOOL: ("r", "u8"), DType.F16: ("h", "b16"),
}  # fmt: skip
_ZEROS = {"f": ("mov.f32", f32(0)), "h": ("mov.b16", "0"), "r": ("mov.u32", "0"), "d": ("mov.u64", "0")}


def operand(number: int, inputs: Inputs, constants: Constants) -> int | np.ndarray:
    """An input as an operand of kernels: its number, or its value where that is known."""
    value, array = constants[number], inputs[number]
    return number if value is None or array is None else np.ascontiguousarray(value, array.dtype.numpy)


def strides_over(array: Array, shape: Sequence[int]) -> tuple[int, ...]:
    """Strides of an operand that broadcasts to `shape`, in elements: 0 where it has an extent of 1 or no dimension."""
    lead = len(shape) - len(array.shape)
    own = (0 if extent == 1 else stride for extent, stride in zip(array.shape, array.strides, strict=True))
    return (0,) * lead + tuple(own)


@dataclass(frozen=True, slots=True)
class Walk:
    """A box of elements in row-major order, and how far a step along each dimension takes each operand (elements)."""

    extents: tuple[int, ...]
    strides: tuple[tuple[int, ...], ...]

    @classmethod
    def over(cls, shape: Sequence[int], *strides: Sequence[int]) -> Walk:
        """The walk with as few dimensions as will do: those of one element are dropped, and those that all operands
        pass as if they were one are joined."""
        dimensions: list[tuple[int, tuple[int, ...]]] = []
        for extent, *steps in zip(shape, *strides, strict=True):
            if extent == 1:
                continue
            if dimensions and all(outer == step * extent for outer, step in zip(dimensions[-1][1], steps, strict=True)):
                extent *= dimensions.pop()[0]
            dimensions.append((extent, tuple(steps)))
        return cls(
            tuple(extent for extent, _ in dimensions),
            tuple(tuple(steps[operand] for _, steps in dimensions) for operand in range(len(strides))),
        )

    @property
    def elements(self) -> int:
        """How many elements the box has."""
        return math.prod(self.extents)

    def fours(self, origins: Sequence[int]) -> Walk | None:
        """The walk in steps of four elements of the last dimension: in each operand the same element, or neighbours at
        a multiple of four from the pointer. None where there is no such walk."""
        if not self.extents or self.extents[-1] % 4:
            return None
        for steps, origin in zip(self.strides, origins, strict=True):
            if steps[-1] not in (0, 1) or (steps[-1] and any(step % 4 for step in (*steps[:-1], origin))):
                return None
        quarter = (*self.extents[:-1], self.extents[-1] // 4)
        return Walk(quarter, tuple((*steps[:-1], 4 * steps[-1]) for steps in self.strides))


def offsets(b: Builder, walk: Walk, index: str, origins: Sequence[int]) -> list[str]:
    """Registers with the elements from each operand's pointer to the walk's element number `index`: a u32, below the
    walk's elements. `origins` are those of element 0."""
    found: list[str | int] = [origin % _WORD for origin in origins]
    limit = walk.elements
    for axis in reversed(range(len(walk.extents))):
        index, place = divide(b, index, walk.extents[axis], limit) if axis else (index, index)
        limit = -(-limit // walk.extents[axis])
        for operand, steps in enumerate(walk.strides):
            if steps[axis] == 1 and found[operand] == 0:
                found[operand] = place
            elif steps[axis]:
                found[operand] = b.new("r", "mad.lo.u32", place, steps[axis] % _WORD, found[operand])
    return [offset if isinstance(offset, str) else b.new("r", "mov.u32", offset) for offset in found]


def coordinates(b: Builder, index: str, shape: Sequence[int]) -> list[str]:
    """Registers with the coordinates of element number `index` of a box, in row-major order."""
    found = []
    limit = math.prod(shape)
    for extent in reversed(shape):
        index, place = divide(b, index, extent, limit)
        limit = -(-limit // extent)
        found.append(place)
    return found[::-1]


def address(b: Builder, parameter: str, offset: str, dtype: DType) -> str:
    """A register with the address of the element `offset` elements behind a parameter's pointer, in front of it where
    the offset is negative as an s32."""
    base = b.new("d", "cvta.to.global.u64", b.new("d", "ld.param.u64", f"[{parameter}]"))
    return b.new("d", "add.s64", base, b.new("d", "mul.wide.s32", offset, dtype.bytes))


def aligned(array: Array) -> bool:
    """Whether the pointer kernels get for a value is a multiple of four elements: a view begins anywhere in dimension 1
    of its root, of one image."""
    return len(array.shape) < 2 or array.shape[0] > 1 or array.strides[1] % 4 == 0


def load(b: Builder, dtype: DType, at: str, offset: int = 0, constant: bool = False, where: str | None = None) -> str:
    """The element `offset` bytes behind an address: f32 in an f register, f16 too, widened; integers in an r register,
    narrow ones extended to 32 bits, those of 64 bits in a d register; bool as 0 or 1. `constant`: no thread of the
    kernel writes this memory. With a predicate, 0 where it does not hold."""
    kind, type = _MOVES[dtype]
    instruction = f"ld.global{'.nc' if constant else ''}.{type}"
    if where is None:
        value = b.new(kind, instruction, f"[{at}+{offset}]")
    else:
        value = b.new(kind, *_ZEROS[kind])
        b.emit(f"@{where} {instruction} {value}, [{at}+{offset}]")
    return b.new("f", "cvt.f32.f16", value) if dtype is DType.F16 else value


def store(b: Builder, dtype: DType, at: str, value: str, offset: int = 0, where: str | None = None) -> None:
    """Store what `load` gives for the element type; to f16 it is rounded to nearest even, integers are cut. With a
    predicate, only where it holds."""
    if dtype is DType.F16:
        value = b.new("h", "cvt.rn.f16.f32", value)
    b.emit(f"{f'@{where} ' if where else ''}st.global.{_MOVES[dtype][1]} [{at}+{offset}], {value}")


def load_each(b: Builder, dtype: DType, at: str, steps: Sequence[int], four: bool, constant: bool = False) -> list[str]:
    """What a thread of a walk loads of an operand with these `steps`: an element, or of a walk in fours, four."""
    if not four:
        return [load(b, dtype, at, constant=constant)]
    if not steps[-1]:
        return [load(b, dtype, at, constant=constant)] * 4
    kind, type = _MOVES[dtype]
    values = [b.register(kind) for _ in range(4)]
    b.emit(f"ld.global{'.nc' if constant else ''}.v4.{type} {{{', '.join(values)}}}, [{at}]")
    return [b.new("f", "cvt.f32.f16", value) for value in values] if dtype is DType.F16 else values


def store_each(b: Builder, dtype: DType, at: str, values: Sequence[str]) -> None:
    """Store what a thread has: an element, or four that are next to each other."""
    if len(values) == 1:
        store(b, dtype, at, values[0])
        return
    if dtype is DType.F16:
        values = [b.new("h", "cvt.rn.f16.f32", value) for value in values]
    b.emit(f"st.global.v4.{_MOVES[dtype][1]} [{at}], {{{', '.join(values)}}}")


def kernel(
    name: str,
    parameters: Sequence[str],
    count: int,
    body: Callable[[Builder, str], None],
    threads: int = THREADS,
    registers: int = 128,
) -> Kernel:
    """A kernel of `count` threads that need nothing of each other: `body` gets the register with a thread's number."""
    b = Builder()
    index = b.new("r", "mad.lo.u32", b.new("r", "mov.u32", "%ctaid.x"), threads, b.new("r", "mov.u32", "%tid.x"))
    if count % threads:
        b.emit(f"@{b.new('p', 'setp.ge.u32', index, count)} ret")
    body(b, index)
    b.emit("ret")
    text = b.entry(name, parameters, threads, registers=registers)
    return Kernel(name, module(text), (-(-count // threads), 1, 1), threads)
