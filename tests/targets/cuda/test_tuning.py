"""Tuning for a GPU: what is measured, how, and that packing takes what was quickest."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from typer.testing import CliRunner

from edgert import __version__
from edgert.cli import app
from edgert.decisions import read_plan
from edgert.reader import read
from packer.assembled import assembled
from packer.importers import import_onnx
from packer.ir import Graph
from packer.passes import optimize
from packer.planner import make_plans
from packer.planner.costs import work_of
from packer.tune import Campaign, Measured, Record, Records
from packer.tune.probe import LEAST, OFTEN, ONCE, probe
from targets.base import resolve
from targets.cuda.toolchain import missing
from tests.targets.cuda.driver import library

DEVICE = ("a GPU", "sm_62 f32 ptx")


def network(path: Path, size: int = 14) -> Path:
    """A sparse convolution, of 8 x 8 windows of which 20 % are not zero."""
    rng = np.random.default_rng(0)
    weights = (rng.standard_normal((32, 4, 3, 3)) * (rng.random((32, 4, 3, 3)) < 0.2)).astype(np.float32)
    graph = helper.make_graph(
        [helper.make_node("Conv", ["x", "w"], ["y"], "conv", pads=[1, 1, 1, 1])],
        "one",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 4, size, size])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 32, size, size])],
        [numpy_helper.from_array(weights, "w")],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), path)
    return path


@pytest.fixture
def graph(tmp_path: Path) -> Graph:
    return optimize(import_onnx(network(tmp_path / "model.onnx"), shapes={}, constants={}))


def test_probes_repeat_the_step(graph: Graph, tmp_path: Path) -> None:
    target = resolve("jetson", placement="device", device_code="ptx")
    with Records(tmp_path / "records.sqlite", create=True) as records:
        campaign = Campaign(graph, target, (1,), records, *DEVICE)
        assert campaign.total >= 8
        for candidate in campaign.candidates.all:
            work, form = candidate.work, candidate.form
            for apart in (0.0, 1e-3):
                made = probe(work, form, target, apart=apart)
                once, often = made.bundle.programs
                assert (once.target, often.target) == (ONCE, OFTEN)
                assert [step.kernel for step in once.steps] == ["put", "launch", "get"]
                more = len(often.steps) - len(once.steps)
                assert more >= LEAST
                assert more * target.seconds(work, form, (), 0, 1) >= apart
                assert often.steps[made.step] == often.steps[made.step + more] == once.steps[made.step]


@pytest.mark.skipif(bool(missing()), reason=missing())
def test_probes_have_machine_code_where_packed_networks_do(graph: Graph) -> None:
    (node,) = graph.nodes
    for code in ("cubin", "ptx"):
        target = resolve("jetson", placement="device", device_code=code)
        (plan,) = make_plans(graph, target, (1,))
        network = assembled(plan.program(), target)
        for program in (network, *probe(work_of(graph, node), plan.choices[0].form, target).bundle.programs):
            assert program.modules
            assert all((module.cubin is not None) == (code == "cubin") for module in program.modules)


def test_what_was_quickest_is_packed(graph: Graph, tmp_path: Path) -> None:
    target = resolve("jetson", placement="device", device_code="ptx")
    with Records(tmp_path / "records.sqlite", create=True) as records:
        campaign = Campaign(graph, target, (1,), records, *DEVICE)
        every = {candidate.form.implementation: candidate.signature for candidate in campaign.candidates.all}
        best = next(way for way in every if way.startswith("t3 "))  # the planner by itself takes no dense one
        for way, signature in every.items():
            records.store(Record(*DEVICE, campaign.weights, signature, 1e-6 if way == best else 1e-3, 0.0, 9, "a test"))
        found = Measured.load(records, *DEVICE).of(graph, target)
    (plain,) = make_plans(graph, target, (1,))
    (tuned,) = make_plans(graph, target, (1,), records=found)
    assert not plain.choices[0].form.implementation.startswith("t3")
    assert tuned.choices[0].form.implementation == best
    assert {module.ptx for module in tuned.program().modules} != {module.ptx for module in plain.program().modules}


@pytest.mark.slow
def test_on_the_emulator(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EDGERT_CUDA_LIBRARY", library()._name)
    model, records, out = network(tmp_path / "model.onnx", 8), tmp_path / "records.sqlite", tmp_path / "model.edge"
    tune = [
        "tune",
        str(model),
        "--target",
        "jetson",
        "--emulate",
        "--records",
        str(records),
        "--budget",
        "0",
        "--device-code",
        "ptx",
    ]
    done = CliRunner().invoke(app, tune)
    assert done.exit_code == 0, done.output
    assert "Tegra X2 (emulated)" in done.output
    assert "sm_62 f32 ptx" in done.output
    assert "left 0" in done.output
    assert "impossible" not in done.output
    again = CliRunner().invoke(app, tune)
    assert "measured 0," in again.output
    pack = [
        "pack",
        str(model),
        "-o",
        str(out),
        "--target",
        "jetson-tx2",
        "--device",
        "emulated",
        "--records",
        str(records),
    ]
    done = CliRunner().invoke(app, [*pack, "--placement", "device", "--device-code", "ptx"])
    assert done.exit_code == 0, done.output
    assert "measured times of NVIDIA Tegra X2" in done.output
    plan = read_plan(read(out), read(out).programs[0])
    assert plan.decisions[0].on_device
    assert plan.decisions[0].compute > 100_000  # ns: an emulator's time, not a prediction


def test_records_of_the_only_board_are_used_unasked(graph: Graph, tmp_path: Path) -> None:
    path, target = tmp_path / "records.sqlite", resolve("jetson", placement="device", device_code="ptx")
    model, out = network(tmp_path / "model.onnx"), tmp_path / "model.edge"

    def tuned(name: str, core: str) -> None:
        with Records(path, create=True) as records:
            campaign = Campaign(graph, target, (1,), records, name, core)
            for candidate in campaign.candidates.all:
                seconds = 1e-6 if candidate.form.implementation.startswith("t3 ") else 1e-3
                records.store(Record(name, core, campaign.weights, candidate.signature, seconds, 0.0, 9, "a test"))

    def packed(*options: str) -> tuple[str, bool]:
        """What it told, and whether the records decided."""
        pack = ["pack", str(model), "-o", str(out), "--target", "jetson", "--placement", "device", "--no-golden"]
        done = CliRunner().invoke(app, [*pack, "--device-code", "ptx", "--records", str(path), *options])
        assert done.exit_code == 0, done.output
        plan = read_plan(read(out), read(out).programs[0])
        return done.output, plan.decisions[0].algorithm.startswith("t3 ")

    tuned(f"NVIDIA Tegra X2 (emulated), driver 12090, edgert {__version__}, host", "sm_62 f32 ptx")
    tuned("NVIDIA Tegra X2, driver 10020, edgert 0.0.0, host", "sm_62 f32 ptx")
    tuned(f"NVIDIA Orin, driver 12090, edgert {__version__}, host", "sm_87 f32 ptx")
    tuned(f"NVIDIA Tegra X2, driver 10020, edgert {__version__}, host", "sm_62 f32 cubin")
    assert "measured" not in packed()[0]
    tuned(f"NVIDIA Tegra X2, driver 10020, edgert {__version__}, host", "sm_62 f32 ptx")
    told, decided = packed()
    assert f"measured times of NVIDIA Tegra X2, driver 10020, edgert {__version__}, host" in told
    assert decided
    assert packed("--activations", "f16")[1] is False
    assert packed("--no-records")[1] is False
    tuned(f"NVIDIA Tegra X2, driver 10020, edgert {__version__}, another host", "sm_62 f32 ptx")
    told, decided = packed()
    assert "jetson: 2 devices were measured; choose one: --device NAME" in told
    assert not decided
    assert packed("--device", "another host")[1]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--target", "jetson", "--emulate", "--calibrate"], "--calibrate: expected a processor, got --target jetson"),
        (["--emulate"], "--emulate: expected a target with a GPU, such as jetson; got --target cpu"),
        (["--target", "jetson", "--emulate", "--cluster", "tcp://x"], "--cluster: boards measure processors only"),
    ],
)
def test_what_cannot_be_tuned(options: list[str], message: str, tmp_path: Path) -> None:
    model = network(tmp_path / "model.onnx")
    done = CliRunner().invoke(app, ["tune", str(model), "--records", str(tmp_path / "r.sqlite"), *options])
    assert done.exit_code == 2
    assert message in done.output


def test_no_driver(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EDGERT_CUDA_LIBRARY", str(tmp_path / "none.so"))
    done = CliRunner().invoke(app, ["tune", str(network(tmp_path / "m.onnx")), "--target", "h200"])
    assert done.exit_code != 0
    assert "edgert tune model.onnx --target jetson --emulate" in done.output
