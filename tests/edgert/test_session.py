"""Sessions: what they accept, what they refuse and how they say so, bound buffers, results of any size."""

from __future__ import annotations

import ctypes
import gc
import itertools
import mmap
import threading
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import edgert
from edgert import _native
from edgert._arrays import empty_array
from edgert._open import OpenBundle
from edgert.dtypes import address
from edgert.errors import MalformedError
from edgert.session import DeviceOptions, Session, StepTime
from packer.bundle.writer import write_bundle
from tests.edgert.edge_files import assemble, changed, split_description
from tests.edgert.networks import classifier, dynamic, packed, two_inputs
from tests.runtime_c.bundles import cores_bundle

A = np.arange(-3, 3, dtype=np.float32).reshape(2, 3)
B = np.array([1, 0, -1], np.float32)


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return packed(two_inputs(), tmp_path_factory.mktemp("two"))


@pytest.fixture(scope="module")
def dynamic_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return packed(dynamic(), tmp_path_factory.mktemp("dynamic"))


def check(results: dict[str, Any], a: Any = A, b: Any = B) -> None:
    assert list(results) == ["sum", "positive"]
    assert np.array_equal(results["sum"], a + b)
    assert np.array_equal(results["positive"], np.maximum(a + b, 0))


def test_describes_itself(path: Path) -> None:
    with edgert.load(path, threads=1) as session:
        assert [(i.name, i.dtype, i.shape, i.bytes) for i in session.inputs] == [
            ("a", np.float32, (2, 3), 24),
            ("b", np.float32, (3,), 12),
        ]
        assert [(o.name, o.shape, o.dynamic) for o in session.outputs] == [
            ("sum", (2, 3), False),
            ("positive", (2, 3), False),
        ]
        found = session.describe()
        assert (found.target, found.threads) == ("cpu", 1)
        assert found.steps >= 2
        assert repr(session).startswith("<edgert.Session (a: float32[2,3], b: float32[3]) ->")


def test_runs_by_name_and_by_position(path: Path) -> None:
    with edgert.load(path) as session:
        check(session.run({"b": B, "a": A}))
        check(session.run(A, B))


def test_results_are_fresh(path: Path) -> None:
    with edgert.load(path) as session:
        first = session.run(A, B)
        second = session.run(A + 1, B)
        check(first)
        check(second, A + 1)
        assert not np.shares_memory(first["sum"], second["sum"])


def test_results_begin_with_lines_of_the_cache(path: Path) -> None:
    with edgert.load(path) as session:
        kept = [session.run(A, B) for _ in range(8)]
    assert all(array.ctypes.data % 64 == 0 for results in kept for array in results.values())
    empty = [empty_array((0, 3), np.dtype(np.float32)) for _ in range(64)]
    assert all(address(array) % 64 == 0 for array in empty)


@pytest.mark.parametrize("source", [b"", bytearray()])
def test_nothing_is_no_bundle(source: Any) -> None:
    with pytest.raises(edgert.EdgertError, match="got an empty file"):
        edgert.load(source)


def test_same_inputs_give_the_same_bits(path: Path) -> None:
    x = np.random.default_rng(0).standard_normal((2, 3)).astype(np.float32)
    with edgert.load(path) as session, edgert.load(path, isa="scalar") as other:
        once = session.run(x, B)["sum"].tobytes()
        assert all(session.run(x, B)["sum"].tobytes() == once for _ in range(5))
        assert other.describe().isa == "scalar"
        check(other.run(x, B), x)


@pytest.mark.parametrize("make", [bytes, bytearray, memoryview, "aligned", "mapped"])
def test_loads_from_memory(path: Path, make: Any) -> None:
    data = path.read_bytes()
    if make == "mapped":
        with path.open("rb") as file:
            source: Any = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    elif make == "aligned":
        room = np.zeros(len(data) + 64, np.uint8)
        source = room[-room.ctypes.data % 64 :][: len(data)]
        source[:] = np.frombuffer(data, np.uint8)
    else:
        source = make(data)
    session = edgert.load(source)
    if isinstance(source, bytearray | np.ndarray):
        source[:] = bytes(len(data)) if isinstance(source, bytearray) else 0  # a copy was made of what may change
    del source
    gc.collect()
    check(session.run(A, B))


