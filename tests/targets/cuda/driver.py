"""Builds the emulator with cmake, and drives it as a program would drive the CUDA driver: through ctypes."""

from __future__ import annotations

import ctypes
import fcntl
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[3]
BUILD = ROOT / "build" / "pytest" / "cuda-emulator"
PATH = f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', os.defpath)}"
TYPES = {"f32": np.float32, "f64": np.float64, "f16": np.float16, "f16x2": np.uint32, "b32": np.uint32}
TYPES |= {f"{s}{bits}": np.dtype(f"{k}{bits // 8}").type for s, k in ("uu", "si") for bits in (8, 16, 32, 64)}


class CudaError(Exception):
    """A call failed: its name, the name of the error, the emulator's message."""

    def __init__(self, call: str, code: int) -> None:
        name = ctypes.c_char_p()
        library().cuGetErrorName(code, ctypes.byref(name))
        self.name = (name.value or b"?").decode()
        self.message = library().edgertEmulatorMessage().decode()
        super().__init__(f"{call}: {self.name}: {self.message}")


@cache
def library() -> ctypes.CDLL:
    """The emulator, built if it is not there or old; EDGERT_TEST_CUDA names another one."""
    path = os.environ.get("EDGERT_TEST_CUDA")
    if path is None:
        BUILD.mkdir(parents=True, exist_ok=True)
        with open(BUILD / "lock", "w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            cmake = shutil.which("cmake", path=PATH)
            assert cmake is not None
            source = str(ROOT / "targets" / "cuda" / "emulator")
            for command in (
                ["-S", source, "-B", str(BUILD), "-G", "Ninja", "-DEDGERT_WERROR=ON"],
                ["--build", str(BUILD)],
            ):
                environment = {**os.environ, "PATH": PATH}
                done = subprocess.run([cmake, *command], env=environment, capture_output=True, text=True)
                assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]
        path = str(BUILD / "libcuda-emulator.so")
    found = ctypes.CDLL(path)
    found.edgertEmulatorMessage.restype = ctypes.c_char_p
    found.edgertEmulatorCounters.restype = ctypes.c_char_p
    found.edgertEmulatorObjects.restype = ctypes.c_uint64
    found.edgertEmulatorBytes.restype = ctypes.c_uint64
    return found


def call(name: str, *arguments: object) -> None:
    """A call that must succeed. Integers above 31 bits have to be ctypes objects."""
    code = getattr(library(), name)(*arguments)
    if code:
        raise CudaError(name, code)


class Buffer:
    """Device memory; what it holds is an array's, or arbitrary."""

    def __init__(self, source: np.ndarray | int) -> None:
        self.pointer = ctypes.c_uint64()
        self.bytes = source if isinstance(source, int) else source.nbytes
        call("cuMemAlloc_v2", ctypes.byref(self.pointer), ctypes.c_size_t(self.bytes))
        if isinstance(source, np.ndarray):
            data = np.ascontiguousarray(source)
            call("cuMemcpyHtoD_v2", self.pointer, data.ctypes.data_as(ctypes.c_void_p), ctypes.c_size_t(self.bytes))

    def read(self, dtype: type, shape: int | tuple[int, ...] = -1) -> np.ndarray:
        out = np.empty(self.bytes, np.uint8)
        call("cuMemcpyDtoH_v2", out.ctypes.data_as(ctypes.c_void_p), self.pointer, ctypes.c_size_t(self.bytes))
        return out.view(dtype).reshape(shape)

    def free(self) -> None:
        call("cuMemFree_v2", self.pointer)


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


def counters() -> dict:
    return json.loads(library().edgertEmulatorCounters())


@contextmanager
def device(**environment: str) -> Iterator[None]:
    """The emulator, initialised under variables (EDGERT_EMULATOR_...), with a context that is destroyed at the end:
    nothing may be left then."""
    names = {f"EDGERT_EMULATOR_{key.upper()}": value for key, value in environment.items()}
    saved = {name: os.environ.get(name) for name in names}
    os.environ.update(names)
    context = ctypes.c_void_p()
    try:
        call("cuInit", 0)
        call("cuCtxCreate_v2", ctypes.byref(context), 0, 0)
        yield
    finally:
        if context:
            library().cuCtxDestroy_v2(context)
        for name, value in saved.items():
            os.environ.pop(name) if value is None else os.environ.update({name: value})
    assert library().edgertEmulatorBytes() == 0


HEADER = ".version 6.4\n.target sm_62\n.address_size 64\n"
DEFAULT = {"driver": "12090"}


def kernel(body: str, parameters: int = 2, registers: str = "", before: str = "") -> str:
    """PTX of `kernel k` with 64-bit parameters p0, p1, ... loaded into %a0, %a1, ... and %t, the thread's number."""
    names = ", ".join(f".param .u64 p{i}" for i in range(parameters))
    loads = "\n".join(f"  ld.param.u64 %a{i}, [p{i}];" for i in range(parameters))
    return f"""{HEADER}{before}
.visible .entry k({names})
{{
  .reg .pred %p<8>; .reg .b16 %h<16>; .reg .b32 %r<32>; .reg .f32 %f<32>; .reg .b64 %d<32>; .reg .f64 %g<16>;
  .reg .b64 %a<8>; .reg .u32 %t, %i0, %i1; .reg .u64 %o; {registers}
{loads}
  mov.u32 %i0, %ctaid.x; mov.u32 %i1, %ntid.x; mov.u32 %t, %tid.x; mad.lo.s32 %t, %i0, %i1, %t;
{body}
  ret;
}}
"""


def operate(instruction: str, out: str, *inputs: tuple[str, np.ndarray], destination: str = "") -> np.ndarray:
    """What an instruction, with {d}, {a}, {b}, {c} for its operands, makes of arrays of 64 elements."""
    types = [out, *(kind for kind, _ in inputs)]
    registers = " ".join(f".reg .b{8 * TYPES[kind]().nbytes} %x{i};" for i, kind in enumerate(types))
    lines = []
    for i, (kind, _) in enumerate(inputs, 1):
        size = TYPES[kind]().nbytes
        lines.append(f"  mad.wide.u32 %o, %t, {size}, %a{i}; ld.global.b{8 * size} %x{i}, [%o];")
    lines.append("  " + instruction.format(d="%x0", a="%x1", b="%x2", c="%x3", e="%x4"))
    size = TYPES[out]().nbytes
    lines.append(f"  mad.wide.u32 %o, %t, {size}, %a0; st.global.b{8 * size} [%o], %x0;")
    n = len(inputs[0][1])
    buffers = [Buffer(np.zeros(n, TYPES[out])), *(Buffer(array) for _, array in inputs)]
    function = Module(kernel("\n".join(lines), len(buffers), registers)).function("k")
    launch(function, (1,), (n,), *buffers)
    return buffers[0].read(TYPES[out])
