"""The driver's calls: images, the linker, streams, graphs, events, errors that are asked for, stale handles."""

from __future__ import annotations

import ctypes
from pathlib import Path

import numpy as np
import pytest

from tests.targets.cuda.driver import (
    DEFAULT,
    Buffer,
    CudaError,
    Module,
    call,
    device,
    kernel,
    launch,
    library,
    synchronize,
)

FILL = kernel(
    "mad.wide.u32 %d0, %t, 4, %a0; ld.global.u32 %r0, [%d0]; add.u32 %r0, %r0, 1; st.global.u32 [%d0], %r0;", 1
)


def error(code: int) -> str:
    name = ctypes.c_char_p()
    assert library().cuGetErrorName(code, ctypes.byref(name)) == 0
    return (name.value or b"").decode()


def zeros() -> Buffer:
    return Buffer(np.zeros(64, np.uint32))


def stream() -> ctypes.c_void_p:
    made = ctypes.c_void_p()
    call("cuStreamCreate", ctypes.byref(made), 1)
    return made


def test_device() -> None:
    with device(device="jetson-tx2"):
        version, major, minor = ctypes.c_int(), ctypes.c_int(), ctypes.c_int()
        call("cuDriverGetVersion", ctypes.byref(version))
        call("cuDeviceGetAttribute", ctypes.byref(major), 75, 0)
        call("cuDeviceGetAttribute", ctypes.byref(minor), 76, 0)
        name = ctypes.create_string_buffer(64)
        call("cuDeviceGetName", name, 64, 0)
        assert (version.value, major.value, minor.value) == (10020, 6, 2)
        assert b"Tegra" in name.value
        assert error(library().cuDeviceGet(ctypes.byref(version), 1)) == "CUDA_ERROR_INVALID_DEVICE"


def test_no_device() -> None:
    with pytest.raises(CudaError, match="CUDA_ERROR_NO_DEVICE"), device(device="none"):
        pass


def test_ptx_newer_than_the_driver_or_device() -> None:
    with device(device="jetson-tx2"), pytest.raises(CudaError, match=r"UNSUPPORTED_PTX_VERSION.*up to 6.5"):
        Module(FILL.replace(".version 6.4", ".version 6.6"))
    with device(**DEFAULT), pytest.raises(CudaError, match=r"INVALID_PTX.*sm_70"):
        Module(FILL.replace("sm_62", "sm_70"))


def test_cubins_are_refused() -> None:
    cubin = b"\x7fELF\x02\x01\x01" + bytes(200)
    with device(**DEFAULT), pytest.raises(CudaError, match="NO_BINARY_FOR_GPU"):
        Module(cubin)


def link(text: str) -> bytes:
    state, image, size = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_size_t()
    call("cuLinkCreate_v2", 0, None, None, ctypes.byref(state))
    data = text.encode() + b"\0"
    call("cuLinkAddData_v2", state, 1, data, ctypes.c_size_t(len(data)), b"k", 0, None, None)
    call("cuLinkComplete", state, ctypes.byref(image), ctypes.byref(size))
    made = ctypes.string_at(image, size.value)
    call("cuLinkDestroy", state)
    return made


def test_linked_images_load_on_their_device_only() -> None:
    with device(**DEFAULT):
        image = link(FILL)
        out = zeros()
        launch(Module(image).function("k"), (1,), (64,), out)
        assert (out.read(np.uint32) == 1).all()
        damaged = bytearray(image)
        damaged[-9] ^= 1
        with pytest.raises(CudaError, match="CUDA_ERROR_INVALID_IMAGE"):
            Module(bytes(damaged))
    with device(device="h200"), pytest.raises(CudaError, match=r"NO_BINARY_FOR_GPU.*sm_62"):
        Module(image)
    with device(**DEFAULT, refuse_cubin="1"), pytest.raises(CudaError, match=r"NO_BINARY_FOR_GPU.*asked for"):
        Module(image)


def test_log_of_the_compiler() -> None:
    with device(**DEFAULT):
        log, handle = ctypes.create_string_buffer(512), ctypes.c_void_p()
        options = (ctypes.c_int * 2)(5, 6)
        values = (ctypes.c_void_p * 2)(ctypes.addressof(log), 512)
        text = kernel("oops.b32 %r0;", 1).encode() + b"\0"
        code = library().cuModuleLoadDataEx(ctypes.byref(handle), text, 2, options, values)
        assert error(code) == "CUDA_ERROR_INVALID_PTX"
        assert b"oops.b32: unknown opcode" in log.value
        assert values[1] == len(log.value)


