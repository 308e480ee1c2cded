"""A campaign measures what matters first, stores each time at once, and plans change with what it found."""

from __future__ import annotations

import threading
from pathlib import Path
from types import SimpleNamespace

import pytest

from edgert.errors import BadStepError
from packer.ir.ops import Conv
from packer.planner import make_plan
from packer.tune import Campaign, Measured, Record, Records
from packer.tune import campaign as module
from packer.tune.candidates import Candidates
from packer.tune.measured import weights_from
from targets.base import resolve
from targets.machine import Machine
from tests.packer.tune.networks import Device, network

TARGET = resolve("cpu")


@pytest.fixture
def records(tmp_path: Path) -> Records:
    return Records(tmp_path / "records", create=True)


def campaign(records: Records, device: str = "board", cores: tuple[int, ...] = (1, 2)) -> Campaign:
    return Campaign(network(), TARGET, cores, records, device, "neon")


def after(calls: int, error: BaseException) -> Device:
    """A device that fails once it has measured so often."""
    device = Device()

    def meanwhile() -> None:
        if len(device.asked) == calls:
            raise error

    device.meanwhile = meanwhile
    return device


def test_what_is_stopped_goes_on_where_it_was(records: Records) -> None:
    first = campaign(records)
    with pytest.raises(KeyboardInterrupt):
        first.run(after(7, KeyboardInterrupt()).measure, "me")
    assert len(records.seconds("board", "neon")["l2"]) == 7
    second, device = campaign(records), Device()
    assert (second.recorded, second.left) == (7, first.total - 7)
    second.run(device.measure, "me")
    assert len(device.asked) == second.total - 7
    report = second.report()
    assert (report.measured, report.recorded, report.left, report.failed) == (second.total - 7, 7, 0, 0)
    third = campaign(records)
    third.run(after(0, AssertionError()).measure, "me")
    assert third.report().measured == 0


def test_the_budget_ends_it(records: Records, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter(range(100))
    monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=lambda: float(next(clock))))
    some = campaign(records)
    some.run(Device().measure, "me", until=5.0)
    assert some.report().measured == 5
    some.run(Device().measure, "me", until=3.0)
    assert some.report().measured == 5


def test_reports_predict_before_and_after(records: Records) -> None:
    one = campaign(records, cores=(1, 2))
    one.run(Device().measure, "me")
    before = [make_plan(network(), TARGET, n).seconds * 1e3 for n in (1, 2)]
    known = records.seconds("board", "neon")["l2"]
    now = [make_plan(network(), TARGET, n, records=known).seconds * 1e3 for n in (1, 2)]
    assert [(p.cores, p.before_ms, p.after_ms) for p in one.report().plans] == [
        (1, before[0], now[0]),
        (2, before[1], now[1]),
    ]
    assert now != before


def test_what_cannot_be_measured_is_left_to_the_model(records: Records) -> None:
    device = Device()

    def meanwhile() -> None:
        raise BadStepError("a step that no kernel takes")

    device.meanwhile = meanwhile
    one = campaign(records)
    one.run(device.measure, "me")
    report = one.report()
    assert (report.measured, report.failed, report.left) == (0, one.total, 0)
    assert "no kernel takes" in report.failure
    assert records.seconds("board", "neon") == {}


def test_what_a_broken_board_was_at_is_left_for_others(records: Records) -> None:
    one = campaign(records)
    with pytest.raises(ConnectionError):
        one.run(after(3, ConnectionError("gone")).measure, "me")
    assert one.left == one.total - 3


def test_several_boards_share_the_work(records: Records) -> None:
    one, devices = campaign(records), [Device(), Device()]
    both = threading.Barrier(2)
    for device in devices:
        device.meanwhile = lambda device=device: None if device.asked else both.wait(10)  # type: ignore[misc]
    threads = [threading.Thread(target=one.run, args=(device.measure, "me")) for device in devices]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sum(len(device.asked) for device in devices) == one.total
    assert all(device.asked for device in devices)
    assert len(records.seconds("board", "neon")["l2"]) == one.total


def test_stop(records: Records) -> None:
    one, device = campaign(records), Device()
    device.meanwhile = one.stop
    one.run(device.measure, "me")
    assert len(device.asked) == 1


