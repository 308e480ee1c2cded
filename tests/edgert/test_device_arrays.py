"""Inputs and outputs in memory of the device, and runs on streams of the caller."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

import edgert
from edgert.errors import DeviceLostError, InvalidArgumentError, OutOfMemoryError
from edgert.session import StepTime
from packer.bundle.model import Place
from targets.base import Attribute
from tests.edgert.device_bundles import (
    COPY,
    SCALE,
    SIZE,
    WEIGHTS,
    DeviceBuilder,
    affine,
    answer,
    elementwise,
    two_runs,
    write,
    x_of,
)
from tests.edgert.emulated import DeviceMemory, DLPackArray, InterfaceArray, emulator  # noqa: F401
from tests.targets.cuda.driver import call, library

NOTHING = np.zeros(SIZE, np.float32)
WILD = elementwise("shift", 1, "mov.u64 %rd1, 64; st.global.f32 [%rd1], %f0; mov.f32 %f9, %f0;")
NO_WAITING = "cuStreamSynchronize:0:CUDA_ERROR_NOT_READY,cuEventSynchronize:0:CUDA_ERROR_NOT_READY"


@contextmanager
def memory(*values: np.ndarray) -> Iterator[list[DeviceMemory]]:
    found = [DeviceMemory(array) for array in values]
    try:
        yield found
    finally:
        for array in reversed(found):
            array.free()


@pytest.fixture
def stream() -> Iterator[int]:
    """A stream of the primary context."""
    handle = ctypes.c_void_p()
    with memory(NOTHING):
        call("cuStreamCreate", ctypes.byref(handle), 1)
        yield handle.value or 0
        call("cuStreamDestroy_v2", handle)


def shared() -> DeviceBuilder:
    """y = relu(x) * w on the device, z = relu(x) on the processor, which reads x and writes z itself."""
    b = DeviceBuilder()
    x, y, z, w = b.input("x"), b.output("y"), b.output("z"), b.constant("w", WEIGHTS)
    moved, scaled, back, relu = b.value("moved"), b.value("scaled"), b.value("back"), b.value("relu", Place.ARENA)
    copies, scales = b.module(COPY), b.module(SCALE)
    b.launch("put", "x", copies, "copy", [x], [moved])
    b.launch("launch", "scale", scales, "scale", [moved, w], [scaled])
    b.step("unary", "relu", [x], [relu], Attribute("kind", text="relu"))
    b.step("unary", "again", [relu], [z], Attribute("kind", text="relu"))
    b.launch("put", "back", copies, "copy", [relu], [back])
    b.launch("launch", "product", scales, "scale", [back, w], [scaled])
    b.launch("get", "y", copies, "copy", [scaled], [y])
    return b


@pytest.mark.parametrize("kind", [InterfaceArray, DLPackArray])
@pytest.mark.parametrize("driver", ["10000", "12090"])  # without graphs, with them
@pytest.mark.parametrize("device", ["jetson-tx2", "h200"])
def test_arrays_of_the_host_and_the_device(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, device: str, driver: str, kind: type
) -> None:
    monkeypatch.setenv("EDGERT_EMULATOR_DEVICE", device)
    monkeypatch.setenv("EDGERT_EMULATOR_DRIVER", driver)
    path = write(tmp_path / "two.edge", two_runs().program())
    with memory(NOTHING, NOTHING, NOTHING) as (x, y, z), edgert.load(path, allow_native=True) as session:
        np.testing.assert_array_equal(session.run(x_of(9))["y"], answer(x_of(9))["y"])
        y_array, z_array = kind(y), kind(z)
        for seed, outputs in enumerate([{}, {"z": z_array}, {"y": y_array}, {}]):
            session.bind(outputs=outputs)
            for on_device in (True, False):
                value = x_of(10 * seed + on_device)
                x.write(value)
                results = session.run({"x": kind(x) if on_device else value})
                for name, want in answer(value).items():
                    got = results[name]
                    if isinstance(got, kind):
                        assert got is {"y": y_array, "z": z_array}[name]
                        got = {"y": y, "z": z}[name].read()
                    np.testing.assert_array_equal(got, want)
            assert isinstance(results["z"], kind) == (seed >= 1)
            assert isinstance(results["y"], kind) == (seed >= 2)
        session.bind(inputs={"x": kind(x)}, outputs={"y": np.empty_like(NOTHING), "z": z_array})
        x.write(x_of(99))
        np.testing.assert_array_equal(session.run()["y"], answer(x_of(99))["y"])
        np.testing.assert_array_equal(z.read(), answer(x_of(99))["z"])


@pytest.mark.parametrize("device", ["jetson-tx2", "h200"])
def test_buffers_that_the_processor_uses_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stream: int, device: str
) -> None:
    monkeypatch.setenv("EDGERT_EMULATOR_DEVICE", device)
    path = write(tmp_path / "shared.edge", shared().program())
    with memory(NOTHING, NOTHING, NOTHING) as (x, y, z), edgert.load(path, allow_native=True) as session:
        session.bind({"x": InterfaceArray(x)}, {"y": InterfaceArray(y), "z": InterfaceArray(z)})
        for seed, where in enumerate([None, stream, stream, 0, None]):
            value = x_of(seed)
            x.write(value)
            session.run(stream=where)
            np.testing.assert_array_equal(z.read(), np.maximum(value, 0))
            np.testing.assert_array_equal(y.read(), np.maximum(value, 0) * WEIGHTS)


def test_nothing_is_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stream: int) -> None:
    path = write(tmp_path / "affine.edge", affine().program())
    with memory(NOTHING, NOTHING) as (x, y), edgert.load(path, allow_native=True) as session:
        session.bind({"x": InterfaceArray(x)}, {"y": InterfaceArray(y)})
        x.write(x_of())
        monkeypatch.setenv("EDGERT_EMULATOR_FAIL", NO_WAITING)
        assert session.run(stream=stream)["y"] is not None
        session.run(stream=0)
        session.run(stream=stream)
        assert library().cuStreamQuery(ctypes.c_void_p(stream)) == 600  # CUDA_ERROR_NOT_READY: nothing is done yet
        monkeypatch.delenv("EDGERT_EMULATOR_FAIL")
        np.testing.assert_array_equal(y.read(), x_of() * WEIGHTS + 1)
        assert (
            session.run(x_of(3), stream=stream)["y"] is not None
        )  # from staging memory, which a later run must not change
        session.run(x_of(4), stream=stream)
        np.testing.assert_array_equal(y.read(), x_of(4) * WEIGHTS + 1)


def test_errors_of_a_hook_come_out_of_a_run_on_a_stream(tmp_path: Path, stream: int) -> None:
    def hook(_: StepTime) -> None:
        raise LookupError("of the hook")

    path = write(tmp_path / "affine.edge", affine().program())
    with edgert.load(path, allow_native=True) as session:
        session.profile(hook)
        with pytest.raises(LookupError, match="of the hook"):
            session.run(x_of(), stream=stream)
        session.profile(None)
        np.testing.assert_array_equal(session.run(x_of(), stream=stream)["y"], x_of() * WEIGHTS + 1)


def test_arrays_of_the_host_are_waited_for(tmp_path: Path, stream: int) -> None:
    path = write(tmp_path / "two.edge", two_runs().program())
    with memory(NOTHING) as (z,), edgert.load(path, allow_native=True) as session:
        session.bind(outputs={"z": InterfaceArray(z)})
        for seed in range(3):
            np.testing.assert_array_equal(session.run(x_of(seed), stream=stream)["y"], answer(x_of(seed))["y"])
            np.testing.assert_array_equal(z.read(), answer(x_of(seed))["z"])


def test_runs_follow_each_other_on_all_streams(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stream: int) -> None:
    path = write(tmp_path / "affine.edge", affine().program())
    with memory(NOTHING, NOTHING) as (x, y), edgert.load(path, allow_native=True) as session:
        session.bind({"x": InterfaceArray(x)}, {"y": InterfaceArray(y)})
        session.run(stream=stream)
        session.run(stream=stream)
        monkeypatch.setenv("EDGERT_EMULATOR_FAIL", "cuStreamWaitEvent:1:CUDA_ERROR_NOT_READY")
        with pytest.raises(edgert.errors.DeviceError, match=r"the end of the last run\ncuStreamWaitEvent"):
            session.run(stream=0)
        session.run(stream=0)


def test_streams(tmp_path: Path, stream: int) -> None:
    class Protocol:
        def __init__(self, version: int, method: bool) -> None:
            self.__cuda_stream__ = (lambda: (version, stream)) if method else (version, stream)

    class Integer:
        def __int__(self) -> int:
            return stream

    path = write(tmp_path / "affine.edge", affine().program())
    with memory(NOTHING, NOTHING) as (x, y), edgert.load(path, allow_native=True) as session:
        session.bind(outputs={"y": InterfaceArray(y)})
        array = DLPackArray(x)
        for given in (stream, Protocol(0, True), Protocol(0, False), Integer(), 0, None):
            session.run(array, stream=given)
        *named, default, own = array.streams
        assert (named, default) == ([stream] * 4, 1)
        assert own not in (stream, 1)
        for bad in ("x", [], Protocol(1, True), object()):
            with pytest.raises(InvalidArgumentError, match=f"stream: expected .*, got {type(bad).__name__}"):
                session.run(array, stream=bad)
        y.write(NOTHING)
        x.write(x_of(2))
        session.run(array)
        np.testing.assert_array_equal(y.read(), x_of(2) * WEIGHTS + 1)


@pytest.mark.parametrize(("of_the_array", "given"), [(1, None), (2, None), (1, 5), (None, None)])
def test_the_stream_that_fills_an_array_is_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stream: int, of_the_array: int | None, given: int | None
) -> None:
    path = write(tmp_path / "affine.edge", affine().program())
    where = None if given is None else stream
    with memory(NOTHING) as (x,), edgert.load(path, allow_native=True) as session:
        waits = len({1, of_the_array} - {None}) if given is None else 1
        for n in range(1, waits + 2):
            monkeypatch.setenv("EDGERT_EMULATOR_FAIL", f"cuStreamWaitEvent:{n}:CUDA_ERROR_NOT_READY")
            call("cuInit", 0)  # counts from the beginning
            array = InterfaceArray(x, stream=of_the_array)
            if n > waits:
                session.run(array, stream=where)
                continue
            with pytest.raises(edgert.errors.DeviceError, match="the stream that waits"):
                session.run(array, stream=where)


def test_a_failure_is_told_later(tmp_path: Path) -> None:
    path = write(tmp_path / "wild.edge", affine(shift=WILD).program())
    x, y = DeviceMemory(NOTHING), DeviceMemory(NOTHING)
    with edgert.load(path, allow_native=True) as session:
        session.bind({"x": InterfaceArray(x)}, {"y": InterfaceArray(y)})
        session.run(stream=0)
        with pytest.raises(DeviceLostError, match="ILLEGAL_ADDRESS"):
            session.run()
        with pytest.raises(DeviceLostError):
            session.run(stream=0)
    for _ in (x, y):  # the context is dead, and goes with its last user
        call("cuCtxPopCurrent_v2", None)
        call("cuDevicePrimaryCtxRelease_v2", 0)


def test_bad_arrays(tmp_path: Path) -> None:
    path = write(tmp_path / "affine.edge", affine().program())
    with memory(NOTHING) as (x,), edgert.load(path, allow_native=True) as session:
        good = InterfaceArray(x).__cuda_array_interface__
        address = good["data"][0]
        for array, message in (
            (InterfaceArray(x, shape=(SIZE - 1,)), rf"float32\[{SIZE}\], got float32\[{SIZE - 1}\]"),
            (InterfaceArray(x, typestr="<i4"), r"got int32"),
            (InterfaceArray(x, strides=(8,)), r"contiguous row-major memory, got strides \(2,\)"),
            (InterfaceArray(x, strides=(5,)), r"contiguous"),
            (InterfaceArray(x, mask=object()), r"cannot be viewed in a device's memory: it has a mask"),
            (InterfaceArray(x, data=(address + 4, False)), r"expected a multiple of 16, got 0x"),
            (DLPackArray(x, strides=(2,)), r"contiguous"),
            (DLPackArray(x, device=1), r"on device 0, which the session uses, got one on device 1"),
            (object(), r"got object"),
        ):
            with pytest.raises(InvalidArgumentError, match=message):
                session.run(array)
            with pytest.raises(InvalidArgumentError, match=message):
                session.bind(inputs={"x": array})
        with pytest.raises(InvalidArgumentError, match="writable"):
            session.bind(outputs={"y": InterfaceArray(x, data=(address, True))})
        with pytest.raises(InvalidArgumentError, match="multiple of 16"):
            session.bind({"x": InterfaceArray(x)}, {"y": InterfaceArray(x, data=(address + 2**20 + 4, False))})
        np.testing.assert_array_equal(session.run(x_of())["y"], x_of() * WEIGHTS + 1)
        with pytest.raises(InvalidArgumentError, match="overlap"):
            session.bind(inputs={"x": InterfaceArray(x)}, outputs={"y": InterfaceArray(x)})
        session.run(InterfaceArray(x, strides=(4,), data=(address, True)))
        session.run(DLPackArray(x, strides=(1,)))


def test_sessions_of_the_processor_take_none(tmp_path: Path) -> None:
    b = DeviceBuilder()
    b.step("unary", "relu", [b.input("x")], [b.output("y")], Attribute("kind", text="relu"))
    path = write(tmp_path / "cpu.edge", b.program(device="", target="cpu"))
    with memory(NOTHING) as (x,), edgert.load(path) as session:
        with pytest.raises(InvalidArgumentError, match="copy it to the CPU first"):
            session.run(InterfaceArray(x))
        with pytest.raises(InvalidArgumentError, match="to the CPU first"):
            session.run(DLPackArray(x))
        with pytest.raises(InvalidArgumentError, match="the session uses no device"):
            session.run(x_of(), stream=0)


def test_no_memory_for_graphs_of_bound_arrays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EDGERT_EMULATOR_DRIVER", "12090")
    path = write(tmp_path / "affine.edge", affine().program())
    with memory(NOTHING) as (x,), edgert.load(path, allow_native=True) as session:
        x.write(x_of())
        monkeypatch.setenv("EDGERT_EMULATOR_FAIL", "cuGraphInstantiateWithFlags:2:CUDA_ERROR_OUT_OF_MEMORY")
        call("cuInit", 0)
        session.run(InterfaceArray(x))
    with memory(NOTHING) as (x,), edgert.load(path, allow_native=True) as session:
        x.write(x_of())
        with pytest.raises(OutOfMemoryError, match="graph of steps 1 to 2"):
            session.run(InterfaceArray(x))
        np.testing.assert_array_equal(session.run(x_of())["y"], x_of() * WEIGHTS + 1)
        np.testing.assert_array_equal(session.run(InterfaceArray(x))["y"], x_of() * WEIGHTS + 1)


def test_profiles_of_bound_arrays(tmp_path: Path) -> None:
    path = write(tmp_path / "two.edge", two_runs().program())
    with memory(x_of(), NOTHING) as (x, y), edgert.load(path, allow_native=True) as session:
        session.bind({"x": InterfaceArray(x)}, {"y": InterfaceArray(y)})
        seen: list[str] = []
        session.profile(lambda event: seen.append(event.kernel))
        np.testing.assert_array_equal(session.run()["z"], answer(x_of())["z"])
        np.testing.assert_array_equal(y.read(), answer(x_of())["y"])
        assert seen == [*("put", "launch", "launch", "get", "unary", "put", "launch", "get", "get")]
