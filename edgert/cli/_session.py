"""The session of a verb that runs a bundle."""

from __future__ import annotations

from pathlib import Path

from edgert.cli._progress import Progress
from edgert.session import Session, load

__all__ = ["opened"]


def opened(
    bundle: Path,
    target: str | None,
    threads: int,
    isa: str | None,
    allow_native: bool,
    emulate: bool,
    code_cache: str | None,
    tell: Progress,
) -> Session:
    """What the options of these names choose; `tell` shows how much of a device's code is loaded."""
    return load(
        bundle,
        target,
        threads,
        isa,
        allow_native=allow_native,
        emulate=emulate,
        code_cache=code_cache,
        progress=lambda done: tell("device code", done),
    )
