"""Which of a bundle's programs a verb shows."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from edgert.reader import Bundle, Program
    from edgert.summary import ProgramSummary
    from packer.api import ProgramReport

__all__ = ["choose", "named", "usable_cores"]


def choose(bundle: Bundle, target: str | None, cores: int | None, usable: int = 1) -> Program:
    """The target's program for exactly `cores` cores; without them the one that a session on `usable` cores takes.

    Without a target it is the first one for this kind of machine, or else the first. Raises InvalidArgumentError.
    """
    import platform

    from edgert.errors import InvalidArgumentError

    if not bundle.programs:
        raise InvalidArgumentError("the bundle holds no program")
    here = [program.target for program in bundle.programs if program.arch == platform.machine()]
    wanted = target or (here or [bundle.programs[0].target])[0]
    programs = {program.cores: program for program in reversed(bundle.programs) if program.target == wanted}
    if not programs:
        known = ", ".join(dict.fromkeys(program.target for program in bundle.programs))
        raise InvalidArgumentError(f"--target: expected one of {known}, got '{wanted}'")
    if cores is not None and cores not in programs:
        known = ", ".join(map(str, sorted(programs)))
        raise InvalidArgumentError(f"--cores: the bundle has programs of {wanted} for {known}; got {cores}")
    fitting = [count for count in programs if count <= usable]
    return programs[cores or max(fitting, default=min(programs))]


def named(program: Program | ProgramSummary | ProgramReport) -> str:
    """How texts name a program."""
    return f"{program.target}, " + ("1 core" if program.cores == 1 else f"{program.cores} cores")


def usable_cores() -> int:
    """The cores that a session may use here."""
    import os

    from edgert import _native
    from edgert.errors import LibraryError

    try:
        return int(_native.library().edgert_cores())
    except LibraryError:  # a bundle can be looked at without it
        return len(os.sched_getaffinity(0))
