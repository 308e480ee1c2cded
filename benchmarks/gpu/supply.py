"""Instruction supply: multiply-adds a second of straight-line code, by its size and by the warps that run it together.

Code with immediates for weights is fetched once for all warps that are at the same place, so this decides how large a
slice of a layer may be.
"""

from __future__ import annotations

import math
from functools import partial

import numpy as np

from benchmarks.gpu import probes
from benchmarks.gpu.bench import Bench
from benchmarks.gpu.ceilings import PEAK, Numbers
from benchmarks.gpu.driver import Buffer, launch
from benchmarks.gpu.session import Session
from benchmarks.gpu.timing import Contender
from benchmarks.report import table

__all__ = ["SIZES", "WARPS", "grid_of", "multiplies_of", "peak_of", "repeats_of", "supply"]

SIZES = tuple(1 << power for power in range(12, 23))  # bytes: 4 KiB to 4 MiB
WARPS = (1, 2, 4, 8, 16, 32)  # of a multiprocessor
_SMALL = 2  # sizes and numbers of warps on the emulator
_WORK = 1 << 20  # multiply-adds of a thread
_SECONDS = 0.7  # of a size
_WARP = 32


def supply(bench: Bench) -> None:
    """GFLOP/s of each size and number of warps, and their share of the peak."""
    device, session = bench.device, bench.session
    sizes, warps = (SIZES[:_SMALL], WARPS[:_SMALL]) if session.emulated else (SIZES, WARPS)
    counts = {size: multiplies_of(size, device.sm) for size in sizes}
    longest = sorted(sizes, reverse=True)  # they take longest to translate
    loaded = {size: bench.modules.load(probes.multiply_adds(counts[size])) for size in longest}
    multiprocessors = 1 if session.emulated else device.multiprocessors
    x, y = Buffer(np.ones(1, np.float32)), Buffer(multiprocessors * max(warps) * (4 * probes.THREADS + 16))
    loops, rates = Numbers(), dict[tuple[int, int], float]()
    for size in sizes:
        if session.over(f"{size >> 10} KiB"):
            break
        function = loaded[size].module.function("multiply_adds")
        repeats = 1 if session.emulated else repeats_of(counts[size])
        work, flops = {}, {}
        for count in warps:
            blocks, threads = grid_of(count, multiprocessors)
            arguments = (x, y, loops[repeats])
            launching = partial(launch, function, (blocks,), (threads,), *arguments, stream=bench.stream)
            work[str(count)] = Contender(launching)
            flops[count] = 2.0 * counts[size] * repeats * blocks * threads
        for name, t in bench.times(work, _SECONDS).items():
            count = int(name)
            rates[size, count] = rate = flops[count] / t.median * 1e-9
            session.row(bytes=size, code=loaded[size].code, warps=count, gflops=rate, **t.asdict())
        session.save()
    peak = peak_of(session)
    rows = [
        [f"{size >> 10} KiB", *(rates[size, count] / peak for count in warps)] for size in sizes if (size, 1) in rates
    ]
    table("share of peak, by code and by warps of a multiprocessor", ("code", *map(str, warps)), rows)
    for own in loaded.values():
        own.unload()
    for buffer in (x, y, *loops.values()):
        buffer.free()


def multiplies_of(size: int, sm: int) -> int:
    """Multiply-adds in so many bytes of machine code."""
    return round(size / (16 if sm >= 70 else 32 / 3))


def repeats_of(multiplies: int) -> int:
    """How often a thread runs code of so many multiply-adds: each about as long."""
    return max(2, _WORK // multiplies)


def grid_of(warps: int, multiprocessors: int) -> tuple[int, int]:
    """Blocks, and threads of each, that are so many warps on each multiprocessor."""
    threads = min(warps * _WARP, probes.THREADS)
    return multiprocessors * (warps * _WARP // threads), threads


def peak_of(session: Session) -> float:
    """GFLOP/s of multiply-adds that are never short of instructions; without them the most that was supplied."""
    found = (row["median"] for row in session.rows("ceilings") if row["name"] == PEAK)
    return next(found, max((row["gflops"] for row in session.rows("supply")), default=math.nan))
