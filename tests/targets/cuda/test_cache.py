"""The cache of compilers' results."""

from __future__ import annotations

from pathlib import Path

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
