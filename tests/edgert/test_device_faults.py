"""Devices and drivers that fail: every call in turn, and the failures that users meet, each with its message."""

from __future__ import annotations

import contextlib
import ctypes
import re
import shutil
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

import edgert
from edgert.errors import (
    DeviceError,
    DeviceLostError,
    DeviceMissingError,
    EdgertError,
    NativeCodeError,
    OutOfMemoryError,
)
from tests.edgert.device_bundles import WEIGHTS, DeviceBuilder, affine, answer, elementwise, two_runs, write, x_of
from tests.edgert.emulated import DeviceMemory, InterfaceArray, emulator, left, nothing_left  # noqa: F401
from tests.runtime_c.bundles import cores_bundle
from tests.targets.cuda.driver import library

ROOT = Path(__file__).resolve().parents[2]
FUNCTIONS = re.findall(
    r"^(?:REQUIRED|OPTIONAL)\((\w+)", (ROOT / "runtime_c/src/backends/cuda/functions.def").read_text(), re.M
)
MESSAGES: list[bytes] = []  # of the emulator
LOG = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_char_p)(lambda _, message: MESSAGES.append(message))
NOT_GIVEN_BACK = (
    "cuMemFree",
    "cuModuleUnload",
    "cuLinkDestroy",
    "cuStreamDestroy",
    "cuEventDestroy",
    "cuGraphDestroy",
    "cuGraphExec",
)
# What fails while things are given back fails unheard.
RELEASING = ("Destroy", "Free", "Unload", "Pop", "Release")
WILD = elementwise("shift", 1, "mov.u64 %rd1, 64; st.global.f32 [%rd1], %f0; mov.f32 %f9, %f0;")


def right(session: edgert.Session, seed: int = 1) -> bool:
    x = x_of(seed)
    results = session.run(x)
    return all(np.array_equal(results[name], want) for name, want in answer(x).items())


def use(path: Path, z: DeviceMemory) -> EdgertError | None:
    """A session from opening to closing, with all kinds of runs: right, or the error."""
    want = answer(x_of())
    try:
        with edgert.load(path, allow_native=True) as session:
            assert right(session)
            session.bind(outputs={"z": InterfaceArray(z)})
            np.testing.assert_array_equal(session.run(x_of())["y"], want["y"])
            np.testing.assert_array_equal(session.run(x_of(), stream=0)["y"], want["y"])
            np.testing.assert_array_equal(session.run(x_of())["y"], want["y"])
    except EdgertError as error:
        return error
    return None


def failed(message: str) -> bool:
    """Whether the emulator has said so since it was last asked."""
    heard = message.encode() in MESSAGES
    MESSAGES.clear()
    return heard


def failing(monkeypatch: pytest.MonkeyPatch, *calls: str) -> None:
    monkeypatch.setenv("EDGERT_EMULATOR_FAIL", ",".join(calls))


@pytest.mark.parametrize("device", ["jetson-tx2", pytest.param("h200", marks=pytest.mark.slow)])
@pytest.mark.parametrize("error", ["CUDA_ERROR_INVALID_VALUE", "CUDA_ERROR_OUT_OF_MEMORY", "CUDA_ERROR_LAUNCH_FAILED"])
def test_each_call_fails_in_turn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, device: str, error: str) -> None:
    monkeypatch.setenv("EDGERT_EMULATOR_DEVICE", device)
    monkeypatch.setenv("EDGERT_EMULATOR_DRIVER", "12090")
    path = write(tmp_path / "two.edge", two_runs().program())
    library().edgertEmulatorSetLog(LOG, None)
    expected = {
        "CUDA_ERROR_INVALID_VALUE": DeviceError,
        "CUDA_ERROR_OUT_OF_MEMORY": OutOfMemoryError,
        "CUDA_ERROR_LAUNCH_FAILED": DeviceLostError,
    }[error]
    heard = set()
    z = DeviceMemory(answer(x_of())["z"])  # it keeps the context alive: what is not given back stays
    for function in FUNCTIONS:
        for n in range(1, 100):
            failing(monkeypatch, f"{function}:{n}:{error}")
            before = left()
            found = use(path, z)
            failing(monkeypatch)
            if not failed(f"{function}: call {n} fails as asked for"):
                break
            if found is not None:
                assert isinstance(found, DeviceMissingError if function == "cuInit" else expected), (function, n, found)
                assert f"{function.removesuffix('_v2')}: {error}" in str(found)
                assert len(str(found).splitlines()) <= 4
                heard.add(function)
            if "Release" in function:
                library().cuDevicePrimaryCtxRelease_v2(0)
            if "Pop" in function:
                library().cuCtxPopCurrent_v2(None)
            assert left() == before or function.startswith(NOT_GIVEN_BACK), (function, n)
    z.free()
    assert nothing_left()
    with edgert.load(path, allow_native=True) as session:
        assert right(session)
    silent = {f for f in FUNCTIONS if any(word in f for word in RELEASING)} | {"cuGetErrorName", "cuGraphInstantiate"}
    silent |= {"cuMemHostGetDevicePointer_v2"} if device == "h200" else {"cuMemcpyDtoHAsync_v2"}
    assert heard == set(FUNCTIONS) - silent


