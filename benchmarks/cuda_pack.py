"""What it takes to pack pruned networks for a Jetson, nothing in the cache, and the size of what comes out."""

from __future__ import annotations

import os
import resource
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from unittest import mock

from benchmarks.networks import network_file
from benchmarks.report import save, table
from edgert.reader import read
from packer.api import pack

__all__ = ["Row", "measure", "run"]

CASES = (("squeezenet_dc", None), ("resnet50", 90))  # percent of zeros; None: its own


@dataclass(frozen=True, slots=True)
class Row:
    """A network: seconds on the clock, of processors for the packer and for the assemblers that it runs, processes that
    were ready to run on average in the last minute of it, bytes of the bundle and of the code in it."""

    network: str
    zeros: int | None
    seconds: float
    packer: float
    assemblers: float
    load: float
    bundle: int
    modules: int
    cubins: int
    ptx: int


def measure(name: str, zeros: int | None) -> Row:
    """Pack a network for a target with an empty cache."""
    path = network_file(name, zeros)
    with _empty_cache() as folder:
        own, others, began = _used(resource.RUSAGE_SELF), _used(resource.RUSAGE_CHILDREN), time.perf_counter()
        report = pack(path, folder / "model.edge", targets=["jetson"])
        seconds = time.perf_counter() - began
        modules = read(report.path, "metadata").programs[0].modules
    return Row(
        name,
        zeros,
        seconds,
        _used(resource.RUSAGE_SELF) - own,
        _used(resource.RUSAGE_CHILDREN) - others,
        os.getloadavg()[0],
        report.bytes,
        len(modules),
        sum(module.cubin_bytes for module in modules),
        sum(module.ptx_stored for module in modules),
    )


@contextmanager
def _empty_cache() -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as folder, mock.patch.dict(os.environ, XDG_CACHE_HOME=folder):
        yield Path(folder)


def _used(who: int) -> float:
    usage = resource.getrusage(who)
    return usage.ru_utime + usage.ru_stime


def run(quick: bool = False) -> None:
    """Print the table and save results/cuda_pack.json."""
    rows = [measure(*case) for case in CASES[: 1 if quick else None]]
    header = ("network", "seconds", "packer", "ptxas", "load", "bundle MB", "modules", "cubins MB", "PTX MB")
    table("packing for jetson, seconds of the clock and of processors", header, list(map(_cells, rows)))
    if not quick:
        save("cuda_pack", {"rows": [asdict(row) for row in rows]})


def _cells(row: Row) -> list[object]:
    sizes = row.bundle / 1e6, row.modules, row.cubins / 1e6, row.ptx / 1e6
    return [row.network, row.seconds, row.packer, row.assemblers, row.load, *sizes]
