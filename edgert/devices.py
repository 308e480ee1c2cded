"""What this machine is, as far as running bundles goes."""

from __future__ import annotations

import os
import platform
from dataclasses import dataclass

from edgert import _native

__all__ = ["Machine", "this_machine"]


@dataclass(frozen=True, slots=True)
class Machine:
    """A CPU: `arch` is what programs ask for, `cores` those this process may use, `isas` the usable instruction sets,
    best first; memory in bytes (0: unknown)."""

    arch: str
    cpu: str
    cores: int
    isas: tuple[str, ...]
    memory_bytes: int
    available_bytes: int


def this_machine() -> Machine:
    """The machine that this process runs on."""
    memory = _fields("/proc/meminfo")
    return Machine(
        platform.machine(),
        _cpu(),
        _native.library().edgert_cores(),
        _native.isas(),
        _kilobytes(memory.get("MemTotal", "")),
        _kilobytes(memory.get("MemAvailable", "")),
    )


def _cpu() -> str:
    """The name of the processor: as x86 gives it, else the board's, else the architecture."""
    fields = _fields("/proc/cpuinfo")
    if "model name" in fields:
        return fields["model name"]
    try:
        with open("/sys/firmware/devicetree/base/model", encoding="utf-8", errors="replace") as file:
            return file.read().strip("\0\n ")
    except OSError:
        return platform.processor() or platform.machine()


def _fields(path: str) -> dict[str, str]:
    """The "name : value" lines of a file of /proc, the first of each name; none if it cannot be read."""
    found: dict[str, str] = {}
    if os.path.exists(path):
        with open(path, encoding="utf-8", errors="replace") as file:
            for line in file:
                name, _, value = line.partition(":")
                found.setdefault(name.strip(), value.strip())
    return found


def _kilobytes(text: str) -> int:
    return int(text.split()[0]) * 1024 if text else 0
