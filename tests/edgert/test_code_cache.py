"""What a driver has translated is kept in a folder, and used again."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

import pytest
from typer.testing import CliRunner

import edgert
from edgert.cli import app
from edgert.errors import DeviceError
from tests.edgert.device_bundles import WEIGHTS, affine, elementwise, write, x_of
from tests.edgert.emulated import emulator  # noqa: F401

HEADER = 128
NEVER = "cuLinkCreate_v2:0:CUDA_ERROR_NOT_SUPPORTED"  # nothing can be translated


@pytest.fixture
def bundle(tmp_path: Path) -> Path:
    return write(tmp_path / "affine.edge", affine().program())


def answers(path: Path, **options: object) -> bool:
    """Whether a session opens, and is right."""
    try:
        with edgert.load(path, allow_native=True, **options) as session:  # type: ignore[arg-type]
            return bool((session.run(x_of())["y"] == x_of() * WEIGHTS + 1).all())
    except DeviceError:
        return False


def files(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_code_is_translated_once(bundle: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "made" / "for it"
    assert answers(bundle, code_cache=folder)
    kept = files(folder)
    assert len(kept) == 3  # modules
    monkeypatch.setenv("EDGERT_EMULATOR_FAIL", NEVER)
    assert answers(bundle, code_cache=folder)
    assert not answers(bundle, code_cache=tmp_path / "empty")
    assert not answers(bundle, code_cache="")
    assert files(folder) == kept


def test_where_the_folder_is(bundle: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    places = {"EDGERT_CACHE_DIR": "one", "XDG_CACHE_HOME": "two", "HOME": "three"}
    below = {"one": ".", "two": "edgert/driver", "three": ".cache/edgert/driver"}
    for name, place in places.items():
        monkeypatch.setenv(name, str(tmp_path / place))
    for name, place in places.items():
        assert answers(bundle)
        assert len(files(tmp_path / place / below[place])) == 3
        assert len(list(tmp_path.iterdir())) == 1 + 1 + list(places).index(name)
        monkeypatch.setenv(name, "")
    assert answers(bundle)  # there is no folder then


def test_other_devices_and_drivers_have_their_own(
    bundle: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EDGERT_CACHE_DIR", str(tmp_path / "cache"))
    for count, (device, driver) in enumerate([("jetson-tx2", "10020"), ("jetson-tx2", "12090"), ("h200", "12090")], 1):
        monkeypatch.setenv("EDGERT_EMULATOR_DEVICE", device)
        monkeypatch.setenv("EDGERT_EMULATOR_DRIVER", driver)
        assert answers(bundle)
        assert len(files(tmp_path / "cache")) == 3 * count
    other = write(tmp_path / "other.edge", affine(shift=elementwise("shift", 1, "add.rn.f32 %f9, %f0, %f0;")).program())
    assert not answers(other)  # it gives something else
    assert len(files(tmp_path / "cache")) == 10


@pytest.mark.parametrize("damage", ["short", "empty", "flipped", "longer", "other", "refused", "folder"])
def test_damaged_files_are_replaced(bundle: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, damage: str) -> None:
    folder = tmp_path / "cache"
    assert answers(bundle, code_cache=folder)
    kept = files(folder)
    for name, data in kept.items():
        wrong = bytearray(data)
        if damage == "refused":  # whole, but no machine code
            wrong[HEADER:] = b"\x7fELF" + bytes(len(data) - HEADER - 4)
            wrong[48:80] = hashlib.sha256(wrong[HEADER:]).digest()
        elif damage == "flipped":
            wrong[-3] ^= 4
        elif damage == "other":
            wrong = bytearray(next(d for n, d in kept.items() if n != name))
        (folder / name).write_bytes({"short": data[:-1], "empty": b"", "longer": data + b"x"}.get(damage, bytes(wrong)))
        if damage == "folder":
            (folder / name).unlink()
            (folder / name).mkdir()
    assert answers(bundle, code_cache=folder)
    if damage == "folder":  # cannot be replaced: left alone, and nothing unfinished stays behind
        assert all(path.is_dir() for path in folder.iterdir())
        return
    assert files(folder) == kept
    monkeypatch.setenv("EDGERT_EMULATOR_FAIL", NEVER)
    assert answers(bundle, code_cache=folder)


def test_a_folder_that_cannot_be_made(bundle: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    assert answers(bundle, code_cache=tmp_path / "file")
    assert answers(bundle, code_cache=tmp_path / "file" / "below")
    assert answers(bundle, code_cache="/proc/nowhere")
    assert answers(bundle, code_cache="x" * 5000)
    assert (tmp_path / "file").read_bytes() == b""


def test_what_was_used_longest_ago_goes(bundle: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "cache"
    folder.mkdir()
    (folder / "mine.txt").write_bytes(bytes(100000))
    (folder / "old.edgecode").write_bytes(bytes(1000))  # what a process left behind that was killed
    os.utime(folder / "old.edgecode", (1, 1))
    assert answers(bundle, code_cache=folder)
    ours = {name: len(data) for name, data in files(folder).items() if name not in ("mine.txt", "old.edgecode")}
    names = sorted(ours)
    for age, name in enumerate(names):
        os.utime(folder / name, (1000 - age, 1000 - age))
    monkeypatch.setenv("EDGERT_CACHE_BYTES", str(sum(ours.values()) + 500))
    shifted = write(tmp_path / "new.edge", affine(shift=elementwise("shift", 1, "add.rn.f32 %f9, %f0, %f0;")).program())
    assert answers(bundle, code_cache=folder)  # uses them, and writes nothing: all stay
    assert set(files(folder)) == {"mine.txt", "old.edgecode", *names}
    for age, name in enumerate(names):
        os.utime(folder / name, (1000 - age, 1000 - age))
    answers(shifted, code_cache=folder)
    left = set(files(folder))
    assert left >= {"mine.txt"}
    assert "old.edgecode" not in left
    assert sum((folder / name).stat().st_size for name in left - {"mine.txt"}) <= sum(ours.values()) + 500
    assert len(left & set(names)) == 2  # the two that the new program uses
    monkeypatch.setenv("EDGERT_CACHE_BYTES", "0")
    assert answers(
        write(tmp_path / "third.edge", affine(scale=elementwise("scale", 2, "mul.f32 %f9, %f0, %f1;")).program()),
        code_cache=folder,
    )
    assert set(files(folder)) == {"mine.txt"}


def test_folders_of_several_sessions_at_once(bundle: Path, tmp_path: Path) -> None:
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(lambda _: answers(bundle, code_cache=tmp_path / "cache"), range(12)))
    assert len(files(tmp_path / "cache")) == 3


@pytest.mark.parametrize("verb", ["run --random", "bench --runs 1", "selftest --runs 1", "profile --runs 1"])
def test_the_command_line_names_a_folder(bundle: Path, tmp_path: Path, verb: str) -> None:
    name, *words = verb.split()
    for folder in (tmp_path / "cache", ""):
        options = ["--allow-native", "--code-cache", str(folder), *words]
        result = CliRunner().invoke(app, [name, str(bundle), *options])
        assert result.exit_code == 0, result.output
    assert len(files(tmp_path / "cache")) == 3
