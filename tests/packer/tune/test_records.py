"""The record file: what stays of two records, merging, several writers, and files that are something else."""

from __future__ import annotations

import itertools
import multiprocessing
import os
import sqlite3
from dataclasses import replace
from pathlib import Path

import pytest

from packer.tune.records import Calibration, Record, Records, RecordsError, default_path

RECORD = Record("board", "neon", "l2", "Conv ...", 1e-3, 0.1, 10, "somebody")


def stored(path: Path, *records: Record) -> Path:
    with Records(path, create=True) as file:
        file.store(*records)
    return path


def contents(path: Path) -> list[tuple[object, ...]]:
    with sqlite3.connect(path) as file:
        tables = [f"SELECT * FROM {table} ORDER BY 1, 2, 3, 4" for table in ("records", "calibrations")]
        return [row for query in tables for row in file.execute(query)]


def test_what_is_stored_is_found_again_by_device_core_and_level(tmp_path: Path) -> None:
    others = [replace(RECORD, **{name: "another"}, seconds=9.0) for name in ("device", "core")]
    path = stored(tmp_path / "new" / "records", RECORD, replace(RECORD, weights="memory", seconds=2e-3), *others)
    with Records(path) as file:
        assert file.seconds("board", "neon") == {"l2": {"Conv ...": 1e-3}, "memory": {"Conv ...": 2e-3}}
        assert file.seconds("unknown", "neon") == {}
        assert file.devices() == [("another", "neon"), ("board", "another"), ("board", "neon")]


def test_the_better_founded_record_stays_whatever_comes_first(tmp_path: Path) -> None:
    records = [
        RECORD,
        replace(RECORD, runs=11, seconds=5e-3, spread=0.5),
        replace(RECORD, runs=11, seconds=4e-3, spread=0.2),
        replace(RECORD, runs=11, seconds=3e-3, spread=0.2),
    ]
    with Records(tmp_path / "records", create=True) as file:
        for number, order in enumerate(itertools.permutations(records)):
            file.store(*(replace(record, signature=f"order {number}") for record in order))
        assert set(file.seconds("board", "neon")["l2"].values()) == {3e-3}


def test_merging_gives_the_same_in_any_order_and_twice(tmp_path: Path) -> None:
    a = stored(tmp_path / "a", RECORD, replace(RECORD, signature="only in a"))
    b = stored(tmp_path / "b", replace(RECORD, runs=3), replace(RECORD, signature="only in b"))
    found = []
    for name, sources in (("ab", (a, b)), ("ba", (b, a, b))):
        with Records(tmp_path / name, create=True) as file:
            for source in sources:
                file.merge(source)
        found.append(contents(tmp_path / name))
    assert found[0] == found[1]
    assert len(found[0]) == 3
    assert contents(a) == contents(stored(tmp_path / "c", replace(RECORD, signature="only in a"), RECORD))


def test_a_new_calibration_replaces_but_a_merged_one_does_not(tmp_path: Path) -> None:
    for name, machine in (("mine", "old"), ("theirs", "other")):
        with Records(tmp_path / name, create=True) as file:
            file.calibrate(Calibration("board", "neon", machine, ""))
    with Records(tmp_path / "theirs", create=True) as file:
        file.calibrate(Calibration("second", "neon", "second", ""))
    with Records(tmp_path / "mine", create=True) as file:
        file.calibrate(Calibration("board", "neon", "new", ""))
        file.merge(tmp_path / "theirs")
        assert file.machine("board", "neon") == "new"
        assert file.machine("second", "neon") == "second"
        assert file.machine("third", "neon") is None


def write_many(path: Path, who: str, start: object) -> None:
    start.wait()  # type: ignore[attr-defined]
    with Records(path, create=True) as file:
        for number in range(100):
            file.store(replace(RECORD, signature=f"{who} {number}"), replace(RECORD, runs=number, provenance=who))


def test_two_processes_may_write_at_once(tmp_path: Path) -> None:
    context = multiprocessing.get_context("spawn")
    path, start = tmp_path / "records", context.Barrier(2)
    writers = [context.Process(target=write_many, args=(path, who, start)) for who in ("one", "two")]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join(60)
    assert [writer.exitcode for writer in writers] == [0, 0]
    with Records(path) as file:
        assert len(file.seconds("board", "neon")["l2"]) == 201
    assert ("board", "neon", "l2", "Conv ...", 1e-3, 0.1, 99, "two") in contents(path)


def test_records_are_there_while_the_writer_goes_on(tmp_path: Path) -> None:
    with Records(tmp_path / "records", create=True) as writer, Records(tmp_path / "records") as reader:
        writer.store(RECORD)
        assert reader.seconds("board", "neon") == {"l2": {"Conv ...": 1e-3}}


def test_a_file_that_cannot_be_written_to_can_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = stored(tmp_path / "records", RECORD)
    monkeypatch.setattr(os, "access", lambda path, mode: mode != os.W_OK)
    with Records(path) as file:
        assert file.seconds("board", "neon") == {"l2": {"Conv ...": 1e-3}}
        with pytest.raises(RecordsError, match="readonly"):
            file.store(replace(RECORD, runs=99))
    assert [file.name for file in tmp_path.iterdir()] == ["records"]


def corrupt(path: Path) -> None:
    stored(path, *(replace(RECORD, signature=f"{number}" * 50) for number in range(200)))
    data = bytearray(path.read_bytes())
    data[8192:] = b"\xff" * (len(data) - 8192)
    path.write_bytes(data)


def other_application(path: Path) -> None:
    with sqlite3.connect(path) as file:
        file.execute("CREATE TABLE records (x)")
    file.close()


def other_major(path: Path) -> None:
    with sqlite3.connect(stored(path, RECORD)) as file:
        file.execute("PRAGMA user_version = 2000")
    file.close()


@pytest.mark.parametrize(
    "make", [lambda path: path.write_bytes(b"no database" * 100), corrupt, other_application, other_major]
)
@pytest.mark.parametrize("create", [False, True])
def test_a_file_that_is_something_else_is_named_and_left_alone(tmp_path: Path, make: object, create: bool) -> None:
    path = tmp_path / "records"
    make(path)  # type: ignore[operator]
    before = path.read_bytes()
    with pytest.raises(RecordsError, match=f"{path}: .*\n.*--records FILE"), Records(path, create) as file:
        file.seconds("board", "neon")
    assert path.read_bytes() == before


def test_no_file(tmp_path: Path) -> None:
    with pytest.raises(RecordsError, match=r"no record file\n.*edgert tune"):
        Records(tmp_path / "records")
    assert not (tmp_path / "records").exists()


def test_a_later_minor_version_is_readable(tmp_path: Path) -> None:
    path = stored(tmp_path / "records", RECORD)
    with sqlite3.connect(path) as file:
        file.execute("ALTER TABLE records ADD COLUMN joules REAL")
        file.execute("CREATE TABLE news (x)")
        file.execute("PRAGMA user_version = 1001")
    file.close()
    with Records(path, create=True) as later:
        later.store(replace(RECORD, signature="more"))
        assert later.seconds("board", "neon") == {"l2": {"Conv ...": 1e-3, "more": 1e-3}}


def test_where_the_file_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EDGERT_RECORDS", "/elsewhere/file")
    assert default_path() == Path("/elsewhere/file")
    monkeypatch.delenv("EDGERT_RECORDS")
    monkeypatch.setenv("XDG_DATA_HOME", "/data")
    assert default_path() == Path("/data/edgert/records.sqlite")
    monkeypatch.delenv("XDG_DATA_HOME")
    assert default_path().is_relative_to(Path.home())
