"""Calibration finds the figures of a machine by how long things take on it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path

import numpy as np
import pytest

from edgert.bench import bind_all
from edgert.session import load
from packer.tune import calibrate as module
from packer.tune.calibrate import calibrate, starting_point
from targets.base import Form, Target, Work, resolve
from targets.machine import Core, Efficiency, Machine

TARGET = resolve("cpu")
START = Machine.load("zen4-server")


@dataclass(frozen=True, slots=True)
class Took:
    """A measured time."""

    seconds: float
    spread: float = 0.0
    runs: int = 1


def core(own: Core, faster: float, **figures: float) -> Core:
    parts = {field.name: faster * getattr(own.efficiency, field.name) for field in fields(Efficiency)}
    return replace(own, efficiency=Efficiency(**parts), **figures)  # type: ignore[arg-type]


def hidden() -> Machine:
    """A machine like the one calibration starts from, but for its figures."""
    one = core(
        START.cores[0], 0.8, i8_speed=1.2, code_speed=0.1, l1_gbps=150.0, l2_gbps=70.0, l3_gbps=40.0, dram_gbps=11.0
    )
    return replace(
        START,
        cores=(one,) * 4,
        l3_gbps=90.0,
        dram_gbps=25.0,
        step_seconds=3e-7,
        barrier_seconds=9e-7,
        barrier_seconds_per_core=2e-7,
        transfer_seconds=4e-7,
        transfer_gbps=6.0,
    )


@pytest.fixture
def pretend(monkeypatch: pytest.MonkeyPatch) -> None:
    """Work takes as long as the cost model says of the hidden machine."""
    there = hidden()

    def measured(fit: module._Fit, work: Work, form: Form) -> float:
        return fit.predicted(there, work, form)

    def chains(
        fit: module._Fit,
        cores: Sequence[int],
        work: Work,
        form: Form,
        steps: int,
        apart: bool = False,
        pass_on: bool = False,
    ) -> float:
        count = len(cores)
        active = 1 if pass_on else count
        total = steps * max(fit.predicted(there, work, form, core, active) for core in cores)
        if apart or (pass_on and count > 1):
            total += (steps - 1) * there.barrier(count)
        if pass_on and count > 1:
            total += (steps - 1) * (there.transfer_seconds + work.outputs[0].bytes * 1e-9 / there.transfer_gbps)
        return total

    monkeypatch.setattr(module._Fit, "measured", measured)
    monkeypatch.setattr(module._Fit, "chains", chains)


def nobody(path: Path, *rest: object) -> Took:
    raise AssertionError("not asked")


def start(cores: int = 4) -> Target:
    return TARGET.on(START.sized(cores))


@pytest.mark.usefixtures("pretend")
def test_figures_of_one_core_are_found() -> None:
    found, there = calibrate(nobody, None, start()), hidden()
    assert found.step_seconds == pytest.approx(there.step_seconds, rel=0.02)
    for name in ("l2_gbps", "l3_gbps", "dram_gbps"):
        assert getattr(found.cores[0], name) == pytest.approx(getattr(there.cores[0], name), rel=0.05), name
    assert found.cores[0].i8_speed == pytest.approx(there.cores[0].i8_speed, rel=0.3)
    assert found.cores[0].code_speed == pytest.approx(there.cores[0].code_speed, rel=0.3)
    for field in fields(Efficiency):
        expected = getattr(there.cores[0].efficiency, field.name)
        assert getattr(found.cores[0].efficiency, field.name) == pytest.approx(expected, rel=0.3), field.name
    assert found.dram_gbps == START.dram_gbps  # nobody ran anything on several cores


def test_sparse_kernels_are_not_taken_to_be_faster_than_in_networks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Alone they may be: the processor foresees where their loops end."""
    own = START.cores[0]
    fast = replace(own, efficiency=replace(own.efficiency, sparse=1.3, pool=1.3))
    there = replace(START, cores=(fast,) * 4)
    monkeypatch.setattr(module._Fit, "measured", lambda fit, *task: fit.predicted(there, *task))
    found = calibrate(nobody, None, start()).cores[0].efficiency
    assert found.sparse == 1.0
    assert found.pool == pytest.approx(1.3, rel=0.3)


