"""Reads bundles in pure Python: the second implementation of docs/format.md, and the oracle of the C reader.

    bundle = edgert.read("model.edge")
    for tensor in bundle.programs[0].tensors:
        print(tensor.name, tensor.dtype, tensor.shape)

Accepts exactly what the C reader accepts, and raises the same errors.
"""

from __future__ import annotations

import hashlib
import math
import mmap
import os
import struct
import zlib
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from edgert import _verify
from edgert._flatbuffer import decode
from edgert._source import bytes_of
from edgert.dtypes import DTYPES, Array
from edgert.errors import (
    CorruptError,
    InvalidArgumentError,
    IoError,
    MalformedError,
    NotABundleError,
    TruncatedError,
    VersionError,
    naming,
)
from edgert.layouts import LAYOUT_NAMES, cut, stored_elements, unpack

__all__ = ["Attribute", "Bundle", "Golden", "GoldenTensor", "Module", "Program", "Segment", "Step", "Tensor", "read"]

MAGIC = b"\x89EDGERT\n"
MAJOR, MINOR = 1, 10
MINOR_OF_PIECES = 10  # from which on pieces of the metadata have digests of their own
HEADER_BYTES = 128
CHUNK = 1 << 20
PIECE = 4096
PLACES = ("arena", "segment", "input", "output", "device")


@dataclass(frozen=True, slots=True)
class Segment:
    """A run of bytes of the file, `offset` a multiple of 4096. `sha256` is over the digests of its 1 MiB chunks."""

    name: str
    offset: int
    length: int
    sha256: bytes


@dataclass(frozen=True, slots=True)
class Tensor:
    """A tensor of a program; `shape` is logical whatever the layout, `bytes` what it occupies stored.

    `place` is "arena", "segment", "input", "output" or "device"; `index` and `offset` say where in it. Where
    `extent_axis` is not -1, only the first n entries of that axis have meaning, n being the value of the tensor
    `extent_count`. Where `root` is not -1, this is a view: the box of that tensor, of shape `whole`, that starts at
    `begin`, with its `index` and `offset`. `halo` of layout planes: the zeros above, left, below and right of each
    plane, or ().
    """

    name: str
    dtype: np.dtype[Any]
    layout: str
    shape: tuple[int, ...]
    place: str
    index: int
    offset: int
    bytes: int
    extent_axis: int
    extent_count: int
    root: int
    begin: tuple[int, ...]
    whole: tuple[int, ...]
    halo: tuple[int, ...]

    @property
    def root_bytes(self) -> int:
        """What the root occupies, or the tensor itself if it is no view."""
        return stored_elements(self.whole, LAYOUT_NAMES.index(self.layout), self.halo) * self.dtype.itemsize


@dataclass(frozen=True, slots=True)
class Attribute:
    """A named parameter of a step: integers, floats or text."""

    name: str
    ints: tuple[int, ...]
    floats: tuple[float, ...]
    text: str


@dataclass(frozen=True, slots=True)
class Step:
    """One kernel call over tensor ids (-1: absent), and the names of the ONNX nodes that it stands for.

    `core` runs it (255: every one a share), after all steps of lower phases.
    """

    kernel: str
    nodes: tuple[str, ...]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    attributes: tuple[Attribute, ...]
    core: int
    phase: int


@dataclass(frozen=True, slots=True)
class Module:
    """Code for a device: machine code and PTX, each in a segment, or absent (-1).

    The PTX is a raw DEFLATE stream of `ptx_stored` bytes, whose text has `ptx_bytes`.
    """

    cubin_segment: int
    cubin_offset: int
    cubin_bytes: int
    ptx_segment: int
    ptx_offset: int
    ptx_stored: int
    ptx_bytes: int


