"""The emulator of CUDA devices: where its library is, and which device it is to be."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from edgert._native import find_beside
from edgert._open import ProgramStatus
from edgert.errors import DeviceMissingError, NoProgramError

__all__ = ["EMULATED", "emulated", "emulator_library", "program_to_emulate"]

EMULATED = "(emulated)"  # in names of devices
_DEVICE = "EDGERT_EMULATOR_DEVICE"
_DEVICES = ((62, "jetson-tx2"), (87, "jetson-orin"), (90, "h200"))  # that it knows, by the generation of their code


def emulator_library() -> str:
    """The emulator's path: that of EDGERT_CUDA_LIBRARY, else the one that was installed with edgert."""
    path = os.environ.get("EDGERT_CUDA_LIBRARY") or find_beside("libcuda-emulator.so")
    if path is None:
        raise DeviceMissingError.of(
            "libcuda-emulator.so was not installed with edgert",
            "Install edgert again: pip install . (or set EDGERT_CUDA_LIBRARY to the path of one built with cmake)",
        )
    return path


def program_to_emulate(programs: Sequence[ProgramStatus], target: str | None) -> ProgramStatus:
    """The first program for a device, of `target` if that is given."""
    for program in programs:
        if program.device and target in (None, program.target):
            return program
    raise NoProgramError.of(
        f"target {target!r}: no program for a device to emulate" if target else "no program for a device to emulate",
        "Pack one that runs on the device all it can: edgert pack model.onnx --target jetson --placement device",
    )


@contextmanager
def emulated(device: str) -> Iterator[None]:
    """Meanwhile the emulator, once initialised, is the oldest device that runs code for `device` ("sm_62"), unless the
    environment says which one it is.
    """
    if _DEVICE in os.environ:
        yield
        return
    needed = int(device.removeprefix("sm_"))
    os.environ[_DEVICE] = next((name for sm, name in _DEVICES if sm >= needed), _DEVICES[-1][1])
    try:
        yield
    finally:
        del os.environ[_DEVICE]
