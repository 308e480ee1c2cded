"""The CUDA driver through ctypes: memory, modules, launches, streams, graphs, events. `use` chooses the library.

Names of functions and their arguments: https://docs.nvidia.com/cuda/cuda-driver-api/
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import numpy as np

__all__ = [
    "INSTALLED",
    "Buffer",
    "CudaError",
    "Event",
    "Graph",
    "Module",
    "attribute",
    "call",
    "emulated",
    "fill",
    "launch",
    "library",
    "memory",
    "name",
    "new_stream",
    "primary",
    "synchronize",
    "use",
    "version",
]

INSTALLED = "libcuda.so.1"
_NON_BLOCKING = 1
_FATAL = tuple(
    f"CUDA_ERROR_{name}"
    for name in (
        "ECC_UNCORRECTABLE",
        "HARDWARE_STACK_ERROR",
        "ILLEGAL_ADDRESS",
        "ILLEGAL_INSTRUCTION",
        "INVALID_ADDRESS_SPACE",
        "INVALID_PC",
        "LAUNCH_FAILED",
        "LAUNCH_TIMEOUT",
        "MISALIGNED_ADDRESS",
    )
)
_loaded: list[ctypes.CDLL] = []


class CudaError(Exception):
    """A call failed: its name, the name of the error, what the driver says of it. After one that is `fatal` nothing
    works in this process any more."""

    def __init__(self, call: str, code: int) -> None:
        found = ctypes.c_char_p()
        library().cuGetErrorName(code, ctypes.byref(found))
        self.name = (found.value or b"?").decode()
        if emulated():
            self.message = library().edgertEmulatorMessage().decode()
        else:
            library().cuGetErrorString(code, ctypes.byref(found))
            self.message = (found.value or b"?").decode()
        self.fatal = self.name in _FATAL
        super().__init__(f"{call}: {self.name}: {self.message}")


def use(path: str = INSTALLED) -> ctypes.CDLL:
    """Calls go to this library from now on; raises OSError if it cannot be loaded."""
    found = ctypes.CDLL(path)
    if emulated(found):
        found.edgertEmulatorMessage.restype = ctypes.c_char_p
    _loaded[:] = [found]
    return found


def library() -> ctypes.CDLL:
    """The library in use."""
    return _loaded[0] if _loaded else use()


def emulated(library_: ctypes.CDLL | None = None) -> bool:
    """Whether the library, by default the one in use, is the emulator."""
    return hasattr(library_ or library(), "edgertEmulatorMessage")


def call(name: str, *arguments: object) -> None:
    """A call that must succeed. Integers above 31 bits have to be ctypes objects."""
    code = getattr(library(), name)(*arguments)
    if code:
        raise CudaError(name, code)


def primary() -> ctypes.c_void_p:
    """The context that frameworks share, of the first device; made current for this thread."""
    context = ctypes.c_void_p()
    call("cuInit", 0)
    call("cuDevicePrimaryCtxRetain", ctypes.byref(context), 0)
    call("cuCtxSetCurrent", context)
    return context


def name() -> str:
    """Of the first device."""
    text = ctypes.create_string_buffer(256)
    call("cuDeviceGetName", text, len(text), 0)
    return text.value.decode()


def attribute(number: int) -> int:
    """One of CUdevice_attribute, of the first device."""
    value = ctypes.c_int()
    call("cuDeviceGetAttribute", ctypes.byref(value), number, 0)
    return value.value


def version() -> int:
    """Of CUDA that the driver knows: 12090 is 12.9."""
    value = ctypes.c_int()
    call("cuDriverGetVersion", ctypes.byref(value))
    return value.value


def memory() -> int:
    """Bytes of the first device's memory."""
    total = ctypes.c_size_t()
    call("cuDeviceTotalMem_v2", ctypes.byref(total), 0)
    return total.value


