"""What tests of programs for devices share: the emulator as the driver, and nothing left of it afterwards."""

from __future__ import annotations

import ctypes
import gc
import struct
from collections.abc import Iterator, Sequence

import numpy as np
import pytest

from tests.targets.cuda.driver import call, library

__all__ = ["DLPackArray", "DeviceMemory", "InterfaceArray", "emulator", "left", "nothing_left"]


@pytest.fixture(autouse=True)
def emulator(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The emulator as the driver that programs find; after a test all that sessions had of it has been given back."""
    monkeypatch.setenv("EDGERT_CUDA_LIBRARY", library()._name)
    for name in ("DEVICE", "DRIVER", "FAIL", "REFUSE_CUBIN", "MEMORY"):
        monkeypatch.delenv(f"EDGERT_EMULATOR_{name}", raising=False)
    yield
    gc.collect()
    assert nothing_left()


def nothing_left() -> bool:
    """Whether all that was had of the driver has been given back."""
    return left() == (0, 0)


def left() -> tuple[int, int]:
    """Objects of the driver that are alive, and bytes of its memory that are taken."""
    return library().edgertEmulatorObjects(), library().edgertEmulatorBytes()


class DeviceMemory:
    """An array in memory of the device, in the primary context that sessions use; give it back with `free`."""

    def __init__(self, values: np.ndarray) -> None:
        self.shape, self.dtype, self.nbytes = values.shape, values.dtype, values.nbytes
        self.context, self.pointer = ctypes.c_void_p(), ctypes.c_uint64()
        call("cuInit", 0)
        call("cuDevicePrimaryCtxRetain", ctypes.byref(self.context), 0)
        call("cuCtxPushCurrent_v2", self.context)
        call("cuMemAlloc_v2", ctypes.byref(self.pointer), ctypes.c_size_t(values.nbytes + 256))
        self.write(values)

    def write(self, values: np.ndarray) -> None:
        source = np.ascontiguousarray(values)
        call("cuMemcpyHtoD_v2", self.pointer, source.ctypes.data_as(ctypes.c_void_p), ctypes.c_size_t(self.nbytes))

    def read(self) -> np.ndarray:
        """The values once all that was given to the device is done."""
        out = np.empty(self.shape, self.dtype)
        call("cuMemcpyDtoH_v2", out.ctypes.data_as(ctypes.c_void_p), self.pointer, ctypes.c_size_t(self.nbytes))
        return out

    def free(self) -> None:
        call("cuMemFree_v2", self.pointer)
        call("cuCtxPopCurrent_v2", None)
        call("cuDevicePrimaryCtxRelease_v2", 0)


class InterfaceArray:
    """Device memory as `__cuda_array_interface__` describes it; fields can be changed."""

    def __init__(self, memory: DeviceMemory, **fields: object) -> None:
        described = {
            "shape": memory.shape,
            "typestr": memory.dtype.str,
            "data": (memory.pointer.value, False),
            "version": 3,
            "stream": None,
        }
        self.__cuda_array_interface__ = described | fields


class DLPackArray:
    """Device memory by DLPack: records the streams that it is asked for, and how often its capsule was given back."""

    def __init__(self, memory: DeviceMemory, device: int = 0, strides: Sequence[int] | None = None) -> None:
        self.memory, self.device, self.strides = memory, device, strides
        self.streams: list[int] = []

    def __dlpack_device__(self) -> tuple[int, int]:
        return (2, self.device)

    def __dlpack__(self, *, stream: int) -> object:
        self.streams.append(stream)
        rank = len(self.memory.shape)
        self.kept = (ctypes.c_int64 * rank)(*self.memory.shape), (ctypes.c_int64 * rank)(*(self.strides or ()))
        code = {"i": 0, "u": 1, "f": 2, "b": 6}[self.memory.dtype.kind]
        bits = (ctypes.c_uint8(code).value, self.memory.dtype.itemsize * 8, 1)
        data = struct.pack(
            "=QiiiBBHQQQ",
            self.memory.pointer.value - 16,
            2,
            self.device,
            rank,
            *bits,
            ctypes.addressof(self.kept[0]),
            ctypes.addressof(self.kept[1]) if self.strides else 0,
            16,
        )
        self.tensor = ctypes.create_string_buffer(data)
        make = ctypes.pythonapi.PyCapsule_New
        make.restype, make.argtypes = ctypes.py_object, (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)
        return make(ctypes.addressof(self.tensor), b"dltensor", None)
