"""PTX to modules on the device, many at a time: by ptxas where there is one, else by the driver."""

from __future__ import annotations

import ctypes
import os
from concurrent.futures import Future, ThreadPoolExecutor

from benchmarks.cuda_codegen import CACHE
from benchmarks.gpu import driver
from targets.cuda.cubin import Cubin
from targets.cuda.cubin import code as code_of
from targets.cuda.emit.ptx import Builder, module
from targets.cuda.toolchain import MEMORY, ToolchainError, assemble, find

__all__ = ["Loaded", "Modules", "translator"]

_FEWEST = 4  # translated at a time: a virtual machine may get memory as it is used


class Loaded:
    """A module that is being made. With ptxas it is loaded when it is asked for: loading would disturb what is measured
    meanwhile."""

    def __init__(self, made: Future[Cubin | driver.Module]) -> None:
        self._made = made
        self._module: driver.Module | None = None

    @property
    def module(self) -> driver.Module:
        """On the device; waits for it, and raises what went wrong."""
        if self._module is None:
            made = self._made.result()
            self._module = driver.Module(made.image) if isinstance(made, Cubin) else made
        return self._module

    @property
    def code(self) -> int | None:
        """Bytes of machine code; None where the driver translated PTX."""
        made = self._made.result()
        return len(code_of(made.image)) if isinstance(made, Cubin) else None

    def unload(self) -> None:
        """Frees what is on the device; what is not yet made never comes there."""
        if self._module is not None:
            self._module.unload()
        self._made.cancel()


class Modules:
    """Translates in threads. `how` says by what: "ptxas", or "driver" and why."""

    def __init__(self, context: ctypes.c_void_p, arch: str, emulated: bool) -> None:
        self._arch = arch
        self.how = translator(arch, emulated)
        free = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_AVPHYS_PAGES")
        workers = min(len(os.sched_getaffinity(0)), max(_FEWEST, free // MEMORY))
        self._pool = ThreadPoolExecutor(workers, initializer=driver.call, initargs=("cuCtxSetCurrent", context))

    def load(self, ptx: str) -> Loaded:
        """The module of this text."""
        return Loaded(self._pool.submit(self._translated, ptx))

    def _translated(self, ptx: str) -> Cubin | driver.Module:
        return assemble(ptx, self._arch, cache=CACHE) if self.how == "ptxas" else driver.Module(ptx)

    def close(self) -> None:
        """What has not begun is dropped."""
        self._pool.shutdown(cancel_futures=True)


def translator(arch: str, emulated: bool) -> str:
    """Whether ptxas knows the device: that of an old toolkit may not."""
    if emulated:
        return "driver (emulated)"
    if find("ptxas") is None:
        return "driver (ptxas is missing)"
    b = Builder()
    b.emit("ret")
    try:
        assemble(module(b.entry("nothing", ("x",), 32)), arch)
    except ToolchainError as error:
        return f"driver ({str(error).splitlines()[0]})"
    return "ptxas"
