"""The file: the same bytes every time, laid out as docs/format.md says."""

from __future__ import annotations

import hashlib
import os
import struct
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from edgert import reader
from packer.api import compile_model, pack
from packer.bundle.encode import encode
from packer.bundle.model import ALL_CORES, Bundle, Place, Program, Step, Tensor
from packer.bundle.writer import write_bundle
from packer.ir import DType, TensorType
from targets.base import Attribute, Layout
from tests.e2e.random_networks import random_network

ROOT = Path(__file__).resolve().parents[3]
SEEDS = (0, 3, 9, 19, 24, 41)
PROGRAM = """
import sys
from packer.api import pack
for model in sys.argv[2:]:
    pack(model, sys.argv[1] + "/" + model.split("/")[-1] + ".edge", targets=("cpu", "cpu-aarch64"))
"""


def test_the_same_bytes_in_any_folder_and_process(tmp_path: Path) -> None:
    """Neither the folders, nor hash seeds, nor what the process did before, shows."""
    found: list[dict[str, bytes]] = []
    for hash_seed, order in (("0", SEEDS), ("1", SEEDS[::-1]), ("4242", SEEDS)):
        folder = tmp_path / f"folder-{hash_seed}"
        folder.mkdir()
        paths = []
        for seed in order:
            paths.append(str(folder / f"{seed}.onnx"))
            onnx.save(random_network(seed).model, paths[-1])
        environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
        subprocess.run([sys.executable, "-c", PROGRAM, str(folder), *paths], cwd=ROOT, env=environment, check=True)
        found.append({path.name: path.read_bytes() for path in sorted(folder.glob("*.edge"))})
    assert len(found[0]) == len(SEEDS)
    assert found[0] == found[1] == found[2]


