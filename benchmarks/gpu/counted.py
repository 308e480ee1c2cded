"""What Nsight Compute prints of kernels, as comma-separated values of its page "raw"."""

from __future__ import annotations

import csv
import re
from dataclasses import asdict, dataclass
from typing import Any

__all__ = ["Counted", "CountersError", "read_counters"]

# warps in a state for each cycle in which a scheduler issues
_STATE = re.compile(r"smsp__average_warps_issue_stalled_(\w+)_per_issue_active\.ratio")
_ISSUING, _TIME = "smsp__issue_active.avg.per_cycle_active", "gpu__time_duration.sum"
_SECONDS = {
    "nsecond": 1e-9,
    "usecond": 1e-6,
    "msecond": 1e-3,
    "second": 1.0,
    "ns": 1e-9,
    "us": 1e-6,
    "ms": 1e-3,
    "s": 1.0,
}
_FORBIDDEN = "ERR_NVGPUCTRPERM"


class CountersError(Exception):
    """Nothing can be counted here; the message says why."""


@dataclass(frozen=True, slots=True)
class Counted:
    """A launch: `shares` of the cycles of its warps by what they do ("selected": they issue, else what they wait for),
    `issuing`: the share of cycles in which a scheduler issues, None if it was not counted."""

    name: str
    grid: str
    seconds: float
    issuing: float | None
    shares: dict[str, float]

    def asdict(self) -> dict[str, Any]:
        return {key: value for key, value in asdict(self).items() if key != "name"} | {"kernel": self.name}


def read_counters(text: str) -> list[Counted]:
    """The launches in order, from all that the profiler printed; raises CountersError with its first error, or if there
    are none."""
    lines = text.splitlines()
    begin = next((number for number, line in enumerate(lines) if line.startswith('"ID",')), None)
    if begin is None:
        raise CountersError(_complaint(lines))
    (header, units, *rows) = csv.reader(line for line in lines[begin:] if line.startswith('"'))
    unit = dict(zip(header, units, strict=True))
    found = [_counted(dict(zip(header, row, strict=True)), unit) for row in rows]
    if not any(kernel.shares for kernel in found):
        raise CountersError(f"no states of warps were counted. {_complaint(lines)}")
    return found


def _counted(row: dict[str, str], unit: dict[str, str]) -> Counted:
    states = {match[1]: _number(value) for name, value in row.items() if (match := _STATE.fullmatch(name))}
    warps = sum(states.values())
    return Counted(
        row["Kernel Name"],
        row["Grid Size"],
        _number(row[_TIME]) * _SECONDS[unit[_TIME]],
        _number(row[_ISSUING]) if row.get(_ISSUING) else None,
        {state: value / warps for state, value in states.items()} if warps > 0 else {},
    )


def _number(text: str) -> float:
    return float(text.replace(",", "")) if text else 0.0


def _complaint(lines: list[str]) -> str:
    """The profiler's first error, or warning."""
    said = [line for mark in ("==ERROR==", "==WARNING==") for line in lines if line.startswith(mark)]
    if any(_FORBIDDEN in line for line in said):
        return f"only the superuser may read the counters here ({_FORBIDDEN})"
    return f"ncu: {said[0].partition('== ')[2]}" if said else "ncu printed no table"
