"""The C library through ctypes: found, checked for its version, prototypes declared. Mirrors edgert/edgert.h."""

from __future__ import annotations

import ctypes
import functools
import os
import sys
from ctypes import POINTER, Structure, byref, c_char_p, c_int, c_int32, c_int64, c_size_t, c_uint32, c_uint64, c_void_p
from typing import Any

import edgert
from edgert.errors import LibraryError, class_of

__all__ = [
    "MAX_RANK",
    "OpenOptions",
    "ProfileHook",
    "ProgramInfo",
    "ProgressHook",
    "SessionInfo",
    "SessionOptions",
    "StepEvent",
    "TensorDescription",
    "byref",
    "call",
    "check",
    "find_beside",
    "isas",
    "library",
]

MAX_RANK = 8


class OpenOptions(Structure):
    """edgert_open_options"""

    _fields_ = (("struct_size", c_size_t), ("integrity", c_int), ("threads", c_uint32))


ProgressHook = ctypes.CFUNCTYPE(None, c_void_p, c_uint32, c_uint32)


class SessionOptions(Structure):
    """edgert_session_options"""

    _fields_ = (
        ("struct_size", c_size_t),
        ("target", c_char_p),
        ("threads", c_uint32),
        ("isa", c_char_p),
        ("allow_native", c_uint32),
        ("emulate", c_uint32),
        ("cuda_library", c_char_p),
        ("code_cache", c_char_p),
        ("progress", ProgressHook),
        ("progress_user", c_void_p),
    )


class TensorDescription(Structure):
    """edgert_tensor_info"""

    _fields_ = (
        ("name", c_char_p),
        ("dtype", c_int),
        ("rank", c_uint32),
        ("shape", c_int64 * MAX_RANK),
        ("bytes", c_size_t),
        ("dynamic", c_uint32),
    )


class ProgramInfo(Structure):
    """edgert_program_info"""

    _fields_ = (
        ("target", c_char_p),
        ("arch", c_char_p),
        ("device", c_char_p),
        ("cores", c_uint32),
        ("steps", c_uint32),
        ("arena_bytes", c_uint64),
        ("device_bytes", c_uint64),
        ("device_steps", c_uint32),
        ("modules", c_uint32),
        ("cubin_bytes", c_uint64),
        ("ptx_bytes", c_uint64),
        ("runnable", c_int),
    )


class SessionInfo(Structure):
    """edgert_session_info"""

    _fields_ = (
        ("target", c_char_p),
        ("isa", c_char_p),
        ("device", c_char_p),
        ("cores", c_uint32),
        ("threads", c_uint32),
        ("steps", c_uint32),
        ("slow_steps", c_uint32),
        ("arena_bytes", c_uint64),
        ("scratch_bytes", c_uint64),
        ("device_bytes", c_uint64),
        ("device_number", c_int32),
        ("stream", c_void_p),
    )


class StepEvent(Structure):
    """edgert_step_event"""

    _fields_ = (
        ("step", c_uint32),
        ("core", c_uint32),
        ("kernel", c_char_p),
        ("node", c_char_p),
        ("begin_ns", c_uint64),
        ("end_ns", c_uint64),
        ("busy_ns", c_uint64),
    )


ProfileHook = ctypes.CFUNCTYPE(None, c_void_p, POINTER(StepEvent))