def test_strided_and_foreign_arrays(path: Path) -> None:
    class Foreign:
        def __init__(self, array: np.ndarray) -> None:
            self.array = array

        def __dlpack__(self, **options: Any) -> Any:
            return self.array.__dlpack__(**options)

        def __dlpack_device__(self) -> Any:
            return self.array.__dlpack_device__()

    wide = np.zeros((2, 6), np.float32)
    wide[:, ::2] = A
    with edgert.load(path) as session:
        check(session.run(wide[:, ::2], B))
        check(session.run(np.asfortranarray(A), B[::-1][::-1]))
        check(session.run(Foreign(A), Foreign(B)))
        unaligned = np.zeros(25, np.uint8)[1:].view(np.float32).reshape(2, 3)
        unaligned[:] = A
        check(session.run(unaligned, B))
        results = session.run(A, B)
        assert np.array_equal(np.from_dlpack(results["sum"]), A + B)


@pytest.mark.parametrize(
    ("inputs", "lines"),
    [
        (
            (A.tolist(), B),
            ["input 'a': expected an array float32[2,3], got list", "numpy.asarray(value, dtype=numpy.float32)"],
        ),
        ((A.astype(np.float64), B), ["expected float32[2,3], got float64[2,3]", "array.astype(numpy.float32)"]),
        ((A.astype(">f4"), B), ["got float32[2,3] in the other byte order", "array.astype(numpy.float32)"]),
        ((A[0], B), ["expected float32[2,3], got float32[3]", "edgert pack model.onnx --shape a=3"]),
        ((A.T, B), ["expected float32[2,3], got float32[3,2]", "array.reshape((2, 3))"]),
        ((A,), ["input 'b' is missing: expected float32[3], got nothing", "session.bind"]),
        ((A, B, B), ["expected at most 2 inputs, got 3"]),
        (({"a": A, "c": B},), ["unknown input 'c'", "expected one of: 'a' float32[2,3], 'b' float32[3]"]),
    ],
)
def test_refusals_say_what_to_do(path: Path, inputs: tuple[Any, ...], lines: list[str]) -> None:
    with edgert.load(path) as session:
        with pytest.raises(edgert.InvalidArgumentError) as caught:
            session.run(*inputs)
        text = str(caught.value)
        assert len(text.splitlines()) <= 4
        for line in lines:
            assert line in text
        check(session.run(A, B))


def test_hints_for_images(tmp_path: Path) -> None:
    bundle = packed(classifier(), tmp_path, shapes={"image": (1, 3, 9, 8)})
    with edgert.load(bundle) as session:
        for shape, hint in [
            ((3, 9, 8), "array[None]"),
            ((9, 8, 3), "transpose(2, 0, 1)[None]"),
            ((1, 9, 8, 3), "0, 3, 1, 2"),
        ]:
            with pytest.raises(edgert.InvalidArgumentError) as caught:
                session.run(np.zeros(shape, np.float32))
            assert hint in str(caught.value)


def test_bound_buffers_are_used_in_place(path: Path) -> None:
    a, b = A.copy(), B.copy()
    total, positive = np.full((2, 3), 9, np.float32), np.full((2, 3), 9, np.float32)
    with edgert.load(path) as session:
        session.bind({"a": a, "b": b}, {"sum": total, "positive": positive})
        results = session.run()
        assert results["sum"] is total
        check(results)
        a += 1
        session.run()
        assert np.array_equal(total, A + 1 + B)
        a -= 1
        check(session.run({"a": A + 5}), A + 5)  # for one run only
        check(session.run())


def test_some_buffers_bound(path: Path) -> None:
    total = np.empty((2, 3), np.float32)
    with edgert.load(path) as session:
        session.bind(inputs={"b": B}, outputs={"sum": total})
        results = session.run({"a": A})
        check(results)
        assert results["sum"] is total
        with pytest.raises(edgert.InvalidArgumentError, match="input 'a' is missing"):
            session.run()