def test_layout_of_the_file(tmp_path: Path) -> None:
    path = tmp_path / "model.edge"
    pack(weighty(), path)
    data = path.read_bytes()
    assert data[:8] == b"\x89EDGERT\n"
    assert data[8:16] == bytes([1, 0, reader.MINOR, 0, 0, 0, 0, 0])
    length, offset, metadata = (int.from_bytes(data[at : at + 8], "little") for at in (16, 24, 32))
    assert (length, offset) == (len(data), 128)
    assert data[40:64] == bytes(24)
    end = 128 + metadata
    digests = b"".join(hashlib.sha256(data[at : min(at + 4096, end)]).digest() for at in range(128, end, 4096))
    assert data[end : end + len(digests)] == digests
    assert data[64:96] == hashlib.sha256(data[:64] + digests).digest()
    assert data[96:128] == bytes(32)
    end += len(digests)
    bundle = reader.read(path)
    for segment in bundle.segments:
        assert segment.offset == -(-end // 4096) * 4096
        assert data[end : segment.offset] == bytes(segment.offset - end)
        body = data[segment.offset : segment.offset + segment.length]
        chunks = b"".join(hashlib.sha256(body[i : i + (1 << 20)]).digest() for i in range(0, len(body), 1 << 20))
        assert segment.sha256 == hashlib.sha256(chunks).digest()
        end = segment.offset + segment.length
    assert end == len(data)
    assert max(segment.length for segment in bundle.segments) > 1 << 20, "more than one chunk"


def weighty() -> onnx.ModelProto:
    """Two products with 300,000 and a few weights."""
    random = np.random.default_rng(0)
    weights = {"a": random.standard_normal((300, 1000)), "b": random.standard_normal((1000, 3))}
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "a"], ["t"]), helper.make_node("MatMul", ["t", "b"], ["y"])],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 300])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 3])],
        [numpy_helper.from_array(data.astype(np.float32), name) for name, data in weights.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def test_what_was_compiled_is_what_is_read(tmp_path: Path) -> None:
    for seed in SEEDS:
        bundle = compile_model(random_network(seed).model, targets=("cpu", "cpu-aarch64"))
        path = tmp_path / "model.edge"
        assert write_bundle(bundle, path) == path.stat().st_size
        data = path.read_bytes()
        read = reader.read(path)
        assert (read.producer, read.model) == (bundle.producer, bundle.model)
        for program, found in zip(bundle.programs, read.programs, strict=True):
            assert (program.target, program.arch, program.inputs, program.outputs) == (
                found.target, found.arch, found.inputs, found.outputs,
            )  # fmt: skip
            for tensor, stored in zip(program.tensors, found.tensors, strict=True):
                assert (tensor.name, tensor.type.shape) == (stored.name, stored.shape)
                assert tensor.type.dtype.numpy == stored.dtype
                assert tensor.place.name.lower() == stored.place
                if tensor.data is not None:
                    start = read.segments[stored.index].offset + stored.offset
                    assert stored.offset % 64 == 0
                    assert data[start : start + stored.bytes] == tensor.data.tobytes()
                elif tensor.place is Place.ARENA:
                    assert tensor.offset == stored.offset
            for step, stored_step in zip(program.steps, found.steps, strict=True):
                assert (step.kernel, step.nodes, step.inputs, step.outputs) == (
                    stored_step.kernel, stored_step.nodes, stored_step.inputs, stored_step.outputs,
                )  # fmt: skip
                assert {a.name: (a.ints, a.text) for a in step.attributes} == {
                    a.name: (a.ints, a.text) for a in stored_step.attributes
                }


@pytest.mark.parametrize("sizes", [(), (0,), (0, 0), (0, 5), (5, 0), (16, 0, 16), (1, 300_000, 0)])
def test_constants_without_elements(sizes: tuple[int, ...], tmp_path: Path) -> None:
    """A constant of each size, copied to an output of its own."""
    tensors: list[Tensor] = []
    steps: list[Step] = []
    for index, size in enumerate(sizes):
        type = TensorType(DType.F32, (size,))
        data = np.full(size, index, np.float32)
        tensors.append(Tensor(f"c{index}", type, Layout.PLANAR, Place.SEGMENT, data=data))
        tensors.append(Tensor(f"y{index}", type, Layout.PLANAR, Place.OUTPUT, index=index))
        shape = (Attribute("offset", ints=(0,)), Attribute("shape", ints=(size,)), Attribute("strides", ints=(1,)))
        steps.append(Step("copy", (), (2 * index,), (2 * index + 1,), shape))
    outputs = tuple(range(1, 2 * len(sizes), 2))
    program = Program("cpu", "x86_64", 0, 0, tuple(tensors), tuple(steps), (), outputs)
    path = tmp_path / "model.edge"
    write_bundle(Bundle("test", "g", (program,), ()), path)
    read = reader.read(path)
    assert len(read.segments) == bool(sizes)
    distinct = {(size, index) for index, size in enumerate(sizes) if size}
    assert sum(segment.length for segment in read.segments) >= sum(4 * size for size, _ in distinct)


def test_views_cores_and_phases(tmp_path: Path) -> None:
    """Views lie where their roots do, constants' in the segment."""
    whole, half = TensorType(DType.F32, (1, 32, 2)), TensorType(DType.F32, (1, 16, 2))
    data = np.arange(64, dtype=np.float32)
    tensors = [
        Tensor("padding", whole, Layout.PLANAR, Place.SEGMENT, data=-data),
        Tensor("w", whole, Layout.BLOCK16, Place.SEGMENT, data=data),
        Tensor("t", whole, Layout.BLOCK16, Place.ARENA, offset=64),
        Tensor("y", whole, Layout.PLANAR, Place.OUTPUT),
    ]
    for root in (1, 2, 3):
        for first in (0, 16):
            within = ((0, 1), (first, first + 16), (0, 2))
            t = tensors[root]
            tensors.append(Tensor(f"{t.name}{first}", half, t.layout, Place.ARENA, root=root, within=within))
    copy = (Attribute("kind", text="identity"),)
    steps = (
        Step("unary", (), (4,), (6,), copy, core=0, phase=0),
        Step("unary", (), (5,), (7,), copy, core=2, phase=0),
        Step("reorder", (), (2,), (3,), (), core=ALL_CORES, phase=1),
        Step("reorder", (), (6,), (8,), (), core=1, phase=2),
    )
    program = Program("cpu", "x86_64", 320, 320, tuple(tensors), steps, (), (3,), cores=3, speeds=(1.0, 0.75, 0.5))
    path = tmp_path / "model.edge"
    write_bundle(Bundle("test", "g", (program,), ()), path)
    bundle = reader.read(path)
    (found,) = bundle.programs
    assert (found.cores, found.speeds) == (3, (1.0, 0.75, 0.5))
    assert [(step.core, step.phase) for step in found.steps] == [(0, 0), (2, 0), (255, 1), (1, 2)]
    for tensor, stored in zip(tensors, found.tensors, strict=True):
        assert (stored.root, stored.begin) == (tensor.root, tuple(begin for begin, _ in tensor.within))
        if tensor.root >= 0:
            root = found.tensors[tensor.root]
            assert (stored.place, stored.index, stored.offset) == (root.place, root.index, root.offset)
    w = bundle.constant(found.tensors[1])
    assert sorted(w.ravel()) == data.tolist()
    assert np.array_equal(bundle.constant(found.tensors[4]), w[:, :16])
    assert np.array_equal(bundle.constant(found.tensors[5]), w[:, 16:])


def test_programs_of_one_core_need_no_new_fields() -> None:
    tensor = {"name": "t", "dtype": 1, "shape": [3], "place": 2}
    assert encode("Tensor", tensor | {"root": -1, "begin": np.empty(0, np.int64)}) == encode("Tensor", tensor)
    step = {"kernel": "unary", "inputs": [0], "outputs": [1]}
    assert encode("Step", step | {"core": 0, "phase": 0}) == encode("Step", step)
    program = {"target": "cpu", "arch": "x86_64"}
    old = {"cores": 1, "speeds": np.empty(0, np.float32), "plan": -1}
    assert encode("Program", program | old) == encode("Program", program)


def test_plans(tmp_path: Path) -> None:
    """Text in segments of their own, behind everything that running needs."""
    programs = [Program("cpu", "x86_64", 0, 0, (), (), (), (), cores=n) for n in (1, 2, 3)]
    texts = ['{"a":"\u00b5s"}', "", "{}"]
    planned = tuple(replace(program, plan=text) for program, text in zip(programs, texts, strict=True))
    path = tmp_path / "model.edge"
    write_bundle(Bundle("test", "g", planned, ()), path)
    bundle = reader.read(path)
    assert [program.plan for program in bundle.programs] == [0, -1, 1]
    assert [segment.name for segment in bundle.segments] == ["plan cpu/1", "plan cpu/3"]
    assert [bytes(bundle.segment(i)).decode() for i in (0, 1)] == [texts[0], texts[2]]


def test_what_is_equal_is_stored_once() -> None:
    attribute = {"name": "kernel", "ints": [3, 3], "floats": [], "text": ""}
    step = {"kernel": "pool", "nodes": ["n"], "inputs": [0], "outputs": [1], "attributes": [attribute]}
    stored = encode("Program", {"target": "cpu", "steps": [step, step]})
    assert [stored.count(text) for text in (b"pool", b"kernel", struct.pack("<Iqq", 2, 3, 3))] == [1, 1, 1]


def test_no_more_references_than_readers_follow(tmp_path: Path) -> None:
    """Attributes of many steps that do nothing else are stored again and again rather than refused."""
    attributes = tuple(Attribute(f"a{i:02}", (i,)) for i in range(40))
    tensors = (Tensor("x", TensorType(DType.F32, (3,)), Layout.PLANAR, Place.INPUT),)
    steps = (Step("unary", (), (), (), attributes),) * 50
    program = Program("cpu", "x86_64", 0, 0, tensors, steps, (0,), ())
    write_bundle(Bundle("test", "g", (program,), ()), tmp_path / "model.edge")
    (found,) = reader.read(tmp_path / "model.edge").programs
    assert [[a.ints for a in step.attributes] for step in found.steps] == [[(i,) for i in range(40)]] * 50
