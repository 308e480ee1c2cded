"""The C reader and the Python one accept the same files, and refuse the others with the same error."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from edgert._open import OpenBundle
from edgert.errors import EdgertError
from edgert.reader import read
from tests.edgert.broken import RULES, at
from tests.edgert.edge_files import HEADER, assemble, changed, description, metadata_length, sign


@pytest.fixture(scope="module")
def good() -> bytes:
    return assemble(description())


def verdict(reader: Callable[[bytes, str], Any], file: bytes, integrity: str) -> str:
    try:
        reader(file, integrity)
    except EdgertError as error:
        return error.id
    return "ok"


def agreed(file: bytes, integrity: str = "full") -> str:
    """The verdict of both."""
    found = verdict(OpenBundle, file, integrity)
    assert verdict(read, file, integrity) == found
    return found


def test_on_a_good_bundle(good: bytes) -> None:
    assert agreed(good) == "ok"
    (program,) = OpenBundle(good).programs()
    expected = read(good).programs[0]
    assert (program.target, program.arch, program.arena_bytes) == (expected.target, expected.arch, expected.arena_bytes)
    assert program.steps == len(expected.steps)


@pytest.mark.parametrize(("path", "value", "_"), RULES, ids=[f"{path}-{n}" for n, (path, _, _) in enumerate(RULES)])
def test_on_every_rule(path: str, value: Any, _: str) -> None:
    assert agreed(assemble(changed(at(path, value)))) == "malformed"


def test_on_truncations_and_flipped_bits(good: bytes) -> None:
    for length in [*range(0, 200, 3), *range(200, len(good), 499)]:
        assert agreed(good[:length]) in ("not-a-bundle", "truncated")
    assert agreed(good + bytes(1)) == "truncated"
    rng = np.random.default_rng(5)
    for place in [*range(HEADER), *rng.integers(HEADER, len(good), 200).tolist()]:
        broken = bytearray(good)
        broken[place] ^= 1 << int(rng.integers(8))
        assert agreed(bytes(broken)) != "ok"
        agreed(bytes(broken), "metadata")
        agreed(sign(broken) if metadata_length(broken) < len(good) else bytes(broken))


def test_on_mutated_metadata(good: bytes) -> None:
    """Random bytes anywhere in header and metadata, the digest made right: the same verdict, whatever it is."""
    rng = np.random.default_rng(11)
    length, seen = metadata_length(good), set()
    for _ in range(2000):
        broken = bytearray(good)
        for _ in range(int(rng.integers(1, 4))):
            place = HEADER + int(rng.integers(length))
            broken[place] = int(rng.choice([0, 1, 0x7F, 0x80, 0xFF, broken[place] + 1 & 0xFF, int(rng.integers(256))]))
        seen.add(agreed(sign(broken)))
    assert {"ok", "malformed", "corrupt"} <= seen