def test_what_cannot_be_bound(path: Path) -> None:
    read_only = np.zeros((2, 3), np.float32)
    read_only.flags.writeable = False
    with edgert.load(path) as session:
        for arguments, text in [
            (({"a": A.astype(np.float64)},), "expected float32"),
            (({"a": np.asfortranarray(A)},), "contiguous row-major memory"),
            (({"a": A.tolist()},), "got list"),
            (({"x": A},), "unknown input 'x'"),
            (({}, {"sum": read_only}), "writable"),
            (({"a": A}, {"sum": A}), "overlap"),
            (({}, {"sum": A, "positive": A}), "overlap"),
        ]:
            with pytest.raises(edgert.InvalidArgumentError, match=text):
                session.bind(*arguments)
        check(session.run(A, B))


def test_data_dependent_sizes(dynamic_path: Path) -> None:
    with edgert.load(dynamic_path) as session:
        assert session.outputs[0].dynamic
        assert session.outputs[0].shape == (2, 12)
        for x in (np.eye(3, 4, dtype=np.float32), np.zeros((3, 4), np.float32), np.ones((3, 4), np.float32)):
            assert np.array_equal(session.run(x)["where"], np.array(np.nonzero(x)))
        x, room = np.eye(3, 4, dtype=np.float32), np.zeros((2, 12), np.int64)
        session.bind({"x": x}, {"where": room})
        found = session.run()["where"]
        assert np.shares_memory(found, room)
        assert np.array_equal(found, np.array(np.nonzero(x)))
        assert np.array_equal(session.run({"x": np.zeros((3, 4), np.float32)})["where"], np.zeros((2, 0)))
        assert np.array_equal(session.run()["where"], np.array(np.nonzero(x)))


def test_closed_sessions_refuse(path: Path) -> None:
    session = edgert.load(path)
    session.bind({"a": A, "b": B}, {name: np.empty((2, 3), np.float32) for name in ("sum", "positive")})
    session.close()
    session.close()
    assert repr(session) == "<edgert.Session closed>"
    for use in (session.run, lambda: session.run(A, B), session.describe, session.bind, session.fork):
        with pytest.raises(edgert.InvalidArgumentError, match="closed"):
            use()


def test_bundle_lives_as_long_as_its_sessions(path: Path) -> None:
    first = edgert.load(path.read_bytes())
    second = first.fork()
    first.close()
    del first
    gc.collect()
    check(second.run(A, B))


def test_sessions_in_many_threads(path: Path) -> None:
    shared, failures = edgert.load(path, threads=1), []

    def work(number: int) -> None:
        own = shared.fork()
        for _ in range(50):
            for session in (own, shared):
                a = A + number
                if not np.array_equal(session.run(a, B)["sum"], a + B):
                    failures.append(number)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures


def test_profile_reports_every_step(path: Path) -> None:
    events: list[StepTime] = []
    with edgert.load(path) as session:
        session.profile(events.append)
        session.run(A, B)
        session.profile(None)
        session.run(A, B)
        assert [event.step for event in events] == list(range(session.describe().steps))
    assert {"add", "relu"} <= {event.node for event in events}
    assert all(event.begin_ns <= event.end_ns for event in events)


def test_errors_of_a_hook_come_out_of_run(path: Path) -> None:
    calls: list[StepTime] = []

    def hook(time: StepTime) -> None:
        calls.append(time)
        raise LookupError("of the hook")

    with edgert.load(path) as session:
        with pytest.raises(edgert.InvalidArgumentError, match="hook: expected a function"):
            session.profile(3)  # type: ignore[arg-type]
        session.profile(hook)
        for runs in (1, 2):
            with pytest.raises(LookupError, match="of the hook"):
                session.run(A, B)
            assert len(calls) == runs
        session.profile(None)
        session.run(A, B)


def test_interrupts_of_a_hook_come_out_of_run(path: Path) -> None:
    def interrupted(_: StepTime) -> None:
        raise KeyboardInterrupt

    with edgert.load(path) as session:
        session.bind({"a": A, "b": B}, {name: np.empty((2, 3), np.float32) for name in ("sum", "positive")})
        session.profile(interrupted)
        with pytest.raises(KeyboardInterrupt):
            session.run()
        session.profile(None)
        check(session.run())


