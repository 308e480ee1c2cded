"""What `edgert profile --json` measured, by the planner's decisions."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from edgert.decisions import Plan
    from edgert.reader import Program

__all__ = ["Times", "read_times"]


@dataclass(frozen=True, slots=True)
class Times:
    """Nanoseconds, medians: of each decision's steps on the core that takes longest (None: it has no steps), of all
    other steps likewise, and of a whole run without profiling."""

    decisions: tuple[int | None, ...]
    others: int
    run: int


def read_times(path: Path, program: Program, plan: Plan) -> Times:
    """The times in a file that `edgert profile --json` wrote for this program; raises InvalidArgumentError."""
    from edgert.decisions import steps_of
    from edgert.errors import InvalidArgumentError

    try:
        raw = json.loads(path.read_text(encoding="utf-8"))
        made_of = [(step["step"], step["kernel"], step["core"]) for step in raw["steps"]]
        medians = [float(step["p50_ms"]) for step in raw["steps"]]
        run = round(float(raw["plain_ms"]) * 1e6)
    except (KeyError, TypeError, ValueError, OverflowError, RecursionError):
        raise InvalidArgumentError(f"{path}: expected what `edgert profile --json` prints") from None
    if made_of != [(number, step.kernel, step.core) for number, step in enumerate(program.steps)]:
        raise InvalidArgumentError(
            f"{path}: the profile is of another program than {program.target}, cores {program.cores}\n"
            f"edgert profile BUNDLE --target {program.target} --threads {program.cores} --json > {path}"
        )
    steps = steps_of(program, plan)
    others = sorted(set(range(len(medians))) - {number for own in steps for number in own})
    return Times(tuple(_slowest(program, medians, own) for own in steps), _slowest(program, medians, others) or 0, run)


def _slowest(program: Program, medians: Sequence[float], steps: Sequence[int]) -> int | None:
    """The time of the core that takes longest; what all cores share takes as long on each."""
    shared, busy = 0.0, dict[int, float]()
    for number in steps:
        core: Any = program.steps[number].core
        if core < program.cores:
            busy[core] = busy.get(core, 0.0) + medians[number]
        else:
            shared += medians[number]
    return round((shared + max(busy.values(), default=0.0)) * 1e6) if steps else None
