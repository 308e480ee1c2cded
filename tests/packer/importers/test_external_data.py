"""External tensor data is read from inside the model's folder, whole, and from nowhere else."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto

from packer.errors import ModelError
from packer.importers import import_onnx
from tests.packer.importers.models import noise, run, single

W = noise(3, 4)


def saved(folder: Path, location: str, **entries: object) -> Path:
    """A model `y = x + w` in `folder` whose w is said to lie at `location`."""
    built, _ = single("Add", [noise(3, 4, seed=1), W], constant=[1])
    tensor = built.graph.initializer[0]
    tensor.ClearField("raw_data")
    tensor.data_location = TensorProto.EXTERNAL
    for key, value in {"location": location, **entries}.items():
        tensor.external_data.add(key=key, value=str(value))
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "model.onnx"
    path.write_bytes(built.SerializeToString())
    return path


def weights(path: Path, before: bytes = b"") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(before + W.tobytes())
    return path


@pytest.mark.parametrize(("location", "entries"), [
    ("w.bin", {}), ("sub/w.bin", {}), ("./w.bin", {"length": W.nbytes}), ("w.bin", {"offset": 0, "length": W.nbytes}),
])  # fmt: skip
def test_inside(tmp_path: Path, location: str, entries: dict[str, object]) -> None:
    path = saved(tmp_path, location, **entries)
    weights(tmp_path / location)
    x = noise(3, 4, seed=1)
    (y,) = run(import_onnx(path), {"x0": x})
    np.testing.assert_array_equal(y, x + W)


def test_offset(tmp_path: Path) -> None:
    path = saved(tmp_path, "w.bin", offset=64, length=W.nbytes)
    weights(tmp_path / "w.bin", bytes(64))
    assert len(import_onnx(path).nodes) == 1


def test_as_onnx_writes_it(tmp_path: Path) -> None:
    built, feeds = single("Add", [noise(3, 4, seed=1), W], constant=[1])
    onnx.save_model(built, tmp_path / "m.onnx", save_as_external_data=True, size_threshold=0, location="m.data")
    (y,) = run(import_onnx(tmp_path / "m.onnx"), feeds)
    np.testing.assert_array_equal(y, feeds["x0"] + W)


def refused(path: Path) -> str:
    with pytest.raises(ModelError) as caught:
        import_onnx(path)
    assert "x1" in caught.value.where
    assert len(str(caught.value).splitlines()) <= 4
    return caught.value.what


@pytest.mark.parametrize(
    "location",
    ["../w.bin", "sub/../../w.bin", "..", "", ".", "/etc/passwd", "C:\\w.bin", "..\\w.bin", "a\0b", "sub/../w.bin"],
)
def test_outside(tmp_path: Path, location: str) -> None:
    weights(tmp_path / "w.bin")
    weights(tmp_path / "model" / "w.bin")
    path = saved(tmp_path / "model", location)
    assert refused(path) in ("external data lies outside the model's folder", "external data is missing")


def test_absolute_path_to_a_file_that_is_there(tmp_path: Path) -> None:
    target = weights(tmp_path / "model" / "w.bin")
    assert "outside" in refused(saved(tmp_path / "model", str(target)))


def test_links_that_lead_out(tmp_path: Path) -> None:
    secret = weights(tmp_path / "secret" / "w.bin")
    path = saved(tmp_path / "model", "w.bin")
    (tmp_path / "model" / "w.bin").symlink_to(secret)
    assert "outside" in refused(path)
    path = saved(tmp_path / "model", "sub/w.bin")
    (tmp_path / "model" / "sub").symlink_to(secret.parent, target_is_directory=True)
    assert "outside" in refused(path)


def test_links_that_stay_inside(tmp_path: Path) -> None:
    path = saved(tmp_path, "w.bin")
    (tmp_path / "w.bin").symlink_to(weights(tmp_path / "real.bin"))
    assert len(import_onnx(path).nodes) == 1


def test_a_model_reached_through_a_link(tmp_path: Path) -> None:
    saved(tmp_path / "real", "w.bin")
    weights(tmp_path / "real" / "w.bin")
    (tmp_path / "link").symlink_to(tmp_path / "real", target_is_directory=True)
    assert len(import_onnx(tmp_path / "link" / "model.onnx").nodes) == 1


@pytest.mark.parametrize("entries", [
    {"offset": -4}, {"offset": 1}, {"offset": 1 << 62}, {"length": 4}, {"length": -48}, {"offset": "x"},
    {"length": 1 << 62},
])  # fmt: skip
def test_ranges_outside_the_file(tmp_path: Path, entries: dict[str, object]) -> None:
    weights(tmp_path / "w.bin")
    assert "does not hold" in refused(saved(tmp_path, "w.bin", **entries))


def test_folders_and_missing_files(tmp_path: Path) -> None:
    assert "missing" in refused(saved(tmp_path, "w.bin"))
    (tmp_path / "w.bin").mkdir()
    assert "missing" in refused(saved(tmp_path, "w.bin"))


def test_a_model_in_memory_has_no_folder(tmp_path: Path) -> None:
    path = saved(tmp_path, "w.bin")
    weights(tmp_path / "w.bin")
    with pytest.raises(ModelError, match="in memory"):
        import_onnx(onnx.load(path, load_external_data=False))
