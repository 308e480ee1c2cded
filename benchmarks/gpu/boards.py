"""The board that networks are packed for: one that is known, or one made of what was found."""

from __future__ import annotations

import platform
from dataclasses import replace

from benchmarks.gpu.bench import Bench
from targets.cuda import TARGETS
from targets.cuda.board import BOARDS, Board

__all__ = ["board_of"]

_LIKE = {"x86_64": "h200", "aarch64": "jetson-orin"}  # whose processor and assumptions a new one gets


def board_of(bench: Bench) -> Board:
    """A known board with just this kind of device; else a new one, with the bandwidth that was measured."""
    device = bench.device
    for board in BOARDS.values():
        if board.sm == device.sm and (bench.session.emulated or board.arch == platform.machine()):
            return board
    rows = {row["name"]: row["median"] for row in bench.session.rows("ceilings")}
    like = BOARDS[_LIKE[platform.machine()]]
    found = replace(
        like,
        name="this-gpu",
        aliases=(),
        description=device.name,
        sm=device.sm,
        multiprocessors=device.multiprocessors,
        ghz=device.ghz,
        gbps=rows.get("memory, read", like.gbps),
        l2_bytes=device.l2,
    )
    BOARDS[found.name] = found
    TARGETS[found.name] = found.description
    return found
