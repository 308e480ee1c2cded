"""Stands in for Nsight Compute: runs the program that it is given, and prints what could have been counted of it.

`python -m tests.benchmarks.profiler OPTIONS... PYTHON -m MODULE ARGUMENTS...`
"""

from __future__ import annotations

import csv
import json
import os
import subprocess
import sys
from pathlib import Path

__all__ = ["STATES", "install", "printed"]

# warps in each state for a cycle in which a scheduler issues
STATES = {"selected": 1.0, "no_instruction": 2.5, "math_pipe_throttle": 0.0, "long_scoreboard": 1.5, "barrier": 5.0}
_ABOUT = {
    "ID": "",
    "Process ID": "77",
    "Process Name": "python",
    "Kernel Name": "",
    "Grid Size": "(3, 1, 1)",
    "CC": "9.0",
}


def printed(names: list[str], unit: str = "nsecond") -> str:
    """What ncu prints of launches of these kernels, as in its documentation's examples."""
    metrics = {"gpu__time_duration.sum": (unit, "1024.000000")}
    for state, warps in STATES.items():
        metrics[f"smsp__average_warps_issue_stalled_{state}_per_issue_active.ratio"] = ("inst", f"{warps:.6f}")
    metrics["smsp__average_warp_latency_per_inst_issued.ratio"] = ("cycle", "10.000000")
    metrics["smsp__issue_active.avg.per_cycle_active"] = ("inst/cycle", "0.250000")
    rows: list[list[str]] = [[*_ABOUT, *metrics], [*("" for _ in _ABOUT), *(unit for unit, _ in metrics.values())]]
    for number, name in enumerate(names):
        own = _ABOUT | {"ID": str(number), "Kernel Name": name}
        rows.append([*own.values(), *(value for _, value in metrics.values())])
    lines = ["==PROF== Connected to process 77 (/usr/bin/python3)", "==PROF== Disconnected from process 77"]
    return "\n".join([*lines, *(",".join(f'"{cell}"' for cell in row) for row in rows), ""])


def install(folder: Path) -> dict[str, str]:
    """Puts it into the folder as `ncu`; the environment in which that is found."""
    script = folder / "ncu"
    script.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m tests.benchmarks.profiler "$@"\n')
    script.chmod(0o755)
    return {"PATH": f"{folder}{os.pathsep}{os.environ['PATH']}"}


def _main() -> int:
    arguments = sys.argv[1:]
    done = subprocess.run(arguments[arguments.index(sys.executable) :], stdout=subprocess.PIPE, text=True)
    print(done.stdout, end="")
    names = [json.loads(line)["kernel"] for line in done.stdout.splitlines() if line.startswith("{")]
    log = Path(arguments[arguments.index("--log-file") + 1])
    log.write_text(printed(names) if names else "==WARNING== No kernels were profiled.\n")
    assert list(csv.reader(log.read_text().splitlines()[-1:]))
    return done.returncode


if __name__ == "__main__":
    sys.exit(_main())
