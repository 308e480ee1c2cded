"""The C reader and the Python reader on damaged bundles: both accept, or both name the same error."""

from __future__ import annotations

import ctypes
import random
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from edgert import read
from edgert._native import OpenOptions, ProgramInfo, byref, library
from edgert.errors import EdgertError, MalformedError
from packer.bundle.model import Attribute
from packer.bundle.writer import write_bundle
from tests.edgert.edge_files import HEADER, assemble, description, sign, split_description
from tests.runtime_c.bundles import GOLDEN, cores_bundle


def a_file(name: str) -> bytes:
    """A good bundle."""
    described = {"description": description, "split_description": split_description}
    return assemble(described[name]()) if name in described else GOLDEN.read_bytes()


def c_status(file: bytes, integrity: int) -> int:
    """The status of edgert_bundle_open_memory on a copy that is aligned and exactly as long, and of asking about each
    program, which proves it if that was not done on opening."""
    room = ctypes.create_string_buffer(len(file) + 64)
    start = -ctypes.addressof(room) % 64
    ctypes.memmove(ctypes.addressof(room) + start, file, len(file))
    bundle = ctypes.c_void_p()
    options = OpenOptions(ctypes.sizeof(OpenOptions), integrity, 1)
    address = ctypes.c_void_p(ctypes.addressof(room) + start)
    status = library().edgert_bundle_open_memory(address, len(file), byref(options), byref(bundle))
    count = library().edgert_bundle_program_count(bundle) if bundle else 0
    for index in range(count):
        status = status or library().edgert_bundle_program(bundle, index, byref(ProgramInfo()))
    library().edgert_bundle_close(bundle)
    return int(status)


def python_status(file: bytes, integrity: int) -> int:
    """The status of the error that the Python reader raises, 0 if none."""
    try:
        read(file, integrity="metadata" if integrity else "full")
    except EdgertError as error:
        return error.status
    return 0


def expect_agreement(file: bytes, integrity: int, what: str) -> int:
    """The status that both readers give."""
    ours, theirs = c_status(file, integrity), python_status(file, integrity)
    assert ours == theirs, f"{what}: C says {ours}, Python says {theirs}"
    return ours


def damaged(file: bytes, seed: int, count: int) -> Iterator[tuple[bytes, str]]:
    """Copies with a few bytes of header or metadata changed, most of them with a valid digest."""
    rng = random.Random(seed)
    end = HEADER + int.from_bytes(file[32:40], "little")
    for number in range(count):
        changed = bytearray(file)
        for _ in range(rng.choice((1, 1, 1, 2, 3))):
            at = rng.randrange(end) if rng.random() < 0.1 else rng.randrange(HEADER, end)
            changed[at] = rng.choice((0, 1, 2, 4, 8, 16, 127, 128, 255, changed[at] ^ 1 << rng.randrange(8)))
        if rng.random() < 0.05:
            del changed[rng.randrange(len(changed)) :]
        if rng.random() < 0.9 and len(changed) >= HEADER and int.from_bytes(changed[32:40], "little") < len(changed):
            changed = bytearray(sign(changed))
        yield bytes(changed), f"seed {seed}, number {number}"


@pytest.mark.parametrize("name", ["session", "description", "split_description"])
def test_agree_on_damage(name: str) -> None:
    file = a_file(name)
    assert expect_agreement(file, 0, "unchanged") == 0
    found = {expect_agreement(changed, 1, what) for changed, what in damaged(file, 5, 1500)}
    assert len(found) > 3  # accepted ones and several errors


def test_agree_on_contents() -> None:
    file = assemble(description())
    rng = random.Random(6)
    for number in range(300):
        changed = bytearray(file)
        changed[rng.randrange(len(file))] ^= 1 << rng.randrange(8)
        assert expect_agreement(bytes(changed), 0, f"number {number}") != 0


@pytest.mark.parametrize("text", ["\0", "\x01", "\x7f", "\x80", "\u07ff", "\u0800", "\ud7ff", "\uffff", "\U00010000"])
def test_agree_on_texts(text: str) -> None:
    """Characters of every length, whole and with each of their bits changed, at each place of a text."""
    name = b"a model's long name"
    file, wanted = assemble(description() | {"model": name.decode()}), text.encode()
    at, found = file.index(name), set()
    for place in range(len(name) - len(wanted) + 1):
        for bit in range(-1, 8 * len(wanted)):
            character = bytearray(wanted)
            if bit >= 0:
                character[bit // 8] ^= 1 << bit % 8
            changed = bytearray(file)
            changed[at + place : at + place + len(wanted)] = character
            found.add(expect_agreement(sign(changed), 1, f"{bytes(character)!r} at {place}"))
    assert len(found) == 2  # accepted and refused ones


def test_a_shared_attribute_is_looked_at_once(tmp_path: Path) -> None:
    """One that all steps have, whose text adds up to more than the metadata has room for if each of them counts."""
    bundle, large = cores_bundle(), Attribute("zzz", text="x" * 100_000)
    programs = tuple(
        replace(p, steps=tuple(replace(s, attributes=(*s.attributes, large)) for s in p.steps)) for p in bundle.programs
    )
    write_bundle(replace(bundle, programs=programs), tmp_path / "shared.edge")
    file = (tmp_path / "shared.edge").read_bytes()
    length = int.from_bytes(file[32:40], "little")
    assert sum(len(p.steps) for p in programs) * 100_000 > 8 * length
    assert expect_agreement(file, 1, "a shared attribute") == 0
    text = file.index(b"x" * 1000)
    broken = sign(bytearray(file[:text] + b"\0" + file[text + 1 :]))
    assert expect_agreement(broken, 1, "a broken one") == MalformedError.status
