"""Adjustments: what stands between the state a value is produced in and the state it is needed in.

Cores share memory, so gathering, splitting and re-splitting a value (compensation, the halo, included) move no data
by a step: a core reads what others wrote, once all have met at a barrier, and pays for the cache lines that come from
another core. If every core reads only what it wrote itself, nothing is paid and nothing is emitted. A change of layout
is a step (`reorder`), done by each core for the pieces it has; a change of element type is a Cast in the graph.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from packer.ir import TensorType, extents_of
from packer.ir.ops import Dependence
from packer.planner.costs import Costs
from packer.planner.split import NONE, SHARED, Piece, Split, splits
from targets.base import Layout, block_grain

__all__ = ["Adjust", "reorder_pieces"]


def reorder_pieces(type: TensorType, split: Split | None, speeds: tuple[float, ...]) -> tuple[Piece, ...]:
    """Who changes the layout of which part of a value: those who produced it, or else all cores evenly.

    `split` is None for an input of the graph. Small values are left to one core.
    """
    if split is not None and split.name not in (NONE, SHARED):
        return split.pieces
    anywhere = (Dependence.POINTWISE,) * type.rank
    cores = speeds if type.bytes >= _WORTH_SHARING else speeds[:1]
    cuts = splits(type, anywhere, cores, block_grain(type.rank))
    by_rows = [cut for cut in cuts if cut.name.startswith("H")]
    return max(by_rows or cuts, key=lambda cut: len(cut.pieces)).pieces


_WORTH_SHARING = 1 << 16  # bytes


@dataclass(slots=True)
class Adjust:
    """The costs of adjustments on a number of cores."""

    costs: Costs
    cores: int
    _boxes: dict[tuple[Piece, ...], np.ndarray] = field(default_factory=dict)

    def layouts(self, type: TensorType, split: Split | None, source: Layout, destination: Layout) -> float:
        """Seconds to change the layout of a value produced in `split`; 0 if there is nothing to change."""
        if source is destination:
            return 0.0
        speeds = self.costs.target.machine.speeds(self.cores)
        pieces = reorder_pieces(type, split, speeds)
        if destination not in (Layout.PLANAR, Layout.BLOCK16):
            pieces = (Piece(0, tuple((0, extent) for extent in type.shape)),)
        active = len(pieces)
        return max(
            self.costs.reorder(TensorType(type.dtype, extents_of(piece.box)), source, destination, piece.core, active)
            for piece in pieces
        )

    def moves(self, type: TensorType, given: Sequence[Split], needed: Sequence[tuple[Piece, ...]]) -> np.ndarray:
        """Seconds [given, needed] that it takes the cores to get the parts of a value they need but did not produce.

        A split "shared" leaves nothing where it is known to be. No pieces needed: nothing is read.
        """
        if self.cores == 1:
            return np.zeros((len(given), len(needed)))
        machine = self.costs.target.machine
        known = [() if split.name == SHARED else split.pieces for split in given]
        have = np.stack([self.boxes(pieces, type.rank) for pieces in known])
        want = np.stack([self.boxes(pieces, type.rank) for pieces in needed])
        volume = (want[..., 1] - want[..., 0]).clip(0).prod(-1)
        begin = np.maximum(have[:, None, :, :, 0], want[None, :, :, :, 0])
        end = np.minimum(have[:, None, :, :, 1], want[None, :, :, :, 1])
        crossing = (volume[None] - (end - begin).clip(0).prod(-1)).max(-1)
        seconds = crossing * (type.dtype.bytes / machine.transfer_gbps * 1e-9) + machine.transfer_seconds
        return np.where(crossing > 0, seconds + machine.barrier(self.cores), 0.0)

    def boxes(self, pieces: tuple[Piece, ...], rank: int) -> np.ndarray:
        """[cores, rank, begin and end]: what surrounds the pieces of each core; an empty box for a core without any."""
        key = pieces or (Piece(-1, ((0, 0),) * rank),)
        found = self._boxes.get(key)
        if found is None:
            found = np.zeros((self.cores, max(rank, 1), 2))
            for core in {piece.core for piece in pieces}:
                own = np.array([piece.box or ((0, 1),) for piece in pieces if piece.core == core])
                found[core, :, 0], found[core, :, 1] = own[..., 0].min(0), own[..., 1].max(0)
            self._boxes[key] = found
        return found
