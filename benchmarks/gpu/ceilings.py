"""What the GPU can do at most, measured: arithmetic, its memories, its clock while it computes."""

from __future__ import annotations

from functools import partial

import numpy as np

from benchmarks.gpu import probes
from benchmarks.gpu.bench import Bench
from benchmarks.gpu.driver import Buffer, call, launch
from benchmarks.gpu.timing import Contender, Times
from benchmarks.report import table

__all__ = ["PEAK", "Numbers", "ceilings"]

PEAK = "float32"  # the row that others are compared with
_STEP = probes.THREADS * 64  # bytes that a block reads in a step
_PEAK = 256  # multiply-adds of the loop that is never short of instructions
_SECONDS = 0.5  # of a measurement


def ceilings(bench: Bench) -> None:
    """GFLOP/s and GB/s."""
    device, session = bench.device, bench.session
    small = session.emulated
    blocks = 2 if small else device.multiprocessors * (device.threads // probes.THREADS)
    dram = _whole_steps(1 << 16 if small else min(device.memory // 8, 16 * device.l2), blocks)
    l2 = _whole_steps(1 << 16 if small else device.l2 // 4, blocks)
    repeats = 1 if small else 32
    x, y, loops = Buffer(np.zeros(dram * blocks * _STEP // 4, np.float32)), Buffer(dram * blocks * _STEP), Numbers()
    # what -> unit, how much of it a launch does, entry, PTX, repetitions
    work = {
        PEAK: ("GFLOP/s", 2.0 * _PEAK, "multiply_adds", probes.multiply_adds(_PEAK), 16 * repeats),
        "half2": ("GFLOP/s", 4.0 * _PEAK, "multiply_adds", probes.multiply_adds(_PEAK, "f16x2"), 16 * repeats),
        "shared memory, read": ("GB/s", 4.0 * probes.SUMS, "shared_read", probes.shared(), 64 * repeats),
        "L2, read": ("GB/s", 64.0 * l2, "read", probes.read(blocks, l2), repeats),
        "memory, read": ("GB/s", 64.0 * dram, "read", probes.read(blocks, dram), 1),
        "memory, copy": ("GB/s", 128.0 * dram, "copy", probes.copy(blocks, dram), 1),
    }
    loaded = {name: bench.modules.load(ptx) for name, (_, _, _, ptx, _) in work.items()}
    contenders = {}
    for name, (_, _, entry, _, count) in work.items():
        function = loaded[name].module.function(entry)
        arguments = (x, y, loops[count])
        contenders[name] = Contender(
            partial(launch, function, (blocks,), (probes.THREADS,), *arguments, stream=bench.stream)
        )
    times = bench.times(contenders, _SECONDS * len(work))
    rows = []
    for name, (unit, each, _, _, count) in work.items():
        amount = each * blocks * probes.THREADS * count * 1e-9
        rows.append(_row(bench, name, unit, amount, times[name]))
    contenders[PEAK].launch()
    rows.append(_clock(bench, y, blocks))
    table(f"ceilings of {device.name}", ("what", "median", "low", "high", "unit"), rows)
    for buffer in (x, y, *loops.values()):
        buffer.free()


def _whole_steps(size: int, blocks: int) -> int:
    return max(1, size // (blocks * _STEP))


class Numbers(dict[int, Buffer]):
    """Numbers on the device, as kernels want them, made as they are asked for."""

    def __missing__(self, count: int) -> Buffer:
        self[count] = Buffer(np.array([count], np.uint32))
        return self[count]


def _row(bench: Bench, name: str, unit: str, amount: float, times: Times) -> list[object]:
    """Keeps the rate, `amount` a second, and gives it as cells."""
    median, low, high = (amount / value for value in (times.median, times.high, times.low))
    bench.session.row(name=name, unit=unit, median=median, low=low, high=high, turns=times.turns)
    return [name, median, low, high, unit]


def _clock(bench: Bench, y: Buffer, blocks: int) -> list[object]:
    """GHz of the multiprocessors while they multiply and add: cycles over nanoseconds, of all blocks."""
    call("cuStreamSynchronize", bench.stream)
    begin = 4 * blocks * probes.THREADS
    counts = y.read(np.uint64, (blocks, 2), begin, begin + 16 * blocks).astype(float)
    ghz = counts[:, 0] / np.maximum(counts[:, 1], 1)
    low, median, high = map(float, np.percentile(ghz, (10, 50, 90)))
    bench.session.row(name="clock", unit="GHz", median=median, low=low, high=high, turns=blocks)
    return ["clock", median, low, high, "GHz"]
