"""What warps wait for, by the counters of the multiprocessors: instructions, operands, memory, barriers.

Nsight Compute (ncu) counts, around a process that launches each kernel once. Shares are of all cycles of all warps.
"""

from __future__ import annotations

import glob
import json
import os
import pickle
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.cuda_operators import OPERATORS
from benchmarks.gpu import probes
from benchmarks.gpu.bench import Bench
from benchmarks.gpu.boards import board_of
from benchmarks.gpu.build import ROOT
from benchmarks.gpu.codes import maker
from benchmarks.gpu.counted import Counted, CountersError, read_counters
from benchmarks.gpu.launched import Work
from benchmarks.gpu.supply import SIZES, grid_of, multiplies_of, repeats_of
from benchmarks.report import table
from targets.cuda.kernel import Code, Kernel

__all__ = ["SPARSITIES", "command", "find_profiler", "stalls"]

SPARSITIES = (0.5, 0.9)
WARPS = (8, 32)  # of a multiprocessor that run straight-line code
_BATCH = 64
_SMALL = ("lenet-conv1",)  # what the emulator does
_PLACES = ("/usr/local/cuda*/bin", "/opt/nvidia/nsight-compute/*", "/usr/local/cuda*/nsight-compute*")
_LEAST = 10.0  # seconds that one run of the profiler takes
_SHOWN = ("no_instruction", "selected", "not_selected", "math_pipe_throttle", "wait", "dispatch_stall")
_SHOWN += ("short_scoreboard", "mio_throttle", "long_scoreboard", "lg_throttle", "barrier")


def stalls(bench: Bench) -> None:
    """A row for each kernel: the best way of each tier at each sparsity, and straight-line code of all sizes."""
    session, profiler = bench.session, find_profiler()
    if profiler is None:
        session.note(
            "left out: ncu is missing (Nsight Compute, a part of the CUDA toolkit), on the path and beside CUDA"
        )
        return
    for what, works in _works(bench):
        if session.over(what, _LEAST):
            return
        with session.attempt(what):
            try:
                counted = _profiled(bench, profiler, works)
            except CountersError as error:  # nor would they be there for others
                session.note(f"left out: {error}")
                return
            for work, kernel in counted:
                session.row(**work, **kernel.asdict())
            session.save()
    _show(session.rows("stalls"))


def find_profiler() -> str | None:
    """ncu on the path, else the newest where toolkits are."""
    places = [place for pattern in _PLACES for place in sorted(glob.glob(pattern), reverse=True)]
    return shutil.which("ncu") or shutil.which("ncu", path=os.pathsep.join(places))


def command(profiler: str, log: Path, works: Path, library: str) -> list[str]:
    """The profiler around a process that launches the kernels of `works`. Clocks and caches stay as they are."""
    counted = ["--section", "WarpStateStats", "--metrics", "gpu__time_duration.sum"]
    untouched = ["--clock-control", "none", "--cache-control", "none"]
    printed = ["--csv", "--page", "raw", "--print-units", "base", "--log-file", str(log)]
    launching = [sys.executable, "-m", "benchmarks.gpu.launched", str(works), library]
    return [profiler, "--target-processes", "application-only", *counted, *untouched, *printed, *launching]


def _works(bench: Bench) -> Iterator[tuple[str, list[Work]]]:
    """What one run of the profiler counts, by its name: the supply of instructions first, then operators."""
    yield "straight-line code", _straight(bench)
    names, batch = (_SMALL, 2) if bench.session.emulated else (tuple(OPERATORS), _BATCH)
    with maker(board_of(bench)) as making:
        waiting = {name: making.submit(name, batch, SPARSITIES) for name in names}
        for name, future in waiting.items():
            case, works = future.result(), dict[tuple[str, float], Work]()
            for made in case.made:  # the best way of a tier is its first
                facts = {"operator": name, "batch": batch, "form": made.tier, "way": made.way}
                work = Work({**facts, "sparsity": made.sparsity}, made.code, case.layers[0.0])
                works.setdefault((made.tier, made.sparsity), work)
            yield f"{name}, batch {batch}", list(works.values())


def _straight(bench: Bench) -> list[Work]:
    """Multiply-adds as in the section on the supply of instructions."""
    small, found = bench.session.emulated, []
    multiprocessors = 1 if small else bench.device.multiprocessors
    x = np.ones(1, np.float32)
    y = np.zeros(multiprocessors * max(WARPS) * (probes.THREADS + 4), np.float32)
    for size in SIZES[:1] if small else SIZES:
        multiplies = multiplies_of(size, bench.device.sm)
        ptx, loops = probes.multiply_adds(multiplies), np.array([1 if small else repeats_of(multiplies)], np.uint32)
        for warps in WARPS:
            blocks, threads = grid_of(warps, multiprocessors)
            code = Code((Kernel("multiply_adds", ptx, (blocks, 1, 1), threads),), (x, y, loops))
            found.append(Work({"bytes": size, "warps": warps}, code))
    return found


def _profiled(bench: Bench, profiler: str, works: Sequence[Work]) -> list[tuple[dict[str, Any], Counted]]:
    """What the kernels of each work are of, and what was counted of them."""
    with tempfile.TemporaryDirectory() as folder:
        given, log = Path(folder) / "works", Path(folder) / "log.csv"
        given.write_bytes(pickle.dumps(list(works)))
        done = subprocess.run(
            command(profiler, log, given, bench.library),
            cwd=ROOT,
            capture_output=True,
            text=True,
            timeout=max(bench.session.left(), 1),
        )
        text = log.read_text(errors="replace") if log.exists() else ""
        try:
            counted = read_counters(text)
        except CountersError as error:
            said = (done.stderr or done.stdout).strip().splitlines()[-1:]
            raise CountersError("; ".join([str(error), *said])) from None
    launched = [json.loads(line) for line in done.stdout.splitlines() if line.startswith('{"work"')]
    for launch, kernel in zip(launched, counted, strict=False):
        if not kernel.name.startswith(launch["kernel"]):
            raise ValueError(f"the profiler counted kernel '{kernel.name}', expected '{launch['kernel']}'")
    if len(launched) != len(counted):
        bench.session.note(f"{len(launched)} kernels were launched, {len(counted)} counted")
    return [(works[launch["work"]].facts, kernel) for launch, kernel in zip(launched, counted, strict=False)]


def _show(rows: Sequence[dict[str, Any]]) -> None:
    """Shares of the cycles of warps in percent; kernels of one layer follow each other."""
    shown = []
    for row in rows:
        layer = (
            f"{row['operator']} {row['form']} {row['sparsity']:g}" if "operator" in row else f"{row['bytes'] >> 10} KiB"
        )
        shares = (100 * row["shares"].get(reason, 0.0) for reason in _SHOWN)
        shown.append([layer, row.get("warps", "-"), row["seconds"] * 1e6, row["issuing"], *shares])
    header = ("kernel", "warps", "us", "issuing", *(reason.replace("_", " ") for reason in _SHOWN))
    table("what warps do, percent of their cycles", header, shown)
