"""Machines: read from TOML, with errors that say what is wrong, and written back."""

from __future__ import annotations

from pathlib import Path

import pytest

from targets.machine import Machine, MachineError

FOLDER = Path(__file__).resolve().parents[2] / "targets" / "machines"
KNOWN = sorted(path.stem for path in FOLDER.glob("*.toml"))
TEXT = (FOLDER / "jetson-tx2.toml").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", KNOWN)
def test_known_machines(name: str) -> None:
    machine = Machine.load(name)
    assert machine.name == name
    assert machine.speed(0) == 1.0
    speeds = machine.speeds(len(machine.cores))
    assert list(speeds) == sorted(speeds, reverse=True)
    written = machine.to_toml()
    assert Machine.parse(written, "again").to_toml() == written


@pytest.mark.parametrize("name", KNOWN)
def test_outer_levels_are_larger_and_slower(name: str) -> None:
    machine = Machine.load(name)
    for core in machine.cores:
        assert core.l1_bytes < core.l2_bytes
        assert core.l1_gbps >= core.l2_gbps >= core.dram_gbps
        assert machine.dram_gbps >= core.dram_gbps
        if machine.l3_bytes:
            assert machine.l3_bytes > core.l2_bytes
            assert core.l2_gbps >= core.l3_gbps >= core.dram_gbps


def test_unequal_cores_come_fastest_first() -> None:
    machine = Machine.load("jetson-tx2")
    assert [core.kind for core in machine.cores] == ["Denver 2"] * 2 + ["Cortex-A57"] * 4
    assert machine.speeds(3)[:2] == (1.0, 1.0)
    assert 0 < machine.speeds(3)[2] < 1


def test_more_or_fewer_cores() -> None:
    machine = Machine.load("jetson-tx2")
    assert [core.kind for core in machine.sized(3).cores] == ["Denver 2", "Denver 2", "Cortex-A57"]
    assert len(machine.sized(9).cores) == 9
    assert machine.sized(9).cores[-1] is machine.cores[-1]
    with pytest.raises(MachineError, match="expected 1 or more, got 0"):
        machine.sized(0)


def test_one_core_waits_for_nobody() -> None:
    machine = Machine.load("jetson-tx2")
    assert machine.barrier(1) == 0
    assert 0 < machine.barrier(2) < machine.barrier(6)


def test_from_a_file(tmp_path: Path) -> None:
    path = tmp_path / "board.toml"
    path.write_text(TEXT, encoding="utf-8")
    assert Machine.load(path).to_toml() == Machine.load(str(path)).to_toml() == Machine.load("jetson-tx2").to_toml()


def test_a_known_name_may_end_as_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert Machine.load("jetson-tx2.toml").name == "jetson-tx2"


def test_an_unknown_name() -> None:
    with pytest.raises(MachineError, match=r"unknown machine 'toaster': .*jetson-tx2"):
        Machine.load("toaster")


@pytest.mark.parametrize(
    ("before", "after", "message"),
    [
        ("dram_gbps = 25", "dram_gbps = 25\nwheels = 4", "unknown key 'wheels'; expected"),
        ("l3_gbps = 25\n", "", "missing key 'l3_gbps'"),
        ("ghz = 2.0", "", "cores 1: missing key 'ghz'"),
        ("dense = 0.6", "", "cores 1, efficiency: missing key 'dense'"),
        ("dram_gbps = 25", 'dram_gbps = "fast"', "dram_gbps: expected a number above 0, got 'fast'"),
        ("dram_gbps = 25", "dram_gbps = true", "dram_gbps: expected a number above 0, got True"),
        ("step_seconds = 4e-7", "step_seconds = -1", "step_seconds: expected a number above 0, got -1"),
        ("step_seconds = 4e-7", "step_seconds = 0", "step_seconds: expected a number above 0, got 0"),
        ("step_seconds = 4e-7", "step_seconds = nan", "step_seconds: expected a number above 0, got nan"),
        ("step_seconds = 4e-7", "step_seconds = inf", "step_seconds: expected a number above 0, got inf"),
        ("l3_bytes = 0", "l3_bytes = -1", "l3_bytes: expected a whole number of 0 or more, got -1"),
        ("l2_shared_by = 2", "l2_shared_by = 1.5", "l2_shared_by: expected a whole number above 0, got 1.5"),
        ("count = 2", "count = 0", "cores 1: count: expected a whole number above 0, got 0"),
        ("count = 2\n", "", "cores 1: count: expected a whole number above 0, got None"),
        ('kind = "Denver 2"', "kind = 2", "kind: expected text, got 2"),
        ("vector_bytes = 16", "vector_bytes = 24", "cores 1: vector_bytes: expected 16, 32 or 64, got 24"),
        ("[cores.efficiency]", "[elsewhere]", "cores 1: expected a table 'efficiency', got None"),
        ("l3_bytes = 0", "cores = 3\n[rest]", "expected one or more [[cores]] tables, got 3"),
        ("count = 2", "count = = 2", "not TOML"),
    ],
)
def test_what_is_wrong_is_said(before: str, after: str, message: str) -> None:
    assert before in TEXT
    text = TEXT.replace(before, after, 1)
    if "[rest]" in after:
        text = text[: text.index("[[cores]]")]
    with pytest.raises(MachineError, match=r"board\.toml") as caught:
        Machine.parse(text, "board.toml")
    assert message in str(caught.value)
