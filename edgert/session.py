"""A program of a bundle, ready to run on numpy arrays, anything that speaks DLPack, and arrays on a CUDA device."""

from __future__ import annotations

import ctypes
import os
import threading
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING, Any, NamedTuple

from edgert import _native
from edgert._arrays import HostArray, TensorInfo, acceptable, bindable, empty_array, host_array, refuse_overlap
from edgert._device_arrays import DEFAULT_STREAM, DeviceArray, stream_handle
from edgert._open import OpenBundle
from edgert.dtypes import DTYPES
from edgert.emulator import emulated, emulator_library, program_to_emulate
from edgert.errors import EdgertError, InvalidArgumentError

if TYPE_CHECKING:
    from typing_extensions import Buffer

__all__ = ["ALL_CORES", "DeviceOptions", "Session", "SessionDescription", "StepTime", "TensorInfo", "load"]

ALL_CORES = 255  # StepTime.core: every core ran a share of the step


@dataclass(frozen=True, slots=True)
class SessionDescription:
    """What was chosen: program, instruction set, the `cores` it is made for, the `threads` that run it (no more than
    those), the memory (bytes) they need; name and memory of the `device`, "" if none is used. `slow_steps` would make
    instructions out of their weights, but cannot here, and take several times as long."""

    target: str
    isa: str
    cores: int
    threads: int
    steps: int
    arena_bytes: int
    scratch_bytes: int
    device: str = ""
    device_bytes: int = 0
    slow_steps: int = 0


@dataclass(frozen=True, slots=True)
class StepTime:
    """One executed step: its position, the core of the program (or ALL_CORES), kernel and first ONNX node; monotonic
    clock, nanoseconds. What all cores shared lasts from the first begin to the last end; `busy_ns` is the work of all
    threads in it."""

    step: int
    core: int
    kernel: str
    node: str
    begin_ns: int
    end_ns: int
    busy_ns: int


class DeviceOptions(NamedTuple):
    """How programs for devices may run; see `load`."""

    allow_native: bool = False
    cuda_library: str | os.PathLike[str] | None = None
    emulate: bool = False
    code_cache: str | os.PathLike[str] | None = None
    progress: Callable[[float], None] | None = None


def load(
    source: str | os.PathLike[str] | Buffer,
    target: str | None = None,
    threads: int = 0,
    isa: str | None = None,
    integrity: str = "full",
    *,
    allow_native: bool = False,
    cuda_library: str | os.PathLike[str] | None = None,
    emulate: bool = False,
    code_cache: str | os.PathLike[str] | None = None,
    progress: Callable[[float], None] | None = None,
) -> Session:
    """Opens a bundle (a path, or its bytes) and makes one of its programs ready to run.

    `target`: whose programs to use, by default the first that this machine can run. `threads`: at most so many run it,
    0 for one per usable core; it chooses the target's program for the most cores that are not more, or if all are for
    more, the one for the fewest. `isa`: force one of those that `edgert devices` lists. `integrity`: "full" hashes
    everything before use, "metadata" only the description and leaves the weights untouched until they are needed.

    A program for a device brings native code, which nothing proves harmless: it runs if `allow_native` is set, through
    the driver `cuda_library` (by default the installed one). `emulate` runs it on the emulator instead, on any machine;
    there it is interpreted and checked, which needs no consent. `progress` is told the fraction of the code that is
    loaded, which takes long where a driver has to translate it; what comes out is kept in the folder `code_cache` for
    later sessions ("": not at all; by default EDGERT_CACHE_DIR, or edgert/driver in the user's folder for caches).
    Raises a subclass of EdgertError that says what is wrong and what to do.
    """
    options = DeviceOptions(allow_native, cuda_library, emulate, code_cache, progress)
    return Session(OpenBundle(source, integrity, threads), target, threads, isa, options)