@dataclass(frozen=True, slots=True)
class Program:
    """The network compiled for one target and number of cores. `arena_floor` is the lower bound of `arena_bytes`.

    `speeds` of the cores are relative to the fastest; none: all alike. `plan` is the segment that tells what the
    planner decided (edgert.decisions reads it), or -1. With a `device`, tensors of that place lie in `device_bytes` of
    its memory, and steps name `modules` by position.
    """

    target: str
    arch: str
    arena_bytes: int
    arena_floor: int
    tensors: tuple[Tensor, ...]
    steps: tuple[Step, ...]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    cores: int
    speeds: tuple[float, ...]
    plan: int
    device: str
    device_bytes: int
    modules: tuple[Module, ...]


@dataclass(frozen=True, slots=True)
class GoldenTensor:
    """A stored sample: `length` bytes at `offset` of a segment."""

    name: str
    segment: int
    offset: int
    length: int


@dataclass(frozen=True, slots=True)
class Golden:
    """Sample inputs and the outputs they give: pass if |got - want| <= atol + rtol max|want|."""

    inputs: tuple[GoldenTensor, ...]
    outputs: tuple[GoldenTensor, ...]
    atol: float
    rtol: float


@dataclass(frozen=True, slots=True, eq=False)
class Bundle:
    """A verified bundle over the bytes `data`."""

    producer: str
    model: str
    segments: tuple[Segment, ...]
    programs: tuple[Program, ...]
    goldens: tuple[Golden, ...]
    data: memoryview

    def segment(self, index: int) -> Array:
        """The bytes of a segment, read-only, without copying."""
        found = self.segments[index]
        return np.frombuffer(self.data, np.uint8, found.length, found.offset)

    def stored(self, tensor: Tensor) -> Array:
        """The elements of a constant as they lie in its segment, flat and read-only, without copying but for views."""
        if tensor.place != "segment":
            raise InvalidArgumentError(f"tensor '{tensor.name}': expected a constant, got one of the {tensor.place}")
        root = self.segment(tensor.index)[tensor.offset : tensor.offset + tensor.root_bytes].view(tensor.dtype)
        if tensor.root < 0:
            return root
        return cut(root, tensor.whole, tensor.begin, tensor.shape, LAYOUT_NAMES.index(tensor.layout))

    def constant(self, tensor: Tensor) -> Array:
        """The logical row-major value of a constant."""
        return unpack(self.stored(tensor), tensor.shape, LAYOUT_NAMES.index(tensor.layout))

    def cubin(self, module: Module) -> bytes:
        """The machine code of a module; empty if it has none."""
        return self._code(module.cubin_segment, module.cubin_offset, module.cubin_bytes)

    def ptx(self, module: Module) -> str:
        """The PTX of a module; empty if it has none. Raises MalformedError if its stream is not that of a text."""
        stream = self._code(module.ptx_segment, module.ptx_offset, module.ptx_stored)
        if not stream:
            return ""
        unpacker = zlib.decompressobj(-zlib.MAX_WBITS)
        try:
            text = unpacker.decompress(stream, module.ptx_bytes + 1)
            if unpacker.eof and not unpacker.unused_data and len(text) == module.ptx_bytes:
                return text.decode("ascii")
        except (zlib.error, UnicodeDecodeError):
            pass
        raise MalformedError.of(f"PTX of a module: expected a DEFLATE stream of {module.ptx_bytes} bytes of ASCII")

    def _code(self, segment: int, offset: int, length: int) -> bytes:
        return b"" if segment < 0 else self.segment(segment)[offset : offset + length].tobytes()

    def samples(self, tensors: tuple[GoldenTensor, ...]) -> dict[str, Array]:
        """The stored arrays of a golden's inputs or outputs by name, shaped like the first program's.

        Raises MalformedError for samples that are not those of its inputs and outputs.
        """
        if not self.programs:
            raise MalformedError.of("the golden samples belong to no program")
        program = self.programs[0]
        types = {program.tensors[i].name: program.tensors[i] for i in program.inputs + program.outputs}
        found: dict[str, Array] = {}
        for golden in tensors:
            tensor, where = types.get(golden.name), f"golden sample '{golden.name}'"
            if tensor is None:
                raise MalformedError.of(f"{where}: expected the name of an input or output, got another")
            shape, rest = list(tensor.shape), tensor.dtype.itemsize
            if tensor.extent_axis >= 0:
                rest *= math.prod(n for axis, n in enumerate(shape) if axis != tensor.extent_axis)
                shape[tensor.extent_axis] = min(golden.length // rest, shape[tensor.extent_axis]) if rest else 0
            if golden.length != math.prod(shape) * tensor.dtype.itemsize:
                expected = (
                    f"a multiple of {rest} up to {tensor.bytes}" if tensor.extent_axis >= 0 else str(tensor.bytes)
                )
                raise MalformedError.of(f"{where}: expected {expected} bytes, got {golden.length}")
            raw = self.segment(golden.segment)[golden.offset : golden.offset + golden.length]
            found[golden.name] = raw.view(tensor.dtype).reshape(shape)
        return found


def read(source: str | os.PathLike[str] | bytes | bytearray | memoryview, integrity: str = "full") -> Bundle:
    """Opens the bundle at a path or in memory and verifies it: structure and ranges always, and with `integrity` "full"
    the checksum of every segment too ("metadata": of the metadata only).

    Raises IoError, NotABundleError, VersionError, TruncatedError, CorruptError or MalformedError, all EdgertErrors.
    """
    if integrity not in ("full", "metadata"):
        raise InvalidArgumentError(f"integrity: expected full or metadata, got {integrity!r}")
    if isinstance(source, str | os.PathLike):
        with naming(source):
            return _read(_map(source), integrity)
    return _read(bytes_of(source).toreadonly(), integrity)


def _read(data: memoryview, integrity: str) -> Bundle:
    length, end = _proven_metadata(data)
    raw = decode(data[HEADER_BYTES : HEADER_BYTES + length], "Bundle", HEADER_BYTES)
    bundle = Bundle(
        raw["producer"],
        raw["model"],
        tuple(Segment(s["name"], s["offset"], s["length"], s["sha256"].tobytes()) for s in raw["segments"]),
        tuple(_program(p, f"programs[{k}]") for k, p in enumerate(raw["programs"])),
        tuple(_golden(g) for g in raw["goldens"]),
        data,
    )
    _verify.bundle(bundle, end)
    if integrity == "full":
        _verify_contents(bundle, end)
    return bundle


def _map(path: str | os.PathLike[str]) -> memoryview:
    try:
        with open(path, "rb") as file:
            if os.fstat(file.fileno()).st_size == 0:
                return memoryview(b"")
            return memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
    except OSError as error:
        raise IoError.of(f"{os.fspath(path)}: {error.strerror}") from None


def _proven_metadata(data: memoryview) -> tuple[int, int]:
    """The length of the metadata, and where its digests end, once the header and all digests are proven."""
    if bytes(data[:8]) != MAGIC[: len(data)] or not data:
        raise NotABundleError.of(f"expected the file to start with {MAGIC!r}, got {bytes(data[:8])!r}")
    if len(data) < HEADER_BYTES:
        raise TruncatedError.of(f"expected at least {HEADER_BYTES} bytes, got {len(data)}")
    major, minor, flags, file_length, offset, length = struct.unpack_from("<HHIQQQ", data, 8)
    if major != MAJOR or minor > MINOR or flags:
        readable = f"format {MAJOR}.0 to {MAJOR}.{MINOR}"
        raise VersionError.of(f"expected {readable} without flags, got {major}.{minor} with flags {flags}")
    if file_length != len(data):
        raise TruncatedError.of(f"expected {file_length} bytes, got {len(data)}")
    if offset != HEADER_BYTES or length > len(data) - HEADER_BYTES:
        got = f"{length} bytes at {offset}"
        raise MalformedError.of(f"header: expected metadata within the file of {len(data)} bytes at 128, got {got}")
    if any(data[40:64]) or any(data[96:HEADER_BYTES]):
        raise MalformedError.of("header: expected zeros in the bytes 40 to 63 and 96 to 127")
    end = HEADER_BYTES + length
    pieces = range(HEADER_BYTES, end, PIECE) if minor >= MINOR_OF_PIECES else ()
    hashed = data[end : end + 32 * len(pieces)] if pieces else data[HEADER_BYTES:end]
    if len(hashed) < 32 * len(pieces):
        raise MalformedError.of(f"header: expected {32 * len(pieces)} bytes behind the metadata, got {len(hashed)}")
    digest = hashlib.sha256(data[:64])
    digest.update(hashed)
    if digest.digest() != data[64:96]:
        raise CorruptError.of("the SHA-256 of the header and the metadata's digests differs from the header's")
    for number, at in enumerate(pieces):
        if hashlib.sha256(data[at : min(at + PIECE, end)]).digest() != hashed[32 * number : 32 * number + 32]:
            raise CorruptError.of(f"metadata, from byte {at}: its SHA-256 differs from the one behind the metadata")
    return int(length), int(end + 32 * len(pieces))


def _verify_contents(bundle: Bundle, end: int) -> None:
    """Checksums of all segments, and zeros between them."""
    for index, segment in enumerate(bundle.segments):
        if any(bundle.data[end : segment.offset]):
            raise CorruptError.of(f"expected zeros before segment {index} '{segment.name}'")
        end = segment.offset + segment.length
        whole = hashlib.sha256()
        for start in range(segment.offset, end, CHUNK):
            whole.update(hashlib.sha256(bundle.data[start : min(start + CHUNK, end)]).digest())
        if whole.digest() != segment.sha256:
            raise CorruptError.of(f"segment {index} '{segment.name}': its SHA-256 differs from the metadata's")


def _program(raw: dict[str, Any], where: str) -> Program:
    tensors = tuple(_tensor(t, f"{where}.tensors[{k}]") for k, t in enumerate(raw["tensors"]))
    return Program(
        raw["target"],
        raw["arch"],
        raw["arena_bytes"],
        raw["arena_floor"],
        tuple(_with_root(t, tensors, f"{where}.tensors[{k}]") for k, t in enumerate(tensors)),
        tuple(_step(s) for s in raw["steps"]),
        tuple(raw["inputs"].tolist()),
        tuple(raw["outputs"].tolist()),
        raw["cores"],
        tuple(raw["speeds"].tolist()),
        raw["plan"],
        raw["device"],
        raw["device_bytes"],
        tuple(Module(**module) for module in raw["modules"]),
    )


def _tensor(raw: dict[str, Any], where: str) -> Tensor:
    shape, halo = tuple(raw["shape"].tolist()), tuple(raw["halo"].tolist())
    _verify.tensor_type(raw["dtype"], raw["layout"], raw["place"], shape, halo, where)
    dtype = DTYPES[raw["dtype"]]
    return Tensor(
        raw["name"],
        dtype,
        LAYOUT_NAMES[raw["layout"]],
        shape,
        PLACES[raw["place"]],
        raw["index"],
        raw["offset"],
        stored_elements(shape, raw["layout"], halo) * dtype.itemsize,
        raw["extent_axis"],
        raw["extent_count"],
        raw["root"],
        tuple(raw["begin"].tolist()),
        shape,
        halo,
    )


def _with_root(tensor: Tensor, tensors: tuple[Tensor, ...], where: str) -> Tensor:
    """The tensor, with its root's shape if it is a view."""
    _verify.view(tensor, tensors, where)
    return tensor if tensor.root < 0 else replace(tensor, whole=tensors[tensor.root].shape)


def _step(raw: dict[str, Any]) -> Step:
    attributes = tuple(
        Attribute(a["name"], tuple(a["ints"].tolist()), tuple(a["floats"].tolist()), a["text"])
        for a in raw["attributes"]
    )
    return Step(
        raw["kernel"],
        tuple(raw["nodes"]),
        tuple(raw["inputs"].tolist()),
        tuple(raw["outputs"].tolist()),
        attributes,
        raw["core"],
        raw["phase"],
    )


def _golden(raw: dict[str, Any]) -> Golden:
    inputs, outputs = (tuple(GoldenTensor(**tensor) for tensor in raw[side]) for side in ("inputs", "outputs"))
    return Golden(inputs, outputs, float(raw["atol"]), float(raw["rtol"]))
