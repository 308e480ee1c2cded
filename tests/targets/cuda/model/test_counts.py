"""What the model counts in a kernel is what the emulator counts as it executes it."""

from __future__ import annotations

import pytest

from targets.cuda.model import count
from targets.cuda.model.walk import Counts
from tests.targets.cuda.driver import counters, library
from tests.targets.cuda.launch import run
from tests.targets.cuda.model.cases import CASES, Case

# addresses of these come from tables in memory, which the model does not read
_INDIRECT = {"t3": 0.03, "t3 of single pixels": 0.03, "resize": 0.15}


def executed(case: Case) -> dict[str, float]:
    """What the emulator counts."""
    library().edgertEmulatorResetCounters()
    run(case.code, case.inputs, case.outputs)
    found = counters()
    found["issued"] = sum(warps for warps, _ in found.pop("instructions").values())
    return {name: float(value) for name, value in found.items()}


def total(counts: list[Counts], name: str) -> float:
    return float(sum(getattr(own, name) for own in counts))


@pytest.mark.parametrize("name", CASES)
def test_counts_are_those_of_the_emulator(name: str) -> None:
    case = CASES[name]()
    every = [count(kernel, samples=0) for kernel in case.code.kernels]
    some = [count(kernel) for kernel in case.code.kernels]
    found = executed(case)
    assert total(every, "issued") == found["issued"]
    for what in ("global_requests", "shared_requests", "shared_cycles"):
        assert total(every, what) == found[what], what
    assert total(every, "global_sectors") == pytest.approx(found["global_sectors"], rel=_INDIRECT.get(name, 0))
    for what in ("issued", "global_requests", "global_sectors", "shared_requests", "shared_cycles"):
        assert total(some, what) == pytest.approx(found[what], rel=max(0.1, _INDIRECT.get(name, 0))), what
