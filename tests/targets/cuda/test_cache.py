"""The cache of compilers' results."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from targets.base import TargetError
from targets.cuda.cache import Cache


def test_what_was_put_is_found_under_its_key_only(tmp_path: Path) -> None:
    cache = Cache(tmp_path / "cache")
    assert cache.get(("a", "b")) is None
    cache.put(("a", "b"), {"registers": 3}, b"bytes\n\0more")
    assert cache.get(("a", "b")) == ({"registers": 3}, b"bytes\n\0more")
    assert cache.get(("ab",)) is None
    assert cache.get(("a", "b", "")) is None


def test_damaged_files_count_as_absent(tmp_path: Path) -> None:
    cache = Cache(tmp_path)
    cache.put(("key",), {}, b"0123456789")
    (path,) = (p for p in tmp_path.rglob("*") if p.is_file())
    whole = path.read_bytes()
    for damaged in (whole[:-1], whole[:5], b"", b"[]\n0123456789", whole.replace(b"5", b"6")):
        path.write_bytes(damaged)
        assert cache.get(("key",)) is None
    cache.put(("key",), {}, b"new")
    assert cache.get(("key",)) == ({}, b"new")


def test_damaged_facts_count_as_absent(tmp_path: Path) -> None:
    cache = Cache(tmp_path)
    cache.put(("key",), {"registers": 3}, b"x")
    (path,) = (p for p in tmp_path.rglob("*") if p.is_file())
    path.write_bytes(path.read_bytes().replace(b"3}", b"4}"))
    assert cache.get(("key",)) is None


def test_a_folder_that_cannot_be_written_keeps_nothing(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    cache = Cache(tmp_path / "file" / "cache")
    cache.put(("key",), {}, b"x")
    assert cache.get(("key",)) is None


def test_nothing_but_results_is_left(tmp_path: Path) -> None:
    cache = Cache(tmp_path)
    for i in range(5):
        cache.put(("key", str(i % 2)), {}, b"x")
    assert sum(p.is_file() for p in tmp_path.rglob("*")) == 2


def put(cache: Cache, name: str, age: int, size: int = 1000) -> None:
    """A result last used so many seconds ago."""
    before = set(cache.folder.rglob("*"))
    cache.put((name,), {}, bytes(size))
    (path,) = (p for p in set(cache.folder.rglob("*")) - before if p.is_file())
    when = time.time() - age
    os.utime(path, (when, when))


def test_what_was_used_longest_ago_goes(tmp_path: Path) -> None:
    cache = Cache(tmp_path, most=3500)
    (tmp_path / "mine.txt").write_bytes(bytes(10000))
    for age in (400, 300, 200, 100):
        put(cache, str(age), age)
    assert cache.get(("400",)) is not None  # used now
    cache.trim()
    assert [name for name in ("400", "300", "200", "100") if cache.get((name,))] == ["400", "200", "100"]
    assert (tmp_path / "mine.txt").exists()
    cache.trim()
    assert all(cache.get((name,)) for name in ("400", "200", "100"))


def test_unfinished_files_go_too(tmp_path: Path) -> None:
    cache = Cache(tmp_path, most=1500)
    put(cache, "new", 10)
    (folder,) = (p for p in tmp_path.iterdir() if p.is_dir())
    (folder / "tmpabc").write_bytes(bytes(1000))  # of a process that was killed
    os.utime(folder / "tmpabc", (1, 1))
    cache.trim()
    assert not (folder / "tmpabc").exists()
    assert cache.get(("new",)) is not None


def test_no_room_for_anything(tmp_path: Path) -> None:
    cache = Cache(tmp_path / "cache", most=0)
    cache.trim()
    put(cache, "a", 0)
    cache.trim()
    assert cache.get(("a",)) is None


def test_processes_that_trim_and_use_one_folder(tmp_path: Path) -> None:
    """Whatever is found is whole."""
    program = (
        "import sys; from pathlib import Path; from targets.cuda.cache import Cache\n"
        "cache = Cache(Path(sys.argv[1]), most=20000)\n"
        "for n in range(300):\n"
        "    key = (str(n * int(sys.argv[2]) % 40),)\n"
        "    found = cache.get(key)\n"
        "    assert found is None or found == ({'n': int(key[0])}, bytes(1000)), found\n"
        "    cache.put(key, {'n': int(key[0])}, bytes(1000))\n"
        "    cache.trim()\n"
    )
    running = [subprocess.Popen([sys.executable, "-c", program, str(tmp_path), step]) for step in ("1", "3", "7")]
    assert [one.wait(60) for one in running] == [0, 0, 0]
    assert 10000 < sum(p.stat().st_size for p in tmp_path.rglob("*") if p.is_file()) <= 22000


def test_the_limit_of_the_user(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("EDGERT_CACHE_BYTES", raising=False)
    assert Cache.of_user().most == 2 << 30
    monkeypatch.setenv("EDGERT_CACHE_BYTES", "12345")
    assert Cache.of_user().most == 12345
    monkeypatch.setenv("EDGERT_CACHE_BYTES", "1G")
    with pytest.raises(TargetError, match="expected a number of bytes, got '1G'"):
        Cache.of_user()
