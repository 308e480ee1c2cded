"""A session keeps what it found: sections that fail, and those that take too long, harm no others."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

from benchmarks.gpu import session
from benchmarks.gpu.session import Session


def test_failures_are_noted_and_end_nothing_else(tmp_path: Path) -> None:
    own = Session(tmp_path / "new" / "result.json", 60, False)

    def first() -> None:
        own.row(value=1)
        with own.attempt("this"):
            raise ValueError("so\nand so")
        own.row(value=2)
        raise RuntimeError("no more")

    own.run({"first": (1.0, first), "second": (1.0, lambda: own.row(value=3))})
    sections = json.loads((tmp_path / "new" / "result.json").read_text())["sections"]
    assert [row["value"] for row in sections["first"]["rows"]] == [1, 2]
    assert sections["first"]["notes"] == ["this failed: ValueError: so", "failed: RuntimeError: no more"]
    assert sections["second"]["rows"] == [{"value": 3}]


def test_time_is_shared_and_what_takes_too_long_is_cut(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session, "_GRACE", 0.1)
    own = Session(tmp_path / "result.json", 2.0, False)
    left = []

    def long() -> None:
        left.append(own.left())
        with own.attempt("waiting"):  # the end of the time is no error of what is attempted
            time.sleep(30)

    sections = {
        "quick": (1.0, lambda: left.append(own.left())),
        "long": (1.0, long),
        "last": (0.1, lambda: time.sleep(30)),
        "always": (0.0, lambda: own.row(value=1)),
    }
    began = time.monotonic()
    own.run(sections)
    assert time.monotonic() - began < 10
    assert left[0] == pytest.approx(2 / 2.1, abs=0.5)
    assert left[0] < left[1] < 2, "what the first left is the second's"
    assert own.result["sections"]["long"]["notes"] == ["cut: its time was over"]
    assert own.result["sections"]["last"]["notes"] == ["cut: its time was over"]
    assert own.rows("always") == [{"value": 1}]


def test_no_time_for_a_case_is_noted(tmp_path: Path) -> None:
    own = Session(tmp_path / "result.json", 0.2, False)

    def work() -> None:
        assert not own.over("a case")
        time.sleep(0.3)
        assert own.over("another case")

    own.run({"work": (1.0, work)})
    assert own.result["sections"]["work"]["notes"] == ["left out, no time: another case"]
