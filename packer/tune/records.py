"""The record file: what was measured, on which device, kept for every later `pack` (SQLite).

Any number of processes may read and write it at once. Of two records of one thing the better founded stays, that of
more runs, so that merged files hold the same in whatever order they were merged.
"""

from __future__ import annotations

import os
import sqlite3
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import astuple, dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

from packer.planner.costs import Signature

__all__ = ["Calibration", "Record", "Records", "RecordsError", "default_path"]

_APPLICATION = 0x65644772  # "edGr": marks the file as ours
_MAJOR, _MINOR = 1, 0  # another major version is not readable; a minor one adds what can be left out
_WAIT = 30.0  # seconds for other writers
_ELSEWHERE = "Name another file: --records FILE (or pack with --no-records)"
_SCHEMA = (
    "CREATE TABLE records (device TEXT NOT NULL, core TEXT NOT NULL, weights TEXT NOT NULL, signature TEXT NOT NULL,"
    " seconds REAL NOT NULL, spread REAL NOT NULL, runs INTEGER NOT NULL, provenance TEXT NOT NULL,"
    " PRIMARY KEY (device, core, weights, signature)) WITHOUT ROWID",
    "CREATE TABLE calibrations (device TEXT NOT NULL, core TEXT NOT NULL, machine TEXT NOT NULL,"
    " provenance TEXT NOT NULL, PRIMARY KEY (device, core)) WITHOUT ROWID",
    f"PRAGMA application_id = {_APPLICATION}",
    f"PRAGMA user_version = {_MAJOR * 1000 + _MINOR}",
)
_STORE = """
INSERT INTO records (device, core, weights, signature, seconds, spread, runs, provenance)
VALUES (?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT DO UPDATE SET
  seconds = excluded.seconds, spread = excluded.spread, runs = excluded.runs, provenance = excluded.provenance
WHERE (excluded.runs, -excluded.spread, -excluded.seconds, excluded.provenance)
  > (runs, -spread, -seconds, provenance)
"""
_CALIBRATE = """
INSERT INTO calibrations (device, core, machine, provenance) VALUES (?, ?, ?, ?)
ON CONFLICT DO UPDATE SET machine = excluded.machine, provenance = excluded.provenance
"""


class RecordsError(ValueError):
    """A record file that cannot be used; the message says which, what is wrong, and what to do."""


@dataclass(frozen=True, slots=True)
class Record:
    """A measured time: the median in seconds of `runs` runs, their interquartile range as a part of it (`spread`).

    `device` is a fingerprint, `core` how its fastest cores compute, `weights` where constants came from; `provenance`
    says who measured, for people.
    """

    device: str
    core: str
    weights: str
    signature: Signature
    seconds: float
    spread: float
    runs: int
    provenance: str


@dataclass(frozen=True, slots=True)
class Calibration:
    """What was found out about a device: its machine as TOML."""

    device: str
    core: str
    machine: str
    provenance: str


def default_path() -> Path:
    """$EDGERT_RECORDS, or else a file in the user's data folder."""
    chosen = os.environ.get("EDGERT_RECORDS")
    if chosen:
        return Path(chosen)
    folder = os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share"
    return Path(folder) / "edgert" / "records.sqlite"