@pytest.mark.parametrize("function", ["cuGraphLaunch", "cuStreamSynchronize", "cuCtxPushCurrent_v2"])
def test_a_run_that_fails_can_be_repeated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, function: str) -> None:
    monkeypatch.setenv("EDGERT_EMULATOR_DRIVER", "12090")
    with edgert.load(write(tmp_path / "two.edge", two_runs().program()), allow_native=True) as session:
        assert right(session)
        failing(monkeypatch, f"{function}:0:CUDA_ERROR_NOT_READY")
        for _ in range(2):
            with pytest.raises(DeviceError, match=r"CUDA_ERROR_NOT_READY \(600\)"):
                session.run(x_of())
        failing(monkeypatch)
        assert right(session, 5)


def test_no_consent(tmp_path: Path) -> None:
    with pytest.raises(NativeCodeError, match=r"'jetson' for sm_62\n.*--allow-native"):
        edgert.load(write(tmp_path / "a.edge", affine().program()))


def test_the_emulator_needs_no_consent(tmp_path: Path) -> None:
    path = write(tmp_path / "two.edge", two_runs().program(arch="another"))
    with edgert.load(path, emulate=True) as session:
        assert right(session)
    with pytest.raises(DeviceMissingError, match=r"CUDA driver libm\.so\.6\nit is not the emulator"):
        edgert.load(path, emulate=True, cuda_library="libm.so.6")


