"""Bytes from device memory, and sectors of the second-level cache, for what blocks read and write."""

from __future__ import annotations

import math

from targets.cuda.board import Board

__all__ = ["SECTOR", "again", "sectors"]

SECTOR = 32  # bytes
_APART = 0.9  # sectors more that a line has where it does not begin at one


def sectors(line: float, size: int) -> float:
    """Of so many neighbouring elements of `size` bytes."""
    return line * size / SECTOR + _APART


def again(board: Board, size: float, touched: float, blocks: int, held: int, parts: int) -> float:
    """Bytes that come from device memory for an operand of `size` bytes of which blocks touch so many in all, each one
    of `parts`, neighbouring blocks different ones: once, if the second-level cache holds it."""
    if size <= board.l2_bytes / 2:
        return min(size, touched)
    together = held * board.multiprocessors
    waves = math.ceil(blocks / together)
    return min(touched, max(size, waves * size * min(1.0, min(parts, together) / parts)))
