"""The GPU that was found, and the state of its clocks."""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import dataclass

from benchmarks.gpu import driver

__all__ = ["Device", "clocks", "find"]

# numbers of CUdevice_attribute
_CLOCK, _MULTIPROCESSORS, _L2 = 13, 16, 38
_MAJOR, _MINOR, _SHARED, _THREADS = 75, 76, 81, 39
_STATE = "clocks.sm,clocks.mem,clocks.max.sm,clocks.max.mem,temperature.gpu,power.draw,clocks_throttle_reasons.active"


@dataclass(frozen=True, slots=True)
class Device:
    """Sizes in bytes; `ghz` is the highest clock of the multiprocessors, `threads` and `shared` are of one of them."""

    name: str
    sm: int
    cuda: int
    multiprocessors: int
    threads: int
    shared: int
    l2: int
    memory: int
    ghz: float

    @property
    def arch(self) -> str:
        """As compilers name it."""
        return f"sm_{self.sm}"


def find() -> Device:
    """The first device. Raises CudaError, or OSError without a driver."""
    driver.call("cuInit", 0)
    numbers = (_MULTIPROCESSORS, _THREADS, _SHARED, _L2)
    multiprocessors, threads, shared, l2 = (driver.attribute(number) for number in numbers)
    sm = driver.attribute(_MAJOR) * 10 + driver.attribute(_MINOR)
    memory, ghz = driver.memory(), driver.attribute(_CLOCK) * 1e-6
    return Device(driver.name(), sm, driver.version(), multiprocessors, threads, shared, l2, memory, ghz)


def clocks() -> dict[str, str] | None:
    """What nvidia-smi says of clocks (MHz), temperature and what slows it down; None where it says nothing."""
    tool = shutil.which("nvidia-smi")
    if tool is None:
        return None
    try:
        asked = [tool, f"--query-gpu={_STATE}", "--format=csv,noheader,nounits", "--id=0"]
        done = subprocess.run(asked, capture_output=True, text=True, timeout=10)
    except subprocess.TimeoutExpired:
        return None
    cells = [cell.strip() for cell in done.stdout.strip().split(",")]
    return dict(zip(_STATE.split(","), cells, strict=True)) if len(cells) == _STATE.count(",") + 1 else None
