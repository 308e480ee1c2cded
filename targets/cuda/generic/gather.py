"""Operators that take positions from data: the element of x at indices that a thread loads."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from packer.ir import DType
from packer.ir.ops import Gather, GatherElements, GatherND
from targets.cuda.array import Array
from targets.cuda.emit.ptx import Builder
from targets.cuda.generic.access import Constants, Inputs, Walk, address, aligned, kernel, load, offsets, operand, store
from targets.cuda.generic.conversion import kind_of, type_of
from targets.cuda.generic.copy import copy, moved
from targets.cuda.kernel import Code

__all__ = ["gather", "gather_elements", "gather_nd"]


@dataclass(frozen=True, slots=True)
class _Index:
    """Where the element of the indices for an output's element lies, which dimension of x it is for: its extent and
    stride."""

    strides: tuple[int, ...]
    origin: int
    extent: int
    stride: int


def gather(op: Gather, inputs: Inputs, outputs: Sequence[Array], constants: Constants) -> Code | None:
    """A view of x where there is one index, which is known."""
    x, indices = _both(inputs)
    axis, value = op.axis, constants[1]
    own = (*x.strides[:axis], *(0 for _ in indices.shape), *x.strides[axis + 1 :])
    if value is not None and value.size == 1:
        at = min(max(value.item() + (x.shape[axis] if value.item() < 0 else 0), 0), x.shape[axis] - 1)
        view = replace(x, shape=outputs[0].shape, strides=own, origin=x.origin + at * x.strides[axis])
        together = aligned(x) and aligned(outputs[0])
        return Code((copy("gather", view, outputs[0], together=together),), (operand(0, inputs, constants),))
    lead = (*(0 for _ in range(axis)), *indices.strides, *(0 for _ in x.shape[axis + 1 :]))
    index = _Index(lead, indices.origin, x.shape[axis], x.strides[axis])
    return _gathered("gather", inputs, outputs[0], constants, own, [index])


def gather_elements(op: GatherElements, inputs: Inputs, outputs: Sequence[Array], constants: Constants) -> Code | None:
    """Positions along one dimension."""
    x, indices = _both(inputs)
    own = tuple(0 if axis == op.axis else stride for axis, stride in enumerate(x.strides))
    index = _Index(indices.strides, indices.origin, x.shape[op.axis], x.strides[op.axis])
    return _gathered("gather_elements", inputs, outputs[0], constants, own, [index])


def gather_nd(op: GatherND, inputs: Inputs, outputs: Sequence[Array], constants: Constants) -> Code | None:
    """Positions along several dimensions, next to each other."""
    x, indices = _both(inputs)
    begin, count = op.batch_dims, indices.shape[-1]
    after = len(x.shape) - begin - count
    own = (*x.strides[:begin], *(0 for _ in indices.shape[begin:-1]), *x.strides[begin + count :])
    found = [
        _Index(
            (*indices.strides[:-1], *(0 for _ in range(after))),
            indices.origin + place * indices.strides[-1],
            x.shape[begin + place],
            x.strides[begin + place],
        )
        for place in range(count)
    ]
    return _gathered("gather_nd", inputs, outputs[0], constants, own, found)


def _both(inputs: Inputs) -> tuple[Array, Array]:
    x, indices = inputs
    assert x is not None
    assert indices is not None
    return x, indices


def _gathered(
    name: str, inputs: Inputs, y: Array, constants: Constants, strides: tuple[int, ...], found: Sequence[_Index]
) -> Code:
    """x at `strides` along the dimensions without indices."""
    x, indices = _both(inputs)
    walk = Walk.over(y.shape, strides, y.strides, *(index.strides for index in found))
    source, target = moved(x.dtype, y.dtype)

    def body(b: Builder, number: str) -> None:
        origins = (x.origin, y.origin, *(index.origin for index in found))
        place, end, *entries = offsets(b, walk, number, origins)
        for index, entry in zip(found, entries, strict=True):
            value = load(b, indices.dtype, address(b, "indices", entry, indices.dtype), constant=True)
            at = _within(b, value, indices.dtype, index.extent)
            place = b.new("r", "mad.lo.u32", at, index.stride, place)
        store(b, target, address(b, "y", end, target), load(b, source, address(b, "x", place, source), constant=True))

    made = kernel(name, ("x", "indices", "y"), walk.elements, body)
    return Code((made,), (operand(0, inputs, constants), operand(1, inputs, constants)))


def _within(b: Builder, value: str, dtype: DType, extent: int) -> str:
    """The position that an index means: negative ones count from the end, others out of range are clamped."""
    kind, type = kind_of(dtype), type_of(dtype)
    other = b.new(kind, f"add.{type}", value, extent)
    bits = type[1:]
    value = b.new(kind, f"selp.u{bits}", other, value, b.new("p", f"setp.lt.{type}", value, 0))
    value = b.new(kind, f"max.{type}", b.new(kind, f"min.{type}", value, extent - 1), 0)
    return value if kind == "r" else b.new("r", "cvt.u32.u64", value)
