"""Write a bundle: constants shared by content, metadata as a flatbuffer, published atomically.

The format is described in docs/format.md. The same Bundle always gives the same bytes.
"""

from __future__ import annotations

import hashlib
import os
import struct
import tempfile
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from packer.bundle.encode import encode
from packer.bundle.model import Bundle, Golden, Module, Place, Program, Step

__all__ = ["write_bundle"]

MAGIC = b"\x89EDGERT\n"
MAJOR, MINOR = 1, 10
HEADER_BYTES = 128
PAGE = 4096
ALIGN = 64
CHUNK = 1 << 20
PIECE = 4096  # of the metadata, with a digest of its own
_UNKNOWN = 0xE96A1B3C5D7F2480  # like nothing else in metadata


@dataclass(slots=True)
class _Segment:
    """A run of 64-byte aligned constants under construction."""

    name: str
    pieces: list[np.ndarray] = field(default_factory=list)
    length: int = 0

    def add(self, data: np.ndarray) -> int:
        offset = -(-self.length // ALIGN) * ALIGN
        self.pieces.append(data)
        self.length = offset + data.nbytes
        return offset

    def blocks(self) -> Iterator[bytes | memoryview]:
        """The bytes of the segment in order, gaps included."""
        position = 0
        for data in self.pieces:
            gap = -position % ALIGN
            if gap:
                yield bytes(gap)
            yield _bytes_of(data)
            position += gap + data.nbytes

    def digest(self) -> bytes:
        """SHA-256 over the SHA-256 digests of the 1 MiB chunks."""
        whole, chunk, room = hashlib.sha256(), hashlib.sha256(), CHUNK
        for block in self.blocks():
            start = 0
            while start < len(block):
                part = block[start : start + room]
                chunk.update(part)
                start += len(part)
                room -= len(part)
                if room == 0:
                    whole.update(chunk.digest())
                    chunk, room = hashlib.sha256(), CHUNK
        if room < CHUNK:
            whole.update(chunk.digest())
        return whole.digest()


def _bytes_of(data: np.ndarray) -> memoryview:
    return np.ascontiguousarray(data).reshape(-1).view(np.uint8).data


@dataclass(slots=True)
class _Constants:
    """Places every constant once, in a segment for exactly the programs that use it."""

    segments: list[_Segment] = field(default_factory=list)
    places: dict[bytes, tuple[int, int]] = field(default_factory=dict)

    def place_programs(self, programs: tuple[Program, ...]) -> list[list[bytes | None]]:
        """Digest of each tensor's data, by program; every one of them placed."""
        keys: list[list[bytes | None]] = []
        users: dict[bytes, list[int]] = {}
        data: dict[bytes, np.ndarray] = {}
        for number, program in enumerate(programs):
            row: list[bytes | None] = []
            for tensor in program.tensors:
                key = None
                if tensor.data is not None:
                    key = hashlib.sha256(_bytes_of(tensor.data)).digest()
                    data.setdefault(key, tensor.data)
                    used = users.setdefault(key, [])
                    if number not in used:
                        used.append(number)
                row.append(key)
            keys.append(row)
        groups: dict[tuple[int, ...], int] = {}
        for key, used in users.items():
            group = tuple(used)
            if group not in groups:
                shared_by = "" if len(group) == len(programs) else " " + "+".join(_label(programs[i]) for i in group)
                groups[group] = self._new("weights" + shared_by)
            self._put(groups[group], key, data[key])
        return keys

    def place_golden(self, array: np.ndarray) -> tuple[int, int]:
        """(segment, offset) of a golden sample."""
        key = b"golden" + hashlib.sha256(_bytes_of(array)).digest()
        if key not in self.places:
            if not self.segments or self.segments[-1].name != "golden":
                self._new("golden")
            self._put(len(self.segments) - 1, key, array)
        return self.places[key]

    def place_plan(self, program: Program) -> int:
        """The segment of what the planner decided; -1 if that is not known."""
        if not program.plan:
            return -1
        number = self._new(f"plan {_label(program)}")
        self.segments[number].add(np.frombuffer(program.plan.encode(), np.uint8))
        return number

    def place_module(self, program: Program, module: Module) -> dict[str, object]:
        """The fields of a module; programs of one target share a segment of each kind of code."""
        fields: dict[str, object] = {}
        if module.cubin is not None:
            segment, offset = self._place_code(f"cubins {program.target}", module.cubin)
            fields |= {"cubin_segment": segment, "cubin_offset": offset, "cubin_bytes": len(module.cubin)}
        if module.ptx:
            text = module.ptx.encode()
            stream = _deflated(text)
            segment, offset = self._place_code(f"ptx {program.target}", stream)
            fields |= {"ptx_segment": segment, "ptx_offset": offset}
            fields |= {"ptx_stored": len(stream), "ptx_bytes": len(text)}
        return fields

    def _place_code(self, name: str, code: bytes) -> tuple[int, int]:
        key = name.encode() + hashlib.sha256(code).digest()
        if key not in self.places:
            names = [segment.name for segment in self.segments]
            number = names.index(name) if name in names else self._new(name)
            self._put(number, key, np.frombuffer(code, np.uint8))
        return self.places[key]

    def _new(self, name: str) -> int:
        self.segments.append(_Segment(name))
        return len(self.segments) - 1

    def _put(self, segment: int, key: bytes, array: np.ndarray) -> None:
        self.places[key] = (segment, self.segments[segment].add(array))


def _deflated(text: bytes) -> bytes:
    """A raw DEFLATE stream."""
    packer = zlib.compressobj(9, zlib.DEFLATED, -zlib.MAX_WBITS)
    return packer.compress(text) + packer.flush()


def _label(program: Program) -> str:
    return f"{program.target}/{program.cores}"


def write_bundle(
    bundle: Bundle, path: Path, progress: Callable[[float], None] = lambda fraction: None, durable: bool = True
) -> int:
    """Write `bundle` to `path` and return the file's size in bytes.

    The file appears complete or not at all: it is written beside its destination and renamed; if `durable`, even when
    the machine fails meanwhile.
    """
    constants = _Constants()
    keys = constants.place_programs(bundle.programs)
    goldens = [_golden(golden, constants) for golden in bundle.goldens]
    programs = [_program(program, row, constants) for program, row in zip(bundle.programs, keys, strict=True)]
    digests = [segment.digest() for segment in constants.segments]

    def metadata(offsets: list[int]) -> bytes:
        segments = [
            {"name": s.name, "offset": offset, "length": s.length, "sha256": np.frombuffer(digest, np.uint8)}
            for s, offset, digest in zip(constants.segments, offsets, digests, strict=True)
        ]
        root = {
            "producer": bundle.producer,
            "model": bundle.model,
            "segments": segments,
            "programs": programs,
            "goldens": goldens,
        }
        return encode("Bundle", root)

    # Where segments lie depends on the length of the metadata, which tells it: filled in afterwards.
    marks = [_UNKNOWN + number for number in range(len(constants.segments))]
    body, offsets = metadata(marks), []
    end = HEADER_BYTES + len(body) + hashlib.sha256().digest_size * -(-len(body) // PIECE)
    for mark, segment in zip(marks, constants.segments, strict=True):
        offsets.append(-(-end // PAGE) * PAGE)
        end = offsets[-1] + segment.length
        before, after = body.split(struct.pack("<Q", mark))
        body = before + struct.pack("<Q", offsets[-1]) + after
    start = struct.pack("<8sHHIQQQ24x", MAGIC, MAJOR, MINOR, 0, end, HEADER_BYTES, len(body))
    hashed = b"".join(hashlib.sha256(body[at : at + PIECE]).digest() for at in range(0, len(body), PIECE))
    header = start + hashlib.sha256(start + hashed).digest() + bytes(32)
    described = header + body + hashed

    def contents() -> Iterator[bytes | memoryview]:
        yield described
        position = len(described)
        for segment, offset in zip(constants.segments, offsets, strict=True):
            yield bytes(offset - position)
            yield from segment.blocks()
            position = offset + segment.length

    _publish(path, contents(), end, progress, durable)
    return end


def _publish(
    path: Path,
    contents: Iterator[bytes | memoryview],
    total: int,
    progress: Callable[[float], None],
    durable: bool,
) -> None:
    """Temporary file, fsync, rename, fsync of the folder: a reader sees the old file or the new one. Links stay."""
    path = path.resolve()
    descriptor, temporary = tempfile.mkstemp(prefix=".edgert-", suffix=".tmp", dir=path.parent)
    try:
        with os.fdopen(descriptor, "wb") as file:
            done = 0
            for block in contents:
                file.write(block)
                done += len(block)
                progress(done / total)
            file.flush()
            if durable:
                os.fsync(file.fileno())
        umask = os.umask(0)
        os.umask(umask)
        os.chmod(temporary, 0o666 & ~umask)
        os.replace(temporary, path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
    if durable:
        folder = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


def _program(program: Program, keys: list[bytes | None], constants: _Constants) -> dict[str, object]:
    return {
        "target": program.target,
        "arch": program.arch,
        "arena_bytes": program.arena_bytes,
        "arena_floor": program.arena_floor,
        "tensors": [_tensor(program, number, keys, constants) for number in range(len(program.tensors))],
        "steps": [_step(step) for step in program.steps],
        "inputs": np.array(program.inputs, np.uint32),
        "outputs": np.array(program.outputs, np.uint32),
        "cores": program.cores,
        "speeds": np.array(program.speeds, np.float32),
        "plan": constants.place_plan(program),
        "device": program.device,
        "device_bytes": program.device_bytes,
        "modules": [constants.place_module(program, module) for module in program.modules],
    }


def _tensor(program: Program, number: int, keys: list[bytes | None], constants: _Constants) -> dict[str, object]:
    """A tensor; of a view, the place is that of its root."""
    tensor = program.tensors[number]
    home = number if tensor.root < 0 else tensor.root
    owner, key = program.tensors[home], keys[home]
    index, offset = (owner.index, owner.offset) if key is None else constants.places[key]
    axis, count = tensor.extent or (-1, 0)
    return {
        "name": tensor.name,
        "dtype": tensor.type.dtype,
        "layout": tensor.layout,
        "shape": np.array(tensor.type.shape, np.int64),
        "place": owner.place if key is None else Place.SEGMENT,
        "index": index,
        "offset": offset,
        "extent_axis": axis,
        "extent_count": count,
        "root": tensor.root,
        "begin": np.array([begin for begin, _ in tensor.within], np.int64),
        "halo": np.array(tensor.halo, np.uint32),
    }


def _step(step: Step) -> dict[str, object]:
    attributes = [
        {
            "name": attribute.name,
            "ints": np.array(attribute.ints, np.int64),
            "floats": np.array(attribute.floats, np.float32),
            "text": attribute.text,
        }
        for attribute in sorted(step.attributes, key=lambda a: a.name)
    ]
    return {
        "kernel": step.kernel,
        "nodes": list(step.nodes),
        "inputs": np.array(step.inputs, np.int32),
        "outputs": np.array(step.outputs, np.int32),
        "attributes": attributes,
        "core": step.core,
        "phase": step.phase,
    }


def _golden(golden: Golden, constants: _Constants) -> dict[str, object]:
    def samples(arrays: dict[str, np.ndarray]) -> list[dict[str, object]]:
        found = []
        for name, array in arrays.items():
            segment, offset = constants.place_golden(array)
            found.append({"name": name, "segment": segment, "offset": offset, "length": array.nbytes})
        return found

    return {
        "inputs": samples(golden.inputs),
        "outputs": samples(golden.outputs),
        "atol": golden.atol,
        "rtol": golden.rtol,
    }
