"""The C reader and the Python one accept the same files, and refuse the others with the same error."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from edgert._open import OpenBundle
from edgert.errors import EdgertError
from edgert.reader import read
from tests.edgert.broken import DEVICE_RULES, RULES, SPLIT_RULES, at
from tests.edgert.edge_files import (
    HEADER,
    assemble,
    changed,
    description,
    device_description,
    metadata_length,
    sign,
    split_description,
)


@pytest.fixture(scope="module")
def good() -> bytes:
    return assemble(description())


def verdict(reader: Callable[[bytes, str], Any], file: bytes, integrity: str) -> str:
    try:
        reader(file, integrity)
    except EdgertError as error:
        return error.id
    return "ok"


def looked_at(file: bytes, integrity: str) -> None:
    """By the C reader: with the metadata's integrity only, programs are proven when they are asked about."""
    OpenBundle(file, integrity).programs()


def agreed(file: bytes, integrity: str = "full") -> str:
    """The verdict of both."""
    found = verdict(looked_at, file, integrity)
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


@pytest.mark.parametrize("integrity", ["full", "metadata"])
def test_on_many_programs(integrity: str) -> None:
    program = {"target": "cpu", "arch": "x86_64"}
    for count, expected in ((1024, "ok"), (1025, "malformed")):
        assert agreed(assemble(changed(at("programs", [program] * count))), integrity) == expected


@pytest.mark.parametrize("change", [row[1] for row in SPLIT_RULES], ids=[row[0] for row in SPLIT_RULES])
def test_on_rules_of_views_cores_and_phases(change: Callable[[dict[str, Any]], None]) -> None:
    assert agreed(assemble(changed(change, split_description))) == "malformed"


@pytest.mark.parametrize("change", [row[1] for row in DEVICE_RULES], ids=[row[0] for row in DEVICE_RULES])
def test_on_rules_of_devices(change: Callable[[dict[str, Any]], None]) -> None:
    assert agreed(assemble(changed(change, device_description))) == "malformed"


def test_on_a_good_device_program() -> None:
    assert agreed(assemble(device_description())) == "ok"
    for path, value in LEGAL:
        assert agreed(assemble(changed(at(path, value), device_description))) == "ok", path


# Of the device program, what may change.
LEGAL: tuple[tuple[str, Any], ...] = (
    ("programs.0.device_bytes", (1 << 64) - 1),
    ("programs.0.device_bytes", 1296),
    ("programs.0.device", "gfx9"),
    ("programs.0.modules", []),
    ("programs.0.modules.0.cubin_segment", -1),
    ("programs.0.modules.0.ptx_segment", -1),
    ("programs.0.modules.0.ptx_bytes", 1032 * 49),
    ("programs.0.tensors.3.index", 7),
    ("programs.0.tensors.3.halo", []),
    ("programs.0.tensors.3.halo", [0, 0, 0, 3]),
    ("programs.0.tensors.3.shape", [1, 0, 4, 5]),
    ("programs.0.tensors.7.offset", 1072),
    ("programs.0.tensors.3.dtype", 11),
    ("programs.0.tensors.7.shape", [120]),
    ("programs.0.tensors.6.shape", [1, 0, 4, 5]),
    ("programs.0.steps.2.phase", 1),
)


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
Changes = tuple[tuple[str, str, Sequence[float]], ...]
CHANGES: Changes = (
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


DEVICE_CHANGES: Changes = (
    ("program", "device_bytes", (0, 1295, 1296, 1 << 20, (1 << 64) - 1)),
    ("tensors", "halo", (0, 1, 2, 3, 65535, 65536, (1 << 32) - 1)),
    ("tensors", "begin", (-1, 0, 1, 2, 4, 5, 6)),
    ("tensors", "shape", (-1, 0, 1, 2, 3, 4, 5, 6, (1 << 63) - 1)),
    ("tensors", "dtype", (1, 6, 11, 12)),
    ("tensors", "layout", (0, 1, 4, 5)),
    ("tensors", "place", (0, 1, 3, 4, 5)),
    ("tensors", "index", (0, 1)),
    ("tensors", "root", range(-1, 9)),
    ("tensors", "offset", (0, 8, 16, 560, 576, 1056, 1296)),
    ("steps", "inputs", range(-1, 9)),
    ("steps", "outputs", range(-1, 9)),
    ("steps", "core", (0, 1)),
    ("steps", "phase", range(3)),
    ("modules", "cubin_segment", range(-2, 4)),
    ("modules", "cubin_offset", (0, 32, 64, 192)),
    ("modules", "cubin_bytes", (0, 1, 8, 136, 200, 201)),
    ("modules", "ptx_segment", range(-2, 4)),
    ("modules", "ptx_offset", (0, 32, 64, 128)),
    ("modules", "ptx_stored", (0, 1, 48, 49, 50)),
    ("modules", "ptx_bytes", (0, 1, 44, 1032, 1033, 1 << 28, 1 << 29)),
)


def shuffled(rng: np.random.Generator, described: dict[str, Any], changes: Changes) -> dict[str, Any]:
    """A network with a few numbers changed."""
    described["programs"] = described["programs"][:1]
    for _ in range(int(rng.integers(1, 4))):
        table, field, values = changes[int(rng.integers(len(changes)))]
        (program,) = described["programs"]
        row = program if table == "program" else program[table][int(rng.integers(len(program[table])))]
        value = values[int(rng.integers(len(values)))]
        if not isinstance(row.get(field), list):
            row[field] = [value] if field == "begin" else [value] * 4 if field == "halo" else value
        elif row[field]:
            row[field] = [*row[field]]
            row[field][int(rng.integers(len(row[field])))] = value
    return described


@pytest.mark.parametrize(
    ("describe", "changes"),
    [(split_description, CHANGES), (device_description, DEVICE_CHANGES)],
    ids=["split", "device"],
)
def test_on_changed_numbers(describe: Callable[[], dict[str, Any]], changes: Changes) -> None:
    rng = np.random.default_rng(12)
    seen = [agreed(assemble(shuffled(rng, describe(), changes)), "metadata") for _ in range(500)]
    assert set(seen) == {"ok", "malformed"}
    assert min(seen.count("ok"), seen.count("malformed")) > 50


def test_on_the_limit_of_compared_pairs() -> None:
    """More and more operands that read one tensor in a phase of two cores."""
    seen = []
    for count in range(100, 800, 25):
        seen.append(agreed(assemble(changed(at("programs.0.steps.2.inputs", [7] * count), split_description))))
    assert seen == sorted(seen, reverse=True)
    assert set(seen) == {"ok", "malformed"}
