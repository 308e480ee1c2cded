"""Small bundles made by hand: described as plain values, so that a test can break any one of them."""

from __future__ import annotations

import copy
import hashlib
import struct
from collections.abc import Callable
from typing import Any

import numpy as np

from packer.bundle.encode import encode

__all__ = [
    "HEADER",
    "PAGE",
    "Description",
    "assemble",
    "changed",
    "description",
    "device_description",
    "metadata_end",
    "metadata_length",
    "sign",
    "split_description",
]

HEADER = 128
PAGE = 4096

Description = dict[str, Any]


def description() -> Description:
    """A network y = relu(conv(x, w)), x [1,3,4,4], y [1,5,4,4], with a data-dependent output z; not meant to run."""
    rng = np.random.default_rng(3)
    weights = np.zeros((1, 1, 3, 16), np.float32)  # weight16 of logical [1,5,3,1]
    weights[..., :5] = rng.standard_normal((1, 1, 3, 5))
    weights[0, 0, 1, :3] = 0
    sample = rng.standard_normal((1, 3, 4, 4)).astype(np.float32)
    answer = rng.standard_normal((1, 5, 4, 4)).astype(np.float32)
    chosen = np.array([[0, 0, 1], [0, 0, 3]], np.int64)
    tensors = [
        {"name": "x", "dtype": 1, "shape": [1, 3, 4, 4], "place": 2, "index": 0},
        {"name": "y", "dtype": 1, "shape": [1, 5, 4, 4], "place": 3, "index": 0},
        {"name": "w", "dtype": 1, "layout": 2, "shape": [1, 5, 3, 1], "place": 1, "index": 0, "offset": 0},
        {"name": "t", "dtype": 1, "layout": 1, "shape": [1, 5, 4, 4], "place": 0, "offset": 64},
        {"name": "n", "dtype": 7, "shape": [1], "place": 0, "offset": 0},
        {"name": "z", "dtype": 7, "shape": [6, 3], "place": 3, "index": 1, "extent_axis": 0, "extent_count": 4},
    ]
    steps = [
        {
            "kernel": "conv",
            "nodes": ["conv1", "relu1"],
            "inputs": [0, 2, -1],
            "outputs": [3],
            "attributes": [{"name": "activation", "text": "relu"}, {"name": "group", "ints": [1]}],
        },
        {"kernel": "reorder", "nodes": [], "inputs": [3], "outputs": [1], "attributes": []},
        {"kernel": "non_zero", "nodes": ["find"], "inputs": [3], "outputs": [5, 4], "attributes": []},
    ]
    program = {
        "target": "cpu",
        "arch": "x86_64",
        "arena_bytes": 64 + 1024,
        "arena_floor": 1024,
        "tensors": tensors,
        "steps": steps,
        "inputs": [0],
        "outputs": [1, 5],
    }
    golden = {
        "inputs": [{"name": "x", "segment": 1, "offset": 0, "length": sample.nbytes}],
        "outputs": [
            {"name": "y", "segment": 1, "offset": 192, "length": answer.nbytes},
            {"name": "z", "segment": 1, "offset": 512, "length": chosen.nbytes},
        ],
        "atol": 1e-6,
        "rtol": 1e-4,
    }
    return {
        "producer": "a test",
        "model": "net",
        "programs": [program],
        "goldens": [golden],
        "segments": [{"name": "weights"}, {"name": "golden"}],
        "contents": [weights.tobytes(), sample.tobytes() + answer.tobytes() + chosen.tobytes()],
    }


