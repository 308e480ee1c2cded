"""Arrays in the memory of a CUDA device, by DLPack or `__cuda_array_interface__` and handles of streams."""

from __future__ import annotations

import ctypes
import math
from dataclasses import dataclass
from typing import Any

import numpy as np

__all__ = ["DEFAULT_STREAM", "DeviceArray", "device_array", "on_device", "stream_handle"]

DEFAULT_STREAM = 1  # the legacy one, as DLPack and __cuda_array_interface__ number it
_CUDA = (2, 13)  # DLPack's kDLCUDA and kDLCUDAManaged
_VERSION = (1, 0)  # of DLPack: the newest whose structures are those below
_READ_ONLY, _COPIED = 1, 2  # DLPack's flags
_KINDS = {0: "i", 1: "u", 2: "f", 6: "b"}  # DLPack's DLDataTypeCode


@dataclass(frozen=True, slots=True)
class DeviceArray:
    """Elements in device memory from the address `pointer`; strides in elements, None: row-major. `owner` is the object
    that it was made of, `memory` keeps it alive. The stream `wait` has yet to be waited for. `device` is its number,
    None: unknown."""

    owner: Any
    pointer: int
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    strides: tuple[int, ...] | None
    writable: bool
    memory: object
    wait: int | None
    device: int | None

    @property
    def nbytes(self) -> int:
        return math.prod(self.shape) * self.dtype.itemsize

    @property
    def contiguous(self) -> bool:
        """Whether there are no gaps, and the last dimension is the closest."""
        if self.strides is None or 0 in self.shape:
            return True
        step = 1
        for size, stride in zip(reversed(self.shape), reversed(self.strides), strict=True):
            if size > 1 and stride != step:
                return False
            step *= size
        return True


def on_device(value: Any) -> bool:
    """Whether it says that its elements are in the memory of a CUDA device."""
    if hasattr(value, "__dlpack_device__") and hasattr(value, "__dlpack__"):
        return int(value.__dlpack_device__()[0]) in _CUDA
    return hasattr(value, "__cuda_array_interface__")


def device_array(value: Any, stream: int) -> DeviceArray:
    """A view of `value`, whose elements are valid for work that `stream` is given from now on (but see `wait`)."""
    return _by_dlpack(value, stream) if hasattr(value, "__dlpack__") else _by_interface(value, stream)


def stream_handle(stream: Any) -> int:
    """The CUstream of an int, of what has `__cuda_stream__`, or of what int() takes (cuda-python's CUstream)."""
    given = getattr(stream, "__cuda_stream__", None)
    if given is None:
        return int(stream)
    version, handle = given() if callable(given) else given
    if version != 0:
        raise ValueError(f"__cuda_stream__ of version {version}")
    return int(handle)


def _by_interface(value: Any, stream: int) -> DeviceArray:
    described = value.__cuda_array_interface__
    if described.get("mask") is not None:
        raise ValueError("it has a mask")
    pointer, read_only = described["data"]
    dtype = np.dtype(described["typestr"])
    strides = described.get("strides")
    if strides is not None:
        strides = tuple(step // dtype.itemsize if step % dtype.itemsize == 0 else -1 for step in strides)
    wait = described.get("stream")
    if wait == 0:
        raise ValueError(
            "its stream is 0, which may be one of two: expected 1 (legacy default) or 2 (per-thread default)"
        )
    shape = tuple(int(n) for n in described["shape"])
    return DeviceArray(
        value, int(pointer), shape, dtype, strides, not read_only, value, None if wait == stream else wait, None
    )


class _Tensor(ctypes.Structure):
    """DLTensor, with which a DLManagedTensor begins."""

    _fields_ = (
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    )


class _Versioned(ctypes.Structure):
    """DLManagedTensorVersioned."""

    _fields_ = (
        ("major", ctypes.c_uint32),
        ("minor", ctypes.c_uint32),
        ("context", ctypes.c_void_p),
        ("deleter", ctypes.c_void_p),
        ("flags", ctypes.c_uint64),
        ("tensor", _Tensor),
    )


def _by_dlpack(value: Any, stream: int) -> DeviceArray:
    """The capsule is not consumed: its destructor gives the tensor back, when the view is not needed any more."""
    waits = stream or DEFAULT_STREAM
    try:
        capsule = value.__dlpack__(stream=waits, max_version=_VERSION)
    except TypeError:  # it is older than versions
        capsule = value.__dlpack__(stream=waits)
    tensor, flags = _content(capsule)
    if tensor.lanes != 1 or tensor.code not in _KINDS or tensor.bits % 8:
        raise ValueError(f"DLPack elements of code {tensor.code}, {tensor.bits} bits, {tensor.lanes} lanes")
    dtype = np.dtype(f"{_KINDS[tensor.code]}{tensor.bits // 8}")
    shape = tuple(tensor.shape[: tensor.ndim])
    strides = tuple(tensor.strides[: tensor.ndim]) if tensor.strides else None
    pointer, writable = (tensor.data or 0) + tensor.byte_offset, not flags & (_READ_ONLY | _COPIED)
    return DeviceArray(value, pointer, shape, dtype, strides, writable, capsule, None, tensor.device_id)


def _content(capsule: object) -> tuple[_Tensor, int]:
    """The tensor in a capsule of DLPack, which keeps it alive, and its flags; before version 1.0 there are none."""
    pointer_of, is_named = ctypes.pythonapi.PyCapsule_GetPointer, ctypes.pythonapi.PyCapsule_IsValid
    pointer_of.restype, pointer_of.argtypes = ctypes.c_void_p, (ctypes.py_object, ctypes.c_char_p)
    is_named.restype, is_named.argtypes = ctypes.c_int, (ctypes.py_object, ctypes.c_char_p)
    name = b"dltensor_versioned"
    if not is_named(capsule, name):
        return _Tensor.from_address(pointer_of(capsule, b"dltensor")), 0
    found = _Versioned.from_address(pointer_of(capsule, name))
    if found.major != _VERSION[0]:
        raise ValueError(f"DLPack of version {found.major}.{found.minor}, expected {_VERSION[0]}")
    return found.tensor, found.flags
