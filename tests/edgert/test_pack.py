"""`edgert pack` and `edgert plan`."""

from __future__ import annotations

import json
import os
import re
from dataclasses import asdict
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from edgert.decisions import read_plan
from edgert.reader import read
from tests.edgert.command import fail, succeed


def test_pack_tells_how_exact_programs_are(folder: Path, tmp_path: Path) -> None:
    verb = ("pack", folder / "model.onnx", "-o", tmp_path / "m.edge", "--shape", "image=1x3x10x8", "--explain")
    out = succeed(*verb, "--precision", "f16", "--implementation", "packed-f16")
    assert re.search(r"layers with rounded weights: 1, errors up to \d\.\de-04 \('", out)
    assert re.search(r"\n    rounding moves the outputs of the sample by \d\.\de-0\d of their size", out)
    assert re.search(r"split +us +adjust-us +rounding +runner-up", out)
    assert "rounding" not in succeed(*verb)


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


@pytest.mark.parametrize("rank", [8, 9])
def test_pack_refuses_what_no_bundle_holds(tmp_path: Path, rank: int) -> None:
    shape = [2, *[1] * (rank - 2), 3]
    node = helper.make_node("Relu", ["x"], ["y"])
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name in ("x", "y")]
    graph = helper.make_graph([node], "deep", ends[:1], ends[1:])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), tmp_path / "m.onnx")
    if rank == 8:
        succeed("pack", tmp_path / "m.onnx")
        assert "PASS" in succeed("selftest", tmp_path / "m.edge", "--runs", 1)
    else:
        assert "tensor 'x' has too many dimensions" in fail("pack", tmp_path / "m.onnx")
        assert not (tmp_path / "m.edge").exists()


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
