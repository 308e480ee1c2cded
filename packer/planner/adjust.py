"""Adjustments: what stands between the state a value is produced in and the state it is needed in.

Cores share memory, so gathering, splitting and re-splitting a value (compensation, the halo, included) move no data
by a step, but for the halo of bands: a core reads what others wrote, once all have met at a barrier, and pays for the
cache lines that come from another core. If every core reads only what it wrote itself, nothing is paid and nothing is
emitted. A change of layout is a step (`reorder`), done by each core for the pieces it has; a change of element type is
a Cast in the graph.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np

from packer.ir import Box, TensorType, extents_of, whole
from packer.ir.ops import Dependence, Part
from packer.planner.costs import Costs
from packer.planner.split import NONE, SHARED, Piece, Split, splits, together
from targets.base import Layout, block_grain

__all__ = ["IMPOSSIBLE", "Adjust", "reorder_pieces"]

IMPOSSIBLE = 1e6  # seconds: what two choices cost that do not go together

_T = TypeVar("_T")


def reorder_pieces(type: TensorType, split: Split | None, speeds: tuple[float, ...]) -> tuple[Piece, ...]:
    """Who changes the layout of which part of a value: those who produced it, all their tiles at once, or else all
    cores evenly.

    `split` is None for an input of the graph, and one that cuts blocks of 16 is not followed. Small values are left to
    one core.
    """
    grain = block_grain(type.rank)
    if split is not None and split.name not in (NONE, SHARED):
        torn = [begin % n for piece in split.pieces for (begin, _), n in zip(piece.box, grain, strict=True)]
        if not any(torn):
            return together(split.pieces)
    cores = speeds if type.bytes >= _WORTH_SHARING else speeds[:1]
    has_rows = type.rank > _ROWS and type.shape[_ROWS] > 1
    axes = [Dependence.FULL if has_rows and axis != _ROWS else Dependence.POINTWISE for axis in range(type.rank)]
    cuts = splits(type, tuple(axes), cores, grain)
    return max(cuts, key=lambda cut: len(cut.pieces)).pieces


_ROWS = 2  # their axis
_WORTH_SHARING = 1 << 16  # bytes


@dataclass(slots=True)
class Adjust:
    """The costs of adjustments on a number of cores."""

    costs: Costs
    cores: int
    _speeds: tuple[float, ...] = ()
    _kept: dict[tuple[object, ...], tuple[object, Any]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._speeds = self.costs.target.machine.speeds(self.cores)

    def layouts(self, type: TensorType, split: Split | None, source: Layout, destination: Layout) -> float:
        """Seconds to change the layout of a value produced in `split`; 0 if there is nothing to change."""
        if source is destination:
            return 0.0
        if Layout.REGISTERS in (source, destination):
            return IMPOSSIBLE

        def seconds() -> float:
            pieces = reorder_pieces(type, split, self._speeds)
            if destination not in (Layout.PLANAR, Layout.BLOCK16):
                pieces = (Piece(0, whole(type)),)
            return max(
                self.costs.reorder(TensorType(type.dtype, shape), source, destination, core, len(pieces))
                for shape, core in self._once(lambda: self._kinds(pieces), pieces)
            )

        return self._once(seconds, split, type, source, destination)

    def _kinds(self, pieces: Sequence[Piece]) -> list[tuple[tuple[int, ...], int]]:
        """The different shapes of pieces on cores of different speeds, and one of those cores."""
        kinds = {(extents_of(piece.box), self._speeds[piece.core]): piece.core for piece in pieces}
        return [(shape, core) for (shape, _), core in kinds.items()]

    def moves(self, type: TensorType, given: Sequence[Split], needed: Sequence[np.ndarray]) -> np.ndarray:
        """Seconds [given, needed] that it takes the cores to get what they need of a value, as `read` tells, and did
        not produce.

        A split "shared" leaves nothing where it is known to be. No pieces needed: nothing is read.
        """
        if self.cores == 1:
            return np.zeros((len(given), len(needed)))
        machine = self.costs.target.machine
        have = np.stack([self.produced(split, type) for split in given])
        want = np.stack(needed)
        volume = (want[..., 1] - want[..., 0]).clip(0).prod(-1)
        begin = np.maximum(have[:, None, :, :, 0], want[None, :, :, :, 0])
        end = np.minimum(have[:, None, :, :, 1], want[None, :, :, :, 1])
        crossing = (volume[None] - (end - begin).clip(0).prod(-1)).max(-1)
        seconds = crossing * (type.dtype.bytes / machine.transfer_gbps * 1e-9) + machine.transfer_seconds
        return np.where(crossing > 0, seconds + machine.barrier(self.cores), 0.0)

    def produced(self, split: Split, type: TensorType) -> np.ndarray:
        """[cores, rank, begin and end]: what surrounds all that each core makes of a value; an empty box for a core
        that makes nothing."""

        def around() -> np.ndarray:
            pieces = () if split.name == SHARED else split.pieces
            return self._around([(piece.core, piece.box) for piece in pieces], type.rank)

        return self._once(around, split, type.rank)

    def read(self, parts: Sequence[Part | None], cores: Sequence[int], i: int, type: TensorType) -> np.ndarray:
        """[cores, rank, begin and end]: what surrounds all that each core reads of input i, a value of this type."""

        def around() -> np.ndarray:
            boxes = [whole(type) if part is None else part.reads[i] for part in parts]
            return self._around([(c, box) for c, box in zip(cores, boxes, strict=True) if box is not None], type.rank)

        return self._once(around, parts, i, type.shape)

    def _around(self, boxes: Sequence[tuple[int, Box]], rank: int) -> np.ndarray:
        found = np.zeros((self.cores, max(rank, 1), 2))
        if boxes:
            cores = [core for core, _ in boxes]
            every = np.array([box or ((0, 1),) for _, box in boxes], float)
            found[cores, :, 0] = np.inf
            np.minimum.at(found[..., 0], cores, every[..., 0])
            np.maximum.at(found[..., 1], cores, every[..., 1])
        return found

    def _once(self, make: Callable[[], _T], of: object, *key: object) -> _T:
        """What `make` gives for this very object `of`, made once."""
        kept = self._kept.get((id(of), *key))
        if kept is None:
            kept = self._kept[id(of), *key] = of, make()  # `of` is kept, too: its number is not given to another
        found: _T = kept[1]
        return found