def split_description() -> Description:
    """A network for two cores, the second half as fast: a [1,32,3,4] = relu(x w), y = its halves' sum, then product.

    Each core works on one of two views of most tensors, over channels; all share one step. Meant to run.
    """
    rng = np.random.default_rng(4)
    x = rng.standard_normal((1, 32, 3, 4)).astype(np.float32)
    w = rng.standard_normal((1, 32, 1, 1)).astype(np.float32)
    relu = np.maximum(x * w, np.float32(0))
    y = np.concatenate([relu[:, :16] + relu[:, 16:], relu[:, 16:] * relu[:, :16]], 1)
    shape = [1, 32, 3, 4]
    roots: list[Description] = [
        {"name": "x", "dtype": 1, "shape": shape, "place": 2},
        {"name": "y", "dtype": 1, "shape": shape, "place": 3},
        {"name": "w", "dtype": 1, "shape": [1, 32, 1, 1], "place": 1, "offset": 0},
        {"name": "a", "dtype": 1, "shape": shape, "place": 0, "offset": 0},
        {"name": "b", "dtype": 1, "layout": 1, "shape": shape, "place": 0, "offset": x.nbytes},
        {"name": "c", "dtype": 1, "layout": 1, "shape": shape, "place": 0, "offset": 0},
    ]
    views: list[Description] = []
    for number, root in enumerate(roots):
        for first in (0, 16):
            box = {"root": number, "begin": [0, first, 0, 0], "shape": [1, 16, *root["shape"][2:]]}
            views.append(root | box | {"name": f"{root['name']} from {first}"})

    def step(kernel: str, inputs: list[int], outputs: list[int], core: int, phase: int, kind: str = "") -> Description:
        found = {"kernel": kernel, "nodes": [f"{kernel}{phase}"], "inputs": inputs, "outputs": outputs, "core": core}
        numbers = [{"name": name, "floats": [0.0]} for name in ("alpha", "beta")] if kernel == "unary" else []
        return found | {"phase": phase, "attributes": [*numbers, {"name": "kind", "text": kind}] if kind else []}

    steps = [
        step("binary", [6, 10], [12], 0, 0, "mul"),
        step("unary", [12], [12], 0, 0, "relu"),
        step("binary", [7, 11], [13], 1, 0, "mul"),
        step("unary", [13], [13], 1, 0, "relu"),
        step("reorder", [3], [4], 255, 1),
        step("binary", [14, 15], [16], 0, 2, "add"),
        step("binary", [15, 14], [17], 1, 2, "mul"),
        step("reorder", [16], [8], 0, 3),
        step("reorder", [17], [9], 1, 3),
    ]
    programs = [
        {
            "target": target,
            "arch": arch,
            "arena_bytes": 2 * x.nbytes,
            "arena_floor": 2 * x.nbytes,
            "tensors": roots + views,
            "steps": steps,
            "inputs": [0],
            "outputs": [1],
            "cores": 2,
            "speeds": [1.0, 0.5],
        }
        for target, arch in (("cpu", "x86_64"), ("cpu-aarch64", "aarch64"))
    ]
    golden = {
        "inputs": [{"name": "x", "segment": 1, "offset": 0, "length": x.nbytes}],
        "outputs": [{"name": "y", "segment": 1, "offset": x.nbytes, "length": y.nbytes}],
        "atol": 0.0,
        "rtol": 0.0,
    }
    return {
        "producer": "a test",
        "model": "split",
        "programs": programs,
        "goldens": [golden],
        "segments": [{"name": "weights"}, {"name": "golden"}],
        "contents": [w.tobytes(), x.tobytes() + y.tobytes()],
    }


