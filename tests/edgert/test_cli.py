"""The command line: every verb on small networks, its exit codes, and how it fails."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from typer.testing import CliRunner, Result

from edgert import load
from edgert.cli import app
from edgert.decisions import read_plan
from edgert.reader import read
from edgert.session import Session
from tests.edgert.networks import classifier, packed, two_inputs

ROOT = Path(__file__).resolve().parents[2]
SHAPES = {"image": (1, 3, 10, 8)}
VERBS = ("pack", "tune", "plan", "info", "check", "run", "bench", "profile", "selftest", "verify", "targets")
VERBS += ("devices", "demo")


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
    packed(classifier(), folder, shapes=SHAPES, cores=(1, 2, 4))
    (folder / "two").mkdir()
    packed(two_inputs(), folder / "two")
    return folder


@pytest.fixture(scope="module")
def bundle(folder: Path) -> Path:
    return folder / "model.edge"


def test_pack_tells_how_exact_programs_are(folder: Path, tmp_path: Path) -> None:
    verb = ("pack", folder / "model.onnx", "-o", tmp_path / "m.edge", "--shape", "image=1x3x10x8", "--explain")
    out = succeed(*verb, "--precision", "f16", "--implementation", "packed-f16")
    assert re.search(r"layers with rounded weights: 1, errors up to \d\.\de-04 \('", out)
    assert re.search(r"\n    rounding moves the outputs of the sample by \d\.\de-0\d of their size", out)
    assert re.search(r"split +us +adjust-us +rounding +runner-up", out)
    assert "rounding" not in succeed(*verb)


def test_help_names_every_verb() -> None:
    text = succeed("--help")
    assert "..." not in text.replace("[ARGS]...", "")
    for verb in VERBS:
        assert f"  {verb} " in text
        help = succeed(verb, "--help")
        assert "Usage" in help
        assert not set("<{") & set(help), "a value has no name"
    assert succeed("--version").startswith("edgert 0.")


def test_usage_names_arguments() -> None:
    for text in (succeed("verify", "--help"), fail("verify")):
        assert "verify [OPTIONS] BUNDLE MODEL\n" in text


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
    assert "expected NAME=FILE" in fail("pack", model, "-o", out, "--pin", "b.npy")
    np.save(tmp_path / "b.npy", np.ones(3, np.float32))
    assert "no input 'c' to give a value" in fail("pack", model, "-o", out, "--pin", f"c={tmp_path / 'b.npy'}")
    (tmp_path / "b.npy").unlink()
    for option in ("--weight-rounding", "--activations", "--placement", "--device-code", "--cuda-route"):
        assert f"{option[2:]} other: it is for targets with a GPU" in fail("pack", model, "-o", out, option, "other")
    assert "--pieces: it is for --explain" in fail("pack", model, "-o", out, "--pieces")
    assert "absent.onnx" in fail("pack", tmp_path / "absent.onnx", "-o", out)
    assert "is a directory" in fail("pack", tmp_path)
    assert "the output is a folder" in fail("pack", model, "-o", tmp_path)
    assert "mkdir -p" in fail("pack", model, "-o", tmp_path / "absent" / "x.edge")
    assert list(tmp_path.iterdir()) == []


def test_pack_keeps_links_and_what_is_no_file(folder: Path, tmp_path: Path) -> None:
    arguments = ("pack", folder / "two" / "model.onnx", "--no-golden", "-o")
    os.mkfifo(tmp_path / "pipe")
    assert "the output is no file" in fail(*arguments, tmp_path / "pipe")
    assert (tmp_path / "pipe").is_fifo()
    (tmp_path / "there").mkdir()
    (tmp_path / "link.edge").symlink_to(Path("there", "real.edge"))
    for _ in range(2):
        assert str(tmp_path / "link.edge") in succeed(*arguments, tmp_path / "link.edge")
        assert (tmp_path / "link.edge").is_symlink()
        assert read(tmp_path / "there" / "real.edge").programs
    assert [path.name for path in (tmp_path / "there").iterdir()] == ["real.edge"]


def test_pack_says_what_it_took_the_inputs_for(tmp_path: Path) -> None:
    node = helper.make_node("Relu", ["x"], ["y"])
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT16, ["batch", 5]) for name in ("x", "y")]
    graph = helper.make_graph([node], "free", ends[:1], ends[1:])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), tmp_path / "m.onnx")
    assert "\n  input x: float32[1,5]\n" in succeed("pack", tmp_path / "m.onnx")
    assert "\n  input x: float32[7,5]\n" in succeed("pack", tmp_path / "m.onnx", "--shape", "x=7x5")


def test_pack_never_replaces_the_model(folder: Path) -> None:
    model = folder / "model.onnx"
    before = model.read_bytes()
    assert "would replace the model" in fail("pack", model, "-o", folder / "two" / ".." / "model.onnx")
    assert model.read_bytes() == before


def test_pack_into_a_folder_that_is_read_only(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.access", lambda _, mode: not mode & os.W_OK)  # root may write anywhere
    assert "cannot be written to" in fail("pack", folder / "model.onnx", "-o", tmp_path / "x.edge")


def test_pack_explains(folder: Path, tmp_path: Path) -> None:
    out = tmp_path / "explained.edge"
    options = ("pack", folder / "model.onnx", "-o", out, "--shape", "image=1x3x10x8", "--cores", "1,2", "--explain")
    text = succeed(*options, "--pieces")
    plain, *plans = text.split("\n\nplan of the program for ")
    assert "packed in" in plain
    assert [plan.splitlines()[0] for plan in plans] == ["cpu, 1 core", "cpu, 2 cores"]
    for cores, plan in zip((1, 2), plans, strict=True):
        assert succeed("info", out, "--plan", "--cores", cores, "--pieces").splitlines()[1:] == plan.splitlines()[1:]
    found = json.loads(succeed(*options, "--json"))
    assert len(found["programs"]) == len(found["plans"]) == 2
    for program, plan in zip(read(out).programs, found["plans"], strict=True):
        assert plan == json.loads(json.dumps(asdict(read_plan(read(out), program))))


def test_info(bundle: Path) -> None:
    text = succeed("info", bundle)
    assert "program cpu, 1 core" in text
    assert "image: float32[1,3,10,8]" in text
    assert "conv" in text
    assert "50.0%" in text
    programs = read(bundle).programs
    rows = [line.split() for line in text.splitlines() if line.startswith("  cpu ")]
    assert [(int(row[2]), int(row[3]), int(row[4])) for row in rows] == [
        (p.cores, len(p.steps), p.steps[-1].phase + 1) for p in programs
    ]
    assert len(rows) > 1
    assert text.count("conv + relu") == 1
    for program, found in zip(programs, json.loads(succeed("info", bundle, "--json"))["programs"], strict=True):
        convolution = next(layer for layer in found["layers"] if layer["weights"])
        assert (convolution["weights"], convolution["nonzeros"]) == (6 * 3 * 3 * 3, 3 * 3 * 3 * 3)
        assert "conv" in convolution["nodes"]
        assert found["sparsity"] == pytest.approx(0.5)
        assert found["arena_bytes"] >= found["arena_floor"] > 0
        assert found["cores"] == program.cores
    assert json.loads(succeed("info", bundle, "--json"))["bytes"] == bundle.stat().st_size


def test_info_of_one_of_several_programs(bundle: Path, folder: Path, tmp_path: Path) -> None:
    cores = [program.cores for program in read(bundle).programs]
    for count in cores:
        assert f"program cpu, {count} core" in succeed("info", bundle, "--cores", count)
        assert f"plan of the program for cpu, {count} core" in succeed("info", bundle, "--plan", "--cores", count)
    known = ", ".join(map(str, cores))
    assert f"--cores: the bundle has programs of cpu for {known}; got 3" in fail("info", bundle, "--cores", 3)
    assert "--target: expected one of cpu, got 'moon'" in fail("info", bundle, "--target", "moon")
    foreign = "cpu-aarch64" if read(bundle).programs[0].arch == "x86_64" else "cpu-x86_64"
    out, targets = tmp_path / "two.edge", ("--target", foreign, "--target", "cpu")
    succeed("pack", folder / "model.onnx", "-o", out, "--shape", "image=1x3x10x8", *targets, "--cores", "2")
    assert "program cpu, 2 cores" in succeed("info", out)
    assert f"program {foreign}, 2 cores" in succeed("info", out, "--target", foreign)


def test_info_shows_the_plan_that_runs_here(bundle: Path) -> None:
    with load(bundle) as session:
        cores = session.describe().cores
    assert json.loads(succeed("info", bundle, "--plan", "--json"))["cores"] == cores
    with load(bundle, threads=1) as session:
        assert session.describe().cores == 1
    text = succeed("info", bundle, "--plan", "--cores", 1)
    row = next(line for line in text.splitlines() if line.startswith("  conv "))
    plan = read_plan(read(bundle), read(bundle).programs[0])
    assert row.split()[1:5] == ["Conv", plan.decisions[0].algorithm, plan.decisions[0].layouts, plan.decisions[0].split]
    assert "us computing" in row
    assert f"predicted {plan.nanoseconds / 1e6:.3f} ms" in text
    assert "measured" not in text


def test_info_with_measured_times(bundle: Path, tmp_path: Path) -> None:
    for threads in (1, 2):
        profile = tmp_path / f"{threads}.json"
        profile.write_text(succeed("profile", bundle, "--threads", threads, "--runs", 3, "--json"))
        options = ("info", bundle, "--plan", "--cores", threads, "--profile", profile)
        assert "measured-us" in succeed(*options)
        found = json.loads(succeed(*options, "--json"))
        measured, layers = found["measured"], json.loads(profile.read_text())["layers"]
        assert len(measured["decisions"]) == len(found["plan"]["decisions"])
        assert measured["run"] > 0
        timed = [d["nodes"] for d, ns in zip(found["plan"]["decisions"], measured["decisions"], strict=True) if ns]
        assert {layer["node"] for layer in layers if sum(layer["thread_ms"]) and layer["node"]} <= {n[0] for n in timed}
    other = ("info", bundle, "--plan", "--cores", 1, "--profile", tmp_path / "2.json")
    assert "the profile is of another program than cpu, cores 1" in fail(*other)
    for text in ("no JSON", "[]", "{}", '{"steps": [{}], "plain_ms": 1}', '{"steps": [], "plain_ms": "x"}'):
        (tmp_path / "bad.json").write_text(text)
        assert "bad.json: expected what `edgert profile --json` prints" in fail(
            "info", bundle, "--profile", tmp_path / "bad.json"
        )
    assert "absent.json" in fail("info", bundle, "--profile", tmp_path / "absent.json")


def test_info_draws_the_plan(bundle: Path, tmp_path: Path) -> None:
    page = tmp_path / "plan.html"
    assert succeed("info", bundle, "--plan", "--cores", 2, "--html", page) == ""
    assert succeed("info", bundle, "--plan", "--cores", 2, "--html", "-") == page.read_text(encoding="utf-8") + "\n"
    assert "No such file" in fail("info", bundle, "--html", tmp_path / "absent" / "plan.html")


def test_info_of_a_bundle_without_plans() -> None:
    old = ROOT / "tests" / "golden" / "format-1.0.edge"
    assert "program " in succeed("info", old)
    assert "does not tell what the planner decided" in fail("info", old, "--plan")


def test_plan(folder: Path) -> None:
    model, shape = folder / "model.onnx", ("--shape", "image=1x3x10x8")
    machine = ("--machine", "xeon-e5-2666v3.toml")
    text = succeed("plan", model, *shape, *machine, "--cores", 6)
    assert "Xeon E5-2666 v3" in text
    rows = [line.split() for line in text.splitlines()[2:]]
    assert [(row[0], row[2]) for row in rows[:1]] == [("1", "1.00x")]
    assert [int(row[0]) for row in rows] == [1, 2, 4, 6]
    found = json.loads(succeed("plan", model, *shape, *machine, "--cores", "3,1", "--explain", "--json"))
    assert found["machine"] == "xeon-e5-2666v3"
    first, second = found["plans"]
    assert [first["cores"], second["cores"]] == [1, 3]
    assert first["speed_up"] == 1
    assert second["speed_up"] == pytest.approx(first["milliseconds"] / second["milliseconds"])
    assert first["exact"]
    assert first["states"] >= len(found["decisions"])
    told = sum(d["compute"] + d["adjust"] for d in found["decisions"])
    assert told == pytest.approx(second["milliseconds"] * 1e6, abs=len(found["decisions"]))
    text = succeed("plan", model, *shape, "--cores", "2", "--explain", "--pieces")
    assert "runner-up" in text
    assert "core 0" in text
    np.save(folder / "b.npy", np.ones(3, np.float32))
    two = (folder / "two" / "model.onnx", "--cores", 1, "--json")
    whole, pinned = (json.loads(succeed("plan", *two, *pin)) for pin in ((), ("--pin", f"b={folder / 'b.npy'}")))
    assert pinned["plans"][0]["milliseconds"] <= whole["plans"][0]["milliseconds"]


def test_plan_refuses(folder: Path, tmp_path: Path) -> None:
    plan = ("plan", folder / "model.onnx", "--shape", "image=1x3x10x8")
    text = fail(*plan, "--machine", "moon")
    assert "unknown machine 'moon': expected a TOML file or one of " in text
    assert "jetson-tx2" in text
    (tmp_path / "bad.toml").write_text("cores = 3")
    assert "bad.toml: expected one or more [[cores]] tables" in fail(*plan, "--machine", tmp_path / "bad.toml")
    assert "unknown search 'nope'; known: exact, none, rows, greedy" in fail(*plan, "--search", "nope")
    assert "unknown target 'moon'" in fail(*plan, "--target", "moon")
    assert "expected 1 to 254, got 0" in fail(*plan, "--cores", 0)
    assert "--cores: expected 1 to 254, got 255" in fail(*plan, "--cores", 255)
    assert "got 100000" in fail(*plan, "--cores", 100000)
    assert "--pieces: it is for --explain" in fail(*plan, "--pieces")
    assert "no input 'c' to give a value" in fail(*plan, "--pin", f"c={folder / 'b.npy'}")
    assert "--cores: expected numbers such as 1,2,4, got 'two'" in fail(*plan, "--cores", "two")
    assert "absent.onnx" in fail("plan", tmp_path / "absent.onnx")


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
    succeed("pack", model, "-o", other, "--shape", shape, "--target", foreign, "--cores", "1,2")
    assert fail("run", other, "--random").count(f"'{foreign}' needs ") == 1
    result = invoke("check", other)
    assert result.exit_code == 1
    assert f"this machine is {machine}" in result.stdout
    succeed("pack", model, "-o", other, "--shape", shape, "--target", foreign, "--target", "cpu")
    found = json.loads(succeed("check", other, "--json"))
    assert found["runs"]
    assert {(p["target"], p["runs"]) for p in found["programs"]} == {(foreign, False), ("cpu", True)}
    assert [p["cores"] for p in found["programs"]] == [p.cores for p in read(other).programs]


def test_check_tells_what_is_slow_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    w = np.random.default_rng(0).standard_normal((56, 64, 1, 1)).astype(np.float32)
    node = onnx.helper.make_node("Conv", ["x", "w"], ["y"])
    x, y = (
        onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, (1, channels, 16, 16))
        for name, channels in (("x", 64), ("y", 56))
    )
    graph = onnx.helper.make_graph([node], "layer", [x], [y], [numpy_helper.from_array(np.where(w > 1, w, 0), "w")])
    onnx.save(onnx.helper.make_model(graph), tmp_path / "layer.onnx")
    bundle = tmp_path / "layer.edge"
    made_for = ("--target", "cpu-x86_64-avx512", "--implementation", "unrolled")
    succeed("pack", tmp_path / "layer.onnx", "-o", bundle, *made_for, "--cores", "1")
    if read(bundle).programs[0].arch not in succeed("devices"):
        pytest.skip("needs an x86-64 processor")
    describe = Session.describe
    with load(bundle, isa="sse2") as session:
        assert describe(session).slow_steps == describe(session).steps == 1
    if "avx512" in succeed("devices"):
        with load(bundle) as session:
            assert describe(session).slow_steps == 0
    for slow in (0, 1):
        monkeypatch.setattr(Session, "describe", lambda self, slow=slow: replace(describe(self), slow_steps=slow))
        text = succeed("check", bundle)
        assert "runs here with" in text
        assert ("slowly: 1 of 1 steps" in text) == slow


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


def test_verify_prepares_pictures_as_run_does(bundle: Path, folder: Path, tmp_path: Path) -> None:
    image = pytest.importorskip("PIL.Image")
    image.fromarray(np.full((10, 8, 3), 200, np.uint8)).save(tmp_path / "x.png")
    options = (bundle, folder / "model.onnx", "--input", tmp_path / "x.png")
    assert "PASS" in succeed("verify", *options, "--mean", "10,20,30", "--std", "50", "--layout", "nchw", "--bgr")
    assert "other than 0" in fail("verify", *options, "--std", "0")


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
    short, long = (
        json.loads(
            subprocess.run(
                [sys.executable, "-m", "edgert", "bench", bundle, "--threads", "1", "--duration", seconds, "--json"],
                check=True, capture_output=True,
            ).stdout
        )
        for seconds in ("0", "2")
    )  # fmt: skip
    assert long["latency"]["runs"] > 10_000
    assert long["grown_bytes"] < short["grown_bytes"] + (2 << 20), "its own list of times"


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
    assert "cpu, cores 1, " in succeed("selftest", bundle, "--runs", 5, "--threads", 1)
    succeed("pack", folder / "two" / "model.onnx", "-o", tmp_path / "bare.edge", "--no-golden")
    assert "PASS, but no output was compared" in succeed("selftest", tmp_path / "bare.edge", "--runs", 1)

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


@pytest.mark.parametrize("precision", ["f16", "bf16"])
def test_verify_allows_for_rounded_weights(folder: Path, tmp_path: Path, precision: str) -> None:
    model, out = folder / "model.onnx", tmp_path / "rounded.edge"
    succeed("pack", model, "-o", out, "--shape", "image=1x3x10x8", "--precision", precision)
    assert "PASS" in succeed("verify", out, model)
    assert invoke("verify", out, model, "--atol", 0, "--rtol", 1e-9).exit_code == 1


def test_verify_with_a_model_of_halves(tmp_path: Path) -> None:
    w = np.random.default_rng(0).standard_normal((5, 6)).astype(np.float16)
    node = helper.make_node("MatMul", ["x", "w"], ["y"])
    x, y = (helper.make_tensor_value_info(n, TensorProto.FLOAT16, [3, k]) for n, k in (("x", 5), ("y", 6)))
    graph = helper.make_graph([node], "halves", [x], [y], [numpy_helper.from_array(w, "w")])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), tmp_path / "m.onnx")
    succeed("pack", tmp_path / "m.onnx")
    for reference in ("onnxruntime", "onnx"):
        assert "PASS" in succeed("verify", tmp_path / "m.edge", tmp_path / "m.onnx", "--reference", reference)


def test_verify_refuses_other_models(folder: Path, bundle: Path, tmp_path: Path) -> None:
    two = folder / "two"
    assert "expected outputs of the bundle's names" in fail("verify", bundle, two / "model.onnx")
    model = onnx.load(folder / "model.onnx")
    model.graph.input[0].type.tensor_type.shape.dim[1].dim_value = 7
    onnx.save(model, tmp_path / "other.onnx")
    text = fail("verify", bundle, tmp_path / "other.onnx")
    assert "internal" not in text
    assert "can run" in text


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
