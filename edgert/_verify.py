"""The rules of docs/format.md beyond the flatbuffer itself: every index, offset and size of a bundle in range."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from edgert._races import ALL_CORES, Races
from edgert.dtypes import CONSTANT_ONLY, DTYPES
from edgert.errors import MalformedError
from edgert.layouts import (
    DEPTH16,
    LANES,
    LAYOUT_NAMES,
    PLANAR,
    PLANES,
    WEIGHT16,
    blocked_axis,
    least_rank,
    stored_shape,
)

if TYPE_CHECKING:
    from edgert.reader import Bundle, GoldenTensor, Program, Tensor

__all__ = ["bundle", "tensor_type", "view"]

HEADER_BYTES = 128
PAGE = 4096
ALIGN = 64
DEVICE_ALIGN = 16
DEVICE = 4  # the place of tensors in a device's memory
MAX_RANK = 8
MAX_BYTES = 1 << 48
MAX_HALO = (1 << 16) - 1
MAX_PTX_BYTES = 1 << 28
MAX_RATIO = 1032  # of a DEFLATE stream: 258 bytes for two bits
PAIRS_PER_BYTE = 16  # of operands that are compared, for each byte of the metadata
MOST_PROGRAMS = 1024  # of a bundle


def tensor_type(dtype: int, layout: int, place: int, shape: tuple[int, ...], halo: tuple[int, ...], where: str) -> None:
    """The encoded type of a tensor: known numbers, and a size that 64 bits can count."""
    _expect(dtype in DTYPES, f"{where}.dtype", "an element type of 1 to 12", dtype)
    _expect(layout < len(LAYOUT_NAMES), f"{where}.layout", "a layout of 0 to 4", layout)
    _expect(place <= 4, f"{where}.place", "a place of 0 to 4", place)
    reduced = dtype not in CONSTANT_ONLY or place == 1 or (place == DEVICE and DTYPES[dtype] == np.float16)
    _expect(reduced, f"{where}.place", "a segment for f16 and bf16, or for f16 a device", place)
    planes = layout == PLANES
    _expect(planes == (place == DEVICE), f"{where}.layout", "planes on a device, and nowhere else", layout)
    sides = len(halo) == 4 and 0 < max(halo) <= MAX_HALO and planes and len(shape) == 4
    _expect(halo == () or sides, f"{where}.halo", f"none, or 4 numbers up to {MAX_HALO} of planes of rank 4", halo)
    _expect(len(shape) <= MAX_RANK, f"{where}.shape", "at most 8 dimensions", len(shape))
    _expect(all(0 <= extent <= MAX_BYTES for extent in shape), f"{where}.shape", "extents of 0 to 2^48", shape)
    _expect(len(shape) >= least_rank(layout), f"{where}.shape", f"{least_rank(layout)} dimensions or more", len(shape))
    stored = stored_shape(shape, layout, halo)
    size = math.prod(max(extent, 1) for extent in stored) * DTYPES[dtype].itemsize  # no way past by an extent of 0
    _expect(size <= MAX_BYTES, f"{where}.shape", "a size of at most 2^48 bytes", size)


def view(tensor: Tensor, tensors: Sequence[Tensor], where: str) -> None:
    """A tensor with a root is a box of it, in whole blocks of a blocked layout."""
    if tensor.root == -1:
        _expect(tensor.begin == (), f"{where}.begin", "none without a root", tensor.begin)
        return
    _expect(0 <= tensor.root < len(tensors), f"{where}.root", f"-1 or a tensor below {len(tensors)}", tensor.root)
    root = tensors[tensor.root]
    _expect(root.root == -1, f"{where}.root", "a tensor that is no view", tensor.root)
    for name in ("dtype", "layout", "place", "index", "offset", "halo"):
        of_root, own = getattr(root, name), getattr(tensor, name)
        _expect(own == of_root, f"{where}.{name}", f"{of_root} as of its root", own)
    rank = len(root.shape)
    _expect(len(tensor.shape) == rank, f"{where}.shape", f"{rank} dimensions as of its root", tensor.shape)
    _expect(len(tensor.begin) == rank, f"{where}.begin", f"{rank} entries", tensor.begin)
    _expect(tensor.extent_axis == -1, f"{where}.extent_axis", "-1, as it is a view", tensor.extent_axis)
    layout = LAYOUT_NAMES.index(tensor.layout)
    dense = layout in (PLANAR, PLANES)
    blocked = () if dense else (1, 2) if layout == WEIGHT16 else (blocked_axis(layout, rank),)
    if layout == PLANES:
        _expect(rank > 1 and root.shape[0] == 1, f"{where}.root", "two dimensions or more, the first 1", root.shape)
    for axis, (first, count, limit) in enumerate(zip(tensor.begin, tensor.shape, root.shape, strict=True)):
        end, got = first + count, f"{first} to {first + count}"
        _expect(first >= 0 and end <= limit, f"{where}.begin[{axis}]", f"a box within {limit}", got)
        if axis in blocked:
            aligned = first % LANES == 0 and (end % LANES == 0 or end == limit)
            _expect(aligned, f"{where}.begin[{axis}]", f"whole blocks of {LANES} of {limit}", got)
        elif layout in (WEIGHT16, DEPTH16) and axis > 0:
            _expect(count == limit, f"{where}.begin[{axis}]", f"all of the kernel's {limit}", got)
        elif layout == PLANES and axis != 1:
            _expect(count == limit, f"{where}.begin[{axis}]", f"all {limit} of its root", got)


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
    _expect(len(found.programs) <= MOST_PROGRAMS, "programs", f"at most {MOST_PROGRAMS}", len(found.programs))
    pairs = PAIRS_PER_BYTE * (metadata_end - HEADER_BYTES)
    for index, program in enumerate(found.programs):
        _program(found, program, f"programs[{index}]")
        _schedule(program, f"programs[{index}]")
        pairs = _races(program, pairs, f"programs[{index}]")


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
    count, segments = len(program.tensors), len(found.segments)
    _expect(program.target != "" and program.arch != "", where, "a target and an arch", "none")
    _expect(-1 <= program.plan < segments, f"{where}.plan", f"-1 or a segment below {segments}", program.plan)
    _device(found, program, where)
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
            _expect(tensor.root == -1, inside, "a tensor that is no view", tensor_id)
    for index, step in enumerate(program.steps):
        inside = f"{where}.steps[{index}]"
        _expect(
            all(-1 <= i < count for i in step.inputs), f"{inside}.inputs", f"tensors below {count}, or -1", step.inputs
        )
        _expect(all(0 <= i < count for i in step.outputs), f"{inside}.outputs", f"tensors below {count}", step.outputs)
        places = {program.tensors[i].place for i in step.outputs}
        writable = places <= {"arena", "output", "device"}
        _expect(writable, f"{inside}.outputs", "tensors that may be written", sorted(places))
        names = [attribute.name.encode() for attribute in step.attributes]
        _expect(_ascending([b"", *names]), f"{inside}.attributes", "names in ascending order, each once", names)
        _expect(step.kernel != "", f"{inside}.kernel", "a name", "none")
    written = {
        program.tensors[i].index for s in program.steps for i in s.outputs if program.tensors[i].place == "output"
    }
    for position in range(len(program.outputs)):
        _expect(position in written, f"{where}.outputs[{position}]", "a step that writes it", "none")


def _device(found: Bundle, program: Program, where: str) -> None:
    """Code for a device, and where there is none neither code nor memory."""
    if program.device == "":
        _expect(program.device_bytes == 0, f"{where}.device_bytes", "0 without a device", program.device_bytes)
        _expect(program.modules == (), f"{where}.modules", "none without a device", len(program.modules))
    count = len(found.segments)
    for index, module in enumerate(program.modules):
        inside = f"{where}.modules[{index}]"
        _expect((module.cubin_segment, module.ptx_segment) != (-1, -1), inside, "a cubin, PTX or both", "none")
        codes = (
            ("cubin", module.cubin_segment, module.cubin_offset, module.cubin_bytes),
            ("ptx", module.ptx_segment, module.ptx_offset, module.ptx_stored),
        )
        for name, segment, offset, stored in codes:
            if segment == -1:
                continue
            _expect(0 <= segment < count, f"{inside}.{name}_segment", f"-1 or a segment below {count}", segment)
            _expect(offset % ALIGN == 0, f"{inside}.{name}_offset", "a multiple of 64", offset)
            room = found.segments[segment].length
            within = stored > 0 and offset + stored <= room
            _expect(within, f"{inside}.{name}", f"1 byte or more within {room}", f"{stored} at {offset}")
        if module.ptx_segment >= 0:
            most = min(MAX_PTX_BYTES, MAX_RATIO * module.ptx_stored)
            _expect(0 < module.ptx_bytes <= most, f"{inside}.ptx_bytes", f"1 to {most}", module.ptx_bytes)


def _schedule(program: Program, where: str) -> None:
    """Cores and phases."""
    cores, speeds = program.cores, program.speeds
    _expect(1 <= cores <= ALL_CORES, f"{where}.cores", "1 to 255", cores)
    _expect(len(speeds) in (0, cores), f"{where}.speeds", f"none, or those of {cores} cores", len(speeds))
    relative = all(0 < speed <= 1 for speed in speeds) and max(speeds, default=1) == 1
    _expect(relative, f"{where}.speeds", "numbers above 0, relative to the fastest core's 1", speeds)
    previous = 0
    for index, step in enumerate(program.steps):
        inside = f"{where}.steps[{index}]"
        _expect(step.core < cores or step.core == ALL_CORES, f"{inside}.core", f"below {cores}, or 255", step.core)
        allowed = (previous, previous + 1) if index else (0,)
        _expect(step.phase in allowed, f"{inside}.phase", " or ".join(map(str, allowed)), step.phase)
        previous = step.phase


def _races(program: Program, pairs: int, where: str) -> int:
    """No core touches what another one writes in the same phase; how many of `pairs`, to be compared, are left."""
    races = Races(program, pairs)
    for first, second in races.find():
        inside = f"{where}.steps[{second.step}]: '{program.tensors[second.tensor].name}' on core {second.core}"
        got = f"that of '{program.tensors[first.tensor].name}', step {first.step} on core {first.core}"
        _expect(False, inside, "memory apart from other cores' in its phase", got)
    _expect(races.pairs <= pairs, where, f"at most {pairs} pairs of operands in the same memory", races.pairs)
    return pairs - races.pairs


def _place(found: Bundle, program: Program, tensor: Tensor, where: str) -> None:
    """Where a tensor lies, and what of it has meaning; a view is its root's."""
    if tensor.root >= 0:
        return
    if tensor.place in ("arena", "segment", "device"):
        device = tensor.place == "device"
        _expect(not device or program.device != "", f"{where}.place", "one of 0 to 3, as there is no device", 4)
        unit = DEVICE_ALIGN if device else ALIGN
        _expect(tensor.offset % unit == 0, f"{where}.offset", f"a multiple of {unit}", tensor.offset)
        room = program.device_bytes if device else program.arena_bytes
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
        got = f"{counter.layout} {counter.dtype}{counter.shape}"
        _expect(one and counter.root == -1, f"{where}.extent_count", "one planar int64, no view", got)


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
