"""Does a bundle work on this machine: contents intact, golden outputs reproduced, fast enough."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass

from edgert.bench import Latency, bind_all, measure
from edgert.compare import Difference, compare
from edgert.errors import CorruptError, TruncatedError
from edgert.reader import read
from edgert.session import SessionDescription, load

__all__ = ["SelfTest", "selftest"]


@dataclass(frozen=True, slots=True)
class SelfTest:
    """The verdict. `integrity` is "ok" or what is broken, `outputs` the golden comparisons in order (none if the bundle
    carries no golden sample), `on_time` whether p99 met the deadline (None without one)."""

    passed: bool
    integrity: str
    session: SessionDescription | None
    outputs: tuple[Difference, ...]
    latency: Latency | None
    deadline_ms: float | None
    on_time: bool | None


def selftest(
    path: str | os.PathLike[str],
    target: str | None = None,
    threads: int = 0,
    isa: str | None = None,
    deadline_ms: float | None = None,
    runs: int = 0,
    duration: float = 1.0,
    progress: Callable[[float], None] | None = None,
    allow_native: bool = False,
    emulate: bool = False,
    code_cache: str | None = None,
) -> SelfTest:
    """Hashes every byte, compares the golden outputs within the bundle's tolerances, then times runs against the
    deadline: `runs` of them, or if 0 as many as fit in `duration` seconds. `allow_native`, `emulate` and
    `code_cache` as for `load`.

    A damaged file is a verdict; whatever keeps the test from being made (no such file, no program for this machine)
    raises EdgertError.
    """
    try:
        session = load(path, target, threads, isa, allow_native=allow_native, emulate=emulate, code_cache=code_cache)
    except (CorruptError, TruncatedError) as error:
        return SelfTest(False, str(error), None, (), None, deadline_ms, None)
    with session:
        bundle = read(path, integrity="metadata")
        outputs: list[Difference] = []
        inputs = None
        for golden in bundle.goldens:
            inputs = bundle.samples(golden.inputs)
            got = session.run(inputs)
            for name, want in bundle.samples(golden.outputs).items():
                outputs.append(compare(name, got[name], want, golden.atol, golden.rtol))
        bind_all(session, inputs)
        measure(session, runs=3)
        latency = Latency.of(measure(session, runs, duration, progress))
        on_time = None if deadline_ms is None else latency.p99_ms <= deadline_ms
        passed = all(o.passed for o in outputs) and on_time is not False
        return SelfTest(passed, "ok", session.describe(), tuple(outputs), latency, deadline_ms, on_time)
