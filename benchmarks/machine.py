"""What the processor itself allows, measured by machine.c: its peak, and the state its cores' traffic is in.

On virtual machines the hypervisor moves cores about: for seconds at a time a cache line's round trip between two of
them may take several times as long, and programs of two threads slow down with it.
"""

from __future__ import annotations

import ctypes
import functools
import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

__all__ = ["Traffic", "peak_gflops"]

SOURCE = Path(__file__).with_name("machine.c")
CACHE = Path(__file__).resolve().parent / ".cache"
FLAGS = ("-O3", "-march=native", "-ffp-contract=fast", "-Wall", "-Wextra", "-shared", "-fPIC", "-pthread")
BURSTS = 200
ROUNDS = 2000
SLOW = 3.0  # times the least round trip


def peak_gflops() -> float:
    """Multiply-adds of one core on registers alone, in 1e9 floating-point operations a second."""
    return float(_library().machine_flops(BURSTS)) * 1e-9


class Traffic:
    """Tells the slow state of the traffic between two cores by the least round trip seen so far."""

    def __init__(self) -> None:
        self.cpus = sorted(os.sched_getaffinity(0))[:2]
        self.least_ns = min(self.round_trip_ns() for _ in range(20)) if len(self.cpus) == 2 else 0.0

    def round_trip_ns(self) -> float:
        """Nanoseconds of a cache line from one core to the other and back."""
        return float(_library().machine_round_trip(*self.cpus, ROUNDS)) * 1e9

    def slow(self) -> bool:
        """Whether cores are far from each other just now; False on a machine of one core."""
        if len(self.cpus) < 2:
            return False
        now = self.round_trip_ns()
        self.least_ns = min(self.least_ns, now)
        return now > SLOW * self.least_ns


@functools.cache
def _library() -> ctypes.CDLL:
    """machine.c, built on first use."""
    key = hashlib.sha256(SOURCE.read_bytes() + " ".join(FLAGS).encode()).hexdigest()[:16]
    path = CACHE / f"machine-{key}.so"
    if not path.exists():
        compiler = os.environ.get("CC") or shutil.which("cc") or sys.exit("the benchmarks need a C compiler (cc)")
        CACHE.mkdir(exist_ok=True)
        subprocess.run([compiler, *FLAGS, SOURCE, "-o", path], check=True)
    library = ctypes.CDLL(str(path))
    library.machine_flops.restype = library.machine_round_trip.restype = ctypes.c_double
    return library
