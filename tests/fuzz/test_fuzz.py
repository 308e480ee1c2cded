"""The short tier of fuzzing: mutants of bundles of every kernel, opened and run with sanitizers; see `make fuzz`."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.fuzz.seeds import write_seeds
from tests.runtime_c.test_native import ROOT, build, needs_tools, run

SECONDS = 20


@needs_tools
@pytest.mark.slow
def test_mutants_are_refused_or_run_within_memory(tmp_path: Path) -> None:
    kernels = write_seeds(tmp_path)
    options = ("-DCMAKE_BUILD_TYPE=Debug", "-DEDGERT_SANITIZE=address,undefined", "-DEDGERT_WERROR=OFF")
    folder = build(ROOT / "build" / "sanitized", *options, targets=("fuzz",))
    printed = run(folder / "tests" / "fuzz" / "fuzz", tmp_path, str(SECONDS))
    mutants, opened, ran = map(int, re.findall(r"(\d+) (?:mutants|opened|ran)", printed)[:3])
    assert mutants > 1000
    assert ran > mutants / 10
    assert opened < mutants
    assert set(re.findall(r"^(\w+) +\d+ runs$", printed, re.MULTILINE)) >= kernels
