"""What all benchmarks share: the machine's fingerprint, tables, results as JSON."""

from __future__ import annotations

import dataclasses
import json
import math
import platform
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import edgert
from edgert.devices import this_machine

__all__ = ["RESULTS", "geometric_mean", "save", "table"]

RESULTS = Path(__file__).resolve().parent / "results"


def geometric_mean(values: Sequence[float]) -> float:
    return math.exp(sum(map(math.log, values)) / len(values))


def table(title: str, header: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """Print a table: the first column left-aligned, the others right."""
    cells = [list(header), *([f"{v:.2f}" if isinstance(v, float) else str(v) for v in row] for row in rows)]
    widths = [max(len(row[i]) for row in cells) for i in range(len(header))]
    print(f"\n{title}")
    for number, row in enumerate(cells):
        first, *rest = (
            cell.ljust(w) if i == 0 else cell.rjust(w) for i, (cell, w) in enumerate(zip(row, widths, strict=True))
        )
        print("  ".join([first, *rest]))
        if number == 0:
            print("  ".join("-" * w for w in widths))


def save(name: str, result: Any, path: Path | None = None) -> None:
    """Write benchmarks/results/<name>.json, or `path`, with the environment it was measured in."""
    path = path or RESULTS / f"{name}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    environment = {
        "edgert": edgert.__version__,
        "machine": dataclasses.asdict(this_machine()),
        "python": platform.python_version(),
        "date": time.strftime("%Y-%m-%d"),
    }
    path.write_text(json.dumps({"environment": environment, "result": result}, indent=1, default=str) + "\n")
