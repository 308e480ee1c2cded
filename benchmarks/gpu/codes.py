"""The code of the ten operators in all tiers, made by processes beside the one that measures."""

from __future__ import annotations

import multiprocessing
import os
from concurrent.futures import Future, ProcessPoolExecutor
from dataclasses import dataclass, replace

from benchmarks.cuda_operators import layer
from benchmarks.gpu.placed import DENSE, HALVES, SPARSE, TEMPLATE, ways_of
from targets.base import TargetError
from targets.cuda.board import Board
from targets.cuda.kernel import Code
from targets.cuda.layer import ConvLayer
from targets.cuda.rounding import rounded

__all__ = ["Case", "Made", "case_of", "maker"]

_THOROUGH = (0.0, 0.5, 0.9)  # sparsities at which there are all tiers, and two ways of each: others take ptxas too long
_WAYS = 2


@dataclass(frozen=True, slots=True, eq=False)
class Made:
    """A layer in one way of a tier."""

    tier: str
    way: str
    sparsity: float
    code: Code


@dataclass(frozen=True, slots=True, eq=False)
class Case:
    """One operator at one batch: the layers by their sparsity, their code, and what could not be made."""

    layers: dict[float, ConvLayer]
    made: list[Made]
    notes: list[str]


def case_of(board: Board, name: str, batch: int, sparsities: tuple[float, ...]) -> Case:
    """With dense weights, and with those of each sparsity; where an immediate is short, they are rounded."""
    case = Case({}, [], [])
    for sparsity in (0.0, *sparsities):
        own = layer(name, sparsity, batch)
        case.layers[sparsity] = own = replace(own, weights=rounded(own.weights)) if board.sm < 70 else own
        for tier in SPARSE if sparsity else (DENSE,):
            most = _WAYS if sparsity in _THOROUGH else int(tier not in (TEMPLATE, HALVES))
            try:
                case.made.extend(Made(tier, way, sparsity, code) for way, code in ways_of(board, own, tier, most))
            except TargetError as error:
                case.notes.append(f"{tier}: {str(error).splitlines()[0]}")
    return case


class maker:
    """Makes cases in the order in which they were asked for; as a context, so that no process stays."""

    def __init__(self, board: Board) -> None:
        self._board = board
        workers = max(1, len(os.sched_getaffinity(0)) // 2)
        self._pool = ProcessPoolExecutor(workers, multiprocessing.get_context("spawn"))

    def submit(self, name: str, batch: int, sparsities: tuple[float, ...]) -> Future[Case]:
        return self._pool.submit(case_of, self._board, name, batch, sparsities)

    def __enter__(self) -> maker:
        return self

    def __exit__(self, *error: object) -> None:
        self._pool.shutdown(cancel_futures=True)
