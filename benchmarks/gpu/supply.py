"""Instruction supply: multiply-adds a second of straight-line code, by its size and by the warps that run it together.

Code with immediates for weights is fetched once for all warps that are at the same place, so this decides how large a
slice of a layer may be.
"""

from __future__ import annotations

from functools import partial

import numpy as np

from benchmarks.gpu import probes
from benchmarks.gpu.bench import Bench
from benchmarks.gpu.ceilings import PEAK, Numbers
from benchmarks.gpu.driver import Buffer, launch
from benchmarks.gpu.timing import Contender
from benchmarks.report import table

__all__ = ["SIZES", "WARPS", "supply"]

SIZES = tuple(1 << power for power in range(12, 23))  # bytes: 4 KiB to 4 MiB
WARPS = (1, 2, 4, 8, 16, 32)  # of a multiprocessor
_SMALL = 2  # sizes and numbers of warps on the emulator
_WORK = 1 << 20  # multiply-adds of a thread
_SECONDS = 8.0
_WARP = 32


def supply(bench: Bench) -> None:
    """GFLOP/s of each size and number of warps, and their share of the peak."""
    device, session = bench.device, bench.session
    sizes, warps = (SIZES[:_SMALL], WARPS[:_SMALL]) if session.emulated else (SIZES, WARPS)
    each = 16 if device.sm >= 70 else 32 / 3  # bytes of an instruction
    counts = {size: round(size / each) for size in sizes}
    longest = sorted(sizes, reverse=True)  # they take longest to translate
    loaded = {size: bench.modules.load(probes.multiply_adds(counts[size])) for size in longest}
    multiprocessors = 1 if session.emulated else device.multiprocessors
    x, y = Buffer(np.ones(1, np.float32)), Buffer(multiprocessors * max(warps) * (4 * probes.THREADS + 16))
    loops, work, flops = Numbers(), {}, {}
    for size in sizes:
        function = loaded[size].module.function("multiply_adds")
        repeats = 1 if session.emulated else max(2, _WORK // counts[size])
        for count in warps:
            threads = min(count * _WARP, probes.THREADS)
            blocks = multiprocessors * (count * _WARP // threads)
            arguments = (x, y, loops[repeats])
            name = f"{size} {count}"
            work[name] = Contender(partial(launch, function, (blocks,), (threads,), *arguments, stream=bench.stream))
            flops[name] = 2.0 * counts[size] * repeats * blocks * threads
    times = bench.times(work, _SECONDS)
    rates = {name: flops[name] / times[name].median * 1e-9 for name in work}
    peak = next((row["median"] for row in session.rows("ceilings") if row["name"] == PEAK), max(rates.values()))
    for size in sizes:
        for count in warps:
            t, name = times[f"{size} {count}"], f"{size} {count}"
            session.row(
                bytes=size,
                code=loaded[size].code,
                warps=count,
                gflops=rates[name],
                share=rates[name] / peak,
                **t.asdict(),
            )
    rows = [[f"{size >> 10} KiB", *(rates[f"{size} {count}"] / peak for count in warps)] for size in sizes]
    table("share of peak, by code and by warps of a multiprocessor", ("code", *map(str, warps)), rows)
    for own in loaded.values():
        own.unload()
    for buffer in (x, y, *loops.values()):
        buffer.free()
