"""Every error of the runtime. Generated from errors.def; do not edit: run
`python -m packer.bundle.generate`.
"""

from __future__ import annotations

from typing import Final, NamedTuple

__all__ = ["ERRORS", "Error"]


class Error(NamedTuple):
    """One error: number of the C API, names, what happened, what to do."""

    number: int
    name: str
    id: str
    sentence: str
    hint: str


ERRORS: Final = (
    Error(
        1,
        "INVALID_ARGUMENT",
        "invalid-argument",
        "an argument of the call is not acceptable",
        "read the call's description in edgert.h",
    ),
    Error(
        2,
        "OUT_OF_MEMORY",
        "out-of-memory",
        "memory could not be allocated",
        "free memory, or pack a smaller model",
    ),
    Error(
        3,
        "IO",
        "io",
        "the file could not be read",
        "check the path and its permissions",
    ),
    Error(
        4,
        "NOT_A_BUNDLE",
        "not-a-bundle",
        "this is not an edgert bundle",
        "make one with: edgert pack model.onnx -o model.edge",
    ),
    Error(
        5,
        "VERSION",
        "version",
        "the bundle's format version is not readable by this library",
        "pack the model again with the matching edgert, or update the library",
    ),
    Error(
        6,
        "TRUNCATED",
        "truncated",
        "the file is shorter or longer than its header says",
        "copy the file again, completely",
    ),
    Error(
        7,
        "CORRUPT",
        "corrupt",
        "the bundle's contents do not match their checksum",
        "copy the file again, or pack the model again",
    ),
    Error(
        8,
        "MALFORMED",
        "malformed",
        "the bundle's structure is not valid",
        "pack the model again: edgert pack model.onnx",
    ),
    Error(
        9,
        "NO_PROGRAM",
        "no-program",
        "no program of the bundle can run on this machine",
        "see what it holds with: edgert check model.edge",
    ),
    Error(
        10,
        "UNKNOWN_KERNEL",
        "unknown-kernel",
        "the program needs a kernel that this library does not have",
        "update the library, or pack with the packer of its version",
    ),
    Error(
        11,
        "BAD_STEP",
        "bad-step",
        "a step's operands or attributes are not valid",
        "pack the model again: edgert pack model.onnx",
    ),
    Error(
        12,
        "NOT_BOUND",
        "not-bound",
        "an input or output has no buffer",
        "bind every input and output before edgert_session_run",
    ),
    Error(
        13,
        "THREAD",
        "thread",
        "a worker thread could not be started",
        "use fewer threads",
    ),
    Error(
        14,
        "NATIVE_CODE",
        "native-code",
        "the program runs native code on a device, which nobody has allowed",
        "if you trust who packed it: --allow-native (allow_native in the options)",
    ),
    Error(
        15,
        "DEVICE_MISSING",
        "device-missing",
        "no device here can run the program",
        "install the NVIDIA driver, pack for this device, or try it with: edgert run --emulate",
    ),
    Error(
        16,
        "DEVICE",
        "device",
        "the driver of the device refused a call",
        "update the driver, or pack the model again for this device: edgert pack model.onnx",
    ),
    Error(
        17,
        "DEVICE_LOST",
        "device-lost",
        "the device failed, and nothing runs on it any more",
        "close all sessions and open them again; what failed may stand in: dmesg",
    ),
)