def device_description() -> Description:
    """A network for a GPU: y = conv(x, w) in two launches, each for half of the channels; not meant to run.

    x is put into planes with a halo, the two launches write views of one tensor, the next one stores it in f16.
    """
    rng = np.random.default_rng(5)
    w = rng.standard_normal((6, 3, 3, 3)).astype(np.float32).tobytes()
    text = b".version 5.0\n.target sm_62\n.address_size 64\n"
    stream = b"\x01" + struct.pack("<HH", len(text), len(text) ^ 0xFFFF) + text  # one block, not compressed
    cubin = rng.bytes(200)
    planes: Description = {"dtype": 1, "layout": 4, "place": 4}
    c = planes | {"name": "c", "shape": [1, 6, 4, 5], "offset": 576}
    tensors = [
        {"name": "x", "dtype": 1, "shape": [1, 3, 4, 5], "place": 2},
        {"name": "y", "dtype": 1, "shape": [1, 6, 4, 5], "place": 3},
        {"name": "w", "dtype": 1, "shape": [6, 3, 3, 3], "place": 1, "offset": 0},
        planes | {"name": "a", "shape": [1, 3, 4, 5], "offset": 0, "halo": [1, 1, 1, 1]},
        c,
        c | {"name": "c from 0", "root": 4, "begin": [0, 0, 0, 0], "shape": [1, 4, 4, 5]},
        c | {"name": "c from 4", "root": 4, "begin": [0, 4, 0, 0], "shape": [1, 2, 4, 5]},
        planes | {"name": "half", "dtype": 11, "shape": [1, 6, 4, 5], "offset": 1056},
    ]

    def step(kernel: str, module: int, inputs: list[int], outputs: list[int], phase: int, core: int = 0) -> Description:
        attributes = [
            {"name": "entries", "text": "main"},
            {"name": "grid", "ints": [3, 2, 1]},
            {"name": "module", "ints": [module]},
            {"name": "threads", "ints": [64]},
        ]
        named = {"kernel": kernel, "nodes": [f"{kernel}{phase}"], "attributes": attributes}
        return named | {"inputs": inputs, "outputs": outputs, "phase": phase, "core": core}

    steps = [
        step("put", 1, [0], [3], 0),
        step("launch", 0, [3, 2], [5], 1),
        step("launch", 0, [3, 2], [6], 1, core=1),
        step("launch", 2, [4], [7], 2),
        step("get", 1, [7], [1], 2),
    ]
    cubins = {"cubin_segment": 1, "cubin_offset": 0, "cubin_bytes": len(cubin)}
    ptx = {"ptx_segment": 2, "ptx_offset": 64, "ptx_stored": len(stream), "ptx_bytes": len(text)}
    program = {
        "target": "jetson",
        "arch": "aarch64",
        "tensors": tensors,
        "steps": steps,
        "inputs": [0],
        "outputs": [1],
        "cores": 2,
        "device": "sm_62",
        "device_bytes": 1312,
        "modules": [cubins | ptx, ptx, cubins],
    }
    return {
        "producer": "a test",
        "model": "device",
        "programs": [program],
        "goldens": [],
        "segments": [{"name": "weights"}, {"name": "cubins jetson"}, {"name": "ptx jetson"}],
        "contents": [w, cubin, bytes(64) + stream],
    }


def changed(change: Callable[[Description], object], describe: Callable[[], Description] = description) -> Description:
    """A description with something changed."""
    found = copy.deepcopy(describe())
    change(found)
    return found


def assemble(described: Description) -> bytes:
    """The file of a description; offsets, lengths and digests of segments are filled in where it has none."""
    contents: list[bytes] = described["contents"]
    root = {key: value for key, value in described.items() if key != "contents"}
    for segment, data in zip(root["segments"], contents, strict=True):
        chunks = b"".join(hashlib.sha256(data[i : i + (1 << 20)]).digest() for i in range(0, len(data), 1 << 20))
        segment.setdefault("length", len(data))
        segment.setdefault("sha256", np.frombuffer(hashlib.sha256(chunks).digest(), np.uint8))
    given = [segment.get("offset") for segment in root["segments"]]
    for segment in root["segments"]:
        segment["offset"] = PAGE  # as long as any other, encoded
    end = metadata_end(len(encode("Bundle", root)))
    body = bytearray(end)
    for segment, offset, data in zip(root["segments"], given, contents, strict=True):
        start = -(-end // PAGE) * PAGE
        segment["offset"] = start if offset is None else offset
        body += bytes(start - end) + data
        end = start + len(data)
    metadata = encode("Bundle", root)
    body[HEADER : HEADER + len(metadata)] = metadata
    struct.pack_into("<8sHHIQQQ", body, 0, b"\x89EDGERT\n", 1, 10, 0, len(body), HEADER, len(metadata))
    return sign(body)


def sign(file: bytes | bytearray) -> bytes:
    """The file with the digests of its metadata and its header made right again, as far as there is room for them."""
    found = bytearray(file)
    end = HEADER + metadata_length(found)
    hashed = found[HEADER:end]
    if found[10] >= 10:
        pieces = [found[at : min(at + PAGE, end)] for at in range(HEADER, min(end, len(found)), PAGE)]
        hashed = b"".join(hashlib.sha256(piece).digest() for piece in pieces)[: max(0, len(found) - end)]
        found[end : end + len(hashed)] = hashed
    found[64:96] = hashlib.sha256(found[:64] + hashed).digest()
    return bytes(found)


def metadata_end(length: int) -> int:
    """Where the digests behind metadata of so many bytes end."""
    return HEADER + length + 32 * -(-length // PAGE)


def metadata_length(file: bytes | bytearray) -> int:
    """What the header says."""
    return int(struct.unpack_from("<Q", file, 32)[0])
