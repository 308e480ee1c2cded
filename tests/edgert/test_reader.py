"""The pure-Python reader: what it gives for good bundles, and that every broken one is refused for the right reason."""

from __future__ import annotations

import dataclasses
import hashlib
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import flatbuffers
import numpy as np
import pytest

from edgert import errors
from edgert.layouts import BLOCK16, DEPTH16, PLANAR, WEIGHT16, stored_elements, unpack
from edgert.reader import MINOR, read
from tests.edgert.broken import DEVICE_RULES, RULES, SPLIT_RULES, G, at, together
from tests.edgert.edge_files import (
    HEADER,
    PAGE,
    assemble,
    changed,
    description,
    device_description,
    metadata_length,
    sign,
    split_description,
)


@pytest.fixture(scope="module")
def good() -> bytes:
    return assemble(description())


def test_reads_every_field(good: bytes) -> None:
    bundle = read(good)
    assert (bundle.producer, bundle.model) == ("a test", "net")
    assert [segment.name for segment in bundle.segments] == ["weights", "golden"]
    assert [segment.offset % PAGE for segment in bundle.segments] == [0, 0]
    program = bundle.programs[0]
    assert (program.target, program.arch, program.arena_bytes, program.arena_floor) == ("cpu", "x86_64", 1088, 1024)
    assert (program.inputs, program.outputs) == ((0,), (1, 5))
    x, _, w, t, _, z = program.tensors
    assert (x.name, x.dtype, x.layout, x.shape, x.place, x.bytes) == (
        "x",
        np.float32,
        "planar",
        (1, 3, 4, 4),
        "input",
        192,
    )
    assert (w.layout, w.place, w.bytes) == ("weight16", "segment", 3 * 16 * 4)
    assert (t.layout, t.place, t.offset, t.bytes) == ("block16", "arena", 64, 16 * 16 * 4)
    assert (z.extent_axis, z.extent_count, x.extent_axis) == (0, 4, -1)
    assert (x.root, x.begin, x.whole) == (-1, (), (1, 3, 4, 4))
    assert (program.cores, program.speeds, program.plan) == (1, (), -1)
    conv = program.steps[0]
    assert (conv.kernel, conv.nodes, conv.inputs, conv.outputs) == ("conv", ("conv1", "relu1"), (0, 2, -1), (3,))
    assert (conv.core, conv.phase) == (0, 0)
    assert [(a.name, a.ints, a.floats, a.text) for a in conv.attributes] == [
        ("activation", (), (), "relu"),
        ("group", (1,), (), ""),
    ]
    golden = bundle.goldens[0]
    assert golden.atol == pytest.approx(1e-6)
    assert golden.rtol == pytest.approx(1e-4)
    assert {name: array.shape for name, array in bundle.samples(golden.outputs).items()} == {
        "y": (1, 5, 4, 4),
        "z": (2, 3),
    }
    assert bundle.samples(golden.outputs)["z"].tolist() == [[0, 0, 1], [0, 0, 3]]


def test_reads_views_cores_and_phases() -> None:
    program = read(assemble(split_description())).programs[0]
    assert (program.cores, program.speeds) == (2, (1.0, 0.5))
    x, view = program.tensors[0], program.tensors[7]
    assert (view.root, view.begin, view.shape, view.whole) == (0, (0, 16, 0, 0), (1, 16, 3, 4), x.shape)
    assert (view.place, view.index, view.offset, view.bytes, view.root_bytes) == ("input", 0, 0, 768, 1536)
    assert [(step.core, step.phase) for step in program.steps[3:6]] == [(1, 0), (255, 1), (0, 2)]


