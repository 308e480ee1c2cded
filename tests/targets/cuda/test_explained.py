"""What a bundle tells of a program for a GPU: tier of each operator, why, its time and bound; and how that is shown."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from edgert.cli import app
from edgert.decisions import Decision, Plan, read_plan
from edgert.reader import read
from packer.api import pack
from targets.cuda.demand import BOUNDS
from tests.targets.cuda.test_target import network


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("bundle") / "model.edge"
    pack(network(), path, targets=["jetson"], golden=False, placement="device", device_code="ptx")
    return path


def plan_of(path: Path) -> Plan:
    found = read(path)
    return read_plan(found, found.programs[0])


def named(plan: Plan, name: str) -> Decision:
    return next(d for d in plan.decisions if name in d.nodes)


def test_every_kernel_has_a_bound(bundle: Path) -> None:
    plan = plan_of(bundle)
    for d in plan.decisions:
        assert (d.bound in BOUNDS) == (d.on_device and d.compute > 0)
    assert not named(plan, "best").on_device
    assert plan.nanoseconds == pytest.approx(sum(d.compute + d.adjust for d in plan.decisions), abs=len(plan.decisions))


def test_others_are_one_of_each_tier(bundle: Path, tmp_path: Path) -> None:
    d = named(plan_of(bundle), "third")
    assert {d.algorithm.split()[0], *(other.algorithm.split()[0] for other in d.others)} == {"t1", "t1c", "t2", "t3"}
    costs = [other.compute + other.adjust for other in d.others]
    assert costs == sorted(costs)
    assert min(costs) >= 0
    path = tmp_path / "model.edge"
    pack(network(), path, targets=["jetson"], golden=False, device_code="ptx")
    tiers = ["CPU" if "planes" not in other.layouts else "GPU" for other in named(plan_of(path), "third").others]
    assert "GPU" in tiers


def test_programs_of_the_processor_tell_of_no_device(bundle: Path) -> None:
    found = read(bundle)
    for program in found.programs[1:]:
        assert all(not d.bound and not d.others and not d.on_device for d in read_plan(found, program).decisions)


def test_the_table(bundle: Path) -> None:
    done = CliRunner().invoke(app, ["info", str(bundle), "--program", "jetson"])
    assert done.exit_code == 0, done.output
    lines = done.output.splitlines()
    assert lines[1].split() == ["node", "operator", "algorithm", "bound", "us", "adjust-us", "rounding", "instead"]
    third = next(line for line in lines if line.strip().startswith("third"))
    assert any(bound in third for bound in BOUNDS)
    best = next(line for line in lines if line.strip().startswith("best"))
    assert "on the CPU" in best
    assert best.endswith("no kernels for the GPU")
    assert "predicted" in lines[-2]
    assert "GPU, " in lines[-1]
    assert "moving" in lines[-1]
    assert done.output == CliRunner().invoke(app, ["info", str(bundle), "--plan", "--target", "jetson"]).output


def test_the_plan_as_json(bundle: Path) -> None:
    done = CliRunner().invoke(app, ["info", str(bundle), "--program", "jetson", "--json"])
    found = json.loads(done.output)["plan"]
    third = next(d for d in found["decisions"] if "third" in d["nodes"])
    assert third["bound"] in BOUNDS
    assert {"algorithm", "compute", "adjust", "layouts", "split", "decisions"} == set(third["others"][0])


def test_layers_on_the_device_are_counted(bundle: Path) -> None:
    done = CliRunner().invoke(app, ["info", str(bundle), "--target", "jetson"])
    (line,) = (line for line in done.output.splitlines() if line.startswith("program jetson"))
    kernels = [step.kernel for step in read(bundle).programs[0].steps]
    launched, copies = kernels.count("launch"), kernels.count("put") + kernels.count("get")
    assert min(launched, copies, len(kernels) - launched - copies) > 0
    rest = len(kernels) - launched - copies
    assert f"{launched} layers on sm_62, {rest} on the CPU (aarch64), {copies} copies between them" in line
    modules = len(read(bundle).programs[0].modules)
    assert f"; {modules} modules: machine code 0 B, PTX " in done.output