class Buffer:
    """Device memory; what it holds is an array's, or arbitrary."""

    def __init__(self, source: np.ndarray | int) -> None:
        self.pointer = ctypes.c_uint64()
        self.bytes = source if isinstance(source, int) else source.nbytes
        call("cuMemAlloc_v2", ctypes.byref(self.pointer), ctypes.c_size_t(self.bytes))
        if isinstance(source, np.ndarray):
            data = np.ascontiguousarray(source)
            call("cuMemcpyHtoD_v2", self.pointer, data.ctypes.data_as(ctypes.c_void_p), ctypes.c_size_t(self.bytes))
            call("cuStreamSynchronize", None)  # the copy may still be under way, and other streams do not wait for it

    def read(
        self, dtype: type, shape: int | tuple[int, ...] = -1, begin: int = 0, end: int | None = None
    ) -> np.ndarray:
        """What bytes `begin` to `end` hold."""
        out = np.empty((self.bytes if end is None else end) - begin, np.uint8)
        source = ctypes.c_uint64(self.pointer.value + begin)
        call("cuMemcpyDtoH_v2", out.ctypes.data_as(ctypes.c_void_p), source, ctypes.c_size_t(out.nbytes))
        return out.view(dtype).reshape(shape)

    def free(self) -> None:
        call("cuMemFree_v2", self.pointer)


def fill(buffer: Buffer, byte: int, stream: ctypes.c_void_p | None = None) -> None:
    """Every byte of the buffer becomes this one."""
    call("cuMemsetD8Async", buffer.pointer, ctypes.c_ubyte(byte), ctypes.c_size_t(buffer.bytes), stream)


class Module:
    """A module of PTX text, or of an image."""

    def __init__(self, image: str | bytes) -> None:
        self.handle = ctypes.c_void_p()
        data = image.encode() + b"\0" if isinstance(image, str) else image
        call("cuModuleLoadData", ctypes.byref(self.handle), data)

    def function(self, name: str) -> ctypes.c_void_p:
        found = ctypes.c_void_p()
        call("cuModuleGetFunction", ctypes.byref(found), self.handle, name.encode())
        return found

    def unload(self) -> None:
        call("cuModuleUnload", self.handle)


def launch(
    function: ctypes.c_void_p,
    grid: Sequence[int],
    block: Sequence[int],
    *arguments: object,
    shared: int = 0,
    stream: ctypes.c_void_p | None = None,
) -> None:
    """Launches with buffers, or ctypes values, as parameters."""
    values = [a.pointer if isinstance(a, Buffer) else a for a in arguments]
    pointers = (ctypes.c_void_p * max(len(values), 1))(*(ctypes.addressof(v) for v in values))  # type: ignore[arg-type]
    x = [*grid, 1, 1][:3] + [*block, 1, 1][:3]
    call("cuLaunchKernel", function, *x, shared, stream, pointers, None)


def synchronize() -> None:
    call("cuCtxSynchronize")


def new_stream() -> ctypes.c_void_p:
    """A stream that does not wait for the legacy one."""
    made = ctypes.c_void_p()
    call("cuStreamCreate", ctypes.byref(made), _NON_BLOCKING)
    return made


class Graph:
    """What `work` gives to a stream, to be launched at once."""

    def __init__(self, stream: ctypes.c_void_p, work: Callable[[], None]) -> None:
        graph, self.handle = ctypes.c_void_p(), ctypes.c_void_p()
        with _captured(stream, graph):
            work()
        call("cuGraphInstantiateWithFlags", ctypes.byref(self.handle), graph, ctypes.c_uint64(0))
        call("cuGraphDestroy", graph)

    def launch(self, stream: ctypes.c_void_p) -> None:
        call("cuGraphLaunch", self.handle, stream)

    def free(self) -> None:
        call("cuGraphExecDestroy", self.handle)


@contextmanager
def _captured(stream: ctypes.c_void_p, graph: ctypes.c_void_p) -> Iterator[None]:
    call("cuStreamBeginCapture_v2", stream, 2)  # relaxed: other threads may do what they like
    try:
        yield
    except BaseException:
        library().cuStreamEndCapture(stream, ctypes.byref(graph))
        raise
    call("cuStreamEndCapture", stream, ctypes.byref(graph))


class Event:
    """A moment in a stream."""

    def __init__(self) -> None:
        self.handle = ctypes.c_void_p()
        call("cuEventCreate", ctypes.byref(self.handle), 0)

    def record(self, stream: ctypes.c_void_p) -> None:
        call("cuEventRecord", self.handle, stream)

    def seconds_since(self, earlier: Event) -> float:
        """Waits until this one has passed."""
        call("cuEventSynchronize", self.handle)
        found = ctypes.c_float()
        call("cuEventElapsedTime", ctypes.byref(found), earlier.handle, self.handle)
        return found.value * 1e-3
