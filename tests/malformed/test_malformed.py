"""A corpus with a file for every rule of the format: each is refused by both readers, for its reason."""

from __future__ import annotations

import copy
import hashlib
import re
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from edgert import load
from edgert._open import OpenBundle
from edgert.dtypes import DTYPES
from edgert.errors import EdgertError
from edgert.reader import MINOR, read
from packer.api import pack
from tests.edgert.broken import DEVICE_RULES, RULES, SPLIT_RULES, at
from tests.edgert.edge_files import (
    HEADER,
    PAGE,
    assemble,
    changed,
    description,
    device_description,
    metadata_end,
    metadata_length,
    sign,
    split_description,
)
from tests.fuzz.seeds import TARGET, networks
from tests.malformed import flat
from tests.malformed.described import describe
from tests.malformed.steps import ATTRIBUTES, OPERANDS, overlapping, without_attribute

GOOD = assemble(description())
ALIGN = 64


def refusal(reader: Any, file: bytes) -> EdgertError:
    with pytest.raises(EdgertError) as caught:
        reader(file, "full")
    return caught.value


def expect(file: bytes, status: str, message: str) -> None:
    """Both readers refuse with this status; the C one says what the expression matches, in at most four lines."""
    error = refusal(OpenBundle, file)
    assert (error.id, refusal(read, file).id) == (status, status), error
    assert re.search(message, str(error)), error
    assert str(error).count("\n") <= 3


# ---- the header, the segments' contents ----


def put(place: int, code: str, value: int, signed: bool = True) -> bytes:
    file = bytearray(GOOD)
    struct.pack_into("<" + code, file, place, value)
    return sign(file) if signed else bytes(file)


def flip(place: int) -> bytes:
    file = bytearray(GOOD)
    file[place] ^= 1
    return bytes(file)


END = HEADER + metadata_length(GOOD)
BEHIND = metadata_end(metadata_length(GOOD))
FILES: tuple[tuple[str, bytes, str, str], ...] = (
    ("empty file", b"", "not-a-bundle", "an empty file"),
    ("another magic", b"PK" + GOOD[2:], "not-a-bundle", "signature"),
    ("magic of a text transfer", GOOD.replace(b"EDGERT\n", b"EDGERT\r", 1), "not-a-bundle", "signature"),
    ("part of the magic", GOOD[:5], "truncated", "128 bytes"),
    ("part of the header", GOOD[:127], "truncated", "128 bytes"),
    ("major version 0", put(8, "H", 0), "version", "version 1.0"),
    ("major version 2", put(8, "H", 2), "version", f"got 2.{MINOR}"),
    ("the next minor version", put(10, "H", MINOR + 1), "version", f"got 1.{MINOR + 1}"),
    ("flags", put(12, "I", 1 << 31), "version", "flags 2147483648"),
    ("last byte missing", GOOD[:-1], "truncated", "length of the file"),
    ("one byte more", GOOD + bytes(1), "truncated", "length of the file"),
    ("largest file length", put(16, "Q", (1 << 64) - 1), "truncated", "length of the file"),
    ("metadata elsewhere", put(24, "Q", 136, signed=False), "malformed", "offset 136"),
    ("metadata longer than the file", put(32, "Q", len(GOOD), signed=False), "malformed", "length within the file"),
    ("largest metadata", put(32, "Q", (1 << 64) - 1, signed=False), "malformed", "length within the file"),
    ("no room for digests", put(32, "Q", len(GOOD) - HEADER, signed=False), "malformed", "digests of the metadata"),
    ("no metadata", put(32, "Q", 0), "malformed", "Bundle"),
    ("metadata of three bytes", put(32, "Q", 3), "malformed", "Bundle"),
    ("reserved byte 40", put(40, "B", 1), "malformed", "byte 40 of the file"),
    ("reserved byte 63", put(63, "B", 255), "malformed", "byte 63 of the file"),
    ("reserved byte 96", put(96, "B", 1), "malformed", "byte 96 of the file"),
    ("reserved byte 127", put(127, "B", 1), "malformed", "byte 127 of the file"),
    ("header digest", flip(64), "corrupt", "header and digests of the metadata"),
    ("metadata", flip(HEADER), "corrupt", "metadata, from byte 128 of the file"),
    ("metadata's last byte", flip(END - 1), "corrupt", "metadata, from byte 128 of the file"),
    ("digest of metadata", flip(END), "corrupt", "header and digests of the metadata"),
    ("last byte of the digests", flip(BEHIND - 1), "corrupt", "header and digests of the metadata"),
    ("byte behind the digests", flip(BEHIND), "corrupt", "before segment 0"),
    ("byte before a segment", flip(PAGE - 1), "corrupt", "before segment 0"),
    ("byte between segments", flip(2 * PAGE - 1), "corrupt", "before segment 1"),
    ("first byte of a segment", flip(PAGE), "corrupt", "segment 0 'weights'"),
    ("last byte of a segment", flip(len(GOOD) - 1), "corrupt", "segment 1 'golden'"),
    ("metadata up to a segment", put(32, "Q", PAGE - HEADER + 1), "malformed", "segment 0 'weights'"),
)


