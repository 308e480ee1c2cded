"""What the end-to-end tests share: pack a model, load its bundle, compare with vectors."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

import edgert
from packer.api import pack


@pytest.fixture
def packed(tmp_path: Path) -> Callable[..., edgert.Session]:
    """A function that packs an ONNX file and loads the bundle."""

    def make(model: Path, **options: object) -> edgert.Session:
        path = tmp_path / f"{model.stem}.edge"
        pack(model, path, golden=False, **options)  # type: ignore[arg-type]
        return edgert.load(path)

    return make


def tensor(path: Path) -> np.ndarray:
    """The array in a TensorProto file."""
    proto = onnx.TensorProto()
    proto.ParseFromString(path.read_bytes())
    return numpy_helper.to_array(proto)


def relative_error(got: np.ndarray, want: np.ndarray) -> float:
    """Largest difference relative to the largest magnitude wanted."""
    assert got.shape == want.shape
    return float(np.abs(got.astype(np.float64) - want).max(initial=0) / max(np.abs(want).max(initial=0), 1e-30))
