"""The command line: verbs on small networks, their exit codes, and how they fail."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import numpy_helper

from tests.edgert.command import fail, succeed

ROOT = Path(__file__).resolve().parents[2]
VERBS = ("pack", "tune", "plan", "info", "check", "run", "bench", "profile", "selftest", "verify", "targets")
VERBS += ("devices", "demo")


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
