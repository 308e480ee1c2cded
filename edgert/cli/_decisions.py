"""The table of what the planner decided, node by node."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from edgert.cli._output import print_table

__all__ = ["print_decisions"]


def print_decisions(decisions: Sequence[Any], measured: Mapping[str, float] | None = None) -> None:
    """Decisions of packer.planner.explain, with the measured seconds of nodes that have any."""
    rows = []
    for d in decisions:
        took = (measured or {}).get(d.node)
        lost = ""
        if d.runner_up:
            lost = f"{d.runner_up}: {_signed(d.more_compute)} computing, {_signed(d.more_adjust)} moving"
        rows.append(
            (
                d.node,
                d.operator,
                d.algorithm,
                d.layouts,
                d.split,
                f"{d.compute * 1e6:.1f}",
                f"{d.adjust * 1e6:.1f}",
                "" if took is None else f"{took * 1e6:.1f}",
                lost,
            )
        )
    header = ("node", "operator", "algorithm", "layouts", "split", "us", "adjust-us", "measured-us", "runner-up")
    if not measured:
        rows = [(*row[:7], row[8]) for row in rows]
        header = (*header[:7], header[8])
    print_table(header, rows, right="us adjust-us measured-us", indent=2)


def _signed(seconds: float) -> str:
    return f"{seconds * 1e6:+.1f} us"
