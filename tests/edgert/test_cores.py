"""Sessions over programs of several cores, made by hand: the choice, views, phases, what is refused, profiles."""

from __future__ import annotations

import json
import os
import random
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import edgert
from edgert.cli import app
from edgert.profile import profile
from edgert.selftest import selftest
from edgert.session import ALL_CORES, StepTime
from packer.bundle.model import Bundle, Program
from packer.bundle.writer import write_bundle
from packer.ir import DType, TensorType
from targets.base import Attribute
from tests.runtime_c.bundles import COLUMNS, CUTS, ROWS, Builder, cores_bundle

ARCH = os.uname().machine
Cut = tuple[int, int]
KIND = {kind: Attribute("kind", text=kind) for kind in ("relu", "neg", "identity", "add", "mul")}


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """cores.edge, its targets for this machine called cpu and wide."""
    path = tmp_path_factory.mktemp("cores") / "cores.edge"
    bundle = cores_bundle()
    programs = tuple(p for p in bundle.programs if p.arch == ARCH)
    write_bundle(Bundle(bundle.producer, bundle.model, programs, bundle.goldens), path)
    return path


def load(program: Program, folder: Path, **options: object) -> edgert.Session:
    write_bundle(Bundle("a test", "made", (program,), ()), folder / "made.edge")
    return edgert.load(folder / "made.edge", **options)  # type: ignore[arg-type]


def f32(*shape: int) -> TensorType:
    return TensorType(DType.F32, shape)


@contextmanager
def affinity(cpus: set[int]) -> Iterator[None]:
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, cpus)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def test_the_number_of_threads_chooses_the_program(path: Path) -> None:
    suffix = "" if ARCH == "x86_64" else "-aarch64"
    for target, threads, cores, used in [
        ("cpu", 1, 1, 1),
        ("cpu", 2, 2, 2),
        ("cpu", 5, 3, 3),
        ("wide", 1, 3, 1),
        ("wide", 2, 3, 2),
        ("wide", 9, 4, 4),
    ]:
        with edgert.load(path, target + suffix, threads) as session:
            found = session.describe()
            assert (found.target, found.cores, found.threads) == (target + suffix, cores, used)
            with session.fork() as other:
                assert other.describe() == found


def test_the_usable_cores_choose_the_program(path: Path) -> None:
    usable = os.sched_getaffinity(0)
    with edgert.load(path) as session:
        assert session.describe().cores == min(3, len(usable))
    with affinity({min(usable)}), edgert.load(path) as session:
        found = session.describe()
        assert (found.cores, found.threads) == (1, 1)


@pytest.mark.parametrize("threads", [1, 2, 3, 4])
def test_golden_samples(path: Path, threads: int) -> None:
    found = selftest(path, threads=threads, runs=3)
    assert found.passed
    assert [output.max_abs for output in found.outputs] == [0]
    assert found.session is not None
    assert found.session.threads == min(threads, 3)


@pytest.mark.parametrize("threads", [1, 2])
def test_views_of_inputs_constants_and_outputs(tmp_path: Path, threads: int) -> None:
    """y = relu(x) + w by quarters, each a view with gaps of every tensor; two views of x overlap."""
    b = Builder()
    x, y = b.input("x", f32(8, 10)), b.output("y", f32(8, 10))
    w = b.constant("w", np.arange(3 * 8 * 10, dtype=np.float32).reshape(3, 8, 10))
    t = b.arena("t", f32(1, 8, 10))
    both = b.output("both", f32(8, 4))
    for core, rows in enumerate(((0, 3), (3, 8))):
        for columns in ((0, 7), (7, 10)):
            operands = [b.view(w, (2, 3), rows, columns), b.view(x, rows, columns)]
            b.step("binary", "add", operands, [b.view(t, (0, 1), rows, columns)], core, KIND["add"])
    b.phase = 1
    flat = b.add(replace(b.tensors[t], type=f32(8, 10)))
    for core, columns in enumerate(((0, 5), (5, 10))):
        b.step("unary", "relu", [b.view(flat, (0, 8), columns)], [b.view(y, (0, 8), columns)], core, KIND["relu"])
    for core, columns in enumerate(((0, 2), (2, 4))):
        b.step("unary", "both", [b.view(x, (0, 8), (3, 5))], [b.view(both, (0, 8), columns)], core, KIND["neg"])
    rng = np.random.default_rng(1)
    with load(b.program("cpu", ARCH, 2), tmp_path, threads=threads) as session:
        for bound in (False, True, True):
            given = rng.standard_normal((8, 10)).astype(np.float32)
            want = {
                "y": np.maximum(given + np.arange(160, 240, dtype=np.float32).reshape(8, 10), 0),
                "both": np.concatenate((-given[:, 3:5], -given[:, 3:5]), 1),
            }
            if bound:
                made = {name: np.full(array.shape, 7, np.float32) for name, array in want.items()}
                session.bind({"x": given}, made)
            got = session.run() if bound else session.run(given)
            for name, array in want.items():
                np.testing.assert_array_equal(got[name], array)


