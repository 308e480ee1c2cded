"""A session keeps what it found: sections that fail, take too long, crash or hang harm no others."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

import pytest

from benchmarks.gpu import plan, session
from benchmarks.gpu.plan import run_all
from benchmarks.gpu.session import Session
from edgert.errors import DeviceLostError
from tests.targets.cuda.driver import DEFAULT, ROOT, CudaError, Module, device, kernel, launch, synchronize


def sections_of(output: Path) -> dict:
    found: dict = json.loads(output.read_text())["sections"]
    return found


def test_failures_are_noted_and_end_nothing_else(tmp_path: Path) -> None:
    output = tmp_path / "new" / "result.json"
    own = Session(output)

    def first() -> None:
        own.row(value=1)
        with own.attempt("this"):
            raise ValueError("so\nand so")
        own.row(value=2)
        raise RuntimeError("no more")

    own.run("first", 60, first)
    again = Session(output)  # as the next process sees it
    again.run("second", 60, lambda: again.row(value=3, before=[row["value"] for row in again.rows("first")]))
    sections = sections_of(output)
    assert [row["value"] for row in sections["first"]["rows"]] == [1, 2]
    assert sections["first"]["notes"] == ["this failed: ValueError: so", "failed: RuntimeError: no more"]
    assert sections["second"]["rows"] == [{"value": 3, "before": [1, 2]}]


def test_what_takes_too_long_is_cut(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session, "GRACE", 0.1)
    own = Session(tmp_path / "result.json")

    def long() -> None:
        own.row(left=own.left())
        with own.attempt("waiting"):  # the end of the time is no error of what is attempted
            time.sleep(30)

    began = time.monotonic()
    own.run("long", 0.5, long)
    assert time.monotonic() - began < 10
    (found,) = own.rows("long")
    assert 0 < found["left"] <= 0.5
    assert own.result["sections"]["long"]["notes"] == ["cut: its time was over"]


def test_no_time_for_a_case_is_noted(tmp_path: Path) -> None:
    own = Session(tmp_path / "result.json")

    def work() -> None:
        assert not own.over("a case")
        assert own.over("a long one", needed=5)
        time.sleep(0.3)
        assert own.over("another case")

    own.run("work", 0.2, work)
    assert own.notes() == ["left out, no time: a long one", "left out, no time: another case"]


def test_what_loses_the_device_is_left_out_by_the_next_process(tmp_path: Path) -> None:
    seen = []

    def work(own: Session) -> None:
        for what in ("first", "second", "third"):
            if own.harmful(what):
                continue
            with own.attempt(f"the case of {what}"), own.attempt(what):
                seen.append(what)
                if what == "second":
                    raise DeviceLostError("illegal address")
                own.row(what=what)

    first, second = Session(tmp_path / "result.json"), None
    assert first.run("work", 60, lambda: work(first))
    second = Session(tmp_path / "result.json")
    assert not second.run("work", 60, lambda: work(second))
    assert seen == ["first", "second", "first", "third"]
    assert second.notes() == ["second failed: DeviceLostError: illegal address"]
    assert second.result["sections"]["work"]["harmful"] == ["second"]


def test_errors_of_the_driver_that_are_fatal() -> None:
    with device(**DEFAULT):
        wild = Module(kernel("  mov.u64 %d0, 64; mov.u32 %r0, 1; st.global.u32 [%d0], %r0;", 0))
        launch(wild.function("k"), (1,), (1,))
        with pytest.raises(CudaError) as lost:
            synchronize()
        assert lost.value.fatal
    with device(**DEFAULT), pytest.raises(CudaError) as refused:
        Module("no PTX")
    assert not refused.value.fatal


PROGRAM = """
import ctypes, json, os, signal, sys, time
from pathlib import Path
from benchmarks.gpu.session import Session
name, output, seconds = sys.argv[1:]
own = Session(Path(output))
own.open(name)
own.row(seconds=float(seconds))
own.save()
if name == "crash":
    os.kill(os.getpid(), signal.SIGSEGV)
if name == "hang":
    ctypes.PyDLL(None).sleep(100)  # with Python's lock: no signal is handled meanwhile
if name == "error":
    sys.exit(3)
if name == "lost" and len(own.rows(name)) < 3:
    sys.exit(75)
"""


@pytest.mark.slow
def test_processes_share_the_time_and_harm_no_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plan, "GRACE", 0.5)
    monkeypatch.setattr(plan, "_PATIENCE", 0.5)
    output = tmp_path / "result.json"
    Session(output).save()

    def command(name: str, seconds: float) -> list[str]:
        return [sys.executable, "-c", PROGRAM, name, str(output), str(seconds)]

    names = {"quick": 1.0, "crash": 1.0, "error": 1.0, "lost": 1.0, "hang": 1.0, "late": 0.001, "always": 0.0}
    began = time.monotonic()
    run_all(output, names, 20.0, command, ROOT)
    assert time.monotonic() - began < 60
    found = sections_of(output)
    assert list(found) == list(names)
    assert found["quick"]["rows"][0]["seconds"] == pytest.approx(4, abs=0.1)
    assert 4 < found["crash"]["rows"][0]["seconds"] < 20 / 4, "what the first left is for those after it"
    assert found["crash"]["notes"] == ["failed: its process died of signal 11 (SIGSEGV)"]
    assert found["error"]["notes"] == ["failed: its process ended with 3"]
    assert len(found["lost"]["rows"]) == 3
    assert "notes" not in found["lost"]
    assert found["lost"]["rows"][0]["seconds"] > found["lost"]["rows"][2]["seconds"]
    (note,) = found["hang"]["notes"]
    assert note.startswith("killed: it did not end in ")
    assert found["late"] == {"rows": [], "notes": ["left out: there was no time"]}
    assert found["always"]["rows"] == [{"seconds": 30.0}]
    assert not found["quick"].get("notes")