@pytest.mark.parametrize(("file", "status", "message"), [row[1:] for row in FILES], ids=[row[0] for row in FILES])
def test_files(file: bytes, status: str, message: str) -> None:
    expect(file, status, message)


# ---- the metadata as a flatbuffer, and what it says ----


@pytest.mark.parametrize(("change", "message"), [row[1:] for row in flat.RULES], ids=[row[0] for row in flat.RULES])
def test_flatbuffer(change: Any, message: str) -> None:
    expect(flat.break_metadata(GOOD, change), "malformed", message)


# What the C reader says of the rules of broken.py, where the first words of the path do not say it.
SEGMENT, TENSOR, STEP = r"segment \d", r"tensor \d|program 'cpu', (in|out)put", r"program 'cpu', (step|tensor) \d"
WORDS = {"segments": SEGMENT, "tensors": TENSOR, "steps": STEP, "goldens": "golden sample 0"}


@pytest.mark.parametrize(("path", "value"), [row[:2] for row in RULES], ids=[f"{p}={v}"[:60] for p, v, _ in RULES])
def test_metadata(path: str, value: Any) -> None:
    words = [WORDS[word] for word in path.split(".") if word in WORDS] or ["program|'cpu'"]
    expect(assemble(changed(at(path, value))), "malformed", words[-1])


@pytest.mark.parametrize("change", [row[1] for row in SPLIT_RULES], ids=[row[0] for row in SPLIT_RULES])
def test_views_cores_and_phases(change: Any) -> None:
    part = r"program 'cpu'(, (step|tensor|input|output) \d|\n)"
    expect(assemble(changed(change, split_description)), "malformed", part)


@pytest.mark.parametrize("change", [row[1] for row in DEVICE_RULES], ids=[row[0] for row in DEVICE_RULES])
def test_devices(change: Any) -> None:
    part = r"program 'jetson'(, (step|tensor|module|input|output) \d|, for no device)"
    expect(assemble(changed(change, device_description)), "malformed", part)


# ---- steps: every kernel ----


EMPTY: dict[str, Any] = {"programs": [{"steps": []}]}