def pieces(rng: random.Random, rows: int, columns: int, cores: int) -> list[tuple[int, Cut, Cut]]:
    """(core, rows, columns) of boxes that cover a matrix, by rows, by columns or both."""
    cuts = []
    for extent in (rows, columns):
        inner = sorted(rng.sample(range(1, extent), rng.choice((0, 1, 2))))
        cuts.append(list(zip((0, *inner), (*inner, extent), strict=True)))
    return [(rng.randrange(cores), r, c) for r in cuts[0] for c in cuts[1]]


@pytest.mark.parametrize("seed", range(20))
def test_random_programs(tmp_path: Path, seed: int) -> None:
    """Layers of pointwise steps, each cut in another way among 1 to 4 cores, some in place, some shared by all."""
    rng = random.Random(seed)
    cores, rows, columns = rng.randint(1, 4), rng.randint(3, 40), rng.randint(3, 40)
    given = np.random.default_rng(seed).standard_normal((rows, columns)).astype(np.float32)
    b = Builder()
    held, want = b.input("x", f32(rows, columns)), given
    layers = rng.randint(1, 8)
    for layer in range(layers):
        b.phase = layer
        last, kind = layer == layers - 1, rng.choice(("relu", "neg", "add", "mul"))
        if last:
            made = b.output("y", f32(rows, columns))
        else:
            in_place = layer > 0 and rng.random() < 0.3
            made = held if in_place else b.arena(f"t{layer}", f32(rows, columns))
        w = np.random.default_rng(layer).standard_normal((rows, columns)).astype(np.float32)
        factor = b.constant(f"w{layer}", w)
        want = {"relu": np.maximum(want, 0), "neg": -want, "add": want + w, "mul": want * w}[kind]
        shared = rng.random() < 0.3
        parts = [(ALL_CORES, (0, rows), (0, columns))] if shared else pieces(rng, rows, columns, cores)
        for core, *box in parts:
            operands = [b.view(held, *box)] + ([b.view(factor, *box)] if kind in ("add", "mul") else [])
            target = operands[0] if made == held else b.view(made, *box)
            b.step("binary" if len(operands) > 1 else "unary", f"layer{layer}", operands, [target], core, KIND[kind])
        held = made
    program = b.program("cpu", ARCH, cores)
    for threads in range(1, cores + 1):
        with load(program, tmp_path, threads=threads) as session:
            for _ in range(3):
                np.testing.assert_array_equal(session.run(given)["y"], want)


def refuse(b: Builder, folder: Path, *texts: str, cores: int = 1) -> None:
    with pytest.raises(edgert.BadStepError) as caught:
        load(b.program("cpu", ARCH, cores), folder)
    for text in texts:
        assert text in str(caught.value)


def test_kernels_without_strides_refuse_gaps(tmp_path: Path) -> None:
    whole, rows, part_of_row, part = ((0, 4), (0, 6)), ((1, 3),), ((2, 3), (1, 4)), ((1, 3), (1, 4))
    for box, compact in ((whole, True), (rows, True), (part_of_row, True), (part, False)):
        b = Builder()
        x, count = b.input("x", f32(4, 6)), b.arena("count", TensorType(DType.I64, (1,)))
        view = b.view(x, *box)
        shape = b.tensors[view].type.shape
        where = b.output("where", TensorType(DType.I64, (2, shape[0] * shape[1])), extent=(1, count))
        b.step("non_zero", "find", [view], [where, count], 0)
        if not compact:
            refuse(b, tmp_path, "step 0, non_zero, node 'find'", "no gaps", "'x'")
            continue
        given = np.random.default_rng(2).integers(0, 2, (4, 6)).astype(np.float32)
        seen = given[tuple(slice(*cut) for cut in box)]
        with load(b.program("cpu", ARCH, 1), tmp_path) as session:
            np.testing.assert_array_equal(session.run(given)["where"], np.stack(np.nonzero(seen)))


