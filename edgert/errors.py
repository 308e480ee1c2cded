"""Exceptions: one class for each error of the runtime's table, plus one for a missing library."""

from __future__ import annotations

import os
from types import TracebackType
from typing import ClassVar

from edgert import _errors

__all__ = [
    "BadStepError",
    "CorruptError",
    "DeviceError",
    "DeviceLostError",
    "DeviceMissingError",
    "EdgertError",
    "InvalidArgumentError",
    "IoError",
    "LibraryError",
    "MalformedError",
    "NativeCodeError",
    "NoProgramError",
    "NotABundleError",
    "NotBoundError",
    "OutOfMemoryError",
    "ThreadError",
    "TruncatedError",
    "UnknownKernelError",
    "VersionError",
    "class_of",
    "naming",
]


class EdgertError(Exception):
    """Base of all errors. The text says what, where, expected, got and what to do, in at most four lines.

    `status` is the number of the C API, `id` the stable textual id; docs/errors.md lists them.
    """

    status: ClassVar[int] = 0
    id: ClassVar[str] = "edgert"

    @classmethod
    def of(cls, detail: str, hint: str = "") -> EdgertError:
        """The error of this class with the table's sentence before `detail` and its hint (or `hint`) after."""
        row = _ROWS[cls.status]
        return cls(f"{row.sentence}: {detail}\n{hint or row.hint}")


class InvalidArgumentError(EdgertError, ValueError):
    """An argument of the call is not acceptable."""

    status = 1
    id = "invalid-argument"


class OutOfMemoryError(EdgertError, MemoryError):
    """Memory could not be allocated."""

    status = 2
    id = "out-of-memory"


class IoError(EdgertError, OSError):
    """The file could not be read."""

    status = 3
    id = "io"


class NotABundleError(EdgertError):
    """The file is not an edgert bundle."""

    status = 4
    id = "not-a-bundle"


class VersionError(EdgertError):
    """The bundle's format version is not readable by this library."""

    status = 5
    id = "version"


class TruncatedError(EdgertError):
    """The file is shorter or longer than its header says."""

    status = 6
    id = "truncated"


class CorruptError(EdgertError):
    """The bundle's contents do not match their checksum."""

    status = 7
    id = "corrupt"


class MalformedError(EdgertError):
    """The bundle's structure is not valid."""

    status = 8
    id = "malformed"


class NoProgramError(EdgertError):
    """No program of the bundle can run on this machine."""

    status = 9
    id = "no-program"


class UnknownKernelError(EdgertError):
    """The program needs a kernel that the library does not have."""

    status = 10
    id = "unknown-kernel"


class BadStepError(EdgertError):
    """A step's operands or attributes are not valid."""

    status = 11
    id = "bad-step"


class NotBoundError(EdgertError):
    """An input or output has no buffer."""

    status = 12
    id = "not-bound"


class ThreadError(EdgertError):
    """A worker thread could not be started."""

    status = 13
    id = "thread"


class NativeCodeError(EdgertError):
    """The program runs native code on a device, which nobody has allowed."""

    status = 14
    id = "native-code"


class DeviceMissingError(EdgertError):
    """No device here can run the program."""

    status = 15
    id = "device-missing"


class DeviceError(EdgertError):
    """The driver of the device refused a call."""

    status = 16
    id = "device"


class DeviceLostError(EdgertError):
    """The device failed, and nothing runs on it any more."""

    status = 17
    id = "device-lost"


class LibraryError(EdgertError, ImportError):
    """libedgert.so could not be loaded, or is of another version."""

    id = "library"


_ROWS = {row.number: row for row in _errors.ERRORS}
_CLASSES = {cls.status: cls for cls in EdgertError.__subclasses__() if cls.status}


def class_of(status: int) -> type[EdgertError]:
    """The exception class of a C status; EdgertError for one this version does not know."""
    return _CLASSES.get(status, EdgertError)


class naming:
    """A context in which errors that do not say which file they are about begin with its path."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._path = path

    def __enter__(self) -> None:
        pass

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None, /
    ) -> None:
        if isinstance(error, EdgertError) and not isinstance(error, LibraryError):
            name = os.fsdecode(self._path)
            if name not in str(error):
                raise type(error)(f"{name}: {error}") from None