@pytest.fixture(scope="module")
def kernels(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    """For each kernel, a bundle whose first step uses it."""
    found: dict[str, dict[str, Any]] = {}
    path = tmp_path_factory.mktemp("kernels") / "model.edge"
    for network, options in networks():
        pack(network, path, targets=(TARGET,), golden=False, cores=(1,), **options)
        bundle = describe(path.read_bytes())
        steps = bundle["programs"][0]["steps"]
        if steps and not in_buffers(found.get(steps[0]["kernel"], EMPTY)):
            found[steps[0]["kernel"]] = bundle
    return found


def refused_step(described: dict[str, Any], message: str) -> None:
    """Both readers open the bundle, but no session runs it."""
    file = assemble(described)
    read(file)
    with pytest.raises(EdgertError) as caught:
        load(file, threads=1)
    assert caught.value.id == "bad-step", caught.value
    assert re.search(message, str(caught.value)), caught.value


def steps_of(described: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """A copy, and its first step."""
    found = copy.deepcopy(described)
    return found, found["programs"][0]["steps"][0]


def attribute_rules() -> Iterator[tuple[str, str, int | str]]:
    for kernel, attributes in ATTRIBUTES.items():
        for name, values in attributes.items():
            for value in values:
                yield kernel, name, value


@pytest.mark.parametrize(("kernel", "name", "value"), [*attribute_rules()])
def test_attribute(kernels: dict[str, dict[str, Any]], kernel: str, name: str, value: int | str) -> None:
    found, step = steps_of(kernels[kernel])
    attribute = next(a for a in step["attributes"] if a["name"] == name)
    if isinstance(value, str):
        attribute["text"] = value
    else:
        attribute["ints"] = np.array([value, *attribute["ints"][1:]])
    refused_step(found, f"{kernel}, node '.*': attribute '{name}'")


REQUIRED = (
    ("conv", "pads"),
    ("copy", "strides"),
    ("pool", "kernel"),
    ("resize", "scales"),
    ("max_unpool", "shape"),
    ("recurrent", "alphas"),
    ("pad", "pads"),
    ("top_k", "k"),
    ("binary", "kind"),
)


@pytest.mark.parametrize(("kernel", "name"), REQUIRED)
def test_attribute_is_required(kernels: dict[str, dict[str, Any]], kernel: str, name: str) -> None:
    refused_step(without_attribute(kernels[kernel], name), f"attribute '{name}'")


@pytest.mark.parametrize(("change", "message"), [row[1:] for row in OPERANDS], ids=[row[0] for row in OPERANDS])
def test_operands(kernels: dict[str, dict[str, Any]], change: Any, message: str) -> None:
    assert len(kernels) > 40
    for kernel, described in kernels.items():
        found, step = steps_of(described)
        change(step)
        may_lack = kernel == "concat" and "input" in message  # pieces of it may have nothing of an input
        refused_step(found, "size along the axis" if may_lack else message)


@pytest.mark.parametrize("kernel", ["conv", "conv_direct", "conv_transpose", "conv_im2col_nhwc"])
def test_convolutions_ask_for_memory_in_proportion(kernels: dict[str, dict[str, Any]], kernel: str) -> None:
    """Taps a million rows apart, with as much padding: outputs of the same size, from gigabytes of zeros."""
    found, step = steps_of(kernels[kernel])
    far = 1 << 20
    attributes = {a["name"]: a for a in step["attributes"]}
    near, *others = attributes["dilations"]["ints"]
    attributes["dilations"]["ints"] = np.array([far, *others])
    pads = attributes["pads"]["ints"].tolist()
    pads[0] += far - near
    pads[len(pads) // 2] += far - near
    attributes["pads"]["ints"] = np.array(pads)
    refused_step(found, "ones in proportion to the input")


def test_output_types(kernels: dict[str, dict[str, Any]]) -> None:
    """An element type that none of the operators here gives."""
    for described in kernels.values():
        found, step = steps_of(described)
        tensors = found["programs"][0]["tensors"]
        for tensor in tensors:  # other views of the same output too
            if tensor["place"] == 3 and tensor["index"] == tensors[step["outputs"][0]]["index"]:
                tensor["dtype"] = 4
        target = tensors[step["outputs"][0]]
        target["dtype"] = 4
        if target["place"] == 0:  # with room for larger elements
            found["programs"][0]["arena_bytes"], target["offset"] = 1 << 20, 1 << 16
        refused_step(found, "type")


def test_output_layouts(kernels: dict[str, dict[str, Any]]) -> None:
    """No step writes constants' layouts but pack_weights, and that no depthwise ones."""
    for described in kernels.values():
        found, step = steps_of(described)
        program = found["programs"][0]
        target = program["tensors"][step["outputs"][0]]
        if target["place"] != 0 or len(target["shape"]) == 0:
            continue
        target["layout"] = 3
        program["arena_bytes"] = 1 << 20
        target["offset"] = 1 << 16
        refused_step(found, "layout|block|type|shape")


def test_outputs_overlap_no_operand(kernels: dict[str, dict[str, Any]]) -> None:
    """Each input in turn in the arena, the output from its second cache line on."""
    tried = 0
    for described in kernels.values():
        for position in in_buffers(described):
            if size(described, position) > ALIGN and size(described, first_output(described)) > 0:
                refused_step(overlapping(described, position, ALIGN), "memory of an output")
                tried += 1
    assert tried >= 30


# Kernels whose first output may lie over an input, and which. (No bundle here has a residual.)
IN_PLACE = {
    "binary": (0, 1),
    "lookup": (0,),
    "normalize": (0,),
    "quantized_binary": (0, 1),
    "scale_shift": (0,),
    "scatter_elements": (0,),
    "scatter_nd": (0,),
    "softmax": (0,),
    "unary": (0,),
}


def test_outputs_exactly_over_an_input(kernels: dict[str, dict[str, Any]]) -> None:
    """What only these kernels take, and only of the same type."""
    allowed: set[str] = set()
    for kernel, described in kernels.items():
        for position in in_buffers(described):
            if size(described, position) == 0 or size(described, first_output(described)) == 0:
                continue
            found = overlapping(described, position, 0)
            slot = found["programs"][0]["steps"][0]["inputs"].tolist().index(position)
            if slot in IN_PLACE.get(kernel, ()) and size(found, position) == size(found, first_output(found)):
                load(assemble(found), threads=1).close()
                allowed.add(kernel)
            else:
                refused_step(found, "memory of an output")
    assert allowed == set(IN_PLACE)


def test_views_with_gaps(kernels: dict[str, dict[str, Any]]) -> None:
    """Each input in turn is a view of one that is wider: only some kernels take it."""
    text = (Path(__file__).resolve().parents[2] / "docs" / "format.md").read_text(encoding="utf-8")
    takers = re.findall(r"`(\w+)`", text.partition("**Views with gaps**")[2].partition("\n\n")[0])
    taken, refused = set(), set()
    for kernel, described in kernels.items():
        for position in in_buffers(described):
            found, step = steps_of(described)
            tensors = found["programs"][0]["tensors"]
            root, shape = tensors[position], tensors[position]["shape"].tolist()
            views = [t for t in tensors if (t["place"], t["index"]) == (root["place"], root["index"])]
            if len(shape) < 2 or 0 in shape or np.prod(shape[:-1]) == 1 or len(views) > 1:
                continue
            tensors.append(root | {"root": position, "begin": np.zeros(len(shape), np.int64), "extent_axis": -1})
            root["shape"] = np.array([*shape[:-1], shape[-1] + 1])
            step["inputs"] = np.where(step["inputs"] == position, len(tensors) - 1, step["inputs"])
            if kernel in takers:
                load(assemble(found), threads=1).close()
                taken.add(kernel)
            else:
                refused_step(found, "no gaps: the kernel takes no strided views")
                refused.add(kernel)
    assert min(len(taken), len(refused)) >= 10, (taken, refused)


def first_output(described: dict[str, Any]) -> int:
    return int(described["programs"][0]["steps"][0]["outputs"][0])


def in_buffers(described: dict[str, Any]) -> list[int]:
    """The first step's operands in buffers of the caller, if its first output is too."""
    program = described["programs"][0]
    if not program["steps"] or program["tensors"][first_output(described)]["place"] != 3:
        return []
    return [i for i in program["steps"][0]["inputs"].tolist() if i >= 0 and program["tensors"][i]["place"] == 2]


def size(described: dict[str, Any], tensor: int) -> int:
    found = described["programs"][0]["tensors"][tensor]
    return int(np.prod(found["shape"])) * DTYPES[found["dtype"]].itemsize


def test_unknown_kernel(kernels: dict[str, dict[str, Any]]) -> None:
    found, step = steps_of(kernels["unary"])
    step["kernel"] = "unarx"
    with pytest.raises(EdgertError) as caught:
        load(assemble(found))
    assert caught.value.id == "unknown-kernel"
    assert "unarx" in str(caught.value)


def test_corpus_is_large() -> None:
    files = [row[1] for row in FILES] + [flat.break_metadata(GOOD, rule[1]) for rule in flat.RULES]
    files += [assemble(changed(at(path, value))) for path, value, _ in RULES]
    files += [assemble(changed(change, split_description)) for _, change, _ in SPLIT_RULES]
    files += [assemble(changed(change, device_description)) for _, change, _ in DEVICE_RULES]
    distinct = {hashlib.sha256(file).digest() for file in files}
    assert len(distinct) >= len(files) - 2  # a few paths lead to the same file
    assert len(distinct) + sum(1 for _ in attribute_rules()) >= 120