def test_activations_are_near_and_weights_where_the_network_leaves_them(
    records: Records, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "weights_from", lambda graph, machine: "memory")
    device = Device()
    campaign(records).run(device.measure, "me")
    assert {weights for kernel, weights in device.asked if kernel.startswith("conv")} == {"memory"}
    assert {weights for kernel, weights in device.asked if not kernel.startswith("conv")} == {"l2"}
    assert set(records.seconds("board", "neon")) == {"memory"}


def test_where_weights_come_from() -> None:
    graph, machine = network(), TARGET.machine
    touched = sum(value.type.bytes for value in graph.values.values())
    assert weights_from(graph, machine) == "l2"

    def sized(l2: int, l3: int) -> object:
        return SimpleNamespace(private_cache=lambda core: l2, l3_bytes=l3)

    assert weights_from(graph, sized(touched, 0)) == "l2"  # type: ignore[arg-type]
    assert weights_from(graph, sized(touched - 1, touched)) == "l3"  # type: ignore[arg-type]
    assert weights_from(graph, sized(touched - 1, touched - 1)) == "memory"  # type: ignore[arg-type]


def test_the_best_by_the_model_comes_first_and_the_hopeless_last() -> None:
    candidates = Candidates(network(), TARGET, (1, 2), {})
    excess = {c.signature: e for c, e in zip(candidates.all, candidates.excess(), strict=True)}
    assert min(excess.values()) == 1.0
    assert max(excess.values()) > 2.0
    order = []
    while (candidate := candidates.next()) is not None:
        order.append(excess[candidate.signature])
    assert len(order) == len(candidates.all)
    assert order == sorted(order)


def test_the_order_follows_what_was_measured() -> None:
    """The best turns out slow: then the runner-up is what the planner would take, so it is next."""
    candidates = Candidates(network(), TARGET, (1,), {})
    first = candidates.next()
    assert first is not None
    candidates.learn(first, 1.0)
    excess = dict(zip([c.signature for c in candidates.all], candidates.excess(), strict=True))
    assert excess[first.signature] > 1.0
    second = candidates.next()
    assert second is not None
    assert excess[second.signature] == 1.0


def test_known_times_are_not_asked_for() -> None:
    every = [c.signature for c in Candidates(network(), TARGET, (1,), {}).all]
    candidates = Candidates(network(), TARGET, (1,), dict.fromkeys(every[1:], 1e-5))
    assert candidates.left == 1
    found = candidates.next()
    assert found is not None
    assert found.signature == every[0]
    assert candidates.next() is None
    candidates.reopen(found)
    assert candidates.next() == found


def test_a_piece_takes_as_long_as_it_does_on_its_core() -> None:
    """Where all pieces take as long on a fast core, a choice with pieces on slow cores takes their excess."""
    target = TARGET.on(Machine.load("jetson-tx2"))
    every = Candidates(network(), target, (6,), {}).all
    candidates = Candidates(network(), target, (6,), dict.fromkeys((c.signature for c in every), 1.0))
    found = {
        round(float(excess), 6)
        for candidate, excess in zip(every, candidates.excess(), strict=True)
        if isinstance(candidate.work.op, Conv)
    }
    assert target.machine.speed(5) < 1
    assert found == {1.0, round(1 / target.machine.speed(5), 6)}


def algorithms(measured: Measured) -> set[str]:
    """The convolution algorithms of the plan that what was measured leads to."""
    graph, target = network(), measured.on(TARGET)
    plan = make_plan(graph, target, 1, records=measured.of(graph, target))
    return {choice.form.implementation for choice in plan.choices} - {""}


def test_a_record_makes_the_planner_choose_what_its_model_would_not(records: Records) -> None:
    """Pretended to be fast: Caffe's scheme for every convolution; on this device and core and level only."""
    level = weights_from(network(), TARGET.machine)
    for candidate in Candidates(network(), TARGET, (1,), {}).all:
        if candidate.form.implementation == "im2col-caffe":
            records.store(Record("board", "neon", level, candidate.signature, 1e-9, 0.0, 9, ""))
            records.store(Record("board", "sse2", "memory", candidate.signature, 1e-9, 0.0, 9, ""))
    assert algorithms(Measured.load(records, "board", "neon")) == {"im2col-caffe"}
    by_model = algorithms(Measured(None, {}))
    assert "im2col-caffe" not in by_model
    assert algorithms(Measured.load(records, "another board", "neon")) == by_model
    assert algorithms(Measured.load(records, "board", "avx512")) == by_model
    assert algorithms(Measured.load(records, "board", "sse2")) == by_model