def test_log_file(tmp_path: Path) -> None:
    path = tmp_path / "log"
    with device(**DEFAULT, log=str(path)), pytest.raises(CudaError):
        Module("nonsense")
    assert path.read_text().startswith("CUDA_ERROR_INVALID_PTX: PTX line 1")


def test_names_that_are_not_there() -> None:
    with device(**DEFAULT):
        with pytest.raises(CudaError, match="CUDA_ERROR_NOT_FOUND"):
            Module(FILL).function("other")
        module = Module(kernel("", 0, before=".global .align 4 .u32 g[3] = {1, 2};\n"))
        address, size = ctypes.c_uint64(), ctypes.c_size_t()
        call("cuModuleGetGlobal_v2", ctypes.byref(address), ctypes.byref(size), module.handle, b"g")
        words = (ctypes.c_uint32 * 3)()
        assert size.value == 12
        call("cuMemcpyDtoH_v2", words, address, ctypes.c_size_t(12))
        assert list(words) == [1, 2, 0]


def test_work_waits_until_somebody_waits() -> None:
    with device(**DEFAULT):
        host, s, out = ctypes.c_void_p(), stream(), zeros()
        call("cuMemHostAlloc", ctypes.byref(host), ctypes.c_size_t(256), 0)
        words = (ctypes.c_uint32 * 64).from_address(host.value or 0)
        words[5] = 77
        launch(Module(FILL).function("k"), (1,), (64,), out, stream=s)
        call("cuMemcpyDtoHAsync_v2", host, out.pointer, ctypes.c_size_t(256), s)
        assert words[5] == 77
        call("cuStreamSynchronize", s)
        assert list(words) == [1] * 64
        call("cuStreamDestroy_v2", s)


def test_events() -> None:
    with device(**DEFAULT):
        begin, end, s, out = ctypes.c_void_p(), ctypes.c_void_p(), stream(), zeros()
        call("cuEventCreate", ctypes.byref(begin), 0)
        call("cuEventCreate", ctypes.byref(end), 0)
        time = ctypes.c_float()
        call("cuEventRecord", begin, s)
        launch(Module(FILL).function("k"), (1,), (64,), out, stream=s)
        call("cuEventRecord", end, s)
        assert error(library().cuEventElapsedTime(ctypes.byref(time), begin, end)) == "CUDA_ERROR_NOT_READY"
        call("cuEventSynchronize", end)
        call("cuEventElapsedTime", ctypes.byref(time), begin, end)
        assert time.value > 0


def test_graph_of_two_streams() -> None:
    with device(**DEFAULT):
        function, out, s, other, graph, exec_ = Module(FILL).function("k"), zeros(), stream(), stream(), *handles(2)
        fork, join = handles(2)
        call("cuEventCreate", ctypes.byref(fork), 2)
        call("cuEventCreate", ctypes.byref(join), 2)
        call("cuStreamBeginCapture_v2", s, 0)
        launch(function, (1,), (64,), out, stream=s)
        call("cuEventRecord", fork, s)
        call("cuStreamWaitEvent", other, fork, 0)
        launch(function, (1,), (64,), out, stream=other)
        call("cuEventRecord", join, other)
        call("cuStreamWaitEvent", s, join, 0)
        call("cuStreamEndCapture", s, ctypes.byref(graph))
        call("cuGraphInstantiateWithFlags", ctypes.byref(exec_), graph, ctypes.c_uint64(0))
        call("cuGraphDestroy", graph)
        assert (out.read(np.uint32) == 0).all()
        for _ in range(3):
            call("cuGraphLaunch", exec_, s)
        assert (out.read(np.uint32) == 6).all()
        call("cuGraphExecDestroy", exec_)
        assert error(library().cuGraphLaunch(exec_, s)) == "CUDA_ERROR_INVALID_HANDLE"


def test_graph_of_an_unloaded_module() -> None:
    with device(**DEFAULT):
        module, out, s, graph, exec_ = Module(FILL), zeros(), stream(), *handles(2)
        call("cuStreamBeginCapture_v2", s, 0)
        launch(module.function("k"), (1,), (64,), out, stream=s)
        call("cuStreamEndCapture", s, ctypes.byref(graph))
        call("cuGraphInstantiateWithFlags", ctypes.byref(exec_), graph, ctypes.c_uint64(0))
        call("cuModuleUnload", module.handle)
        assert error(library().cuGraphLaunch(exec_, s)) == "CUDA_ERROR_INVALID_HANDLE"


def handles(count: int) -> list[ctypes.c_void_p]:
    return [ctypes.c_void_p() for _ in range(count)]