def shifting(read: Cut, write: Cut, alias: bool) -> Builder:
    """x -> t; t[:, read] -> t[:, write] of the same tensor, or of another in its place; t -> y."""
    b = Builder()
    x, t, y = b.input("x", f32(4, 8)), b.arena("t", f32(4, 8)), b.output("y", f32(4, 8))
    other = b.add(b.tensors[t]) if alias else t
    b.step("unary", "in", [x], [t], 0, KIND["identity"])
    b.step("unary", "move", [b.view(t, (0, 4), read)], [b.view(other, (0, 4), write)], 0, KIND["neg"])
    b.step("unary", "out", [t], [y], 0, KIND["identity"])
    return b


@pytest.mark.parametrize("alias", [False, True])
def test_outputs_lie_apart_or_exactly_over_inputs(tmp_path: Path, alias: bool) -> None:
    given = np.random.default_rng(3).standard_normal((4, 8)).astype(np.float32)
    for read, write in (((0, 3), (3, 6)), ((2, 6), (2, 6)), ((5, 8), (0, 3))):
        want = given.copy()
        want[:, slice(*write)] = -given[:, slice(*read)]
        with load(shifting(read, write, alias).program("cpu", ARCH, 1), tmp_path) as session:
            np.testing.assert_array_equal(session.run(given)["y"], want)
    for read, write in (((0, 3), (2, 5)), ((1, 4), (0, 3))):
        refuse(shifting(read, write, alias), tmp_path, "memory of an output", "'t' over 't'")


def test_whole_tensors_overlap_their_views(tmp_path: Path) -> None:
    b = Builder()
    x, t, y = b.input("x", f32(4, 8)), b.arena("t", f32(4, 8)), b.output("y", f32(4, 8))
    b.step("binary", "widen", [x, b.view(t, (1, 2))], [t], 0, KIND["add"])
    b.step("unary", "out", [t], [y], 0, KIND["identity"])
    refuse(b, tmp_path, "memory of an output")


def test_events_name_cores(path: Path) -> None:
    events: list[StepTime] = []
    x = np.ones((ROWS, COLUMNS), np.float32)
    for threads in (1, 2, 3, 4):
        with edgert.load(path, "wide" if ARCH == "x86_64" else "wide-aarch64", threads) as session:
            events.clear()
            session.profile(events.append)
            session.run(x)
            session.profile(None)
            session.run(x)
            found = session.describe()
        cores = list(range(found.cores))
        assert [e.step for e in events] == list(range(found.steps))
        assert [e.core for e in events] == [*cores, ALL_CORES, found.cores - 1, *cores]
        assert all(0 < e.busy_ns <= (e.end_ns - e.begin_ns) * found.threads for e in events)
        assert all(e.busy_ns == e.end_ns - e.begin_ns for e in events if e.core != ALL_CORES)
        phases = events[: found.cores], events[found.cores : found.cores + 2], events[found.cores + 2 :]
        for before, after in pairwise(phases):
            assert max(e.end_ns for e in before) <= min(e.begin_ns for e in after)


@pytest.mark.parametrize("threads", [1, 2])
def test_profile_by_node_and_thread(path: Path, threads: int) -> None:
    with edgert.load(path, threads=threads) as session:
        found = profile(session, runs=4)
    assert [layer.node for layer in found.layers] == ["activate", "shift", "find", "turn"]
    assert [layer.kernel for layer in found.layers] == ["unary", "binary", "non_zero", "copy"]
    assert [len(layer.steps) for layer in found.layers] == [threads, 1, 1, threads]
    assert [len(layer.thread_ms) for layer in found.layers] == [threads] * 4
    assert len(found.steps) == 2 * len(CUTS[threads])
    for layer in found.layers:
        assert 0 < sum(layer.thread_ms) <= threads * layer.span_ms * 1.000001
    searched = found.layers[2].thread_ms  # by the last core alone
    assert all(ms == 0 for ms in searched[:-1])
    assert searched[-1] > 0
    for thread, busy in enumerate(found.thread_ms):
        assert busy == pytest.approx(sum(layer.thread_ms[thread] for layer in found.layers))
    assert sum(found.thread_ms) <= threads * found.run_ms * 1.000001
    assert found.run_ms <= found.wall_ms


def test_profile_and_bench_show_cores(path: Path) -> None:
    runner = CliRunner()
    shown = runner.invoke(app, ["profile", str(path), "--threads", "2", "--runs", "2"])
    assert shown.exit_code == 0, shown.output
    row = next(line for line in shown.output.splitlines() if line.endswith("activate")).split()
    assert row[:2] == ["2", "unary"]
    assert len(row) == 7  # two steps, kernel, two threads, span, share, node
    measured = runner.invoke(app, ["bench", str(path), "--threads", "2", "--runs", "2", "--json"])
    session = json.loads(measured.output)["session"]
    assert (session["cores"], session["threads"]) == (2, 2)
