"""The tests of the code generators, on the device instead of the emulator: every generic operator, random layers in
every tier, each against its reference in float64."""

from __future__ import annotations

import importlib.util
import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from xml.etree import ElementTree

from benchmarks.gpu.bench import Bench
from benchmarks.gpu.build import ROOT
from benchmarks.report import table

__all__ = ["PLACES", "SMALL", "TESTS", "correctness"]

TESTS = Path("tests/targets/cuda")
# what runs code on a device; the other tests there are about the emulator, or need none
PLACES = (
    "generic",
    "dense",
    "stream",
    "test_activations.py",
    "test_convolutions.py",
    "test_half2.py",
    "test_pool.py",
    "test_template.py",
)
SMALL = ("generic/test_pad.py",)
_SHOWN = 20  # failures
_MOST_WORKERS = 12
_WRITING = 10.0  # seconds that an interrupted pytest has to write its report


def correctness(bench: Bench) -> None:
    """Tests passed, skipped and failed, by file; the messages of what failed."""
    session = bench.session
    places = [str(TESTS / place) for place in (SMALL if session.emulated else PLACES)]
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.xml"
        workers = max(1, min(_MOST_WORKERS, len(os.sched_getaffinity(0))))
        command = [
            sys.executable,
            "-m",
            "pytest",
            "-q",
            "-p",
            "no:cacheprovider",
            "-m",
            "not slow",
            f"--junitxml={report}",
        ]
        if not session.emulated and importlib.util.find_spec("xdist"):
            command += ["-n", str(workers)]
        environment = {**os.environ, "EDGERT_TEST_CUDA": bench.library}
        done = _run([*command, *places], environment, session.left())
        if session.left() <= 0:
            session.note("interrupted: its time was over")
        if not report.exists():
            session.note(f"no report from pytest: {done[-1000:]}")
            return
        cases = ElementTree.parse(report).getroot().iter("testcase")
        counts: dict[str, list[int]] = {}
        failures = []
        for case in cases:
            own = counts.setdefault(case.get("classname", "?").removeprefix("tests.targets.cuda."), [0, 0, 0])
            failed = case.find("failure") if case.find("failure") is not None else case.find("error")
            own[2 if failed is not None else 1 if case.find("skipped") is not None else 0] += 1
            if failed is not None:
                failures.append(f"{case.get('classname')}::{case.get('name')}: {failed.get('message', '')[:300]}")
    for name, (passed, skipped, wrong) in counts.items():
        session.row(name=name, passed=passed, skipped=skipped, failed=wrong)
    table(
        "tests on the device", ("file", "passed", "skipped", "failed"), [[name, *own] for name, own in counts.items()]
    )
    for failure in failures[:_SHOWN]:
        session.note(f"FAILED {failure}")


def _run(command: list[str], environment: dict[str, str], seconds: float) -> str:
    """What it printed; it is interrupted when the time is over, and may then still write its report."""
    with subprocess.Popen(
        command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as process:
        try:
            for patience, number in ((max(seconds, 1), signal.SIGINT), (_WRITING, signal.SIGKILL)):
                try:
                    return process.communicate(timeout=patience)[0]
                except subprocess.TimeoutExpired:
                    process.send_signal(number)
            return process.communicate()[0]
        finally:
            process.kill()