def test_what_spoils_a_capture() -> None:
    with device(**DEFAULT):
        function, out, s, other = Module(FILL).function("k"), zeros(), stream(), stream()
        graph, event = handles(2)
        call("cuEventCreate", ctypes.byref(event), 2)
        call("cuStreamBeginCapture_v2", s, 0)
        assert error(library().cuStreamSynchronize(s)) == "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED"
        assert error(library().cuStreamEndCapture(s, ctypes.byref(graph))) == "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED"
        call("cuStreamBeginCapture_v2", s, 0)
        call("cuEventRecord", event, s)
        call("cuStreamWaitEvent", other, event, 0)
        launch(function, (1,), (64,), out, stream=other)
        assert error(library().cuStreamEndCapture(s, ctypes.byref(graph))) == "CUDA_ERROR_STREAM_CAPTURE_UNJOINED"
        call("cuStreamSynchronize", other)


def test_old_drivers_instantiate_the_old_way() -> None:
    with device(device="jetson-tx2"):
        s, graph, exec_ = stream(), *handles(2)
        call("cuStreamBeginCapture_v2", s, 0)
        call("cuStreamEndCapture", s, ctypes.byref(graph))
        code = library().cuGraphInstantiateWithFlags(ctypes.byref(exec_), graph, ctypes.c_uint64(0))
        assert error(code) == "CUDA_ERROR_NOT_SUPPORTED"
        call("cuGraphInstantiate", ctypes.byref(exec_), graph, None, None, ctypes.c_size_t(0))


def test_failures_that_are_asked_for() -> None:
    with device(**DEFAULT, fail="cuMemAlloc_v2:2:CUDA_ERROR_OUT_OF_MEMORY,cuLaunchKernel:0:CUDA_ERROR_LAUNCH_FAILED"):
        first = Buffer(256)
        with pytest.raises(CudaError, match="cuMemAlloc_v2: CUDA_ERROR_OUT_OF_MEMORY"):
            Buffer(256)
        Buffer(256)
        with pytest.raises(CudaError, match="CUDA_ERROR_LAUNCH_FAILED"):
            launch(Module(FILL).function("k"), (1,), (64,), first)


def test_memory_runs_out() -> None:
    with device(**DEFAULT, memory="1000000"):
        first = Buffer(600000)
        with pytest.raises(CudaError, match="CUDA_ERROR_OUT_OF_MEMORY"):
            Buffer(600000)
        first.free()
        Buffer(600000)


def test_limits_of_launches() -> None:
    with device(**DEFAULT):
        function = Module(FILL).function("k")
        for grid, block, shared in (((1,), (2048,), 0), ((0,), (1,), 0), ((1, 70000), (1,), 0), ((1,), (1,), 50000)):
            with pytest.raises(CudaError, match="CUDA_ERROR_INVALID_VALUE"):
                launch(function, grid, block, zeros(), shared=shared)


def test_parameters_in_a_buffer() -> None:
    with device(**DEFAULT):
        out = zeros()
        data, size = ctypes.c_uint64(out.pointer.value), ctypes.c_size_t(8)
        extra = (ctypes.c_void_p * 5)(1, ctypes.addressof(data), 2, ctypes.addressof(size), 0)
        call("cuLaunchKernel", Module(FILL).function("k"), 1, 1, 1, 64, 1, 1, 0, None, None, extra)
        assert (out.read(np.uint32) == 1).all()


def test_calls_without_a_context_and_stale_handles() -> None:
    assert error(library().cuCtxSynchronize()) in {"CUDA_ERROR_INVALID_CONTEXT", "CUDA_ERROR_NOT_INITIALIZED"}
    with device(**DEFAULT):
        module = Module(FILL)
        function = module.function("k")
        call("cuModuleUnload", module.handle)
        assert error(library().cuModuleUnload(module.handle)) == "CUDA_ERROR_INVALID_HANDLE"
        with pytest.raises(CudaError, match="CUDA_ERROR_INVALID_HANDLE"):
            launch(function, (1,), (64,), zeros())
        synchronize()


def test_primary_context() -> None:
    call("cuInit", 0)
    before = library().edgertEmulatorObjects()
    first, second = handles(2)
    call("cuDevicePrimaryCtxRetain", ctypes.byref(first), 0)
    call("cuDevicePrimaryCtxRetain", ctypes.byref(second), 0)
    assert first.value == second.value
    call("cuCtxSetCurrent", first)
    Buffer(64)
    call("cuDevicePrimaryCtxRelease_v2", 0)
    synchronize()
    call("cuDevicePrimaryCtxRelease_v2", 0)
    assert library().edgertEmulatorObjects() == before
    assert library().edgertEmulatorBytes() == 0
