"""Sections one after another, each in a process of its own: one that crashes or hangs in the driver harms no other."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from benchmarks.gpu.session import GRACE, Session

__all__ = ["run_all"]

_QUICK = 30.0  # seconds of sections without a share
_PATIENCE = 10.0  # seconds until a process that was cut is killed


def run_all(
    output: Path,
    sections: Mapping[str, float],
    seconds: float,
    command: Callable[[str, float], Sequence[str]],
    folder: Path,
) -> None:
    """The sections in order, by their shares of the time; what one does not use is for those after it. Those without a
    share are quick and run in any case. `command` gives a section's process, which runs in `folder`, and which writes
    to `output`, for so many seconds."""
    end, left = time.monotonic() + seconds, sum(sections.values())
    for name, share in sections.items():
        remaining = end - time.monotonic()
        own = remaining * share / left if share else _QUICK
        left -= share
        if share and own <= 0:
            _note(output, name, "left out: there was no time")
            continue
        if failure := _run(command(name, own), own + GRACE + _PATIENCE, folder):
            _note(output, name, failure)


def _run(command: Sequence[str], seconds: float, folder: Path) -> str:
    """Runs a process and all that it starts, and ends them; what went wrong."""
    process = subprocess.Popen(command, cwd=folder, start_new_session=True)
    try:
        status = process.wait(seconds)
    except subprocess.TimeoutExpired:
        return f"killed: it did not end in {seconds:.0f} s"
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    if status < 0:
        return f"failed: its process died of signal {-status} ({signal.Signals(-status).name})"
    return f"failed: its process ended with {status}" if status else ""


def _note(output: Path, name: str, text: str) -> None:
    session = Session(output)
    session.open(name)
    session.note(text)
    session.save()
