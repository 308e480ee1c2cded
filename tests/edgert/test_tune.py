"""`edgert tune`, and `edgert pack` with what it stored."""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path

import onnx
import pytest
from typer.testing import CliRunner

from edgert import _native, measure
from edgert.cli import _cluster, app
from edgert.cli._inputs import parse_seconds
from edgert.errors import InvalidArgumentError
from edgert.fingerprint import this_device
from edgert.reader import read
from packer.tune import Calibration, Record, Records, calibrate
from targets.base import Target
from targets.machine import Machine
from tests.edgert.networks import classifier
from tests.packer.tune.networks import Device

ROOT = Path(__file__).resolve().parents[2]


def run(*arguments: object, code: int = 0) -> tuple[str, str]:
    """What a verb prints on stdout and on stderr."""
    result = CliRunner().invoke(app, [str(argument) for argument in arguments])
    assert result.exit_code == code, result.output
    return result.stdout, result.stderr


@pytest.fixture
def model(tmp_path: Path) -> Path:
    onnx.save(classifier(), tmp_path / "model.onnx")
    return tmp_path / "model.onnx"


@pytest.fixture
def pretended(monkeypatch: pytest.MonkeyPatch) -> Device:
    """A device that measures without running anything."""
    device = Device()
    monkeypatch.setattr(measure, "measure_step", device.measure)
    return device


def tune(model: Path, *options: object) -> dict[str, object]:
    """The report on the one device, of a campaign for one core."""
    records = model.parent / "records"
    arguments = ("--records", records, "--shape", "image=1x3x16x8", "--cores", 1, "--json")
    (found,) = json.loads(run("tune", model, *arguments, *options)[0])["devices"]
    return dict(found)


def test_measures_and_goes_on(model: Path, pretended: Device) -> None:
    first = tune(model)
    assert (first["target"], first["core"], first["left"], first["recorded"]) == ("cpu", this_device().core, 0, 0)
    assert first["measured"] == len(pretended.asked) > 5
    again = tune(model)
    assert (again["measured"], again["recorded"]) == (0, first["measured"])
    arguments = ("--records", model.parent / "records", "--shape", "image=1x3x16x8", "--cores", "1,2")
    text, told = run("tune", model, *arguments)
    assert f"known before {first['measured']}, left 0" in text
    assert str(model.parent / "records") in told


def test_interrupted_it_says_how_to_go_on(model: Path, pretended: Device) -> None:
    def interrupt() -> None:
        if len(pretended.asked) == 3:
            raise KeyboardInterrupt

    pretended.meanwhile = interrupt
    arguments = ("--records", model.parent / "records", "--shape", "image=1x3x16x8", "--cores", 1)
    out, told = run("tune", model, *arguments, code=130)
    assert out == ""
    assert "the same command goes on" in told
    pretended.meanwhile = lambda: None
    assert tune(model)["recorded"] == 3


def test_really_measures(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measure, "_PATIENCE", 0.01)
    monkeypatch.setattr(measure, "_MOST_PATIENCE", 0.02)
    found = tune(model)
    assert (found["failed"], found["left"]) == (0, 0)
    assert found["weights"] == "l2"


def test_the_budget(model: Path, pretended: Device) -> None:
    assert tune(model, "--budget", "0.000001s")["measured"] == 0
    assert tune(model, "--budget", 0)["left"] == 0


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("60s", 60), ("90", 90), ("1.5m", 90), ("2h", 7200), ("0", float("inf")), ("0s", float("inf"))],
)
def test_times(text: str, seconds: float) -> None:
    assert parse_seconds(text, "budget") == seconds


@pytest.mark.parametrize("text", ["", "s", "-1s", "1d", "nan", "inf", "1ss"])
def test_no_times(text: str) -> None:
    with pytest.raises(InvalidArgumentError, match="--budget"):
        parse_seconds(text, "budget")


def fast_im2col(records: Path, device: str) -> None:
    """Pretend that Caffe's scheme takes no time on a device."""
    here = this_device()
    with Records(records) as file:
        known = file.seconds(here.fingerprint, here.core)
    with Records(records, create=True) as file:
        for level, times in known.items():
            for signature in times:
                if " im2col-caffe " in signature:
                    file.store(Record(device, here.core, level, signature, 1e-9, 0.0, 99, ""))


def kernels(bundle: Path) -> set[str]:
    return {step.kernel for program in read(bundle).programs for step in program.steps}


def test_pack_plans_with_what_was_measured_here(model: Path, pretended: Device, tmp_path: Path) -> None:
    tune(model)
    records, here = tmp_path / "records", this_device()

    def pack(name: str, *options: object) -> tuple[bytes, str]:
        arguments = ("--shape", "image=1x3x16x8", "--cores", 1, "--no-golden", "-o", tmp_path / name, "--json")
        _, told = run("pack", model, *arguments, *options)
        return (tmp_path / name).read_bytes(), told

    plain, told = pack("plain")
    assert told == ""
    fast_im2col(records, here.fingerprint)
    tuned, told = pack("tuned", "--records", records)
    assert "measured times" in told
    assert len(told.splitlines()) == 1
    assert tuned != plain
    assert "conv_im2col_caffe" in kernels(tmp_path / "tuned") - kernels(tmp_path / "plain")
    assert pack("again", "--records", records)[0] == tuned
    assert pack("without", "--records", records, "--no-records") == (plain, "")
    general = f"cpu-{here.arch}"
    assert pack("general", "--target", general, "--records", records) == (pack("same", "--target", general)[0], "")


