"""edgert: run networks that were packed ahead of time into one verified bundle.

    import edgert

    with edgert.load("model.edge") as session:
        outputs = session.run({"input": array})

Nothing is imported before it is used; what is imported is the standard library and numpy only.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from edgert.errors import (
        BadStepError,
        CorruptError,
        DeviceError,
        DeviceLostError,
        DeviceMissingError,
        EdgertError,
        InvalidArgumentError,
        IoError,
        LibraryError,
        MalformedError,
        NativeCodeError,
        NoProgramError,
        NotABundleError,
        NotBoundError,
        OutOfMemoryError,
        ThreadError,
        TruncatedError,
        UnknownKernelError,
        VersionError,
    )
    from edgert.reader import Bundle, read
    from edgert.session import Session, TensorInfo, load

__version__ = "0.1.0"

__all__ = [
    "BadStepError",
    "Bundle",
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
    "Session",
    "TensorInfo",
    "ThreadError",
    "TruncatedError",
    "UnknownKernelError",
    "VersionError",
    "__version__",
    "load",
    "read",
]

_HOMES = {
    "Bundle": "edgert.reader",
    "read": "edgert.reader",
    "Session": "edgert.session",
    "TensorInfo": "edgert.session",
    "load": "edgert.session",
}


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'edgert' has no attribute '{name}'")
    value = getattr(importlib.import_module(_HOMES.get(name, "edgert.errors")), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
