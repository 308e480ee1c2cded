"""One section of the session, as a process: `python -m benchmarks.gpu.section NAME RESULTS SECONDS LIBRARY`."""

from __future__ import annotations

import importlib
import os
import sys
from functools import partial
from pathlib import Path

from benchmarks.gpu import driver
from benchmarks.gpu.bench import Bench
from benchmarks.gpu.device import clocks, find
from benchmarks.gpu.plan import LOST
from benchmarks.gpu.session import Session


def main() -> None:
    name, output, seconds, library = sys.argv[1:]
    session = Session(Path(output))
    lost = session.run(name, float(seconds), partial(_section, name, session, library))
    sys.stdout.flush()
    os._exit(LOST if lost else 0)  # what compilers still do is not waited for


def _section(name: str, session: Session, library: str) -> None:
    """Its module, and what that needs, is imported now, so that what is missing is noted."""
    work = getattr(importlib.import_module(f"benchmarks.gpu.{name}"), name)
    driver.use(library)
    bench = Bench.on(find(), session, library)
    try:
        work(bench)
    finally:
        session.put(clocks=clocks())


if __name__ == "__main__":
    main()