def test_records_of_other_devices_are_used_only_if_asked_for(model: Path, pretended: Device, tmp_path: Path) -> None:
    tune(model)
    here = this_device()
    fast_im2col(tmp_path / "records", "some board")
    with Records(tmp_path / "records") as file, Records(tmp_path / "theirs", create=True) as theirs:
        for level, times in file.seconds("some board", here.core).items():
            theirs.store(*(Record("some board", here.core, level, s, t, 0.0, 1, "") for s, t in times.items()))
    arguments = ("--shape", "image=1x3x16x8", "--cores", 1, "--no-golden", "--records", tmp_path / "theirs")
    assert run("pack", model, *arguments, "-o", tmp_path / "here")[1] == ""
    assert "conv_im2col_caffe" not in kernels(tmp_path / "here")
    assert "some board" in run("pack", model, *arguments, "-o", tmp_path / "board", "--device", "BOARD")[1]
    assert "conv_im2col_caffe" in kernels(tmp_path / "board")
    told = run("pack", model, *arguments, "-o", tmp_path / "x", "--device", "unheard of", code=2)[1]
    assert "some board" in told
    with Records(tmp_path / "theirs") as theirs:  # a GPU beside such a board
        theirs.store(Record("a GPU, some board", "sm_62 f32 cubin", "l2", "signature", 1.0, 0.0, 1, ""))
    assert "some board" in run("pack", model, *arguments, "-o", tmp_path / "board", "--device", "some board")[1]


def test_calibrated_machines_are_used(model: Path, tmp_path: Path) -> None:
    here = this_device()
    machine = replace(Machine.load("zen4-server"), barrier_seconds=1.0)
    with Records(tmp_path / "records", create=True) as file:
        file.calibrate(Calibration(here.fingerprint, here.core, machine.to_toml(), ""))
    arguments = ("--shape", "image=1x3x512x8", "--cores", 2, "--no-golden")
    run("pack", model, *arguments, "-o", tmp_path / "plain")
    assert "calibrated" in run("pack", model, *arguments, "-o", tmp_path / "slow", "--records", tmp_path / "records")[1]
    cores = [
        {step.core for step in read(tmp_path / name).programs[0].steps if step.kernel.startswith("conv")}
        for name in ("plain", "slow")
    ]
    assert cores == [{0, 1}, {0}]


