"""The rules of docs/format.md beyond the flatbuffer itself: every index, offset and size of a bundle in range."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from edgert.dtypes import DTYPES
from edgert.errors import MalformedError
from edgert.layouts import LAYOUT_NAMES, PLANAR, least_rank, stored_shape

if TYPE_CHECKING:
    from edgert.reader import Bundle, GoldenTensor, Program, Tensor

__all__ = ["bundle", "tensor_type"]

PAGE = 4096
ALIGN = 64
MAX_RANK = 8
MAX_BYTES = 1 << 48


def tensor_type(dtype: int, layout: int, place: int, shape: tuple[int, ...], where: str) -> None:
    """The encoded type of a tensor: known numbers, and a size that 64 bits can count."""
    _expect(dtype in DTYPES, f"{where}.dtype", "an element type of 1 to 10", dtype)
    _expect(layout < len(LAYOUT_NAMES), f"{where}.layout", "a layout of 0 to 3", layout)
    _expect(place <= 3, f"{where}.place", "a place of 0 to 3", place)
    _expect(len(shape) <= MAX_RANK, f"{where}.shape", "at most 8 dimensions", len(shape))
    _expect(all(0 <= extent <= MAX_BYTES for extent in shape), f"{where}.shape", "extents of 0 to 2^48", shape)
    _expect(len(shape) >= least_rank(layout), f"{where}.shape", f"{least_rank(layout)} dimensions or more", len(shape))
    positive = (max(extent, 1) for extent in stored_shape(shape, layout))  # no way past the limit by a dimension of 0
    size = math.prod(positive) * DTYPES[dtype].itemsize
    _expect(size <= MAX_BYTES, f"{where}.shape", "a size of at most 2^48 bytes", size)


def bundle(found: Bundle, metadata_end: int) -> None:
    """Every rule about a decoded bundle; raises MalformedError for the first that is broken."""
    _segments(found, metadata_end)
    for index, golden in enumerate(found.goldens):
        where = f"goldens[{index}]"
        tolerances = (golden.atol, golden.rtol)
        _expect(
            all(math.isfinite(t) and t >= 0 for t in tolerances), where, "finite tolerances of 0 or more", tolerances
        )
        for side, samples in (("inputs", golden.inputs), ("outputs", golden.outputs)):
            for position, sample in enumerate(samples):
                _sample(found, sample, f"{where}.{side}[{position}]")
    for index, program in enumerate(found.programs):
        _program(found, program, f"programs[{index}]")


def _segments(found: Bundle, end: int) -> None:
    for index, segment in enumerate(found.segments):
        where = f"segments[{index}]"
        start = -(-end // PAGE) * PAGE
        _expect(segment.offset == start, f"{where}.offset", f"{start}, the next page", segment.offset)
        _expect(len(segment.sha256) == 32, f"{where}.sha256", "32 bytes", len(segment.sha256))
        end = segment.offset + segment.length
        _expect(end <= len(found.data), f"{where}.length", f"an end within the file of {len(found.data)} bytes", end)
    size = len(found.data)
    _expect(end == size, "the end of the last segment", f"{size}, the end of the file", end)


def _program(found: Bundle, program: Program, where: str) -> None:
    count = len(program.tensors)
    _expect(program.target != "" and program.arch != "", where, "a target and an arch", "none")
    for index, tensor in enumerate(program.tensors):
        _place(found, program, tensor, f"{where}.tensors[{index}]")
    for side, place in (("inputs", "input"), ("outputs", "output")):
        ids: tuple[int, ...] = getattr(program, side)
        for position, tensor_id in enumerate(ids):
            inside = f"{where}.{side}[{position}]"
            _expect(tensor_id < count, inside, f"a tensor below {count}", tensor_id)
            tensor = program.tensors[tensor_id]
            _expect(tensor.place == place, inside, f"a tensor placed as {place}", tensor.place)
            _expect(tensor.index == position, inside, f"a tensor of index {position}", tensor.index)
    for index, step in enumerate(program.steps):
        inside = f"{where}.steps[{index}]"
        _expect(
            all(-1 <= i < count for i in step.inputs), f"{inside}.inputs", f"tensors below {count}, or -1", step.inputs
        )
        _expect(all(0 <= i < count for i in step.outputs), f"{inside}.outputs", f"tensors below {count}", step.outputs)
        places = {program.tensors[i].place for i in step.outputs}
        _expect(places <= {"arena", "output"}, f"{inside}.outputs", "tensors that may be written", sorted(places))
        names = [attribute.name.encode() for attribute in step.attributes]
        _expect(_ascending([b"", *names]), f"{inside}.attributes", "names in ascending order, each once", names)
        _expect(step.kernel != "", f"{inside}.kernel", "a name", "none")
    written = {
        program.tensors[i].index for s in program.steps for i in s.outputs if program.tensors[i].place == "output"
    }
    for position in range(len(program.outputs)):
        _expect(position in written, f"{where}.outputs[{position}]", "a step that writes it", "none")


def _place(found: Bundle, program: Program, tensor: Tensor, where: str) -> None:
    if tensor.place in ("arena", "segment"):
        _expect(tensor.offset % ALIGN == 0, f"{where}.offset", "a multiple of 64", tensor.offset)
        room = program.arena_bytes
        if tensor.place == "segment":
            _expect(
                tensor.index < len(found.segments),
                f"{where}.index",
                f"a segment below {len(found.segments)}",
                tensor.index,
            )
            room = found.segments[tensor.index].length
        _expect(
            tensor.offset + tensor.bytes <= room,
            f"{where}.offset",
            f"an end within {room} bytes",
            tensor.offset + tensor.bytes,
        )
    else:
        _bound(program, tensor, where)
    axis, count = tensor.extent_axis, tensor.extent_count
    _expect(-1 <= axis < len(tensor.shape), f"{where}.extent_axis", "-1 or one of its dimensions", axis)
    if axis >= 0:
        _expect(count < len(program.tensors), f"{where}.extent_count", f"a tensor below {len(program.tensors)}", count)
        counter = program.tensors[count]
        one = counter.dtype == np.int64 and math.prod(counter.shape) == 1 and counter.layout == LAYOUT_NAMES[PLANAR]
        _expect(one, f"{where}.extent_count", "one planar int64", f"{counter.layout} {counter.dtype}{counter.shape}")


def _bound(program: Program, tensor: Tensor, where: str) -> None:
    """An input or output, or another tensor over all of its buffer."""
    ids = program.inputs if tensor.place == "input" else program.outputs
    _expect(tensor.layout == LAYOUT_NAMES[PLANAR], f"{where}.layout", "planar", tensor.layout)
    _expect(tensor.offset == 0, f"{where}.offset", f"0, as the program's {tensor.place}", tensor.offset)
    listed = tensor.index < len(ids) and ids[tensor.index] < len(program.tensors)
    _expect(listed, f"{where}.index", f"its position among the program's {tensor.place}s", tensor.index)
    owner = program.tensors[ids[tensor.index]]
    same = tensor.bytes == owner.bytes and tensor.dtype.itemsize == owner.dtype.itemsize
    _expect(same, f"{where}.shape", f"{owner.bytes} bytes, as the program's {tensor.place}", tensor.bytes)


def _sample(found: Bundle, sample: GoldenTensor, where: str) -> None:
    count = len(found.segments)
    _expect(sample.segment < count, f"{where}.segment", f"a segment below {count}", sample.segment)
    end, room = sample.offset + sample.length, found.segments[sample.segment].length
    _expect(end <= room, f"{where}.offset", f"an end within {room} bytes", end)


def _ascending(names: Sequence[bytes]) -> bool:
    return all(a < b for a, b in itertools.pairwise(names))


def _expect(holds: bool, where: str, expected: str, got: object) -> None:
    if not holds:
        raise MalformedError.of(f"{where}: expected {expected}, got {str(got)[:80]}")