def test_reads_devices() -> None:
    bundle = read(assemble(device_description()))
    (program,) = bundle.programs
    assert (program.device, program.device_bytes, len(program.modules)) == ("sm_62", 1312, 3)
    a, view, half = (program.tensors[i] for i in (3, 6, 7))
    assert (a.place, a.layout, a.halo, a.bytes) == ("device", "planes", (1, 1, 1, 1), 3 * 6 * 8 * 4)
    assert (view.root, view.begin, view.halo, view.bytes, view.root_bytes) == (4, (0, 4, 0, 0), (), 160, 480)
    assert (half.dtype, half.offset, half.bytes) == (np.float16, 1056, 240)
    both, ptx, cubin = program.modules
    text = ".version 5.0\n.target sm_62\n.address_size 64\n"
    code = bundle.segment(1).tobytes()
    assert [(bundle.cubin(m), bundle.ptx(m)) for m in (both, ptx, cubin)] == [(code, text), (b"", text), (code, "")]


@pytest.mark.parametrize(
    ("change", "holds"),
    [
        (at("programs.0.modules.1.ptx_bytes", 43), "43"),
        (at("programs.0.modules.1.ptx_bytes", 45), "45"),
        (at("programs.0.modules.1.ptx_stored", 48), "44"),
        (at("programs.0.modules.1.ptx_offset", 0), "44"),
        (lambda d: d["contents"].__setitem__(2, d["contents"][2][:-1] + b"\xff"), "44"),
        (
            together(
                at("programs.0.modules.1.ptx_stored", 50),
                lambda d: d["contents"].__setitem__(2, d["contents"][2] + bytes(1)),
            ),
            "44",
        ),
    ],
)
def test_ptx_must_be_a_text_of_its_length(change: Callable[[dict[str, Any]], None], holds: str) -> None:
    bundle = read(assemble(changed(change, device_description)))
    with pytest.raises(errors.MalformedError, match=f"a DEFLATE stream of {holds} bytes of ASCII"):
        bundle.ptx(bundle.programs[0].modules[1])


def test_constants_of_views() -> None:
    """The part of the root, whatever the layout; stored without the gaps."""
    rng = np.random.default_rng(2)
    cuts = [
        (PLANAR, (4, 5, 6), (1, 0, 2), (2, 5, 3)),
        (BLOCK16, (2, 40, 3, 2), (1, 16, 1, 0), (1, 24, 2, 2)),
        (BLOCK16, (40,), (32,), (8,)),
        (WEIGHT16, (2, 40, 40, 3), (1, 16, 16, 0), (1, 24, 16, 3)),
        (WEIGHT16, (1, 20, 40, 1, 2), (0, 0, 32, 0, 0), (1, 20, 8, 1, 2)),
        (DEPTH16, (40, 3, 3), (16, 0, 0), (24, 3, 3)),
        (PLANAR, (4, 5), (1, 2), (2, 0)),
    ]
    tensors, data = [], b""
    for layout, whole, begin, shape in cuts:
        root = {"name": "r", "dtype": 1, "layout": layout, "shape": whole, "place": 1, "offset": len(data)}
        tensors += [root, root | {"name": "v", "root": len(tensors), "begin": begin, "shape": shape}]
        stored = rng.standard_normal(stored_elements(whole, layout)).astype(np.float32).tobytes()
        data += stored + bytes(-len(stored) % 64)
    program = {"target": "cpu", "arch": "x86_64", "tensors": tensors}
    described = {"producer": "", "model": "", "programs": [program], "goldens": []}
    bundle = read(assemble(described | {"segments": [{"name": "weights"}], "contents": [data]}))
    found = bundle.programs[0].tensors
    for root, view in zip(found[::2], found[1::2], strict=True):
        box = tuple(slice(first, first + n) for first, n in zip(view.begin, view.shape, strict=True))
        assert np.array_equal(bundle.constant(view), bundle.constant(root)[box])
        assert bundle.stored(view).nbytes == view.bytes


