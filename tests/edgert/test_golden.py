"""Bundles of every released format version stay readable: tests/golden holds some of each, and none is ever remade.

(session.edge is not one of them: the bundle that the C tests open is always of the newest version.)
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from edgert import load
from edgert._open import OpenBundle
from edgert.reader import read
from tests.edgert.edge_files import Description, assemble, description, device_description, split_description

FOLDER = Path(__file__).resolve().parents[1] / "golden"
DESCRIBED = {"format-1.0": description, "format-1.1": split_description, "format-1.2": device_description}
RUNNABLE = ("session-1.0", "format-1.1")


@pytest.mark.parametrize(("name", "describe"), DESCRIBED.items(), ids=DESCRIBED)
def test_old_bundles_are_read_by_both_readers(name: str, describe: Callable[[], Description]) -> None:
    path = FOLDER / f"{name}.edge"
    found, now = read(path), read(assemble(describe()))
    assert (found.model, found.programs, found.goldens) == (now.model, now.programs, now.goldens)
    assert [segment.sha256 for segment in found.segments] == [segment.sha256 for segment in now.segments]
    assert [p.target for p in OpenBundle(path).programs()] == [p.target for p in now.programs]


@pytest.mark.parametrize("threads", [1, 2, 3])
@pytest.mark.parametrize("name", RUNNABLE)
def test_old_bundles_run(name: str, threads: int) -> None:
    """They give their golden samples' outputs, exactly."""
    bundle = read(FOLDER / f"{name}.edge")
    (golden,) = bundle.goldens
    wanted = bundle.samples(golden.outputs)
    with load(FOLDER / f"{name}.edge", threads=threads) as session:
        for _ in range(3):
            outputs = session.run(bundle.samples(golden.inputs))
            for output, array in wanted.items():
                assert np.array_equal(outputs[output], array)


def test_versions() -> None:
    """The files are of the versions that they are called after, and there is no other one."""
    paths = sorted(FOLDER.glob("*-*.edge"))
    assert {path.stem for path in paths} == {*DESCRIBED, *RUNNABLE}
    for path in paths:
        assert path.read_bytes()[8:12] == bytes((1, 0, int(path.stem[-1]), 0))
