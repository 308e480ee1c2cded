"""Builds the emulator with cmake, and drives it as a program would drive the CUDA driver: through ctypes."""

from __future__ import annotations

import ctypes
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache

import numpy as np
import pytest

from benchmarks.gpu import driver
from benchmarks.gpu.build import ROOT, build
from benchmarks.gpu.driver import Buffer, CudaError, Module, call, emulated, launch, synchronize, use

__all__ = [
    "BUILD",
    "DEFAULT",
    "HEADER",
    "TYPES",
    "Buffer",
    "CudaError",
    "Module",
    "call",
    "counters",
    "device",
    "emulated",
    "kernel",
    "launch",
    "library",
    "operate",
    "reset_counters",
    "synchronize",
]

BUILD = ROOT / "build" / "cuda-emulator"
TYPES = {"f32": np.float32, "f64": np.float64, "f16": np.float16, "f16x2": np.uint32, "b32": np.uint32}
TYPES |= {f"{s}{bits}": np.dtype(f"{k}{bits // 8}").type for s, k in ("uu", "si") for bits in (8, 16, 32, 64)}


@cache
def library() -> ctypes.CDLL:
    """The emulator, built if it is not there or old; EDGERT_TEST_CUDA names another one, or a device's driver."""
    path = os.environ.get("EDGERT_TEST_CUDA")
    if path is None:
        path = str(build("targets/cuda/emulator", BUILD, "-DEDGERT_WERROR=ON", library="libcuda-emulator.so"))
    found = use(path)
    if emulated():
        found.edgertEmulatorCounters.restype = ctypes.c_char_p
        found.edgertEmulatorObjects.restype = ctypes.c_uint64
        found.edgertEmulatorBytes.restype = ctypes.c_uint64
    return found


def reset_counters() -> None:
    """The counters begin anew. A device has none: a test that asks for them is skipped there."""
    library()
    if not emulated():
        pytest.skip("the emulator counts")
    library().edgertEmulatorResetCounters()


def counters() -> dict:
    return json.loads(library().edgertEmulatorCounters())


@contextmanager
def device(**environment: str) -> Iterator[None]:
    """The emulator, initialised under variables (EDGERT_EMULATOR_...), with a context that is destroyed at the end:
    nothing may be left then. On a device, its primary context."""
    library()
    if not emulated():
        _primary()
        try:
            yield
        except CudaError:  # the context may be dead, and is not to fail what follows
            call("cuDevicePrimaryCtxReset_v2", 0)
            _primary.cache_clear()
            raise
        return
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


@cache
def _primary() -> ctypes.c_void_p:
    return driver.primary()


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
