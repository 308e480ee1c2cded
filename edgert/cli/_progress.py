"""A progress bar on stderr for what takes more than a second; nothing when stderr is no terminal."""

from __future__ import annotations

import sys
import time
from types import TracebackType
from typing import Any

__all__ = ["Progress"]

_PATIENCE = 1.0  # seconds before a bar appears


class Progress:
    """`with Progress("pack") as tell: tell("plan", 0.5)`."""

    def __init__(self, title: str) -> None:
        self._title, self._began = title, time.monotonic()
        self._wanted = sys.stderr.isatty()
        self._bar: Any = None

    def __enter__(self) -> Progress:
        return self

    def __call__(self, stage: str, fraction: float) -> None:
        """Shows that `stage` is done to `fraction`, 0 to 1."""
        if not self._wanted or (self._bar is None and time.monotonic() - self._began < _PATIENCE):
            return
        if self._bar is None:
            from rich.console import Console
            from rich.progress import Progress as Bar

            self._bar = Bar(console=Console(stderr=True), transient=True, auto_refresh=False)  # no thread beside runs
            self._task = self._bar.add_task(self._title, total=1.0)
            self._bar.start()
        self._bar.update(self._task, description=f"{self._title}: {stage}", completed=fraction, refresh=True)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar is not None:
            self._bar.stop()