class Session:
    """Made by `load`. Runs are serialised; use one session per thread for parallel runs (see `fork`)."""

    def __init__(
        self,
        bundle: OpenBundle,
        target: str | None,
        threads: int,
        isa: str | None,
        device: DeviceOptions,
    ) -> None:
        self._lock = threading.Lock()
        self._ready = False
        self._handle = ctypes.c_void_p()
        self._bundle, self._options = bundle, (target, threads, isa, device)
        library = _native.library()
        if not isinstance(target, str | None):
            raise InvalidArgumentError(f"target: expected a name, got {target!r}")
        if isa is not None and isa not in _native.isas():
            raise InvalidArgumentError(f"isa: expected one of {', '.join(_native.isas())}, got {isa!r}")
        options = _session_options(target, threads, isa, device)
        if device.emulate:
            with _emulated(options, bundle, target):
                self._open(options)
        else:
            self._open(options)
        self._run = library.edgert_session_run
        self._stream, self._device = self._own_stream()
        self.inputs = _describe_all(self._handle, "input")
        self.outputs = _describe_all(self._handle, "output")
        self._bound: dict[str, list[HostArray | DeviceArray | None]] = {
            "input": [None] * len(self.inputs),
            "output": [None] * len(self.outputs),
        }
        self._result: dict[str, Any] = {}
        self._borrowed: list[HostArray | DeviceArray] = []  # by the last run, which may still be going on
        self._dynamic = [k for k, info in enumerate(self.outputs) if info.dynamic]
        self._hook: Any = None
        self._raised: list[BaseException] = []  # by the hook, while the library called it

    def run(self, *inputs: Any, stream: Any = None) -> dict[str, Any]:
        """Runs the network once: `run({"name": array, ...})`, `run(array, ...)` in the order of `inputs`, or `run()`
        when every buffer is bound. Returns the outputs by name: fresh arrays, or the bound ones.

        An array is a numpy array or has `__dlpack__`, of exactly the input's dtype and shape; where the session uses a
        CUDA device, its elements may be there (DLPack, `__cuda_array_interface__`).

        `stream`, an int, cuda-python's CUstream or what has `__cuda_stream__`: the network is given to that stream of
        the device, in order with what else it is given, and `run` returns without waiting for outputs that are bound to
        arrays on the device. Without one it follows the default stream, and all is done when it returns.
        Raises InvalidArgumentError for anything else.
        """
        if self._ready and not inputs and stream is None:
            with self._lock:
                if status := self._run(self._handle):
                    _native.check(status)
                if self._raised:
                    raise self._raised.pop()
                return self._trimmed(self._result) if self._dynamic else self._result.copy()
        handle = None if stream is None else self._given_stream(stream)
        return self._run_with(self._by_name(inputs, self._stream if handle is None else handle), handle)

    def bind(self, inputs: Mapping[str, Any] | None = None, outputs: Mapping[str, Any] | None = None) -> None:
        """Binds arrays for all later runs, without copying: each run reads and writes them in place.

        They must have the exact dtype and shape and be C-contiguous; outputs writable; none may overlap an output. They
        are arrays as `run` takes them; what is on a device has to be aligned to 16 bytes.
        Whatever stays unbound is given to `run`, or returned from it as fresh arrays.
        """
        with self._lock:
            self._require_open()
            proposed = {"input": self._bound["input"].copy(), "output": self._bound["output"].copy()}
            for side, given in (("input", inputs), ("output", outputs)):
                for name, value in (given or {}).items():
                    index = self._index(side, name)
                    found = bindable(side, self._infos(side)[index], value, self._stream)
                    proposed[side][index] = self._expect_here(found)
            refuse_overlap(proposed["input"], proposed["output"])
            try:
                self._bind_all(proposed)
            except EdgertError:
                self._bind_all(self._bound)
                raise
            self._bound = proposed
            self._ready = set(map(type, proposed["input"] + proposed["output"])) <= {HostArray}
            bound = zip(self.outputs, proposed["output"], strict=True)
            self._result = {info.name: array.owner for info, array in bound if array is not None}

    def describe(self) -> SessionDescription:
        """The program, its cores, instruction set, threads and memory in use."""
        with self._lock:
            self._require_open()
            info = _native.SessionInfo()
            _native.call("edgert_session_describe", self._handle, ctypes.byref(info))
        return SessionDescription(
            info.target.decode(),
            info.isa.decode(),
            info.cores,
            info.threads,
            info.steps,
            info.arena_bytes,
            info.scratch_bytes,
            info.device.decode(),
            info.device_bytes,
            info.slow_steps,
        )

    def profile(self, hook: Callable[[StepTime], None] | None) -> None:
        """After every run, calls `hook` for every step in the order of the program, until called with None. The first
        exception that it raises comes out of `run`, and it is not called again for that run. It must not use the
        session."""
        if hook is not None and not callable(hook):
            raise InvalidArgumentError(f"hook: expected a function of a StepTime or None, got {hook!r}")

        def report(_: object, event: Any) -> None:
            if self._raised:
                return
            e = event.contents
            node = e.node.decode("utf-8", "replace")
            time = StepTime(e.step, e.core, e.kernel.decode(), node, e.begin_ns, e.end_ns, e.busy_ns)
            try:
                hook(time)  # type: ignore[misc]
            except BaseException as error:  # the library would only print it, even that somebody pressed Ctrl-C
                self._raised.append(error)

        with self._lock:
            self._require_open()
            made = _native.ProfileHook(report) if hook else _native.ProfileHook()
            _native.call("edgert_session_profile", self._handle, made, None)
            self._hook = made  # called by the library from now on, so it has to stay alive

    def fork(self) -> Session:
        """Another session over the same verified bundle and with the same options, for another thread."""
        self._require_open()
        return Session(self._bundle, *self._options)

    def close(self) -> None:
        """Releases the arena, the threads and the bound buffers. Closing twice is allowed."""
        with self._lock:
            self._ready = False
            if self._handle:
                _native.library().edgert_session_close(self._handle)
                self._handle = ctypes.c_void_p()
                self._bound, self._result, self._borrowed = {"input": [], "output": []}, {}, []

    def __enter__(self) -> Session:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None, /
    ) -> None:
        self.close()

    def __del__(self) -> None:
        self.close()

    def __repr__(self) -> str:
        if not self._handle:
            return "<edgert.Session closed>"
        sides = ", ".join(f"{i.name}: {i}" for i in self.inputs), ", ".join(f"{o.name}: {o}" for o in self.outputs)
        return f"<edgert.Session ({sides[0]}) -> ({sides[1]})>"

    def _open(self, options: _native.SessionOptions) -> None:
        _native.call("edgert_session_open", self._bundle.handle, ctypes.byref(options), ctypes.byref(self._handle))

    def _require_open(self) -> None:
        if not self._handle:
            raise InvalidArgumentError("the session is closed\nOpen the bundle again with edgert.load.")

    def _infos(self, side: str) -> tuple[TensorInfo, ...]:
        return self.inputs if side == "input" else self.outputs

    def _index(self, side: str, name: str) -> int:
        for index, info in enumerate(self._infos(side)):
            if info.name == name:
                return index
        known = ", ".join(f"'{info.name}' {info}" for info in self._infos(side))
        raise InvalidArgumentError(f"unknown {side} {name!r}\nexpected one of: {known}")

    def _own_stream(self) -> tuple[int | None, int]:
        """The handle of the session's stream and the number of its device; None: it has none."""
        info = _native.SessionInfo()
        _native.call("edgert_session_describe", self._handle, ctypes.byref(info))
        return info.stream, info.device_number

    def _given_stream(self, stream: Any) -> int:
        if self._stream is None:
            raise InvalidArgumentError("stream: the session uses no device\nLeave it out: session.run(inputs)")
        try:
            return stream_handle(stream)
        except (TypeError, ValueError) as error:
            raise InvalidArgumentError(
                f"stream: expected an int, a CUstream of cuda-python or what has __cuda_stream__, got "
                f"{type(stream).__name__}: {error}"
            ) from None

    def _expect_here(self, array: HostArray | DeviceArray) -> HostArray | DeviceArray:
        """The array, unless it is on another device."""
        if isinstance(array, DeviceArray) and array.device not in (None, self._device):
            raise InvalidArgumentError(
                f"expected arrays on device {self._device}, which the session uses, got one on device {array.device}\n"
                "Copy it there, or make that device the first one: CUDA_VISIBLE_DEVICES"
            )
        return array

    def _by_name(self, given: tuple[Any, ...], stream: int | None) -> dict[int, HostArray | DeviceArray]:
        """The arrays of one run by input index, checked, and valid for `stream`."""
        if len(given) == 1 and isinstance(given[0], Mapping):
            pairs = [(self._index("input", name), value) for name, value in given[0].items()]
        elif len(given) > len(self.inputs):
            raise InvalidArgumentError(f"expected at most {len(self.inputs)} inputs, got {len(given)}")
        else:
            pairs = list(enumerate(given))
        return {i: self._expect_here(acceptable("input", self.inputs[i], value, stream)) for i, value in pairs}

    def _run_with(self, given: dict[int, HostArray | DeviceArray], stream: int | None) -> dict[str, Any]:
        with self._lock:
            self._require_open()
            bound = self._bound
            for index, info in enumerate(self.inputs):
                if index not in given and bound["input"][index] is None:
                    raise InvalidArgumentError(
                        f"input '{info.name}' is missing: expected {info}, got nothing\n"
                        f'Pass it: session.run({{"{info.name}": array}}), or bind it once with session.bind.'
                    )
            made: dict[int, HostArray | DeviceArray] = {}
            results: dict[str, Any] = {}
            for index, info in enumerate(self.outputs):
                if (array := bound["output"][index]) is None:
                    array = made[index] = host_array(empty_array(info.shape, info.dtype))
                results[info.name] = array.owner
            if len(made) < len(self.outputs):
                refuse_overlap(list(given.values()), bound["output"])
            try:
                for side, fresh in (("input", given), ("output", made)):
                    for index, array in fresh.items():
                        self._bind(side, index, array)
                if self._stream is not None:
                    self._follow([*given.values(), *bound["input"], *bound["output"]], stream)
                if stream is None:
                    _native.check(self._run(self._handle))
                else:
                    _native.call("edgert_session_run_async", self._handle, stream)
                self._borrowed = list(given.values())
                if self._raised:
                    raise self._raised.pop()
                return self._trimmed(results) if self._dynamic else results
            finally:
                for index in given:  # a bound buffer that was replaced for this run comes back
                    if (array := bound["input"][index]) is not None:
                        self._bind("input", index, array)

    def _follow(self, arrays: list[HostArray | DeviceArray | None], stream: int | None) -> None:
        """Lets the run wait for what fills its arrays on the device: on the default stream, if the caller names none,
        and on those that the arrays name."""
        on_device = [array for array in arrays if isinstance(array, DeviceArray)]
        before = {array.wait for array in on_device if array.wait is not None}
        if on_device and stream is None:
            before.add(DEFAULT_STREAM)
        for other in sorted(before):
            _native.call("edgert_session_order", self._handle, other, self._stream if stream is None else stream)

    def _bind_all(self, bound: dict[str, list[HostArray | DeviceArray | None]]) -> None:
        for side, arrays in bound.items():
            for index, array in enumerate(arrays):
                if array is not None:
                    self._bind(side, index, array)

    def _bind(self, side: str, index: int, array: HostArray | DeviceArray) -> None:
        kind = side if isinstance(array, HostArray) else f"device_{side}"
        _native.call(f"edgert_session_bind_{kind}", self._handle, index, array.pointer, array.nbytes)

    def _trimmed(self, results: dict[str, Any]) -> dict[str, Any]:
        """The results, data-dependent ones as views of what the last run filled."""
        found = dict(results)
        for index in self._dynamic:
            info = self.outputs[index]
            shape = (ctypes.c_int64 * _native.MAX_RANK)()
            _native.call("edgert_session_output_shape", self._handle, index, shape)
            found[info.name] = found[info.name][tuple(slice(n) for n in shape[: len(info.shape)])]
        return found


