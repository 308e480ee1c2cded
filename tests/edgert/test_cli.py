"""The command line: every verb on small networks, its exit codes, and how it fails."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import numpy_helper
from typer.testing import CliRunner, Result

from edgert.cli import app
from edgert.reader import read
from tests.edgert.networks import classifier, packed, two_inputs

ROOT = Path(__file__).resolve().parents[2]
SHAPES = {"image": (1, 3, 10, 8)}
VERBS = ("pack", "info", "check", "run", "bench", "profile", "selftest", "verify", "targets", "devices", "demo")


def invoke(*arguments: object) -> Result:
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def succeed(*arguments: object) -> str:
    result = invoke(*arguments)
    assert result.exit_code == 0, result.output
    return result.stdout


def fail(*arguments: object, code: int = 2) -> str:
    """The message of a verb that fails, which has at most four lines on stderr and nothing on stdout."""
    result = invoke(*arguments)
    assert result.exit_code == code, result.output
    assert result.stdout == ""
    assert 1 <= len([line for line in result.stderr.splitlines() if line.strip()]) <= 4
    assert "Traceback" not in result.stderr
    return result.stderr


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """model.onnx and model.edge of the classifier, two/ with those of the network of two inputs."""
    folder = tmp_path_factory.mktemp("cli")
    packed(classifier(), folder, shapes=SHAPES)
    (folder / "two").mkdir()
    packed(two_inputs(), folder / "two")
    return folder


@pytest.fixture(scope="module")
def bundle(folder: Path) -> Path:
    return folder / "model.edge"


def test_help_names_every_verb() -> None:
    text = succeed("--help")
    assert "..." not in text.replace("[ARGS]...", "")
    for verb in VERBS:
        assert f"  {verb} " in text
        assert "Usage" in succeed(verb, "--help")
    assert succeed("--version").startswith("edgert 0.")


def test_pack(folder: Path, tmp_path: Path) -> None:
    out = tmp_path / "other.edge"
    found = json.loads(
        succeed("pack", folder / "model.onnx", "-o", out, "--shape", "image=1x3x10x8", "--json", "--rtol", "1e-3")
    )
    assert found["path"] == str(out)
    assert found["bytes"] == out.stat().st_size
    assert found["programs"][0]["target"] == "cpu"
    assert read(out).goldens[0].rtol == pytest.approx(1e-3)
    text = succeed(
        "pack", folder / "model.onnx", "-o", out, "--shape", "image=1x3x10x8", "--no-golden", "--target", "cpu"
    )
    assert str(out) in text
    assert "steps, weights" in text
    assert read(out).goldens == ()


def test_pack_pins_inputs(folder: Path, tmp_path: Path) -> None:
    np.save(tmp_path / "b.npy", np.ones(3, np.float32))
    out = tmp_path / "pinned.edge"
    succeed("pack", folder / "two" / "model.onnx", "-o", out, "--pin", f"b={tmp_path / 'b.npy'}")
    assert [t.name for t in read(out).programs[0].tensors if t.place == "input"] == ["a"]
    pin = f"b={tmp_path / 'b.npy'}"
    assert "PASS" in succeed("verify", out, folder / "two" / "model.onnx", "--pin", pin)
    assert "--pin b=FILE" in fail("verify", out, folder / "two" / "model.onnx")


def test_pack_refuses(folder: Path, tmp_path: Path) -> None:
    model, out = folder / "model.onnx", tmp_path / "x.edge"
    assert "expected numbers such as image=1x3x224x224" in fail("pack", model, "-o", out, "--shape", "image=1xHx8")
    assert "unknown target 'moon'" in fail("pack", model, "-o", out, "--shape", "image=1x3x10x8", "--target", "moon")
    assert "expected NAME=PIN" in fail("pack", model, "-o", out, "--pin", "b.npy")
    assert "absent.onnx" in fail("pack", tmp_path / "absent.onnx", "-o", out)
    assert "is a directory" in fail("pack", tmp_path)
    assert "the output is a folder" in fail("pack", model, "-o", tmp_path)
    assert "mkdir -p" in fail("pack", model, "-o", tmp_path / "absent" / "x.edge")
    assert list(tmp_path.iterdir()) == []


def test_pack_never_replaces_the_model(folder: Path) -> None:
    model = folder / "model.onnx"
    before = model.read_bytes()
    assert "would replace the model" in fail("pack", model, "-o", folder / "two" / ".." / "model.onnx")
    assert model.read_bytes() == before


def test_pack_into_a_folder_that_is_read_only(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.access", lambda _, mode: not mode & os.W_OK)  # root may write anywhere
    assert "cannot be written to" in fail("pack", folder / "model.onnx", "-o", tmp_path / "x.edge")


def test_info(bundle: Path) -> None:
    text = succeed("info", bundle)
    assert "program cpu" in text
    assert "image: float32[1,3,10,8]" in text
    assert "conv" in text
    assert "50.0%" in text
    found = json.loads(succeed("info", bundle, "--json"))
    (program,) = found["programs"]
    convolution = next(layer for layer in program["layers"] if layer["weights"])
    assert (convolution["weights"], convolution["nonzeros"]) == (6 * 3 * 3 * 3, 3 * 3 * 3 * 3)
    assert "conv" in convolution["nodes"]
    assert program["sparsity"] == pytest.approx(0.5)
    assert program["arena_bytes"] >= program["arena_floor"] > 0
    assert found["bytes"] == bundle.stat().st_size


def test_info_needs_no_library(bundle: Path) -> None:
    environment = os.environ | {"EDGERT_LIBRARY": "/nowhere.so"}
    command = [sys.executable, "-m", "edgert"]
    found = subprocess.run([*command, "info", bundle], cwd=ROOT, env=environment, capture_output=True, text=True)
    assert found.returncode == 0
    assert "program cpu" in found.stdout
    found = subprocess.run([*command, "run", bundle], cwd=ROOT, env=environment, capture_output=True, text=True)
    assert found.returncode == 2
    assert "/nowhere.so could not be loaded" in found.stderr
    assert len(found.stderr.splitlines()) <= 4


def test_check(bundle: Path, folder: Path, tmp_path: Path) -> None:
    for program in read(bundle).programs:
        assert f"cpu, cores {program.cores}: runs here with" in succeed("check", bundle)
    other = tmp_path / "other.edge"
    machine = read(bundle).programs[0].arch
    foreign = "cpu-aarch64" if machine == "x86_64" else "cpu-x86_64"
    model, shape = folder / "model.onnx", "image=1x3x10x8"
    succeed("pack", model, "-o", other, "--shape", shape, "--target", foreign)
    result = invoke("check", other)
    assert result.exit_code == 1
    assert f"this machine is {machine}" in result.stdout
    succeed("pack", model, "-o", other, "--shape", shape, "--target", foreign, "--target", "cpu")
    found = json.loads(succeed("check", other, "--json"))
    assert found["runs"]
    assert {(p["target"], p["runs"]) for p in found["programs"]} == {(foreign, False), ("cpu", True)}
    assert [p["cores"] for p in found["programs"]] == [p.cores for p in read(other).programs]


def test_run_reads_every_kind_of_file(folder: Path, tmp_path: Path) -> None:
    two = folder / "two" / "model.edge"
    a, b = np.arange(6, dtype=np.float32).reshape(2, 3), np.array([1, -9, 1], np.float32)
    np.save(tmp_path / "a.npy", a)
    np.savez(tmp_path / "both.npz", a=a, b=b)
    (tmp_path / "b.pb").write_bytes(numpy_helper.from_array(b, "b").SerializeToString())
    np.save(tmp_path / "double.npy", b.astype(np.float64))
    out = tmp_path / "out.npz"
    for files in (["a=a.npy", "b=b.pb"], ["both.npz"], ["a=both.npz", "b=both.npz"], ["a=a.npy", "b=double.npy"]):
        inputs = [part for file in files for part in ("--input", file)]
        with pytest.MonkeyPatch.context() as patch:
            patch.chdir(tmp_path)
            text = succeed("run", two, *inputs, "-o", out)
        assert "sum: float32[2,3]" in text
        with np.load(out) as found:
            assert np.array_equal(found["sum"], a + b)
            assert np.array_equal(found["positive"], np.maximum(a + b, 0))


def test_run_shows_top_classes(bundle: Path, tmp_path: Path) -> None:
    labels = tmp_path / "labels.txt"
    labels.write_text("\n".join(f"kind {n}" for n in range(6)))
    text = succeed("run", bundle, "--random", "--labels", labels)
    assert "scores: float32[1,6]" in text
    assert text.count("kind") == 5
    (found,) = json.loads(succeed("run", bundle, "--random", "--json"))["outputs"]
    assert [entry["value"] for entry in found["top"]] == sorted((e["value"] for e in found["top"]), reverse=True)
    assert found["max"] == found["top"][0]["value"]


def test_run_prepares_pictures(bundle: Path, tmp_path: Path) -> None:
    image = pytest.importorskip("PIL.Image")
    import edgert

    pixels = np.random.default_rng(0).integers(0, 256, (10, 8, 3)).astype(np.uint8)
    image.fromarray(pixels).save(tmp_path / "x.png")
    out = tmp_path / "out.npz"
    options = ("--mean", "10,20,30", "--std", "50", "--bgr")
    succeed("run", bundle, "--input", f"image={tmp_path / 'x.png'}", *options, "-o", out)
    want = (pixels[..., ::-1].astype(np.float32) - [10, 20, 30]) / 50
    with edgert.load(bundle) as session, np.load(out) as found:
        array = want.astype(np.float32).transpose(2, 0, 1)[None]
        assert np.allclose(found["scores"], session.run(array)["scores"], rtol=1e-5)
    image.fromarray(pixels).resize((30, 40)).save(tmp_path / "big.jpg")
    succeed("run", bundle, "--input", tmp_path / "big.jpg")
    assert "other than 0" in fail("run", bundle, "--input", tmp_path / "x.png", "--std", "1,0,1")
    assert "1 or 3 numbers" in fail("run", bundle, "--input", tmp_path / "x.png", "--mean", "1,2")


def test_run_refuses(bundle: Path, folder: Path, tmp_path: Path) -> None:
    assert "has no value; pass image=FILE" in fail("run", bundle)
    assert "unknown input 'x'" in fail("run", bundle, "--input", "x=y.npy")
    assert "absent.npy: No such file" in fail("run", bundle, "--input", "image=absent.npy")
    assert "expected NAME=a.npy" in fail("run", folder / "two" / "model.edge", "--input", "a.npy")
    (tmp_path / "x.txt").write_text("1")
    assert "expected a file .npy" in fail("run", bundle, "--input", f"image={tmp_path / 'x.txt'}")
    np.save(tmp_path / "wrong.npy", np.zeros((2, 2), np.float32))
    assert "expected float32[1,3,10,8], got float32[2,2]" in fail("run", bundle, "--input", tmp_path / "wrong.npy")
    assert "nope" in fail("run", bundle, "--random", "--target", "nope")
    assert "expected one of" in fail("run", bundle, "--random", "--isa", "sse9")
    assert "expected 1 to 1024" in fail("run", bundle, "--random", "--threads", 1025)
    assert "expected a file .npz" in fail("run", bundle, "--random", "-o", tmp_path / "x.csv")
    assert not (tmp_path / "x.csv").exists()


@pytest.mark.parametrize("suffix", ["npy", "npz", "pb", "png"])
def test_files_that_do_not_hold_what_they_are_called(bundle: Path, tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"x.{suffix}"
    path.write_text("not at all")
    text = fail("run", bundle, "--input", f"image={path}")
    assert f"{path}: expected" in text
    assert "unsafe" not in text  # numpy's advice
    assert "internal" not in text
    np.save(tmp_path / "objects.npy", np.array([{}]), allow_pickle=True)
    assert "objects.npy: expected numbers" in fail("run", bundle, "--input", tmp_path / "objects.npy")


def test_labels_that_are_no_text(bundle: Path) -> None:
    assert f"{bundle}: expected text" in fail("run", bundle, "--random", "--labels", bundle)


@pytest.mark.parametrize("verb", ["info", "check", "run"])
def test_errors_name_the_bundle(bundle: Path, tmp_path: Path, verb: str) -> None:
    data = bytearray(bundle.read_bytes())
    data[-1] ^= 1
    path = tmp_path / "flipped.edge"
    path.write_bytes(data)
    assert fail(verb, path).startswith(f"error: {path}: the bundle's contents do not match")


def test_a_library_that_is_not_there(bundle: Path) -> None:
    command = [sys.executable, "-m", "edgert", "check", str(bundle)]
    environment = os.environ | {"EDGERT_LIBRARY": "/absent.so"}
    found = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, env=environment)
    assert found.returncode == 2
    assert found.stderr.count("absent.so") == 1
    assert "EDGERT_LIBRARY" in found.stderr


def test_bench(bundle: Path) -> None:
    text = succeed("bench", bundle, "--runs", 20, "--warmup", 2)
    assert "p50" in text
    assert "peak" in text
    found = json.loads(
        succeed("bench", bundle, "--duration", 0.05, "--threads", 1, "--json", "--integrity", "metadata")
    )
    latency = found["latency"]
    assert found["session"]["threads"] == 1
    assert latency["runs"] >= 1
    assert 0 < latency["min_ms"] <= latency["p50_ms"] <= latency["p90_ms"] <= latency["p99_ms"] <= latency["max_ms"]
    assert found["open_ms"] > 0
    assert found["first_ms"] > 0
    assert found["peak_bytes"] > 10e6


def test_profile(bundle: Path) -> None:
    text = succeed("profile", bundle, "--runs", 5)
    assert "conv" in text
    assert "wall" in text
    found = json.loads(succeed("profile", bundle, "--runs", 5, "--json"))
    for thread, busy in enumerate(found["thread_ms"]):
        assert sum(layer["thread_ms"][thread] for layer in found["layers"]) == pytest.approx(busy)
        assert busy >= 0
    assert found["run_ms"] + found["hook_ms"] == pytest.approx(found["wall_ms"])
    assert found["hook_ms"] >= 0
    assert found["layers"][0]["node"] == "conv"
    assert [step["step"] for step in found["steps"]] == list(range(len(found["steps"])))


def test_selftest(bundle: Path, folder: Path, tmp_path: Path) -> None:
    assert succeed("selftest", bundle, "--runs", 5).rstrip().endswith("PASS")
    found = json.loads(succeed("selftest", bundle, "--runs", 5, "--deadline-ms", 10000, "--json"))
    assert found["passed"]
    assert found["on_time"]
    assert [output["name"] for output in found["outputs"]] == ["scores"]

    late = invoke("selftest", bundle, "--runs", 5, "--deadline-ms", 0)
    assert late.exit_code == 1
    assert late.stdout.rstrip().endswith("FAIL")

    broken = bytearray(bundle.read_bytes())
    broken[-1] ^= 1
    (tmp_path / "broken.edge").write_bytes(broken)
    damaged = invoke("selftest", tmp_path / "broken.edge", "--json")
    assert damaged.exit_code == 1
    assert "checksum" in json.loads(damaged.stdout)["integrity"]

    model, shape = folder / "model.onnx", "image=1x3x10x8"
    succeed("pack", model, "-o", tmp_path / "strict.edge", "--shape", shape, "--atol", 0, "--rtol", 0)
    strict = invoke("selftest", tmp_path / "strict.edge", "--runs", 1)
    assert ("FAIL" in strict.stdout) == (strict.exit_code == 1)
    assert "no such file" in fail("selftest", tmp_path / "absent.edge").lower()


@pytest.mark.parametrize("reference", ["auto", "onnx"])
def test_verify(folder: Path, bundle: Path, reference: str) -> None:
    options = ("--reference", reference)
    assert "PASS against onnx" in succeed("verify", bundle, folder / "model.onnx", *options)
    two = folder / "two"
    assert "PASS" in succeed("verify", two / "model.edge", two / "model.onnx", *options)
    found = json.loads(succeed("verify", two / "model.edge", two / "model.onnx", *options, "--samples", 2, "--json"))
    assert found["passed"]
    assert [output["name"] for output in found["outputs"]] == ["sum", "positive"] * 2


def test_verify_refuses_what_is_no_model(bundle: Path) -> None:
    for reference in ("onnxruntime", "onnx"):
        text = fail("verify", bundle, bundle, "--reference", reference)
        assert f"{bundle}: expected an ONNX model" in text


def test_verify_finds_differences(folder: Path, bundle: Path, tmp_path: Path) -> None:
    model = onnx.load(folder / "model.onnx")
    weights = numpy_helper.to_array(model.graph.initializer[0]) * 1.01
    model.graph.initializer[0].CopyFrom(numpy_helper.from_array(weights, "w"))
    onnx.save(model, tmp_path / "other.onnx")
    result = invoke("verify", bundle, tmp_path / "other.onnx")
    assert result.exit_code == 1
    assert "FAIL" in result.stdout
    assert "no such file" in fail("verify", bundle, tmp_path / "absent.onnx")
    assert "expected auto" in fail("verify", bundle, tmp_path / "other.onnx", "--reference", "tea leaves")


def test_targets_and_devices() -> None:
    assert "cpu-aarch64" in succeed("targets")
    assert "cpu" in json.loads(succeed("targets", "--json"))
    assert "instruction sets" in succeed("devices")
    found: dict[str, Any] = json.loads(succeed("devices", "--json"))
    assert found["cores"] >= 1
    assert found["isas"][-1] == "scalar"
    assert found["memory_bytes"] > found["available_bytes"] > 0


def test_debug_shows_a_traceback(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "edgert", "info", str(tmp_path / "absent.edge"), "--debug"]
    found = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert "Traceback" in found.stderr
    assert found.returncode == 2
    found = subprocess.run(command[:-1], cwd=ROOT, capture_output=True, text=True)
    assert (found.returncode, found.stdout) == (2, "")
    assert found.stderr.startswith("error: the file could not be read")
    assert "No such option" in fail("info", "--nope", "x")


def test_unexpected_errors_are_short_too(bundle: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("edgert.summary.summarize", lambda *_: 1 // 0)
    text = fail("info", bundle)
    assert "internal error: ZeroDivisionError" in text
    assert "--debug" in text


def test_output_into_a_closed_pipe(bundle: Path) -> None:
    found = subprocess.run(
        ["bash", "-c", f"{sys.executable} -m edgert info {bundle} | true"], cwd=ROOT, capture_output=True, text=True
    )
    assert "Traceback" not in found.stderr