@pytest.mark.usefixtures("pretend")
def test_what_cores_share_is_found() -> None:
    stages: list[float] = []
    found, there = calibrate(nobody, nobody, start(), stages.append), hidden()  # type: ignore[arg-type]
    assert stages == sorted(stages)
    assert stages[-1] == 1.0
    for name, rel in (("dram_gbps", 0.05), ("transfer_gbps", 0.1), ("transfer_seconds", 0.1)):
        assert getattr(found, name) == pytest.approx(getattr(there, name), rel=rel), name
    for count in (2, 4):
        assert found.barrier(count) == pytest.approx(there.barrier(count), rel=0.02)


@pytest.mark.usefixtures("pretend")
def test_what_is_found_predicts_the_machine() -> None:
    found, there = calibrate(nobody, nobody, start()), hidden()  # type: ignore[arg-type]
    fit = module._Fit(start(), nobody, None)
    for work, form in (
        *(task for tasks in module._families().values() for task in tasks),
        *module._sparse("unrolled"),
        module._bytes(),
        module._made(),
        module._reading(3e6),
        module._reading(1e9),
    ):
        for active in (1, 4):
            expected = fit.predicted(there, work, form, 0, active)
            assert fit.predicted(found, work, form, 0, active) == pytest.approx(expected, rel=0.05), work


def test_a_core_may_multiply_twice_as_much_and_read_more_than_all_cores_of_the_start(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    fast = core(START.cores[0], 1.1, flops_per_cycle=64.0, l1_gbps=400.0, l2_gbps=200.0, dram_gbps=2 * START.dram_gbps)
    there = replace(START, cores=(fast,) * 4, dram_gbps=3 * START.dram_gbps)
    monkeypatch.setattr(module._Fit, "measured", lambda fit, work, form: fit.predicted(there, work, form))
    found = calibrate(nobody, None, start()).cores[0]
    assert found.flops_per_cycle == 64.0
    assert found.dram_gbps == pytest.approx(fast.dram_gbps, rel=0.05)
    for field in fields(Efficiency):
        expected = getattr(fast.efficiency, field.name)
        assert getattr(found.efficiency, field.name) == pytest.approx(expected, rel=0.3), field.name


@pytest.mark.usefixtures("pretend")
def test_further_kinds_of_cores_are_scaled(monkeypatch: pytest.MonkeyPatch) -> None:
    there = hidden()
    slow = core(there.cores[0], 0.5, dram_gbps=5.0)
    monkeypatch.setattr(
        "tests.packer.tune.test_calibrate.hidden", lambda: replace(there, cores=(*there.cores[:2], slow, slow))
    )
    before = core(START.cores[0], 0.9)
    machine = replace(START, cores=(START.cores[0],) * 2 + (before,) * 2)
    fit = module._Fit(TARGET.on(machine), nobody, nobody)  # type: ignore[arg-type]
    fit.kinds()
    assert fit.machine.cores[0] == START.cores[0]
    assert fit.machine.cores[2] == fit.machine.cores[3] != before


def test_programs_can_be_run(tmp_path: Path) -> None:
    """Real bundles, on a machine of small caches; what they take does not matter."""
    ran: list[int] = []

    def measure(path: Path, step: int, weights: str) -> Took:
        with load(path, threads=1) as session:
            bind_all(session)
            assert all(np.isfinite(array).all() for array in session.run().values())
            assert 0 <= step < session.describe().steps
        return Took(1e-5)

    def run(path: Path, threads: int) -> float:
        with load(path, threads=threads) as session:
            bind_all(session)
            session.run()
            ran.append(session.describe().threads)
        return 1e-3

    own = replace(START.cores[0], l1_bytes=1 << 12, l2_bytes=1 << 15)
    machine = replace(START, cores=(own, own, core(own, 0.5)), l3_bytes=1 << 18)
    calibrate(measure, run, TARGET.on(machine))
    assert {2, 3} <= set(ran)


def test_a_starting_point_has_what_is_known() -> None:
    caches = ((1, 32 << 10), (2, 512 << 10), (3, 8 << 20))
    machine = starting_point(START, "board", "A board", "avx2", caches, 6)
    assert (machine.name, machine.description, len(machine.cores)) == ("board", "A board", 6)
    assert {(c.l1_bytes, c.l2_bytes, c.vector_bytes) for c in machine.cores} == {(32 << 10, 512 << 10, 32)}
    assert machine.l3_bytes == 8 << 20
    assert starting_point(START, "board", "A board", "avx512", caches[:2], 1).l3_bytes == 0
    assert Machine.parse(machine.to_toml(), "written").to_toml() == machine.to_toml()