def test_constants_are_views_and_unpack(good: bytes) -> None:
    bundle = read(good)
    w = bundle.programs[0].tensors[2]
    stored = bundle.stored(w)
    assert not stored.flags.writeable
    assert np.shares_memory(stored, np.frombuffer(good, np.uint8))
    logical = bundle.constant(w)
    assert logical.shape == (1, 5, 3, 1)
    assert np.array_equal(logical[0, :, :, 0], stored.reshape(3, 16)[:, :5].T)
    with pytest.raises(errors.InvalidArgumentError, match="expected a constant"):
        bundle.stored(bundle.programs[0].tensors[0])


def test_what_is_read_is_frozen(good: bytes) -> None:
    program = read(good).programs[0]
    for thing in (program, program.tensors[0], program.steps[0]):
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(thing, dataclasses.fields(thing)[0].name, "other")


def test_path_bytes_and_buffers_give_the_same(good: bytes, tmp_path: Path) -> None:
    path = tmp_path / "m.edge"
    path.write_bytes(good)
    for source in (path, str(path), good, bytearray(good), memoryview(good)):
        assert read(source).programs == read(good).programs


def test_bundle_without_anything_is_valid() -> None:
    bundle = read(
        assemble({"producer": "", "model": "", "programs": [], "goldens": [], "segments": [], "contents": []})
    )
    assert (bundle.programs, bundle.segments, bundle.goldens) == ((), (), ())


def test_digest_is_over_digests_of_chunks() -> None:
    data = np.random.default_rng(0).bytes((2 << 20) + 5)
    file = assemble(changed(lambda d: (d["segments"].append({"name": "big"}), d["contents"].append(data))))
    parts = (data[: 1 << 20], data[1 << 20 : 2 << 20], data[2 << 20 :])
    want = hashlib.sha256(b"".join(hashlib.sha256(part).digest() for part in parts)).digest()
    assert read(file).segments[2].sha256 == want


def test_every_flipped_bit_is_detected(good: bytes) -> None:
    rng = np.random.default_rng(1)
    end = HEADER + metadata_length(good)
    places = [
        *range(HEADER),
        *range(HEADER, end, 7),
        *range(end, PAGE, 211),
        *range(PAGE, len(good), 29),
        len(good) - 1,
    ]
    for place in places:
        broken = bytearray(good)
        broken[place] ^= 1 << int(rng.integers(8))
        with pytest.raises(errors.EdgertError):
            read(bytes(broken))


def test_truncated_and_extended_files_are_refused(good: bytes) -> None:
    for length in [1, 7, 8, 9, 64, 127, 128, 129, HEADER + metadata_length(good), PAGE, len(good) - 1]:
        with pytest.raises(errors.TruncatedError):
            read(good[:length])
    with pytest.raises(errors.TruncatedError):
        read(good + b"\0")
    with pytest.raises(errors.NotABundleError):
        read(b"")


def test_metadata_integrity_leaves_segments_alone(good: bytes) -> None:
    broken = bytearray(good)
    broken[-1] ^= 1
    assert read(bytes(broken), integrity="metadata").model == "net"
    with pytest.raises(errors.CorruptError, match="golden"):
        read(bytes(broken))
    with pytest.raises(errors.InvalidArgumentError, match="full or metadata"):
        read(good, integrity="none")


def test_gap_between_segments_must_be_zero(good: bytes) -> None:
    broken = bytearray(good)
    broken[PAGE - 1] = 1
    with pytest.raises(errors.CorruptError, match="zeros before segment 0"):
        read(bytes(broken))


def test_missing_file_and_folder(tmp_path: Path) -> None:
    with pytest.raises(errors.IoError, match="No such file"):
        read(tmp_path / "absent.edge")
    with pytest.raises(errors.IoError, match="directory"):
        read(tmp_path)


def header(offset: int, code: str, value: Any) -> Callable[[bytes], bytes]:
    def change(file: bytes) -> bytes:
        broken = bytearray(file)
        struct.pack_into(code, broken, offset, value)
        return sign(broken) if metadata_length(broken) <= len(file) else bytes(broken)

    return change


