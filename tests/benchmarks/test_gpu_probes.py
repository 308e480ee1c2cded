"""What the probes do is what their rates are computed from, counted by the emulator."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.gpu import probes
from tests.targets.cuda.driver import DEFAULT, Buffer, Module, counters, device, launch, reset_counters

BLOCKS, STEPS, LOOPS = 3, 5, 7
THREADS = BLOCKS * probes.THREADS
BYTES = THREADS * 64 * STEPS


def counted(ptx: str, entry: str) -> tuple[dict, np.ndarray]:
    """The counters of a launch, and what it left in y, an array of all but random floats in x."""
    x = np.arange(BYTES // 4, dtype=np.float32)
    with device(**DEFAULT):
        buffers = [Buffer(x), Buffer(np.zeros_like(x)), Buffer(np.array([LOOPS], np.uint32))]
        reset_counters()
        launch(Module(ptx).function(entry), (BLOCKS,), (probes.THREADS,), *buffers)
        found = buffers[1].read(np.float32)
        return counters(), found


@pytest.mark.parametrize(("kind", "opcode"), [("f32", "fma.f32"), ("f16x2", "fma.f16x2")])
def test_multiply_adds(kind: str, opcode: str) -> None:
    counts, _ = counted(probes.multiply_adds(40, kind), "multiply_adds")
    assert counts["instructions"][opcode][1] == 40 * LOOPS * THREADS


def test_bytes_read() -> None:
    counts, sums = counted(probes.read(BLOCKS, STEPS), "read")
    others = THREADS * 4 // 32 + THREADS // 32  # the sums, and the number of loops
    assert counts["global_sectors"] == BYTES // 32 * LOOPS + others
    assert sums.astype(np.float64).sum() == pytest.approx(LOOPS * np.arange(BYTES // 4).sum(dtype=np.float64), rel=1e-5)


def test_bytes_copied() -> None:
    counts, copied = counted(probes.copy(BLOCKS, STEPS), "copy")
    assert counts["global_sectors"] == 2 * BYTES // 32 * LOOPS + THREADS // 32
    np.testing.assert_array_equal(copied, np.arange(BYTES // 4, dtype=np.float32))


def test_words_of_shared_memory() -> None:
    counts, _ = counted(probes.shared(), "shared_read")
    loads = counts["instructions"]["ld.f32"][1] - THREADS  # one of them of x
    assert loads == probes.SUMS * LOOPS * THREADS