def test_load_refuses(path: Path, tmp_path: Path) -> None:
    cases: list[tuple[dict[str, Any], type[Exception], str]] = [
        ({"target": "nope"}, edgert.NoProgramError, "expected cpu, got 'nope'"),
        ({"target": 3}, edgert.InvalidArgumentError, "target: expected a name, got 3"),
        ({"isa": "nope"}, edgert.InvalidArgumentError, "nope"),
        ({"threads": -1}, edgert.InvalidArgumentError, "threads: expected 1 to 1024"),
        ({"threads": "2"}, edgert.InvalidArgumentError, "threads: expected 1 to 1024.*got '2'"),
        ({"integrity": "none"}, edgert.InvalidArgumentError, "integrity: expected one of full, metadata"),
    ]
    for options, error, text in cases:
        with pytest.raises(error, match=text):
            edgert.load(path, **options)
    with pytest.raises(edgert.IoError) as caught:
        edgert.load(tmp_path / "absent.edge")
    assert isinstance(caught.value, OSError)
    assert len(str(caught.value).splitlines()) <= 4
    with pytest.raises(edgert.NotABundleError):
        edgert.load(b"no bundle")
    gaps = np.zeros(256, np.uint8)[::2]
    for read, source in itertools.product((edgert.load, edgert.read), (3, None, gaps)):
        with pytest.raises(edgert.InvalidArgumentError, match="source: expected a path, or the bytes of a bundle, got"):
            read(source)


def test_programs_of_an_open_bundle(path: Path) -> None:
    programs = OpenBundle(path).programs()
    assert {(program.target, program.runnable) for program in programs} == {("cpu", "ok")}
    assert [program.cores for program in programs] == [program.cores for program in edgert.read(path).programs]
    assert all(program.steps >= 2 for program in programs)


@pytest.mark.parametrize("integrity", ["full", "metadata"])
def test_integrity(path: Path, integrity: str) -> None:
    broken = bytearray(path.read_bytes())
    broken[-1] ^= 1
    if integrity == "full":
        with pytest.raises(edgert.CorruptError):
            edgert.load(broken)
    else:
        check(edgert.load(broken, integrity="metadata").run(A, B))


def test_programs_are_proven_when_they_are_looked_at() -> None:
    """With the metadata's integrity only: those that are not chosen do no harm."""

    def add(described: dict[str, Any]) -> None:
        first = described["programs"][0]
        described["programs"] += [{**first, "target": "other", "inputs": [99]}]

    file = assemble(changed(add, split_description))
    opened = OpenBundle(file, "metadata")
    with Session(opened, "cpu", 2, None, DeviceOptions()) as session:
        assert session.describe().cores == 2
    for look in (opened.programs, lambda: Session(opened, "other", 2, None, DeviceOptions())):
        with pytest.raises(MalformedError, match="program 'other', tensor 0 'x'"):
            look()
    with pytest.raises(MalformedError, match="program 'other', tensor 0 'x'"):
        OpenBundle(file)


def test_overhead_of_run(path: Path) -> None:
    """What Python adds to the C call on bound buffers. The target is 5 us; the bound here allows for a busy machine."""
    with edgert.load(path, threads=1) as session:
        session.bind({"a": A, "b": B}, {name: np.empty((2, 3), np.float32) for name in ("sum", "positive")})
        raw, handle = _native.library().edgert_session_run, ctypes.c_void_p(session._handle.value)

        def best(call: Any, *arguments: Any) -> float:
            rounds = []
            for _ in range(30):
                started = time.perf_counter()
                for _ in range(200):
                    call(*arguments)
                rounds.append((time.perf_counter() - started) / 200)
            return min(rounds)

        overhead = best(session.run) - best(raw, handle)
        assert overhead < 20e-6, f"{overhead * 1e6:.2f} us"


def test_opening_touches_little_of_a_large_arena(tmp_path: Path) -> None:
    """What the metadata asks for is not what steps use: several threads make pages appear, but not without end."""
    bundle = cores_bundle()
    programs = tuple(replace(program, arena_bytes=2 << 30) for program in bundle.programs)
    write_bundle(replace(bundle, programs=programs), tmp_path / "large.edge")
    with edgert.load(tmp_path / "large.edge") as session:  # the library is there, and what it needs
        assert session.describe().arena_bytes == 2 << 30
    before = resident_bytes()
    with edgert.load(tmp_path / "large.edge", threads=2) as session:
        assert session.describe().threads == 2
        assert resident_bytes() - before < 256 << 20


def resident_bytes() -> int:
    pages = Path("/proc/self/statm").read_text().split()[1]
    return int(pages) * mmap.PAGESIZE
