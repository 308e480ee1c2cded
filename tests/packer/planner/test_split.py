"""Splits are complete, disjoint, legal, balanced by speed; adjustments cost what crosses cores and nothing else."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from packer.ir import DType, TensorType, extents_of, whole
from packer.ir.ops import Dependence, Part, Unary
from packer.planner.adjust import Adjust, reorder_pieces
from packer.planner.costs import Costs
from packer.planner.split import NONE, SHARED, Piece, Split, balanced, evened, splits, weighed
from targets.base import Layout, block_grain, resolve
from targets.machine import Machine

TARGET = resolve("cpu").on(Machine.load("zen4-server"))
P, R, F = Dependence.POINTWISE, Dependence.REGION, Dependence.FULL


def image(*shape: int) -> TensorType:
    return TensorType(DType.F32, shape)


@pytest.mark.parametrize("seed", range(100))
def test_pieces_are_all_of_the_output_once(seed: int) -> None:
    random = np.random.default_rng(seed)
    rank = int(random.integers(1, 6))
    type = image(*(int(random.integers(1, 50)) for _ in range(rank)))
    dependence = tuple((P, R, F)[int(i)] for i in random.integers(0, 3, rank))
    speeds = tuple(sorted((float(s) for s in random.choice([1.0, 0.5, 0.3], int(random.integers(1, 9)))), reverse=True))
    grain = block_grain(rank)
    for split in splits(type, dependence, speeds, grain):
        assert len({piece.core for piece in split.pieces}) == len(split.pieces) <= len(speeds)
        assert sum(math.prod(extents_of(piece.box)) for piece in split.pieces) == type.elements
        for a, b in itertools.combinations(split.pieces, 2):
            assert any(x[1] <= y[0] or y[1] <= x[0] for x, y in zip(a.box, b.box, strict=True))
        for piece in split.pieces:
            for span, extent, kind, multiple in zip(piece.box, type.shape, dependence, grain, strict=True):
                assert 0 <= span[0] < span[1] <= extent
                assert kind is not F or span == (0, extent)
                assert span[0] % multiple == 0
                assert span[1] % multiple == 0 or span[1] == extent


def test_names_and_numbers_of_pieces() -> None:
    names = {s.name: len(s.pieces) for s in splits(image(2, 96, 14, 14), (P, P, R, R), (1.0,) * 6, block_grain(4))}
    assert names[NONE] == 1
    assert {"N2", "H5", "C6", "C3", "N2xC3", "C3xH2"} <= set(names)
    assert "H6" not in names, "five pieces of 14 rows are as small"
    assert names["H5"] == 5, "piece counts are no powers of two"
    assert SHARED not in names


def test_what_cannot_be_cut_is_shared() -> None:
    assert [s.name for s in splits(image(1, 96), (F, F), (1.0, 1.0), (1, 1))] == [NONE, SHARED]
    assert [s.name for s in splits(image(1, 96), (F, F), (1.0,), (1, 1))] == [NONE]


def test_pieces_in_proportion_to_speed() -> None:
    """Two fast cores and four slower ones, as a Jetson TX2 has: all finish together, within one unit."""
    speeds = (1.0, 1.0, 0.6, 0.6, 0.6, 0.6)
    (rows,) = (s for s in splits(image(1, 16, 220, 8), (F, F, R, F), speeds, block_grain(4)) if len(s.pieces) == 6)
    heights = [piece.box[2][1] - piece.box[2][0] for piece in rows.pieces]
    assert heights == [50, 50, 30, 30, 30, 30]
    times = [h / s for h, s in zip(heights, speeds, strict=True)]
    assert max(times) - min(times) < 1e-9


@pytest.mark.parametrize("seed", range(50))
def test_balanced_is_the_best_there_is(seed: int) -> None:
    random = np.random.default_rng(seed)
    units, speeds = int(random.integers(0, 9)), [float(s) for s in random.choice([1.0, 0.7, 0.25], 3)]
    shares = balanced(units, speeds)
    assert sum(shares) == units
    last = max(share / speed for share, speed in zip(shares, speeds, strict=True))
    for other in itertools.product(range(units + 1), repeat=3):
        if sum(other) == units:
            assert last <= max(share / speed for share, speed in zip(other, speeds, strict=True)) + 1e-9


@pytest.mark.parametrize("seed", range(50))
def test_evened_is_the_best_there_is(seed: int) -> None:
    random = np.random.default_rng(seed)
    loads = random.choice([1.0, 2.0, 9.0], int(random.integers(1, 10)))
    ends, speeds = [0.0, *np.cumsum(loads).tolist()], [float(s) for s in random.choice([1.0, 0.7, 0.25], 3)]

    def last(shares: tuple[int, ...]) -> float:
        at = np.cumsum([0, *shares])
        return max((ends[e] - ends[b]) / speed for b, e, speed in zip(at[:-1], at[1:], speeds, strict=True))

    shares = evened(ends, speeds)
    assert sum(shares) == len(loads)
    every = itertools.product(range(len(loads) + 1), repeat=3)
    assert last(shares) <= 1.011 * min(last(other) for other in every if sum(other) == len(loads))


@pytest.mark.parametrize("cores", [2, 3, 6, 16])
def test_pieces_of_equal_work(cores: int) -> None:
    """The first filters have four times the weights of the last: pieces of as many filters would be 1.6 times the work
    of others."""
    type, speeds, grain = image(1, 1024, 4, 4), (1.0,) * cores, block_grain(4)
    before = np.cumsum([0.0, *np.linspace(400, 100, 1024)])
    everything = before[-1] * 16
    found = {split.name: split for split in weighed(type, (P, P, R, R), speeds, grain, 1, before)}
    even = {split.name: split for split in splits(type, (P, P, R, R), speeds, grain)}
    assert f"C{cores}~" in found
    for name, split in found.items():
        assert len(split.pieces) == len(even[name.replace("~", "")].pieces)
        assert sum(math.prod(extents_of(piece.box)) for piece in split.pieces) == type.elements
        assert all(piece.box[1][0] % 16 == 0 for piece in split.pieces)
        loads = [
            (before[box[1][1]] - before[box[1][0]]) * math.prod(end - begin for begin, end in box[2:])
            for box in (piece.box for piece in split.pieces)
        ]
        assert max(loads) <= everything / len(loads) * (1.25 if cores == 16 else 1.05)


def test_equal_work_needs_no_other_pieces() -> None:
    type, grain = image(1, 256, 4, 4), block_grain(4)
    assert weighed(type, (P, P, R, R), (1.0, 1.0), grain, 1, np.arange(257.0)) == ()
    assert weighed(type, (P, F, R, R), (1.0, 1.0), grain, 1, np.arange(257.0) ** 2) == ()


def reads(adjust: Adjust, pieces: tuple[Piece, ...], type: TensorType) -> np.ndarray:
    """What cores need that read these pieces."""
    parts = [Part(Unary("relu"), (piece.box,), piece.box) for piece in pieces]
    return adjust.read(parts, [piece.core for piece in pieces], 0, type)


def test_a_resplit_that_moves_nothing_costs_nothing() -> None:
    type = image(1, 32, 8, 8)
    adjust = Adjust(Costs(TARGET.on(TARGET.machine.sized(2))), 2)
    by_name = {s.name: s for s in splits(type, (P,) * 4, (1.0, 1.0), block_grain(4))}
    rows, channels, everything = by_name["H2"], by_name["C2"], by_name[NONE]
    halo = tuple(
        Piece(piece.core, (*piece.box[:2], (max(piece.box[2][0] - 1, 0), min(piece.box[2][1] + 1, 8)), piece.box[3]))
        for piece in rows.pieces
    )
    needed = [reads(adjust, pieces, type) for pieces in (rows.pieces, channels.pieces, halo, everything.pieces)]
    costs = adjust.moves(type, [rows, channels, everything], needed)
    assert costs[0, 0] == costs[1, 1] == costs[2, 3] == 0
    assert 0 < costs[0, 2] < costs[0, 1], "a halo of a row is less than half of everything"
    assert (costs[:2, 3] > 0).all()
    assert costs[2, 0] > 0
    one = Adjust(Costs(TARGET.on(TARGET.machine.sized(1))), 1)
    assert not one.moves(type, [everything], [reads(one, everything.pieces, type)]).any()
    assert adjust.layouts(type, rows, Layout.PLANAR, Layout.PLANAR) == 0
    assert adjust.layouts(type, rows, Layout.PLANAR, Layout.BLOCK16) > 0


def test_who_changes_a_layout() -> None:
    big, small = image(1, 32, 64, 64), image(1, 2, 2, 2)
    rows = Split("H2", (Piece(0, ((0, 1), (0, 32), (0, 40), (0, 64))), Piece(1, ((0, 1), (0, 32), (40, 64), (0, 64)))))
    assert reorder_pieces(big, rows, (1.0, 1.0)) == rows.pieces
    assert len(reorder_pieces(big, None, (1.0, 1.0))) == 2
    assert [piece.box for piece in reorder_pieces(small, None, (1.0, 1.0))] == [whole(small)]
    torn = Split("C2", (Piece(0, ((0, 1), (0, 1), (0, 2), (0, 2))), Piece(1, ((0, 1), (1, 2), (0, 2), (0, 2)))))
    assert [piece.box for piece in reorder_pieces(small, torn, (1.0, 1.0))] == [whole(small)], "blocks are not cut"


@pytest.mark.parametrize("cores", [1, 2])
def test_a_core_changes_the_layout_of_all_its_tiles_at_once(cores: int) -> None:
    type, count = image(1, 32, 64, 64), 4
    spans = [(64 * i // (cores * count), 64 * (i + 1) // (cores * count)) for i in range(cores * count)]
    tiles = Split("tiles", tuple(Piece(i // count, ((0, 1), (0, 32), s, (0, 64))) for i, s in enumerate(spans)))
    halves = [Piece(i, ((0, 1), (0, 32), (64 * i // cores, 64 * (i + 1) // cores), (0, 64))) for i in range(cores)]
    assert reorder_pieces(type, tiles, (1.0,) * cores) == tuple(halves)
    costs = Costs(TARGET.on(TARGET.machine.sized(cores)))
    expected = costs.reorder(image(*extents_of(halves[0].box)), Layout.BLOCK16, Layout.PLANAR, 0, cores)
    assert Adjust(costs, cores).layouts(type, tiles, Layout.BLOCK16, Layout.PLANAR) == expected
