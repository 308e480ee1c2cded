"""What a run of the session found, in a file, and one section that adds to it."""

from __future__ import annotations

import json
import math
import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

from edgert.errors import DeviceLostError

__all__ = ["GRACE", "CutError", "LostError", "Session"]

GRACE = 15.0  # seconds after its deadline at which a section that does not look at the clock is cut
_OFTEN = 2.0  # seconds between files


class CutError(BaseException):
    """The section's time is over. No error, so that nobody on the way takes it for one and goes on."""


class LostError(BaseException):
    """The device is lost to this process; a new one may go on."""


class Session:
    """Results go to the file `output` all the time, so a process that is killed leaves what it had. What is in the file
    already stays."""

    def __init__(self, output: Path, emulated: bool = False) -> None:
        self.output = output
        self.result: dict[str, Any] = {"emulated": emulated, "sections": {}}
        if output.exists():
            self.result = json.loads(output.read_text())
        self.emulated: bool = self.result["emulated"]
        self._deadline = math.inf
        self._section: dict[str, Any] = {}
        self._saved = -math.inf
        self._lost = False

    def open(self, name: str) -> dict[str, Any]:
        """What the section of that name has; from now on rows and notes are its."""
        self._section = self.result["sections"].setdefault(name, {"rows": []})
        return self._section

    def run(self, name: str, seconds: float, work: Callable[[], None]) -> bool:
        """The section `name`, which may take so long; that it fails or is cut is noted. Whether a new process should go
        on with it: what lost the device is `harmful` then."""
        self.open(name)
        began = time.monotonic()
        self._deadline = began + seconds
        try:
            with _alarm(seconds + GRACE):
                work()
        except CutError:
            self.note("cut: its time was over")
        except LostError:
            pass
        except Exception as error:
            if not self._lost:
                self.note(f"failed: {_short(error)}")
        self._section["seconds"] = round(self._section.get("seconds", 0.0) + time.monotonic() - began, 1)
        self.save()
        print(f"[{name}: {self._section['seconds']} s]", flush=True)
        return self._lost

    def left(self) -> float:
        """Seconds that the section has left, negative if it should end."""
        return self._deadline - time.monotonic()

    def over(self, what: str, needed: float = 0.0) -> bool:
        """Whether there is no time for `what`, which takes about so many seconds; then that is noted."""
        if self.left() > needed:
            return False
        self.note(f"left out, no time: {what}")
        return True

    def row(self, **values: Any) -> None:
        """One measurement."""
        self._section["rows"].append(values)
        if time.monotonic() - self._saved > _OFTEN:
            self.save()

    def note(self, text: str) -> None:
        """Something to know about the section, printed too."""
        self._section.setdefault("notes", []).append(text)
        print(f"  {text}", flush=True)

    @contextmanager
    def attempt(self, what: str) -> Iterator[None]:
        """An error inside is noted, and ends nothing else unless the device is lost; likewise a missing package."""
        try:
            yield
        except ModuleNotFoundError as error:
            self.note(f"{what} left out: {error}")
        except Exception as error:
            if not self._lost:
                self.note(f"{what} failed: {_short(error)}")
            if self._lost or isinstance(error, DeviceLostError) or getattr(error, "fatal", False):
                if not self._lost:  # what follows are consequences
                    self._section.setdefault("harmful", []).append(what)
                self._lost = True
                raise LostError from None

    def harmful(self, what: str) -> bool:
        """Whether it lost the device to a process before, so that it is left out."""
        return what in self._section.get("harmful", [])

    def notes(self) -> list[str]:
        """What is noted of the section so far."""
        found: list[str] = self._section.get("notes", [])
        return found

    def put(self, **values: Any) -> None:
        """Facts about the section."""
        self._section.update(values)
        self.save()

    def rows(self, name: str) -> list[dict[str, Any]]:
        """What a section found so far."""
        found: list[dict[str, Any]] = self.result["sections"].get(name, {}).get("rows", [])
        return found

    def save(self) -> None:
        """Write the file; it is whole at any time."""
        self.output.parent.mkdir(parents=True, exist_ok=True)
        beside = self.output.with_suffix(".part")
        beside.write_text(json.dumps(self.result, indent=1) + "\n")
        os.replace(beside, self.output)
        self._saved = time.monotonic()


def _short(error: Exception) -> str:
    """The first line of what it says."""
    return f"{type(error).__name__}: {(str(error).splitlines() or [''])[0][:300]}"


@contextmanager
def _alarm(seconds: float) -> Iterator[None]:
    """CutError is raised inside when the time is over."""

    def cut(number: int, frame: FrameType | None) -> None:
        raise CutError

    before = signal.signal(signal.SIGALRM, cut)
    signal.setitimer(signal.ITIMER_REAL, max(seconds, 0.01))
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
