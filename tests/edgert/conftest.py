"""Small networks, packed."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.edgert.networks import classifier, packed, two_inputs

SHAPES = {"image": (1, 3, 10, 8)}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """model.onnx and model.edge of the classifier, two/ with those of the network of two inputs."""
    folder = tmp_path_factory.mktemp("cli")
    packed(classifier(), folder, shapes=SHAPES, cores=(1, 2, 4))
    (folder / "two").mkdir()
    packed(two_inputs(), folder / "two")
    return folder


@pytest.fixture(scope="module")
def bundle(folder: Path) -> Path:
    return folder / "model.edge"
