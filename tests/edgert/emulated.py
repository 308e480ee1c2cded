"""What tests of programs for devices share: the emulator as the driver, and nothing left of it afterwards."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest

from tests.targets.cuda.driver import library

__all__ = ["emulator", "nothing_left"]


@pytest.fixture(autouse=True)
def emulator(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The emulator as the driver that programs find; after a test all that sessions had of it has been given back."""
    monkeypatch.setenv("EDGERT_CUDA_LIBRARY", library()._name)
    for name in ("DEVICE", "DRIVER", "FAIL", "REFUSE_CUBIN", "MEMORY"):
        monkeypatch.delenv(f"EDGERT_EMULATOR_{name}", raising=False)
    yield
    gc.collect()
    assert nothing_left()


def nothing_left() -> bool:
    """Whether all that was had of the driver has been given back."""
    return (library().edgertEmulatorObjects(), library().edgertEmulatorBytes()) == (0, 0)
