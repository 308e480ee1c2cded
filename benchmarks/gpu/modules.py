"""PTX to modules on the device, many at a time: by ptxas where there is one, else by the driver."""

from __future__ import annotations

import ctypes
import os
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass

from benchmarks.cuda_codegen import CACHE
from benchmarks.gpu import driver
from targets.cuda.cubin import Cubin
from targets.cuda.cubin import code as code_of
from targets.cuda.emit.ptx import Builder, module
from targets.cuda.toolchain import MEMORY, ToolchainError, assemble, find

__all__ = ["Loaded", "Modules"]


@dataclass(frozen=True, slots=True)
class Loaded:
    """A module on the device, and the cubin that it is, None where the driver translated PTX."""

    module: driver.Module
    cubin: Cubin | None

    @property
    def code(self) -> int | None:
        """Bytes of machine code."""
        return None if self.cubin is None else len(code_of(self.cubin.image))


class Modules:
    """Translates and loads in threads. `how` says by what: "ptxas", or "driver" and why."""

    def __init__(self, context: ctypes.c_void_p, arch: str, emulated: bool) -> None:
        self._arch = arch
        self.how = "driver (emulated)" if emulated else _translator(arch)
        free = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_AVPHYS_PAGES")
        workers = max(1, min(len(os.sched_getaffinity(0)), free // MEMORY))
        self._pool = ThreadPoolExecutor(workers, initializer=driver.call, initargs=("cuCtxSetCurrent", context))

    def load(self, ptx: str) -> Future[Loaded]:
        """The module, as soon as it is there."""
        return self._pool.submit(self._load, ptx)

    def _load(self, ptx: str) -> Loaded:
        if self.how != "ptxas":
            return Loaded(driver.Module(ptx), None)
        cubin = assemble(ptx, self._arch, cache=CACHE)
        return Loaded(driver.Module(cubin.image), cubin)

    def close(self) -> None:
        """What has not begun is dropped."""
        self._pool.shutdown(cancel_futures=True)


def _translator(arch: str) -> str:
    """Whether ptxas knows the device: that of an old toolkit may not."""
    if find("ptxas") is None:
        return "driver (ptxas is missing)"
    b = Builder()
    b.emit("ret")
    try:
        assemble(module(b.entry("nothing", ("x",), 32)), arch)
    except ToolchainError as error:
        return f"driver ({str(error).splitlines()[0]})"
    return "ptxas"
