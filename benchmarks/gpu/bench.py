"""What sections measure with: the device, its stream, the way from PTX to modules."""

from __future__ import annotations

import ctypes
import random
from collections.abc import Mapping
from dataclasses import dataclass

from benchmarks.gpu.device import Device
from benchmarks.gpu.driver import new_stream, primary
from benchmarks.gpu.modules import Modules
from benchmarks.gpu.session import Session
from benchmarks.gpu.timing import Contender, Times, interleaved

__all__ = ["Bench"]


@dataclass(frozen=True, slots=True)
class Bench:
    """Everything is measured on one stream. `library` is the driver's, or the emulator's."""

    device: Device
    stream: ctypes.c_void_p
    modules: Modules
    session: Session
    library: str

    @classmethod
    def on(cls, device: Device, session: Session, library: str) -> Bench:
        """Of the first device, whose primary context becomes current."""
        modules = Modules(primary(), device.arch, session.emulated)
        return cls(device, new_stream(), modules, session, library)

    def times(self, contenders: Mapping[str, Contender], seconds: float) -> dict[str, Times]:
        """Of each, in turns whose order is random, so that none always follows the same other."""
        names = random.Random(0).sample(list(contenders), len(contenders))
        shuffled = {name: contenders[name] for name in names}
        return interleaved(shuffled, self.stream, seconds, self.session.emulated)
