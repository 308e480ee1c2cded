"""CUDA targets: every TOML file in boards/ is one; sparse convolutions are straight-line code, weights in it.

Programs run on the GPU what it can, and the rest on the board's processor; docs/cuda.md.
"""

from __future__ import annotations

from targets.cuda.board import BOARDS
from targets.cuda.target import SETTINGS, CudaTarget, create

__all__ = ["SETTINGS", "TARGETS", "CudaTarget", "create"]

TARGETS: dict[str, str] = {
    name: board.description for board in BOARDS.values() for name in (board.name, *board.aliases)
}
