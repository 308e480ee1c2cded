"""What the model counts in a kernel is what the emulator counts as it executes it."""

from __future__ import annotations

import pytest

from targets.cuda.model import count
from targets.cuda.model.walk import Counts
from tests.targets.cuda.driver import counters, reset_counters
from tests.targets.cuda.launch import run
from tests.targets.cuda.model.cases import CASES, Case, constants


def executed(case: Case) -> dict[str, float]:
    """What the emulator counts."""
    reset_counters()
    run(case.code, case.inputs, case.outputs)
    found = counters()
    found["issued"] = sum(warps for warps, _ in found.pop("instructions").values())
    return {name: float(value) for name, value in found.items()}


def total(counts: list[Counts], name: str) -> float:
    return float(sum(getattr(own, name) for own in counts))


@pytest.mark.parametrize("name", CASES)
def test_counts_are_those_of_the_emulator(name: str) -> None:
    case = CASES[name]()
    every = [count(kernel, constants(case), samples=0) for kernel in case.code.kernels]
    some = [count(kernel, constants(case)) for kernel in case.code.kernels]
    found = executed(case)
    assert total(every, "issued") == found["issued"]
    for what in ("global_requests", "shared_requests"):
        assert total(every, what) == found[what], what
    for what in ("global_sectors", "shared_cycles"):  # of a block of code, later visits count as the second
        assert total(every, what) == pytest.approx(found[what], rel=0.03), what
    for what in ("issued", "global_requests", "global_sectors", "shared_requests", "shared_cycles"):
        assert total(some, what) == pytest.approx(found[what], rel=0.1), what
