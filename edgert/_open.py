"""A bundle opened by the C library: shared by the sessions over it, closed with the last of them."""

from __future__ import annotations

import ctypes
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from edgert import _native
from edgert._arrays import ALIGN, empty_array
from edgert._source import bytes_of
from edgert.dtypes import address
from edgert.errors import InvalidArgumentError, naming

if TYPE_CHECKING:
    from typing_extensions import Buffer

__all__ = ["OpenBundle", "ProgramStatus"]

INTEGRITY = {"full": 0, "metadata": 1}
MOST_THREADS = 1024  # that the library starts


@dataclass(frozen=True, slots=True)
class ProgramStatus:
    """A program of an open bundle, made for `cores`. `runnable` is the textual id of the reason why not, or "ok"."""

    target: str
    arch: str
    cores: int
    steps: int
    arena_bytes: int  # bytes
    runnable: str
    device: str = ""  # that it needs beside the processor: "sm_62"


class OpenBundle:
    """The verified mapping of a file, or of the caller's memory (copied unless read-only and aligned to 64 bytes)."""

    def __init__(self, source: str | os.PathLike[str] | Buffer, integrity: str = "full", threads: int = 0) -> None:
        self.handle = ctypes.c_void_p()
        if integrity not in INTEGRITY:
            raise InvalidArgumentError(f"integrity: expected one of {', '.join(INTEGRITY)}, got {integrity!r}")
        options = _native.OpenOptions(ctypes.sizeof(_native.OpenOptions), INTEGRITY[integrity], _thread_count(threads))
        opened, handle = ctypes.byref(options), ctypes.byref(self.handle)
        if isinstance(source, str | os.PathLike):
            with naming(source):
                _native.call("edgert_bundle_open", os.fsencode(source), opened, handle)
            return
        data = bytes_of(source)
        self._memory = _stable(data)
        _native.call("edgert_bundle_open_memory", address(self._memory), data.nbytes, opened, handle)

    def programs(self) -> tuple[ProgramStatus, ...]:
        """The programs of the bundle, in its order, and whether each can run on this machine."""
        library = _native.library()
        found: list[ProgramStatus] = []
        for index in range(library.edgert_bundle_program_count(self.handle)):
            info = _native.ProgramInfo()
            _native.call("edgert_bundle_program", self.handle, index, ctypes.byref(info))
            reason = library.edgert_status_id(info.runnable).decode()
            target, arch = info.target.decode(), info.arch.decode()
            found.append(
                ProgramStatus(target, arch, info.cores, info.steps, info.arena_bytes, reason, info.device.decode())
            )
        return tuple(found)

    def __del__(self) -> None:
        if self.handle:
            _native.library().edgert_bundle_close(self.handle)
            self.handle = ctypes.c_void_p()


def _thread_count(value: int) -> int:
    """`value` if a session can have as many threads; else raises InvalidArgumentError."""
    if not isinstance(value, int) or not 0 <= value <= MOST_THREADS:
        raise InvalidArgumentError(
            f"threads: expected 1 to {MOST_THREADS}, or 0 for one per usable core, got {value!r}"
        )
    return value


def _stable(data: memoryview) -> np.ndarray[tuple[int], np.dtype[np.uint8]]:
    """The bytes, aligned, not to be changed by anyone while the bundle is open."""
    given = np.frombuffer(data, np.uint8)
    if data.readonly and address(given) % ALIGN == 0 and given.size:
        return given
    copy = empty_array(given.shape, given.dtype)
    copy[...] = given
    return copy
