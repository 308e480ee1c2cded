"""What all tests share: where the real models are, and the built library."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
os.environ["EDGERT_CACHE_DIR"] = os.path.join(os.devnull, "cache")  # nor is anything kept from run to run
os.environ["EDGERT_RECORDS"] = str(ROOT / "build" / "no-records")  # what was tuned on this machine is not tested


@pytest.fixture(scope="session")
def models() -> Path:
    """The folder with `onnx/`, `vectors/` and `images/` of real models; tests that need it are skipped without it."""
    folder = Path(os.environ.get("EDGERT_MODELS", ROOT.parent / "shared" / "models"))
    if not (folder / "onnx").is_dir():
        pytest.skip(f"no real models at {folder}: set EDGERT_MODELS to a folder with onnx/ and vectors/")
    return folder


@pytest.fixture(params=["own", "spaced"])
def planes(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Values as they are planned, and with a row more between the planes of all that may have one."""
    if request.param == "spaced":
        monkeypatch.setattr("targets.cpu.spaced", _a_row_more)


def _a_row_more(shape: tuple[int, ...], _: int) -> tuple[int, ...]:
    return shape if len(shape) < 3 or 0 in shape else (*shape[:2], shape[2] + 1, *shape[3:])
