"""Bundles of every released format version stay readable: tests/golden holds one of each, and none is ever remade."""

from __future__ import annotations

from pathlib import Path

import pytest

from edgert._open import OpenBundle
from edgert.reader import read
from tests.edgert.edge_files import assemble, description

FILES = sorted((Path(__file__).resolve().parents[1] / "golden").glob("format-*.edge"))


@pytest.mark.parametrize("path", FILES, ids=[path.stem for path in FILES])
def test_old_bundles_are_read_by_both_readers(path: Path) -> None:
    found, now = read(path), read(assemble(description()))
    assert (found.model, found.programs, found.goldens) == (now.model, now.programs, now.goldens)
    assert [segment.sha256 for segment in found.segments] == [segment.sha256 for segment in now.segments]
    assert [program.target for program in OpenBundle(path).programs()] == ["cpu"]


def test_there_is_one() -> None:
    assert "format-1.0" in [path.stem for path in FILES]
