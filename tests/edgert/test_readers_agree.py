"""The C reader and the Python one accept the same files, and refuse the others with the same error."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from edgert._open import OpenBundle
from edgert.errors import EdgertError
from edgert.reader import read
from tests.edgert.broken import RULES, SPLIT_RULES, at
from tests.edgert.edge_files import HEADER, assemble, changed, description, metadata_length, sign, split_description


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


@pytest.mark.parametrize("change", [row[1] for row in SPLIT_RULES], ids=[row[0] for row in SPLIT_RULES])
def test_on_rules_of_views_cores_and_phases(change: Callable[[dict[str, Any]], None]) -> None:
    assert agreed(assemble(changed(change, split_description))) == "malformed"


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


# Fields, and what they are changed to; in lists, one of the entries is.
CHANGES: tuple[tuple[str, str, Sequence[float]], ...] = (
    ("program", "cores", (0, 1, 2, 3, 255, 256)),
    ("program", "speeds", (0.0, 0.5, 1.0, 1.5)),
    ("program", "plan", (-(1 << 31), -2, -1, 0, 1, 2, (1 << 31) - 1)),
    ("tensors", "root", (*range(-2, 20), -(1 << 31), (1 << 31) - 1)),
    ("tensors", "begin", (-1, 0, 1, 2, 8, 16, 17, 31, 32, -(1 << 63), (1 << 63) - 1)),
    ("tensors", "shape", (-1, 0, 1, 2, 3, 4, 5, 15, 16, 17, 32, 33, (1 << 63) - 1)),
    ("tensors", "dtype", (0, 1, 6, 7)),
    ("tensors", "layout", (0, 1, 2, 3)),
    ("tensors", "place", (0, 1, 2, 3)),
    ("tensors", "index", (0, 1)),
    ("tensors", "offset", (0, 64, 768, 1536)),
    ("tensors", "extent_axis", (-1, 0, 4)),
    ("steps", "inputs", range(-1, 19)),
    ("steps", "outputs", range(-1, 19)),
    ("steps", "core", (0, 1, 2, 254, 255)),
    ("steps", "phase", range(6)),
)


def shuffled(rng: np.random.Generator) -> dict[str, Any]:
    """The split network with a few numbers changed."""
    described = split_description()
    described["programs"] = described["programs"][:1]
    for _ in range(int(rng.integers(1, 4))):
        table, field, values = CHANGES[int(rng.integers(len(CHANGES)))]
        (program,) = described["programs"]
        row = program if table == "program" else program[table][int(rng.integers(len(program[table])))]
        value = values[int(rng.integers(len(values)))]
        if not isinstance(row.get(field), list):
            row[field] = [value] if field == "begin" else value
        elif row[field]:
            row[field] = [*row[field]]
            row[field][int(rng.integers(len(row[field])))] = value
    return described


def test_on_changed_views_cores_and_phases() -> None:
    rng = np.random.default_rng(12)
    seen = [agreed(assemble(shuffled(rng)), "metadata") for _ in range(500)]
    assert set(seen) == {"ok", "malformed"}
    assert min(seen.count("ok"), seen.count("malformed")) > 50


def test_on_the_limit_of_compared_pairs() -> None:
    """More and more operands that read one tensor in a phase of two cores."""
    seen = []
    for count in range(400, 800, 25):
        seen.append(agreed(assemble(changed(at("programs.0.steps.2.inputs", [7] * count), split_description))))
    assert seen == sorted(seen, reverse=True)
    assert set(seen) == {"ok", "malformed"}
