"""`edgert check`."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

from edgert import load
from edgert.reader import read
from edgert.session import Session
from tests.edgert.command import fail, invoke, succeed


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
