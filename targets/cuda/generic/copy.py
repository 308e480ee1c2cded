"""Copies between arrays whose elements are the same ones in the same order, whatever their strides."""

from __future__ import annotations

from collections.abc import Sequence

from packer.ir import DType
from targets.cuda.array import Array
from targets.cuda.emit.ptx import Builder
from targets.cuda.generic.access import Walk, address, kernel, load_each, offsets, store_each
from targets.cuda.kernel import Kernel

__all__ = ["copy", "moved"]

_RAW = {1: DType.U8, 2: DType.U16, 4: DType.U32, 8: DType.U64}


def moved(source: DType, target: DType) -> tuple[DType, DType]:
    """The types to load and to store elements as, that are converted only if their types differ."""
    return (source, target) if source is not target else (_RAW[source.bytes], _RAW[target.bytes])


def copy(
    name: str,
    source: Array,
    target: Array,
    parameters: Sequence[str] = ("x", "y"),
    which: tuple[int, int] = (0, 1),
    together: bool = False,
) -> Kernel:
    """The elements of `source` in row-major order become those of `target`; f32 and f16 are converted.

    Strides of `source` may be negative or 0; shapes may differ. `which` are the numbers of both parameters; `together`:
    both pointers are multiples of four elements.
    """
    types = moved(source.dtype, target.dtype)
    parts: list[tuple[tuple[int, ...], Walk]]  # numbers of the operands that a walk leads to
    if source.shape == target.shape:
        parts = [((0, 1), Walk.over(target.shape, source.strides, target.strides))]
    else:
        parts = [((0,), Walk.over(source.shape, source.strides)), ((1,), Walk.over(target.shape, target.strides))]
    origins = (source.origin, target.origin)
    four = False
    if together and target.dtype.bytes < 8:
        quarters = [(own, walk.fours([origins[i] for i in own])) for own, walk in parts]
        four = all(walk is not None for _, walk in quarters)
        if four:
            parts = [(own, walk) for own, walk in quarters if walk is not None]

    def body(b: Builder, index: str) -> None:
        places = [at for own, walk in parts for at in offsets(b, walk, index, [origins[i] for i in own])]
        begin, end = (address(b, parameters[which[i]], places[i], types[i]) for i in range(2))
        store_each(b, types[1], end, load_each(b, types[0], begin, parts[0][1].strides[0], four, constant=True))

    return kernel(name, parameters, parts[0][1].elements, body)