def _session_options(
    target: str | None, threads: int, isa: str | None, device: DeviceOptions
) -> _native.SessionOptions:
    """What the library is told of them."""
    library, cache, tell = device.cuda_library, device.code_cache, device.progress
    options = _native.SessionOptions(
        ctypes.sizeof(_native.SessionOptions),
        None if target is None else target.encode(),
        threads,
        None if isa is None else isa.encode(),
        device.allow_native,
        device.emulate,
        None if library is None else os.fsencode(library),
        None if cache is None else os.fsencode(cache),
    )
    if tell is not None:
        options.progress = _native.ProgressHook(lambda _, done, total: tell(done / total if total else 1.0))
    return options


def _emulated(options: _native.SessionOptions, bundle: OpenBundle, target: str | None) -> AbstractContextManager[None]:
    """Chooses a program for a device; meanwhile the emulator is such a device."""
    program = program_to_emulate(bundle.programs(), target)
    options.target = program.target.encode()
    options.cuda_library = options.cuda_library or os.fsencode(emulator_library())
    return emulated(program.device)


def _describe_all(handle: ctypes.c_void_p, side: str) -> tuple[TensorInfo, ...]:
    found: list[TensorInfo] = []
    info = _native.TensorDescription()
    place = ctypes.byref(info)
    for index in range(getattr(_native.library(), f"edgert_session_{side}_count")(handle)):
        _native.call(f"edgert_session_{side}", handle, index, place)
        shape = tuple(info.shape[: info.rank])
        found.append(TensorInfo(info.name.decode(), DTYPES[info.dtype], shape, info.bytes, bool(info.dynamic)))
    return tuple(found)