_PROTOTYPES: dict[str, tuple[Any, ...]] = {  # name: result, arguments
    "edgert_version": (c_char_p,),
    "edgert_last_error": (c_char_p,),
    "edgert_status_id": (c_char_p, c_int),
    "edgert_isa": (c_char_p, c_uint32),
    "edgert_cores": (c_uint32,),
    "edgert_bundle_open": (c_int, c_char_p, POINTER(OpenOptions), POINTER(c_void_p)),
    "edgert_bundle_open_memory": (c_int, c_void_p, c_size_t, POINTER(OpenOptions), POINTER(c_void_p)),
    "edgert_bundle_close": (None, c_void_p),
    "edgert_bundle_program_count": (c_uint32, c_void_p),
    "edgert_bundle_program": (c_int, c_void_p, c_uint32, POINTER(ProgramInfo)),
    "edgert_session_open": (c_int, c_void_p, POINTER(SessionOptions), POINTER(c_void_p)),
    "edgert_session_close": (None, c_void_p),
    "edgert_session_describe": (c_int, c_void_p, POINTER(SessionInfo)),
    "edgert_session_input_count": (c_uint32, c_void_p),
    "edgert_session_output_count": (c_uint32, c_void_p),
    "edgert_session_input": (c_int, c_void_p, c_uint32, POINTER(TensorDescription)),
    "edgert_session_output": (c_int, c_void_p, c_uint32, POINTER(TensorDescription)),
    "edgert_session_bind_input": (c_int, c_void_p, c_uint32, c_void_p, c_size_t),
    "edgert_session_bind_output": (c_int, c_void_p, c_uint32, c_void_p, c_size_t),
    "edgert_session_bind_device_input": (c_int, c_void_p, c_uint32, c_void_p, c_size_t),
    "edgert_session_bind_device_output": (c_int, c_void_p, c_uint32, c_void_p, c_size_t),
    "edgert_session_run": (c_int, c_void_p),
    "edgert_session_run_async": (c_int, c_void_p, c_void_p),
    "edgert_session_order": (c_int, c_void_p, c_void_p, c_void_p),
    "edgert_session_output_shape": (c_int, c_void_p, c_uint32, POINTER(c_int64)),
    "edgert_session_profile": (c_int, c_void_p, ProfileHook, c_void_p),
}


_ADVICE = "Build it again: pip install . (where EDGERT_LIBRARY is set: correct it, or unset it)"


@functools.cache
def library() -> ctypes.CDLL:
    """The loaded library; raises LibraryError that says where it was looked for."""
    path = _find()
    try:
        loaded = ctypes.CDLL(path)
        for name, (result, *arguments) in _PROTOTYPES.items():
            function = getattr(loaded, name)
            function.restype, function.argtypes = result, arguments
    except (OSError, AttributeError) as error:
        reason = str(error).removeprefix(f"{path}: ")
        raise LibraryError(f"{path} could not be loaded: {reason}\n{_ADVICE}") from None
    version = loaded.edgert_version().decode()
    if version.split(".")[:2] != edgert.__version__.split(".")[:2]:
        raise LibraryError(
            f"{path} has version {version}, expected {edgert.__version__} like the Python package\n{_ADVICE}"
        )
    return loaded


def _find() -> str:
    """Where libedgert.so is: EDGERT_LIBRARY, else beside a copy of this package (editable installs keep it apart)."""
    path = os.environ.get("EDGERT_LIBRARY") or find_beside("libedgert.so")
    if path:
        return path
    raise LibraryError(
        f"libedgert.so was not found in {os.path.join(edgert.__path__[0], '_lib')} or an installed copy of edgert\n"
        "Build it: pip install -e . (or set EDGERT_LIBRARY to the path of one built with cmake)."
    )


def find_beside(name: str) -> str | None:
    """A library in the folder of this package's, or of a copy of it."""
    for folder in (*edgert.__path__, *(os.path.join(entry, "edgert") for entry in sys.path)):
        path = os.path.join(folder, "_lib", name)
        if os.path.exists(path):
            return path
    return None


def isas() -> tuple[str, ...]:
    """The instruction sets that sessions can use on this machine, best first."""
    found: list[str] = []
    while name := library().edgert_isa(len(found)):
        found.append(name.decode())
    return tuple(found)


def check(status: int) -> None:
    """Raises the exception of a failed call, with the library's message."""
    if status:
        text = library().edgert_last_error().decode("utf-8", "replace")
        raise class_of(status)(text or library().edgert_status_id(status).decode())


def call(name: str, *arguments: Any) -> None:
    """Calls a function that returns a status, and checks it."""
    if status := getattr(library(), name)(*arguments):
        check(status)
