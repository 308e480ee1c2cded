"""What the command line reads: pictures in every verb that takes inputs, archives, and packages that are missing."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

from edgert.session import Session
from tests.edgert.command import invoke


@pytest.fixture
def picture(tmp_path: Path) -> Path:
    pixels = np.random.default_rng(0).integers(0, 256, (10, 8, 3)).astype(np.uint8)
    pytest.importorskip("PIL.Image").fromarray(pixels).save(tmp_path / "x.png")
    return tmp_path / "x.png"


@pytest.mark.parametrize("verb", ["bench", "profile"])
def test_pictures_are_prepared_as_run_does(
    bundle: Path, picture: Path, verb: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    used, bind = [], Session.bind
    monkeypatch.setattr(Session, "bind", lambda *given: (used.append(given[1]["image"]), bind(*given))[1])
    options = ("--mean", "10,20,30", "--std", "50", "--layout", "nchw", "--bgr")
    result = invoke(verb, bundle, "--input", picture, "--runs", 1, *options)
    assert result.exit_code == 0, result.output
    pixels = np.asarray(pytest.importorskip("PIL.Image").open(picture), np.float32)[..., ::-1]
    want = ((pixels - np.array([10, 20, 30], np.float32)) / np.float32(50)).transpose(2, 0, 1)[None]
    assert np.array_equal(used[0], want)


def test_archives_without_arrays(bundle: Path, tmp_path: Path) -> None:
    np.savez(tmp_path / "empty.npz")
    result = invoke("run", bundle, "--input", tmp_path / "empty.npz")
    assert result.exit_code == 2
    assert "expected an array 'image', got no arrays" in result.stderr


def test_pictures_without_pillow(bundle: Path, picture: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.partition(".")[0] == "PIL"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "PIL", None)
    result = invoke("run", bundle, "--input", picture)
    assert result.exit_code == 2
    assert "pip install pillow" in result.stderr


def test_demo_without_its_packages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "packer.api", None)
    result = invoke("demo", "-o", tmp_path / "demo")
    assert result.exit_code == 2
    assert "pip install 'edgert[demo]'" in result.stderr
