"""edgert-native: the same answers as Python's, one clear error for every bad input, verdicts of the self-test."""

from __future__ import annotations

import json
import os
import shutil
import struct
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from edgert.demo.train import MODEL
from edgert.reader import read
from edgert.samples import random_inputs
from edgert.session import load
from packer.api import pack
from packer.bundle.model import Golden
from packer.bundle.writer import write_bundle
from packer.ir import SINGLE, Block
from tests.e2e.test_quantized import STAGES, Quantizer, picture
from tests.e2e.test_sparse import convolutions, fully_connected
from tests.edgert.device_bundles import WEIGHTS, affine, two_runs, write, x_of
from tests.edgert.networks import classifier, dynamic, packed, two_inputs
from tests.runtime_c.bundles import cores_bundle, session_bundle
from tests.runtime_c.test_native import BUILD, PATH, build, cross_build, needs_qemu, needs_tools, needs_zig

pytestmark = [needs_tools, pytest.mark.slow]


@pytest.fixture(scope="module")
def native() -> Path:
    return build(BUILD, targets=("edgert-native",)) / "tools" / "edgert-native"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Bundles: classifier/model.edge, two/model.edge, dynamic/model.edge."""
    folder = tmp_path_factory.mktemp("tools")
    for name, model, options in (
        ("classifier", classifier(), {"shapes": {"image": (1, 3, 10, 8)}}),
        ("two", two_inputs(), {}),
        ("dynamic", dynamic(), {}),
    ):
        (folder / name).mkdir()
        packed(model, folder / name, **options)
    return folder


def call(native: Path | list[Any], *arguments: object, code: int = 0) -> str:
    """What it prints on stdout with this exit code; a failure (2) is one to four lines on stderr and nothing else."""
    command = native if isinstance(native, list) else [native]
    done = subprocess.run([str(word) for word in (*command, *arguments)], capture_output=True, text=True, timeout=120)
    assert done.returncode == code, done.stdout + done.stderr
    if code == 2:
        assert done.stdout == ""
        assert done.stderr.startswith("error: ")
        assert 1 <= len(done.stderr.splitlines()) <= 4
        return done.stderr
    assert done.stderr == ""
    return done.stdout


def save(folder: Path, arrays: dict[str, np.ndarray]) -> list[str]:
    """The arguments --input NAME=FILE for the arrays, written as .npy files."""
    for name, array in arrays.items():
        np.save(folder / f"{name}.npy", array)
    return [word for name in arrays for word in ("--input", f"{name}={folder / name}.npy")]


def test_info_of_a_program_for_a_device(native: Path, tmp_path: Path) -> None:
    bundle = write(tmp_path / "two.edge", two_runs().program())
    stored = sum(module.ptx_stored for module in read(bundle).programs[0].modules)
    printed = call(native, "info", bundle)
    assert f"  8 steps on sm_62, memory there 5.9 KiB; 3 modules: machine code 0 B, PTX {stored} B, deflated" in printed
    assert "--allow-native" in printed


@pytest.mark.parametrize("network", ["classifier", "two", "dynamic"])
def test_run_answers_as_python_does(native: Path, folder: Path, network: str, tmp_path: Path) -> None:
    bundle = folder / network / "model.edge"
    with load(bundle, threads=1) as session:
        inputs = random_inputs(session.inputs, seed=5)
        next(iter(inputs.values())).flat[::3] = 0  # so that fewer elements than possible are not zero
        wanted = session.run(inputs)
    printed = call(native, "run", bundle, "--threads", 1, *save(tmp_path, inputs), "-o", tmp_path / "out")
    assert sorted(path.stem for path in (tmp_path / "out").iterdir()) == sorted(wanted)
    for name, want in wanted.items():
        got = np.load(tmp_path / "out" / f"{name}.npy", allow_pickle=False)
        assert got.dtype == want.dtype
        np.testing.assert_array_equal(got, want, strict=True)
        assert f"min {want.min():.6g}  max {want.max():.6g}" in printed
    if network == "classifier":
        (scores,) = wanted.values()
        best = [int(line.split()[0]) for line in printed.splitlines()[1:]]
        assert best == np.argsort(-scores[0], kind="stable")[:5].tolist()


def test_raw_input_and_missing_batch(native: Path, folder: Path, tmp_path: Path) -> None:
    bundle = folder / "classifier" / "model.edge"
    image = np.random.default_rng(1).standard_normal((1, 3, 10, 8)).astype(np.float32)
    (tmp_path / "image.raw").write_bytes(image.tobytes())
    np.save(tmp_path / "whole.npy", image)
    np.save(tmp_path / "batchless.npy", image[0])
    printed = {call(native, "run", bundle, "-i", tmp_path / n) for n in ("image.raw", "whole.npy", "batchless.npy")}
    assert len(printed) == 1


def types_model() -> onnx.ModelProto:
    """Copies of inputs of several types, with names that are no file names; a rank 0 and an empty one among them."""
    kinds = {
        "a/b%": (TensorProto.INT64, [2, 3]),
        ".hidden=x": (TensorProto.BOOL, [3]),
        "scalar": (TensorProto.FLOAT, []),
        "empty": (TensorProto.INT32, [0, 2]),
        "u8=v": (TensorProto.UINT8, [4]),
        "u8": (TensorProto.UINT8, [4]),
    }
    nodes = [helper.make_node("Identity", [name], [f"{name}_out"], f"copy {name}") for name in kinds]
    inputs = [helper.make_tensor_value_info(name, *kind) for name, kind in kinds.items()]
    outputs = [helper.make_tensor_value_info(f"{name}_out", *kind) for name, kind in kinds.items()]
    graph = helper.make_graph(nodes, "types", inputs, outputs)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


def test_types_and_names(native: Path, tmp_path: Path) -> None:
    bundle = packed(types_model(), tmp_path)
    with load(bundle) as session:
        inputs = random_inputs(session.inputs, seed=2)
    words: list[object] = []
    for number, (name, array) in enumerate(inputs.items()):
        np.save(tmp_path / f"{number}.npy", array)
        words += ["--input", f"{name}={tmp_path / str(number)}.npy"]
    assert "empty" in call(native, "run", bundle, *words, "--output", tmp_path / "out")
    files = {"a/b%": "a%2fb%25_out", ".hidden=x": "%2ehidden%3dx_out", "u8=v": "u8%3dv_out"}
    for name, want in inputs.items():
        got = np.load(tmp_path / "out" / f"{files.get(name, f'{name}_out')}.npy", allow_pickle=False)
        np.testing.assert_array_equal(got, want, strict=True)


def test_bad_arrays(native: Path, folder: Path, tmp_path: Path) -> None:
    bundle = folder / "classifier" / "model.edge"
    image = np.zeros((1, 3, 10, 8), np.float32)
    np.save(tmp_path / "good.npy", image)
    good = (tmp_path / "good.npy").read_bytes()

    def refuse(name: str, contents: bytes | np.ndarray, *expected: str) -> None:
        path = tmp_path / name
        if isinstance(contents, bytes):
            path.write_bytes(contents)
        else:
            np.save(path, contents)
        message = call(native, "run", bundle, "--input", f"image={path}", code=2)
        for text in expected:
            assert text in message

    refuse("dtype.npy", image.astype(np.float64), "'<f4'", "'<f8'")
    refuse("big.npy", image.astype(">f4"), "'>f4'")
    refuse("shape.npy", image[:, :2], "[1,3,10,8]", "[1,2,10,8]")
    refuse("rank.npy", image[0, 0], "[10,8]")
    refuse("order.npy", np.asfortranarray(image), "Fortran")
    refuse("struct.npy", np.zeros(3, [("x", "f4")]), "not a .npy file")
    refuse("short.npy", good[:-1], "959")
    refuse("long.npy", good + b"x", "more")
    refuse("header.npy", good[:40], "not a .npy file")
    refuse("huge.npy", good[:6] + struct.pack("<BBI", 2, 0, 1 << 31), "not a .npy file")
    refuse("magic.npy", b"x" + good[1:], "not a .npy file")
    refuse("negative.npy", good.replace(b"(1, 3, 10, 8)", b"(1,-3, 10, 8)"), "not a .npy file")
    refuse("nine.npy", good.replace(b"(1, 3, 10, 8)", b"(1,1,1,1,1,1,1,1,1)"), "not a .npy file")
    refuse("nothing.npy", b"", "not a .npy file")
    refuse("short.raw", image.tobytes()[:-4], "960", "956")
    refuse("long.raw", image.tobytes() + b"1234", "more")


def test_bad_arguments(native: Path, folder: Path, tmp_path: Path) -> None:
    bundle, two = folder / "classifier" / "model.edge", folder / "two" / "model.edge"
    np.save(tmp_path / "a.npy", np.zeros((2, 3), np.float32))
    assert "verb" in call(native, "walk", bundle, code=2)
    assert "a bundle" in call(native, "info", code=2)
    assert "one bundle" in call(native, "info", bundle, two, code=2)
    assert "--deadline-ms" in call(native, "bench", bundle, "--deadline-ms", 3, code=2)
    assert "--runs" in call(native, "bench", bundle, "--runs", "-1", code=2)
    assert "--runs" in call(native, "bench", bundle, "--runs", code=2)
    assert "--runs" in call(native, "bench", bundle, "--runs=12x", code=2)
    assert "--duration" in call(native, "bench", bundle, "--duration", "nan", code=2)
    assert "no value" in call(native, "run", bundle, code=2)
    assert "'b'" in call(native, "run", two, "--input", f"a={tmp_path / 'a.npy'}", code=2)
    assert "NAME=FILE" in call(native, "run", two, "--input", tmp_path / "a.npy", code=2)
    assert "NAME=FILE" in call(native, "run", two, "--input", "c=a.npy", code=2)
    assert "No such file" in call(native, "run", bundle, "--input", "image=/nonexistent.npy", code=2)
    assert "/nonexistent.edge" in call(native, "selftest", "/nonexistent.edge", code=2)
    assert "bundle" in call(native, "info", tmp_path / "a.npy", code=2)
    assert "isa" in call(native, "selftest", bundle, "--isa", "mmx", code=2)
    assert "'gpu'" in call(native, "bench", bundle, "--target", "gpu", code=2)
    (tmp_path / "file").write_text("")
    inputs = save(tmp_path, {"a": np.zeros((2, 3), np.float32), "b": np.zeros(3, np.float32)})
    assert "Not a directory" in call(native, "run", two, *inputs, "-o", tmp_path / "file", code=2)
    assert "usage" in call(native, "--help")
    assert "--deadline-ms" in call(native, "selftest", "--help")


def test_info(native: Path, tmp_path: Path) -> None:
    pack(MODEL, tmp_path / "digits.edge", targets=("cpu", "cpu-aarch64"))
    printed = call(native, "info", tmp_path / "digits.edge")
    assert "golden samples: 1" in printed
    found = read(tmp_path / "digits.edge")
    here = sum(program.arch == os.uname().machine for program in found.programs)
    assert printed.count("input  image: f32[1,1,8,8]") == here
    assert printed.count("output probabilities: f32[1,10]") == here
    assert printed.count("  can run here") == here > 0
    assert printed.count("cannot run here") == len(found.programs) - here > 0
    for program in found.programs:
        head = f"program {program.target}, for {program.arch}, cores {program.cores}: {len(program.steps)} steps"
        assert head in printed


def test_bench(native: Path, folder: Path) -> None:
    bundle = folder / "classifier" / "model.edge"
    found = json.loads(call(native, "bench", bundle, "--runs", 40, "--warmup=2", "--threads", 1, "--json"))
    times = found["latency"]
    assert times["runs"] == 40
    assert found["session"]["threads"] == 1
    assert 0 < times["min_ms"] <= times["p50_ms"] <= times["p90_ms"] <= times["p99_ms"] <= times["max_ms"]
    assert times["min_ms"] <= times["mean_ms"] <= times["max_ms"]
    assert found["open_ms"] > 0
    assert found["first_ms"] > 0
    assert 0 <= found["grown_bytes"] < found["peak_bytes"] < 1 << 28
    two = json.loads(call(native, "bench", bundle, "--runs", 2, "--json"))["latency"]
    assert two["p50_ms"] == two["p99_ms"] == two["max_ms"]
    write_bundle(cores_bundle(), folder / "cores.edge")
    for threads, cores in ((1, 1), (2, 2), (9, 3)):
        words = ("--runs", 3, "--threads", threads, "--json")
        session = json.loads(call(native, "bench", folder / "cores.edge", *words))["session"]
        assert (session["cores"], session["threads"]) == (cores, cores)
    printed = call(native, "bench", bundle, "--duration", 0.05, "--isa", "scalar", "--integrity", "metadata")
    assert "scalar" in printed
    assert "integrity metadata" in printed
    assert "expected full or metadata" in call(native, "bench", bundle, "--integrity", "some", code=2)


def test_selftest_of_several_cores(native: Path, tmp_path: Path) -> None:
    write_bundle(cores_bundle(), tmp_path / "cores.edge")
    for threads in range(1, 5):
        words = ("--threads", threads, "--isa", "all", "--runs", 3, "--json")
        found = json.loads(call(native, "selftest", tmp_path / "cores.edge", *words))
        assert found["passed"]
        assert {row["max_abs"] for row in found["outputs"]} == {0}


@pytest.mark.parametrize("network", ["classifier", "two", "dynamic"])
def test_selftest_passes(native: Path, folder: Path, network: str) -> None:
    bundle = folder / network / "model.edge"
    printed = call(native, "selftest", bundle, "--isa", "all", "--runs", 20, "--deadline-ms", 10000)
    assert printed.splitlines()[0] == "integrity: ok"
    assert printed.splitlines()[-1] == "PASS"
    found = json.loads(call(native, "selftest", bundle, "--isa", "scalar", "--runs", 20, "--json"))
    assert found["passed"]
    assert found["session"]["isa"] == "scalar"
    assert [row["isa"] for row in found["outputs"]] == ["scalar"] * len(read(bundle).goldens[0].outputs)
    assert found["deadline_ms"] is found["on_time"] is None


def test_selftest_fails_on_a_missed_deadline(native: Path, folder: Path) -> None:
    bundle = folder / "classifier" / "model.edge"
    printed = call(native, "selftest", bundle, "--runs", 5, "--deadline-ms", 0, code=1)
    assert printed.endswith("FAIL\n")
    found = json.loads(call(native, "selftest", bundle, "--runs", 5, "--deadline-ms", "0", "--json", code=1))
    assert (found["passed"], found["on_time"], found["integrity"]) == (False, False, "ok")
    assert all(row["passed"] for row in found["outputs"])


def test_selftest_fails_on_damage(native: Path, folder: Path, tmp_path: Path) -> None:
    file = bytearray((folder / "classifier" / "model.edge").read_bytes())
    file[-1] ^= 1
    (tmp_path / "flipped.edge").write_bytes(file)
    (tmp_path / "short.edge").write_bytes(file[:-1])
    for name in ("flipped.edge", "short.edge"):
        assert call(native, "selftest", tmp_path / name, code=1).endswith("FAIL\n")
        found = json.loads(call(native, "selftest", tmp_path / name, "--json", code=1))
        assert (found["passed"], found["session"], found["latency"]) == (False, None, None)
        assert found["integrity"] != "ok"


def test_selftest_fails_on_a_wrong_golden(native: Path, folder: Path, tmp_path: Path) -> None:
    wrong = session_bundle()
    wrong.goldens[0].outputs["y"][3, 5] += 1
    write_bundle(wrong, tmp_path / "wrong.edge")
    found = json.loads(call(native, "selftest", tmp_path / "wrong.edge", "--runs", 5, "--json", code=1))
    assert found["integrity"] == "ok"
    assert [(row["name"], row["passed"], row["max_abs"]) for row in found["outputs"]] == [("y", False, 1)]
    wrong.goldens[0].outputs["y"][3, 5] = np.nan
    write_bundle(wrong, tmp_path / "wrong.edge")
    assert "infinities or NaNs differ" in call(native, "selftest", tmp_path / "wrong.edge", "--runs", 5, code=1)
    (right,) = session_bundle().goldens
    positions = np.stack(np.nonzero(right.inputs["x"] > 0))
    for change, code, note in ((0, 0, "max error 0"), (1, 1, f"1 of {positions.size} elements differ")):
        positions[1, 7] += change
        golden = replace(right, outputs={"where": positions})
        write_bundle(replace(session_bundle(), goldens=(golden,)), tmp_path / "wrong.edge")
        assert note in call(native, "selftest", tmp_path / "wrong.edge", "--runs", 5, code=code)
    golden = replace(right, outputs={"where": positions[:, 1:]})
    write_bundle(replace(session_bundle(), goldens=(golden,)), tmp_path / "wrong.edge")
    assert "bytes" in call(native, "selftest", tmp_path / "wrong.edge", "--runs", 5, code=1)


def test_samples_of_another_program_are_an_error(native: Path, tmp_path: Path) -> None:
    good = session_bundle()
    (golden,) = good.goldens
    x, y = golden.inputs["x"], golden.outputs["y"]
    for inputs, outputs, expected in (
        ({"x": x}, {"q": y}, "'q'"),
        ({"q": x}, {"y": y}, "'q'"),
        ({}, {"y": y}, "values for the input 'x'"),
        ({"x": x[1:]}, {"y": y}, f"expected {x.nbytes} bytes, got {x[1:].nbytes}"),
        ({"x": x}, {"where": np.zeros(3, np.int64)}, "a multiple of 16 bytes up to 98304, got 24"),
    ):
        other = replace(golden, inputs=inputs, outputs=outputs)
        write_bundle(replace(good, goldens=(other,)), tmp_path / "other.edge")
        message = call(native, "selftest", tmp_path / "other.edge", "--runs", 1, code=2)
        assert "golden sample" in message
        assert expected in message


def test_programs_for_devices(native: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("EDGERT_CUDA_LIBRARY", "EDGERT_EMULATOR_DEVICE"):
        monkeypatch.delenv(name, raising=False)
    golden = Golden({"x": x_of()}, {"y": x_of() * WEIGHTS + np.float32(1)}, 0.0, 0.0)
    other = affine().program(arch="another", device="sm_90", target="h200")
    bundle = write(tmp_path / "affine.edge", affine().program(), other, golden=golden)
    np.save(tmp_path / "x.npy", x_of())
    given = ("--input", f"x={tmp_path / 'x.npy'}", "-o", tmp_path)
    for target in ("jetson", "h200"):
        call(native, "run", bundle, "--emulate", "--target", target, "--code-cache", tmp_path / target, *given)
        np.testing.assert_array_equal(np.load(tmp_path / "y.npy"), golden.outputs["y"])
        assert len(list((tmp_path / target).iterdir())) == 3
    call(native, "bench", bundle, "--emulate", "--runs", 2)
    found = json.loads(call(native, "selftest", bundle, "--emulate", "--runs", 2, "--json"))
    assert (found["passed"], found["session"]["target"]) == (True, "jetson")
    message = call(native, "run", bundle, "--target", "jetson", *given, code=2)
    assert "--allow-native" in message
    emulator = native.parent.parent / "cuda-emulator" / "libcuda-emulator.so"
    allowed = ("--allow-native", "--target", "jetson", "--cuda-library")
    call(native, "run", bundle, *allowed, emulator, *given)
    assert "/nowhere.so" in call(native, "run", bundle, *allowed, "/nowhere.so", *given, code=2)
    assert "it is not the emulator" in call(
        native, "run", bundle, "--emulate", "--cuda-library", "libm.so.6", *given, code=2
    )
    assert "can run here" in call(native, "info", bundle, *allowed[:1], "--cuda-library", emulator)
    (tmp_path / "cpu").mkdir()
    message = call(native, "run", packed(two_inputs(), tmp_path / "cpu"), "--emulate", code=2)
    assert "expected a program for a device, got none" in message


@needs_zig
@needs_qemu
@pytest.mark.parametrize("isa", ["neon", "scalar"])
def test_selftest_on_aarch64(tmp_path: Path, isa: str) -> None:
    built = cross_build("aarch64-linux-musl", "edgert-native") / "tools" / "edgert-native"
    pack(MODEL, tmp_path / "digits.edge", targets=("cpu-aarch64",))
    emulated = [shutil.which("qemu-aarch64-static", path=PATH), built]
    options = ("--isa", isa, "--threads", 1, "--runs", 5, "--json")
    found = json.loads(call(emulated, "selftest", tmp_path / "digits.edge", *options))
    assert found["passed"]
    assert found["session"] | {"target": "cpu-aarch64", "isa": isa} == found["session"]
    assert [(row["name"], row["passed"]) for row in found["outputs"]] == [("probabilities", True)]


@needs_zig
@needs_qemu
@pytest.mark.parametrize("block", [SINGLE, Block(4, 1), Block(1, 4)], ids=str)
def test_sparse_network_on_aarch64(tmp_path: Path, block: Block) -> None:
    """Streams of single weights and of blocks, of a kernel that is strided, one that is dilated, and of matrices that
    one row of inputs is multiplied with, or several."""
    built = cross_build("aarch64-linux-musl", "edgert-native") / "tools" / "edgert-native"
    emulated = [shutil.which("qemu-aarch64-static", path=PATH), built]
    pads = {"pads": [2, 2, 2, 2]}
    networks = {f"{rows} rows": fully_connected(rows, block) for rows in (1, 5)}
    for name, attributes in (("strided", pads | {"strides": [2, 2]}), ("dilated", pads | {"dilations": [2, 2]})):
        networks[name] = convolutions(((1, 40, 19, 21), (48, 40, 3, 3), attributes), 0.8, block)
    for name, network in networks.items():
        pack(network, tmp_path / name, targets=("cpu-aarch64",), implementation="sparse")
        found = json.loads(call(emulated, "selftest", tmp_path / name, "--isa", "neon", "--threads", 1, "--json"))
        assert found["passed"], name


@needs_zig
@needs_qemu
def test_quantized_network_on_aarch64(tmp_path: Path) -> None:
    """Convolutions of all kinds and a matrix product: the same bytes by every instruction set, and on this machine."""
    built = cross_build("aarch64-linux-musl", "edgert-native") / "tools" / "edgert-native"
    pack(Quantizer().run(STAGES["product"]), tmp_path / "model.edge", targets=("cpu", "cpu-aarch64"), golden=False)
    inputs = {"x": picture(5)}
    with load(tmp_path / "model.edge") as session:
        (want,) = session.run(inputs).values()
    given, out = save(tmp_path, inputs), tmp_path / "out"
    for isa in ("neoni8mm", "neondotprod", "neon", "scalar"):
        emulated = [shutil.which("qemu-aarch64-static", path=PATH), "-cpu", "max", built]
        call(emulated, "run", tmp_path / "model.edge", "--isa", isa, "--threads", 1, *given, "-o", out)
        (got,) = (np.load(path, allow_pickle=False) for path in out.iterdir())
        np.testing.assert_array_equal(got, want, strict=True, err_msg=isa)