class Records:
    """An open record file, on a disk of this machine; its methods may be called from any thread."""

    def __init__(self, path: str | Path, create: bool = False) -> None:
        """Raises RecordsError if there is no record file at `path`, unless it is to be created."""
        self.path = Path(path)
        self._lock = threading.Lock()
        if create:
            self.path.parent.mkdir(parents=True, exist_ok=True)
        elif not self.path.is_file():
            raise RecordsError(f"{path}: there is no record file\nMake one: edgert tune model.onnx --records '{path}'")
        self._file = _open(self.path, create)

    def seconds(self, device: str, core: str) -> dict[str, dict[Signature, float]]:
        """The measured times of a device: by where weights come from, then by signature."""
        rows = self._all("SELECT weights, signature, seconds FROM records WHERE device = ? AND core = ?", device, core)
        found: dict[str, dict[Signature, float]] = {}
        for weights, signature, seconds in rows:
            found.setdefault(weights, {})[signature] = seconds
        return found

    def store(self, *records: Record) -> None:
        """Add records, all or none; of a thing that is known already the one of more runs stays."""
        self._write(_STORE, [astuple(record) for record in records])

    def machine(self, device: str, core: str) -> str | None:
        """The calibrated machine of a device as TOML, if there is one."""
        rows = self._all("SELECT machine FROM calibrations WHERE device = ? AND core = ?", device, core)
        return rows[0][0] if rows else None

    def calibrate(self, *calibrations: Calibration) -> None:
        """Add calibrations; those of the same devices are replaced."""
        self._write(_CALIBRATE, [astuple(calibration) for calibration in calibrations])

    def devices(self) -> list[tuple[str, str]]:
        """(device, core) of everything in the file, in order."""
        found = self._all("SELECT device, core FROM records UNION SELECT device, core FROM calibrations ORDER BY 1, 2")
        return [(device, core) for device, core in found]

    def merge(self, path: str | Path) -> None:
        """Add the records of another file, and its calibrations of devices that have none here."""
        with Records(path) as other:
            records = other._all(f"SELECT {', '.join(Record.__slots__)} FROM records")
            calibrations = other._all(f"SELECT {', '.join(Calibration.__slots__)} FROM calibrations")
        self.store(*(Record(*row) for row in records))
        known = set(self._all("SELECT device, core FROM calibrations"))
        self.calibrate(*(Calibration(*row) for row in calibrations if tuple(row[:2]) not in known))

    def close(self) -> None:
        """Nothing may be asked of it afterwards."""
        self._file.close()

    def __enter__(self) -> Records:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None, /
    ) -> None:
        self.close()

    def _all(self, query: str, *values: str) -> list[tuple[Any, ...]]:
        with self._lock, _about(self.path):
            return self._file.execute(query, values).fetchall()

    def _write(self, query: str, rows: Sequence[tuple[object, ...]]) -> None:
        with self._lock, _about(self.path), _transaction(self._file):
            self._file.executemany(query, rows)


def _open(path: Path, create: bool) -> sqlite3.Connection:
    """A connection to a file of a known version; the tables are made if the file is new."""
    with _about(path):
        address = f"{path.resolve().as_uri()}?mode={_mode(path, create)}"
        file = sqlite3.connect(address, uri=True, timeout=_WAIT, isolation_level=None, check_same_thread=False)
        try:
            if create:
                with _transaction(file):
                    if not file.execute("SELECT name FROM sqlite_master").fetchone():
                        for statement in _SCHEMA:
                            file.execute(statement)
            _require_known(file, path)
            if create:
                file.execute("PRAGMA journal_mode = WAL")  # storing a record need not wait for the disk
                file.execute("PRAGMA synchronous = NORMAL")
        except BaseException:
            file.close()
            raise
    return file


def _mode(path: Path, create: bool) -> str:
    """How SQLite may open the file: in a folder that cannot be written to nobody else writes either."""
    if create:
        return "rwc"
    if os.access(path, os.W_OK) and os.access(path.parent, os.W_OK):
        return "rw"
    return "ro" if Path(f"{path}-wal").exists() else "ro&immutable=1"


def _require_known(file: sqlite3.Connection, path: Path) -> None:
    """Raise RecordsError unless the file holds records, in a version that can be read."""
    (application,) = file.execute("PRAGMA application_id").fetchone()
    (version,) = file.execute("PRAGMA user_version").fetchone()
    if application != _APPLICATION:
        raise RecordsError(f"{path}: expected a record file, got a database of something else\n{_ELSEWHERE}")
    if version // 1000 != _MAJOR:
        raise RecordsError(f"{path}: expected records of version {_MAJOR}, got {version // 1000}\n{_ELSEWHERE}")


@contextmanager
def _about(path: Path) -> Iterator[None]:
    """What SQLite says against a file becomes an error that names the file."""
    try:
        yield
    except sqlite3.DatabaseError as error:
        raise RecordsError(f"{path}: not usable as a record file: {error}\n{_ELSEWHERE}") from None


@contextmanager
def _transaction(file: sqlite3.Connection) -> Iterator[None]:
    """All or nothing; other writers wait from the beginning, so that none has to give up halfway."""
    file.execute("BEGIN IMMEDIATE")
    try:
        yield
    except BaseException:
        file.execute("ROLLBACK")
        raise
    file.execute("COMMIT")
