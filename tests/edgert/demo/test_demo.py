"""`edgert demo` from a fresh folder: it succeeds, says what happened, and leaves a picture."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from edgert.demo import main
from edgert.demo.picture import choose, draw

pytest.importorskip("PIL")


def test_demo(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from PIL import Image

    for needed in ("onnx", "flatbuffers", "sklearn"):
        pytest.importorskip(needed)
    folder = tmp_path / "out"
    assert main(folder) == 0
    text = capsys.readouterr().out
    assert "PASS" in text
    assert "99.0%" in text
    assert "info" in text
    with Image.open(folder / "digits.png") as picture:
        assert picture.width > 1000
        assert len(np.unique(np.asarray(picture))) > 100
    assert np.load(folder / "digit.npy").shape == (1, 1, 8, 8)
    assert (folder / "digits.edge").stat().st_size < 200_000
    assert main(folder) == 0


def test_mistakes_are_shown_last() -> None:
    labels = np.arange(100) % 10
    predictions = labels.copy()
    predictions[[3, 50, 97]] += 1
    shown = choose(labels, predictions, columns=10, rows=2)
    assert len(shown) == 20
    assert list(shown[-3:]) == [3, 50, 97]
    assert (labels[shown[:-3]] == predictions[shown[:-3]]).all()


def test_picture_of_one_digit(tmp_path: Path) -> None:
    from PIL import Image

    image = np.zeros((1, 1, 8, 8), np.float32)
    draw(tmp_path / "one.png", "one", image, np.array([1]), np.array([7]), np.array([0.5], np.float32))
    with Image.open(tmp_path / "one.png") as picture:
        red, green = np.asarray(picture)[..., 0], np.asarray(picture)[..., 1]
        assert ((red > 150) & (green < 100)).any()  # the mistake's caption
