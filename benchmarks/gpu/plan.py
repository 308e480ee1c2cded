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

__all__ = ["LOST", "run_all"]

LOST = 75  # status of a process that lost the device, and knows by what: another one goes on

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
        over = time.monotonic() + own
        while _run(output, name, command(name, own), own, folder) and (own := over - time.monotonic()) > 0:
            pass


def _run(output: Path, name: str, command: Sequence[str], seconds: float, folder: Path) -> bool:
    """Runs a process and all that it starts, and ends them; notes what went wrong. Whether another one should go on."""
    seconds += GRACE + _PATIENCE
    status, failure = _status(command, seconds, folder), ""
    if status is None:
        failure = f"killed: it did not end in {seconds:.0f} s"
    elif status < 0:
        failure = f"failed: its process died of signal {-status} ({signal.Signals(-status).name})"
    elif status not in (0, LOST):
        failure = f"failed: its process ended with {status}"
    if failure:
        _note(output, name, failure)
    return status == LOST


def _status(command: Sequence[str], seconds: float, folder: Path) -> int | None:
    """With which a process ends; None: it had to be killed."""
    process = subprocess.Popen(command, cwd=folder, start_new_session=True)
    try:
        return process.wait(seconds)
    except subprocess.TimeoutExpired:
        return None
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _note(output: Path, name: str, text: str) -> None:
    session = Session(output)
    session.open(name)
    session.note(text)
    session.save()
