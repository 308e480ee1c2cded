"""`edgert pack --search policy`: plans are timed on this machine."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import typer

from edgert.errors import InvalidArgumentError

if TYPE_CHECKING:
    from packer.bundle.model import Program
    from packer.planner.select import Strategy

__all__ = ["measure_programs", "policy"]

_Tell = Callable[[str, float], None]
_RUNS = 4  # of a plan, after one that does not count


def policy(seconds: float, targets: Sequence[str], counts: Sequence[int], device: str | None, tell: _Tell) -> Strategy:
    """The learned strategy for the programs of so many cores for these targets, each with the same share of `seconds`.

    Programs that cannot run here, or are for another `device`, are searched by the cost model; stderr says so.
    """
    from packer.planner.select import learned
    from targets.base import resolve

    if not 0 < seconds < float("inf"):
        raise InvalidArgumentError("--budget: expected a time above 0 to search for, such as 60s")
    share = seconds / sum(len(counts or resolve(name).core_counts) for name in targets)
    began = time.monotonic()

    def measure(programs: Sequence[Program]) -> list[float] | None:
        tell("search", min((time.monotonic() - began) / seconds, 1.0))
        found = None if device else measure_programs(programs)
        if found is None:
            what = f"{programs[0].target}, cores: {programs[0].cores}"
            typer.echo(f"{what}: searched by the cost model, it cannot be measured here", err=True)
        return found

    return learned(measure, share)


def measure_programs(programs: Sequence[Program]) -> list[float] | None:
    """The shortest run of each in seconds, on random inputs; None if they need another machine than this."""
    import tempfile
    from dataclasses import replace
    from pathlib import Path

    from edgert.bench import bind_all, measure
    from edgert.devices import this_machine
    from edgert.session import load
    from packer.bundle.model import Bundle
    from packer.bundle.writer import write_bundle

    here = this_machine()
    if any(program.arch != here.arch or program.cores > here.cores for program in programs):
        return None
    named = tuple(replace(program, target=str(i)) for i, program in enumerate(programs))
    found = []
    with tempfile.TemporaryDirectory(prefix="edgert-") as folder:
        path = Path(folder) / "plans.edge"
        write_bundle(Bundle("edgert", "plans", named, ()), path, durable=False)
        for program in named:
            with load(path, program.target, program.cores, integrity="metadata") as session:
                bind_all(session)
                session.run()
                found.append(min(measure(session, _RUNS)))
    return found