def test_no_driver(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(tmp_path / "a.edge", affine().program())
    with pytest.raises(
        DeviceMissingError, match=r"CUDA driver /nowhere/libcuda.so\n.*No such file(?s:.*)edgert run --emulate"
    ):
        edgert.load(path, allow_native=True, cuda_library="/nowhere/libcuda.so")
    with pytest.raises(DeviceMissingError, match=r"CUDA driver libm.so.6\nit has no function cuInit"):
        edgert.load(path, allow_native=True, cuda_library="libm.so.6")
    monkeypatch.setenv("EDGERT_EMULATOR_DEVICE", "none")
    with pytest.raises(DeviceMissingError, match="it finds no device"):
        edgert.load(path, allow_native=True)
    monkeypatch.delenv("EDGERT_EMULATOR_DEVICE")
    failing(monkeypatch, "cuInit:1:CUDA_ERROR_OPERATING_SYSTEM")
    with pytest.raises(DeviceMissingError, match="cuInit: CUDA_ERROR_OPERATING_SYSTEM"):
        edgert.load(path, allow_native=True)


@pytest.mark.skipif(not shutil.which("cc"), reason="needs a C compiler")
def test_an_old_driver(tmp_path: Path) -> None:
    source, built = tmp_path / "old.c", tmp_path / "libold.so"
    source.write_text("int cuInit(unsigned flags) { return (int)flags; }\n")
    subprocess.run(["cc", "-shared", "-fPIC", "-o", built, source], check=True)
    with pytest.raises(DeviceMissingError, match=r"libold\.so\nit has no function cuDriverGetVersion"):
        edgert.load(write(tmp_path / "a.edge", affine().program()), allow_native=True, cuda_library=built)


def test_another_device(tmp_path: Path) -> None:
    path = write(tmp_path / "a.edge", affine(*(sm(90) for sm in KERNELS)).program(device="sm_90"))
    message = r"program packed for sm_90\nexpected a device sm_90.*, got NVIDIA Tegra X2 \(emulated\) \(sm_62\)\n.*pack"
    with pytest.raises(DeviceMissingError, match=message):
        edgert.load(path, allow_native=True)


@pytest.mark.parametrize("device", ["sm_90", "sm_90a", "gfx9"])
def test_the_processor_takes_over(tmp_path: Path, device: str) -> None:
    """Where a device is another one, or none that a program can name: that is no fault of the bundle's."""
    on_device = affine(*(sm(90) for sm in KERNELS)).program(device=device)
    processor = next(p for p in cores_bundle().programs if p.arch == on_device.arch and p.cores == 1)
    path = write(tmp_path / "two.edge", on_device, processor)
    for integrity in ("full", "metadata"):
        with edgert.load(path, allow_native=True, integrity=integrity) as session:
            assert (session.describe().target, session.describe().device) == (processor.target, "")


KERNELS = (
    lambda sm: elementwise("copy", 1, "mov.f32 %f9, %f0;", sm),
    lambda sm: elementwise("scale", 2, "mul.rn.f32 %f9, %f0, %f1;", sm),
    lambda sm: elementwise("shift", 1, "add.rn.f32 %f9, %f0, 0f3F800000;", sm),
)


def with_cubins(builder: DeviceBuilder, cubin: bytes, ptx: bool) -> DeviceBuilder:
    for index, module in enumerate(builder.modules):
        builder.modules[index] = type(module)(module.ptx if ptx else None, cubin)
    return builder


def test_refused_machine_code(tmp_path: Path) -> None:
    cubin = b"\x7fELF\2\1\1" + bytes(121)
    path = write(tmp_path / "both.edge", with_cubins(affine(), cubin, ptx=True).program())
    with edgert.load(path, allow_native=True) as session:  # the PTX is translated
        np.testing.assert_array_equal(session.run(x_of())["y"], x_of() * WEIGHTS + 1)
    path = write(tmp_path / "cubin.edge", with_cubins(affine(), cubin, ptx=False).program())
    message = (
        r"machine code of module 0 for sm_62, device sm_62, driver 10\.2\n"
        r"cuModuleLoadDataEx: CUDA_ERROR_NO_BINARY_FOR_GPU \(209\)\n.*pack the model again"
    )
    with pytest.raises(DeviceError, match=message):
        edgert.load(path, allow_native=True)


def test_bad_ptx(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(tmp_path / "a.edge", affine(shift=elementwise("shift", 1, "frobnicate %f9, %f0;")).program())
    with pytest.raises(
        DeviceError,
        match=r"PTX of module 2 for sm_62, device sm_62, driver 10\.2: .*frobnicate.*\ncuLinkAddData: CUDA_ERROR_",
    ):
        edgert.load(path, allow_native=True)
    path = write(
        tmp_path / "b.edge", affine(shift=elementwise("shift", 1, "mov.f32 %f9, %f0;", version="8.0")).program()
    )
    with pytest.raises(
        DeviceError, match=r"PTX 8\.0; the driver takes up to 6\.5\n.*UNSUPPORTED_PTX_VERSION.*\nupdate the driver"
    ):
        edgert.load(path, allow_native=True)
    path = write(tmp_path / "c.edge", affine(shift=elementwise("other", 1, "mov.f32 %f9, %f0;")).program())
    with pytest.raises(EdgertError, match="entry\nexpected one that the module has, got 'shift'"):
        edgert.load(path, allow_native=True)


def test_too_little_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(tmp_path / "a.edge", affine().program())
    monkeypatch.setenv("EDGERT_EMULATOR_MEMORY", "2000")
    message = r"device arena, 3648 bytes\ncuMemAlloc: CUDA_ERROR_OUT_OF_MEMORY \(2\)\nfree memory"
    with pytest.raises(OutOfMemoryError, match=message):
        edgert.load(path, allow_native=True)


def test_a_kernel_that_fails_ends_all_sessions_of_the_device(tmp_path: Path) -> None:
    good, bad = (
        write(tmp_path / "two.edge", two_runs().program()),
        write(tmp_path / "bad.edge", affine(shift=WILD).program()),
    )
    session, wild = edgert.load(good, allow_native=True), edgert.load(bad, allow_native=True)
    assert right(session)
    message = r"steps 0 to 3\ncuStreamSynchronize: CUDA_ERROR_ILLEGAL_ADDRESS \(700\)\nclose all sessions"
    with pytest.raises(DeviceLostError, match=message):
        wild.run(x_of())
    with pytest.raises(DeviceLostError, match=r"a run before this one\nsteps 0 to 3.*ILLEGAL_ADDRESS"):
        wild.run(x_of())
    with pytest.raises(DeviceLostError, match="ILLEGAL_ADDRESS"):  # it shares the context
        session.run(x_of())
    with pytest.raises(DeviceLostError, match="ILLEGAL_ADDRESS"):
        edgert.load(good, allow_native=True)
    session.close()
    wild.close()
    assert nothing_left()
    with edgert.load(good, allow_native=True) as again:
        assert right(again)


def test_sessions_of_several_threads(tmp_path: Path) -> None:
    path = write(tmp_path / "two.edge", two_runs().program())

    def use(thread: int) -> bool:
        found = True
        for turn in range(3):
            with edgert.load(path, allow_native=True) as session:
                found &= all(right(session, 100 * thread + 10 * turn + run) for run in range(4))
        return found

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(use, range(4)))


def test_one_of_several_threads_fails(tmp_path: Path) -> None:
    good, bad = (
        write(tmp_path / "two.edge", two_runs().program()),
        write(tmp_path / "bad.edge", affine(shift=WILD).program()),
    )

    def use(thread: int) -> int:
        """Runs that were right before the device was lost."""
        with edgert.load(good, allow_native=True) as session:
            for run in range(200):
                try:
                    assert right(session, 1000 * thread + run)
                except DeviceLostError:
                    return run
        return -1

    with edgert.load(bad, allow_native=True) as wild, ThreadPoolExecutor(3) as pool:
        runs = [pool.submit(use, thread) for thread in range(3)]
        with pytest.raises(DeviceLostError):
            wild.run(x_of())
        for run in runs:
            with contextlib.suppress(DeviceLostError):  # opened when it was lost already
                assert run.result() >= 0
    with edgert.load(good, allow_native=True) as again:
        assert right(again)
