"""Memory, files and threads refused in turn, while bundles of every kernel are opened, run and closed."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.fuzz.seeds import write_seeds
from tests.runtime_c.test_native import BUILD, build, needs_tools, run


@needs_tools
@pytest.mark.slow
def test_every_operation_refused(tmp_path: Path) -> None:
    kernels = write_seeds(tmp_path)
    assert len(kernels) > 40
    printed = run(build(BUILD, targets=("faults",)) / "tests" / "faults" / "faults", *sorted(tmp_path.glob("*.edge")))
    assert "clean errors" in printed
