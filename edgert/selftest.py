"""Does a bundle work on this machine: contents intact, golden outputs reproduced, fast enough."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import asdict, dataclass, field

from edgert import _native
from edgert._open import OpenBundle
from edgert.bench import Latency, bind_all, measure
from edgert.compare import Difference, compare
from edgert.errors import CorruptError, TruncatedError
from edgert.reader import Bundle, read
from edgert.session import DeviceOptions, Session, SessionDescription

__all__ = ["GoldenOutput", "SelfTest", "selftest"]


@dataclass(frozen=True, slots=True)
class GoldenOutput(Difference):
    """An output of a golden sample, run with the instruction set `isa`, against what it must be."""

    isa: str = field(kw_only=True)


@dataclass(frozen=True, slots=True)
class SelfTest:
    """The verdict. `integrity` is "ok" or what is broken, `session` what was timed, `outputs` the golden comparisons in
    order (none if the bundle carries no golden sample: it passes although nothing was compared), `on_time` whether p99
    met the deadline (None without one)."""

    passed: bool
    integrity: str
    session: SessionDescription | None
    outputs: tuple[GoldenOutput, ...]
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
    deadline: `runs` of them, or if 0 as many as fit in `duration` seconds. `isa`: as for `load`, or "all" to
    compare on every instruction set of this machine, and to time the best. `allow_native`, `emulate` and `code_cache`
    as for `load`.

    A damaged file is a verdict; whatever keeps the test from being made (no such file, no program for this machine)
    raises EdgertError.
    """
    try:
        opened = OpenBundle(path, threads=threads)
    except (CorruptError, TruncatedError) as error:
        return SelfTest(False, str(error), None, (), None, deadline_ms, None)
    bundle = read(path, integrity="metadata")
    options = DeviceOptions(allow_native, emulate=emulate, code_cache=code_cache)
    timed, *others = _native.isas() if isa == "all" else (isa,)
    with Session(opened, target, threads, timed, options) as session:
        used, outputs = session.describe(), _compared(bundle, session)
        bind_all(session, bundle.samples(bundle.goldens[-1].inputs) if bundle.goldens else None)
        measure(session, runs=3)
        latency = Latency.of(measure(session, runs, duration, progress))
    for other in others:
        with Session(opened, target, threads, other, options) as session:
            outputs += _compared(bundle, session)
    on_time = None if deadline_ms is None else latency.p99_ms <= deadline_ms
    passed = all(output.passed for output in outputs) and on_time is not False
    return SelfTest(passed, "ok", used, tuple(outputs), latency, deadline_ms, on_time)


def _compared(bundle: Bundle, session: Session) -> list[GoldenOutput]:
    """The outputs that the bundle's golden samples have, as the session makes them."""
    isa, outputs = session.describe().isa, []
    for golden in bundle.goldens:
        got = session.run(bundle.samples(golden.inputs))
        for name, want in bundle.samples(golden.outputs).items():
            difference = compare(name, got[name], want, golden.atol, golden.rtol)
            outputs.append(GoldenOutput(**asdict(difference), isa=isa))
    return outputs