def test_plans_are_for_this_machine_as_it_was_calibrated(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here, shape = this_device(), ("--shape", "image=1x3x16x8")
    machine = replace(Machine.load("zen4-server"), description="as it was measured")
    with Records(tmp_path / "records", create=True) as file:
        file.calibrate(Calibration(here.fingerprint, here.core, machine.to_toml(), ""))
    monkeypatch.setenv("EDGERT_RECORDS", str(tmp_path / "records"))
    assert "as it was measured" in run("plan", model, *shape, "--cores", 1)[0]
    assert "as it was measured" not in run("plan", model, *shape, "--cores", 1, "--machine", "zen4-server")[0]
    monkeypatch.setenv("EDGERT_RECORDS", str(tmp_path / "none"))
    assert "as it was measured" not in run("plan", model, *shape, "--cores", 1)[0]


def test_calibrate_keeps_the_machine_that_was_found(
    model: Path, pretended: Device, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = this_device()

    def pretend(steps: object, runs: object, target: Target, progress: object) -> Machine:
        assert (steps, runs) == (pretended.measure, measure.measure_run)
        assert target.machine.description == here.cpu
        assert len(target.machine.cores) == here.cores
        return replace(target.machine, barrier_seconds=0.125)

    monkeypatch.setattr(calibrate, "calibrate", pretend)
    found = json.loads(run("tune", "--calibrate", "--records", tmp_path / "records", "--json")[0])
    assert [machine["barrier_seconds"] for machine in found["calibrated"]] == [0.125]
    assert found["devices"] == []
    with Records(tmp_path / "records") as file:
        text = file.machine(here.fingerprint, here.core)
    assert text is not None
    assert Machine.parse(text, "").barrier_seconds == 0.125
    printed, told = run("tune", "--calibrate", "--records", tmp_path / "records")
    assert Machine.parse(printed, "").barrier_seconds == 0.125  # as it is: a file for --machine
    assert str(tmp_path / "records") in told
    other = "cpu-aarch64" if here.arch == "x86_64" else "cpu-x86_64"
    assert here.arch in run("tune", "--calibrate", "--target", other, "--records", tmp_path / "x", code=2)[1]


def test_merge(model: Path, pretended: Device, tmp_path: Path) -> None:
    known = tune(model)["measured"]
    run("tune", "--records", tmp_path / "other", "--merge", tmp_path / "records")
    here = this_device()
    with Records(tmp_path / "other") as file:
        assert len(file.seconds(here.fingerprint, here.core)["l2"]) == known


def test_errors(model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    records = ("--records", tmp_path / "records")
    assert "edgert tune model.onnx" in run("tune", *records, code=2)[1]
    other = "cpu-aarch64" if this_device().arch == "x86_64" else "cpu-x86_64"
    told = run("tune", model, *records, "--target", other, "--shape", "image=1x3x8x8", code=2)[1]
    assert f"expected a device of {other[4:]}, got {this_device().arch}" in told
    (tmp_path / "broken").write_bytes(b"no database" * 99)
    assert "not usable as a record file" in run("tune", "--calibrate", "--records", tmp_path / "broken", code=2)[1]
    told = run("pack", model, "--records", tmp_path / "broken", "--shape", "image=1x3x8x8", code=2)[1]
    assert "--no-records" in told
    monkeypatch.setitem(sys.modules, "distributed", None)
    told = run("tune", model, *records, "--shape", "image=1x3x8x8", "--cluster", "tcp://127.0.0.1:1", code=2)[1]
    assert "pip install 'edgert[cluster]'" in told


def test_a_cluster_that_does_not_answer(model: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    pytest.importorskip("distributed", reason="needs edgert[cluster]")
    monkeypatch.setattr(_cluster, "_PATIENCE", 0.2)
    options = ("--records", tmp_path / "records", "--shape", "image=1x3x8x8", "--cluster", "tcp://127.0.0.1:1")
    told = run("tune", model, *options, code=2)[1]
    assert "tcp://127.0.0.1:1" in told
    assert "dask scheduler" in told


@contextmanager
def cluster(folder: Path, *libraries: str) -> Iterator[str]:
    """The address of a scheduler, and a worker process for each of the libraries."""
    pytest.importorskip("distributed", reason="needs edgert[cluster]")
    file = folder / "scheduler.json"
    common = ("--scheduler-file", file, "--no-dashboard", "--host", "127.0.0.1")
    dask = (sys.executable, "-m", "dask")
    with ExitStack() as stack:

        def start(*command: object, library: str = "") -> None:
            environment = {**os.environ, "PYTHONPATH": str(ROOT), "EDGERT_LIBRARY": library}
            log = stack.enter_context(open(folder / "log", "ab"))
            arguments = [str(part) for part in (*dask, *command)]
            process = subprocess.Popen(arguments, env=environment, cwd=folder, stdout=log, stderr=log)
            stack.callback(process.wait)
            stack.callback(process.kill)

        start("scheduler", "--port", 0, *common)
        for library in libraries:
            start("worker", *common, "--nthreads", 1, "--no-nanny", library=library)
        yield wait_for(file, len(libraries))


def wait_for(file: Path, workers: int) -> str:
    """The address in a scheduler's file, once it has so many workers."""
    from distributed import Client

    for _ in range(600):
        if file.exists() and file.read_text():
            break
        time.sleep(0.1)
    address = str(json.loads(file.read_text())["address"])
    with Client(address, set_as_default=False, timeout=60) as client:
        client.wait_for_workers(workers, timeout=60)
    return address


@pytest.mark.slow
def test_two_boards_of_a_kind_share_the_work(model: Path, tmp_path: Path) -> None:
    library = _native.library()._name
    with cluster(tmp_path, library, library) as address:
        found = tune(model, "--cluster", address)
        assert (found["device"], found["failed"], found["left"]) == (this_device().fingerprint, 0, 0)
        assert tune(model, "--cluster", address)["recorded"] == found["measured"]
        run("pack", model, "--shape", "image=1x3x16x8", "-o", tmp_path / "whole")
        with _cluster.boards(address) as boards:
            assert all(0 < board.run(tmp_path / "whole", 1) < 1 for board in boards)
    with sqlite3.connect(tmp_path / "records") as file:
        who = dict(file.execute("SELECT provenance, count(*) FROM records GROUP BY provenance").fetchall())
    assert len(who) == 2
    assert sum(who.values()) == found["measured"]


@pytest.mark.slow
def test_boards_of_two_kinds_measure_for_themselves(model: Path, tmp_path: Path) -> None:
    library = Path(_native.library()._name)
    (tmp_path / "other.so").write_bytes(library.read_bytes() + b"other kernels")
    arguments = ("--records", tmp_path / "records", "--shape", "image=1x3x16x8", "--cores", 1, "--json")
    with cluster(tmp_path, str(library), str(tmp_path / "other.so")) as address:
        found = json.loads(run("tune", model, *arguments, "--cluster", address)[0])["devices"]
    assert len({board["device"] for board in found}) == 2
    assert found[0]["measured"] == found[1]["measured"] > 5
    with Records(tmp_path / "records") as file:
        assert [device for device, _ in file.devices()] == sorted(board["device"] for board in found)
