"""The nine networks that come with the onnx package, topologies of real classifiers: their outputs."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest

import edgert
from tests.e2e.conftest import relative_error, tensor

LIGHT = Path(onnx.__file__).parent / "backend" / "test" / "data" / "light"
NAMES = sorted(path.stem for path in LIGHT.glob("light_*.onnx"))


def test_all_nine_are_there() -> None:
    assert len(NAMES) == 9


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_light(packed: Callable[..., edgert.Session], name: str) -> None:
    with packed(LIGHT / f"{name}.onnx") as session:
        # As onnx.backend.test makes their input: evenly spaced numbers from 0 to 1.
        (info,) = session.inputs
        count = int(np.prod(info.shape))
        x = np.arange(count, dtype=np.float32).reshape(info.shape) / count
        (output,) = session.run({info.name: x}).values()
    assert relative_error(output, tensor(LIGHT / f"{name}_output_0.pb")) < 1e-4
