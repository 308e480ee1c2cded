"""The planner is judged by what was measured: candidates and plans on the emulator, and facts about them."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from benchmarks.cuda_operators import OPERATORS
from benchmarks.deep import pruned
from benchmarks.gpu.planned import over_best, ratios
from benchmarks.gpu.unseen import UNSEEN
from edgert import _native
from packer.importers import import_onnx
from packer.ir.ops import Conv
from packer.passes import optimize
from packer.planner import make_plan
from targets.base import Layout, resolve
from tests.targets.cuda.driver import ROOT, library


def row(step: int, algorithm: str, predicted: float, measured: float, network: str = "a") -> dict:
    times = {"predicted": predicted, "measured": measured}
    return {"network": network, "zeros": 0.9, "step": step, "algorithm": algorithm, **times}


def test_predicted_over_measured() -> None:
    found = ratios([row(0, "t1", 2.0, 1.0), row(0, "t1 channels 8", 8.0, 1.0), row(1, "t3 + max pool", 1.0, 4.0)])
    assert list(found) == ["all", "t1", "t3"]
    assert found["t1"] == {"count": 2, "mean": pytest.approx(4), "factor": pytest.approx(2)}
    assert found["t3"] == {"count": 1, "mean": pytest.approx(0.25), "factor": pytest.approx(1)}
    assert found["all"]["mean"] == pytest.approx(math.cbrt(4))
    assert ratios([]) == {}


def test_what_the_model_ranks_first_over_the_best() -> None:
    rows = [row(0, "t1", 1.0, 6.0), row(0, "t2", 2.0, 3.0), row(0, "t3", 3.0, 4.0)]  # twice the best
    rows += [row(1, "t1", 1.0, 8.0), row(1, "t3", 2.0, 1.0)]  # eight times
    rows += [row(2, "t3", 1.0, 1.0), row(2, "t1", 1.0, 1.0, network="another")]  # steps of one candidate each
    assert over_best(rows) == (2, pytest.approx(4))
    assert over_best(rows[-2:]) == (0, None)


@pytest.mark.parametrize("name", UNSEEN)
def test_networks_run_on_the_device_alone(name: str) -> None:
    graph = optimize(import_onnx(pruned(UNSEEN[name](), 0.9), shapes={}, constants={}))
    choices = make_plan(graph, resolve("h200", placement="device")).choices
    assert all({Layout.PLANES, Layout.REGISTERS} & {*choice.form.inputs} for choice in choices)


def test_networks_have_all_kinds_of_convolutions_and_layers_are_none_of_those_that_were_fitted() -> None:
    kinds = set()
    for name, build in UNSEEN.items():
        graph = optimize(import_onnx(build(), shapes={}, constants={}))
        for node in graph.nodes:
            if isinstance(node.op, Conv):
                x, w = graph.type(node.inputs[0] or "").shape, graph.type(node.inputs[1] or "").shape
                kinds.add((w[2], node.op.strides[0], min(node.op.group, 3) if w[1] > 1 else "depthwise"))
                fitted = (w[0], x[1], w[2], node.op.strides[0], node.op.pads[0], x[2]) in OPERATORS.values()
                assert not fitted or name == "resnet50_any"
    assert {(7, 2, 1), (5, 1, 2), (5, 1, 1), (3, 2, 1), (1, 1, 1), (3, 2, "depthwise"), (5, 1, "depthwise")} <= kinds


def section(output: Path, seconds: float) -> dict:
    """The section, run on the emulator, which adds to what is there."""
    command = [sys.executable, "-m", "benchmarks.gpu.section", "planned", str(output), str(seconds), library()._name]
    own = {"EDGERT_CUDA_LIBRARY": library()._name, "EDGERT_LIBRARY": _native.library()._name}
    done = subprocess.run(command, cwd=ROOT, env={**os.environ, **own}, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    found: dict = json.loads(output.read_text())["sections"]["planned"]
    return found


def test_candidates_and_plans(tmp_path: Path) -> None:
    output = tmp_path / "gpu.json"
    output.write_text('{"emulated": true, "sections": {}}')
    found = section(output, 300)
    assert "notes" not in found
    timed = [row for row in found["rows"] if "algorithm" in row]
    tiers = {(row["zeros"], row["algorithm"].partition(" ")[0]) for row in timed}
    assert tiers == {(0.0, "t3"), (0.9, "t3"), (0.9, "t2"), (0.9, "t1"), (0.9, "t1c")}
    assert {(row["operator"], row["shape"]) for row in timed} == {("Conv", "3x3 4>16 at 8x8, batch 1")}
    assert all(0 < row["predicted"] < row["measured"] for row in timed), "an emulator is slower than any device"
    plans = {(row["zeros"], row["plan"]): row for row in found["rows"] if "plan" in row}
    assert list(plans) == [(zeros, plan) for zeros in (0.0, 0.9) for plan in ("model", "records")]
    for zeros in (0.0, 0.9):
        least = min(row["measured"] for row in timed if row["zeros"] == zeros)
        assert max(least, plans[zeros, "model"]["predicted"]) < plans[zeros, "records"]["predicted"]
    counts = Counter(row["algorithm"].partition(" ")[0] for row in timed)
    assert {tier: own["count"] for tier, own in found["predicted_over_measured"].items()} == counts | {
        "all": len(timed)
    }
    assert found["first_over_best"]["steps"] == 2
    assert found["first_over_best"]["mean"] >= 1
    again = section(output, 300)  # as after the device was lost
    assert again["rows"] == found["rows"]


def test_without_time(tmp_path: Path) -> None:
    output = tmp_path / "gpu.json"
    output.write_text('{"emulated": true, "sections": {}}')
    found = section(output, 0)
    assert found["rows"] == []
    assert found["notes"] == [f"left out, no time: conv 3x3, {zeros} zeros" for zeros in (0.0, 0.9)]
    assert found["first_over_best"] == {"steps": 0, "mean": None}