def put_length(file: bytes, length: int) -> bytes:
    """The file with another length of the metadata, not signed."""
    broken = bytearray(file)
    struct.pack_into("<Q", broken, 32, length)
    return bytes(broken)


@pytest.mark.parametrize(
    ("change", "error", "text"),
    [
        (header(0, "<B", 0x88), errors.NotABundleError, "expected the file to start"),
        (header(8, "<H", 2), errors.VersionError, f"expected format 1.0 to 1.{MINOR} without flags, got 2.{MINOR}"),
        (header(10, "<H", MINOR + 1), errors.VersionError, f"got 1.{MINOR + 1}"),
        (header(12, "<I", 1), errors.VersionError, "with flags 1"),
        (header(16, "<Q", 1 << 40), errors.TruncatedError, "expected 1099511627776 bytes"),
        (header(24, "<Q", 136), errors.MalformedError, "at 128, got"),
        (header(32, "<Q", 1 << 62), errors.MalformedError, "metadata within the file"),
        (lambda file: put_length(file, len(file) - HEADER), errors.MalformedError, "behind the metadata, got 0"),
        (header(32, "<Q", 4), errors.MalformedError, "within the metadata of 4"),
        (header(32, "<Q", 0), errors.MalformedError, "within the metadata of 0"),
        (header(63, "<B", 1), errors.MalformedError, "zeros"),
        (header(127, "<B", 1), errors.MalformedError, "zeros"),
        (header(64, "<B", 0), errors.CorruptError, "SHA-256"),
    ],
)
def test_header_rules(good: bytes, change: Callable[[bytes], bytes], error: type[Exception], text: str) -> None:
    broken = change(good) if error is not errors.CorruptError else good[:64] + bytes(32) + good[96:]
    with pytest.raises(error, match=text):
        read(broken)


@pytest.mark.parametrize(("path", "value", "text"), RULES, ids=[f"{path}-{n}" for n, (path, _, _) in enumerate(RULES)])
def test_rules_of_the_metadata(path: str, value: Any, text: str) -> None:
    with pytest.raises(errors.MalformedError, match=text):
        read(assemble(changed(at(path, value))))


@pytest.mark.parametrize(("change", "text"), [row[1:] for row in SPLIT_RULES], ids=[row[0] for row in SPLIT_RULES])
def test_rules_of_views_cores_and_phases(change: Callable[[dict[str, Any]], None], text: str) -> None:
    with pytest.raises(errors.MalformedError, match=text):
        read(assemble(changed(change, split_description)))


@pytest.mark.parametrize(("change", "text"), [row[1:] for row in DEVICE_RULES], ids=[row[0] for row in DEVICE_RULES])
def test_rules_of_devices(change: Callable[[dict[str, Any]], None], text: str) -> None:
    with pytest.raises(errors.MalformedError, match=text):
        read(assemble(changed(change, device_description)))


def test_file_must_end_with_its_last_segment() -> None:
    with pytest.raises(errors.MalformedError, match="the end of the last segment"):
        read(assemble(changed(lambda d: d["segments"][1].update(length=512))))


@pytest.mark.parametrize(
    ("path", "value", "text"),
    [
        (G + "inputs.0.name", "nope", "the name of an input or output"),
        (G + "inputs.0.length", 188, "expected 192 bytes, got 188"),
        (G + "outputs.1.length", 20, "a multiple of 24"),
        (G + "outputs.1.length", 24 * 7, "a multiple of 24 up to 144"),
    ],
)
def test_samples_must_fit_the_program(path: str, value: Any, text: str) -> None:
    described = changed(at(path, value))
    described["contents"][1] += bytes(4096)
    bundle = read(assemble(described))
    (golden,) = bundle.goldens
    with pytest.raises(errors.MalformedError, match=text):
        bundle.samples(golden.inputs + golden.outputs)


