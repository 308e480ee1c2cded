"""What measured times hold for: the processor, its caches, and the kernels."""

from __future__ import annotations

import ctypes
import functools
import hashlib
import os
from dataclasses import dataclass, replace
from pathlib import Path

from edgert import __version__, _native
from edgert.devices import this_machine
from edgert.errors import DeviceMissingError

__all__ = ["Device", "device_with_gpu", "fastest_cpus", "gpu_core", "is_gpu", "this_device"]

_NO_GPU = "Install the NVIDIA driver, or measure the emulator: edgert tune model.onnx --target jetson --emulate"
_CPUS = Path("/sys/devices/system/cpu")
_MODEL = ("cpu family", "model", "stepping", "CPU implementer", "CPU part", "CPU variant", "CPU revision")
_USUAL = ((1, 32 << 10), (2, 1 << 20), (3, 32 << 20))  # caches where the system does not tell


@dataclass(frozen=True, slots=True)
class Device:
    """A device as far as times go: they hold wherever `fingerprint` and `core` are the same.

    `core` is how its fastest cores compute, the instruction set that sessions use by default. `cores` are those that
    this process may use. `caches`: level and bytes of each cache that holds data, of one of the fastest cores.
    """

    fingerprint: str
    core: str
    arch: str
    cpu: str
    cores: int
    caches: tuple[tuple[int, int], ...]


@functools.cache
def this_device() -> Device:
    """The device that this process runs on, with the library it has loaded."""
    machine = this_machine()
    caches = _caches() or _USUAL
    sizes = ", ".join(f"L{level} {size >> 10}K" for level, size in caches)
    kernels = hashlib.sha256(Path(_native.library()._name).read_bytes()).hexdigest()[:12]
    text = f"{os.cpu_count()} x {machine.cpu} ({machine.arch} {_models()}), {sizes}, kernels {kernels}"
    return Device(text, machine.isas[0], machine.arch, machine.cpu, machine.cores, caches)


def gpu_core(generation: str, storage: str, code: str) -> str:
    """How a GPU computes: for which generation, "sm_62", its code is, how floats are stored, and whether that is
    machine code as it was packed ("cubin") or what a driver makes of PTX ("ptx")."""
    return f"{generation} {storage} {code}"


def is_gpu(core: str) -> bool:
    """Whether a device's `core` is one of gpu_core."""
    return core.startswith("sm_")


def device_with_gpu(library: str, core: str) -> Device:
    """This device with the first GPU that a CUDA driver finds, which computes as `core`, of gpu_core, tells. Raises
    DeviceMissingError."""
    name, version = ctypes.create_string_buffer(256), ctypes.c_int()
    try:
        driver = ctypes.CDLL(library)
    except OSError as error:
        raise DeviceMissingError.of(f"the CUDA driver: {error}", _NO_GPU) from None
    failed = driver.cuInit(0) or driver.cuDriverGetVersion(ctypes.byref(version))
    if failed or driver.cuDeviceGetName(name, len(name), 0):
        raise DeviceMissingError.of(f"the CUDA driver '{library}' finds no device", _NO_GPU)
    here = this_device()
    text = f"{name.value.decode()}, driver {version.value}, edgert {__version__}, {here.fingerprint}"
    return replace(here, fingerprint=text, core=core)


def fastest_cpus() -> set[int]:
    """The CPUs of most capacity among those this process may use: all of them, where the cores are alike."""
    capacities = {cpu: _capacity(cpu) for cpu in os.sched_getaffinity(0)}
    most = max(capacities.values())
    return {cpu for cpu, capacity in capacities.items() if capacity == most}


def _capacity(cpu: int) -> int:
    text = _read(_CPUS / f"cpu{cpu}" / "cpu_capacity")
    return int(text) if text.isdecimal() else 0


def _caches() -> tuple[tuple[int, int], ...]:
    found = {}
    for folder in (_CPUS / f"cpu{min(fastest_cpus())}" / "cache").glob("index*"):
        level, kind, size = (_read(folder / name) for name in ("level", "type", "size"))
        if kind in ("Data", "Unified") and level.isdecimal() and size.removesuffix("K").isdecimal():
            found[int(level)] = int(size.removesuffix("K")) << 10
    return tuple(sorted(found.items()))


def _models() -> str:
    """The different kinds of processors, by the numbers their makers gave them."""
    found: dict[str, str] = {}
    kinds: list[str] = []
    for line in [*_read(Path("/proc/cpuinfo")).splitlines(), ""]:
        name, _, value = (part.strip() for part in line.partition(":"))
        if name in _MODEL:
            found[name] = value
        elif not line.strip():
            kinds.append(".".join(found[name] for name in _MODEL if name in found))
    return "+".join(dict.fromkeys(kind for kind in kinds if kind)) or "unknown"


def _read(path: Path) -> str:
    """The text of a file of the system; "" if it has none."""
    try:
        return path.read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return ""