def test_errors_have_at_most_four_lines_and_a_hint(good: bytes) -> None:
    with pytest.raises(errors.EdgertError) as caught:
        read(good[:1000])
    lines = str(caught.value).splitlines()
    assert 2 <= len(lines) <= 4
    assert "copy the file again" in lines[-1]


def test_mutated_metadata_never_raises_anything_else(good: bytes) -> None:
    """Whatever the metadata holds, once its digest fits: a bundle or an EdgertError."""
    rng = np.random.default_rng(7)
    length, refused = metadata_length(good), 0
    for _ in range(1500):
        broken = bytearray(good)
        for _ in range(int(rng.integers(1, 4))):
            place = HEADER + int(rng.integers(length))
            broken[place] = int(rng.choice([0, 1, 0x7F, 0x80, 0xFF, int(rng.integers(256))]))
        try:
            read(sign(broken))
        except errors.EdgertError:
            refused += 1
    assert refused > 500


def test_shared_tables_are_bounded() -> None:
    """Many programs that are one and the same table, with as many tensors likewise: visiting all takes for ever."""
    builder, many = flatbuffers.Builder(1 << 16), 3000

    def vector(table: int) -> int:
        builder.StartVector(4, many, 4)
        for _ in range(many):
            builder.PrependUOffsetTRelative(table)
        return int(builder.EndVector())

    builder.StartObject(9)
    tensors = vector(builder.EndObject())
    builder.StartObject(8)
    builder.PrependUOffsetTRelativeSlot(4, tensors, 0)
    programs = vector(builder.EndObject())
    builder.StartObject(5)
    builder.PrependUOffsetTRelativeSlot(3, programs, 0)
    builder.Finish(builder.EndObject())
    metadata = bytes(builder.Output())
    file = (
        struct.pack("<8sHHIQQQ88x", b"\x89EDGERT\n", 1, 0, 0, HEADER + len(metadata), HEADER, len(metadata)) + metadata
    )
    with pytest.raises(errors.MalformedError, match="one table for every 8 bytes"):
        read(sign(file))


@pytest.mark.parametrize("kernel", [(), (3,), (2, 3), (1, 2, 3)])
@pytest.mark.parametrize("channels", [1, 5, 16, 17, 40])
def test_unpack_inverts_the_formulas_of_the_format(channels: int, kernel: tuple[int, ...]) -> None:
    """Every element at the position that docs/format.md gives for it."""
    taps = int(np.prod(kernel))
    groups, outputs = 2, 21
    shape = (groups, outputs, channels, *kernel)
    stored = np.arange(stored_elements(shape, WEIGHT16))
    got = unpack(stored, shape, WEIGHT16).reshape(groups, outputs, channels, taps)
    for g, k, c, t in np.ndindex(*got.shape):
        width = min(16, channels - 16 * (c // 16))
        base = (g * 2 + k // 16) * 16 * channels * taps
        assert got[g, k, c, t] == base + 256 * taps * (c // 16) + (t * width + c % 16) * 16 + k % 16

    got = unpack(np.arange(stored_elements((channels, *kernel), DEPTH16)), (channels, *kernel), DEPTH16)
    for c, t in np.ndindex(channels, taps):
        assert got.reshape(channels, taps)[c, t] == (c // 16 * taps + t) * 16 + c % 16

    shape = (2, channels, *kernel)
    got = unpack(np.arange(stored_elements(shape, BLOCK16)), shape, BLOCK16).reshape(2, channels, taps)
    for n, c, s in np.ndindex(2, channels, taps):
        assert got[n, c, s] == ((n * -(-channels // 16) + c // 16) * taps + s) * 16 + c % 16

    assert unpack(np.arange(channels * taps), (channels, *kernel), PLANAR).shape == (channels, *kernel)
    assert np.array_equal(
        unpack(np.arange(stored_elements((channels,), BLOCK16)), (channels,), BLOCK16), np.arange(channels)
    )
