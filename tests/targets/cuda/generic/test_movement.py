"""Operators that move elements, against their references, exactly."""

from __future__ import annotations

import numpy as np
import pytest

from packer.ir import DType
from packer.ir.ops import Concat, Expand, Op, Reshape, Slice, Tile, Transpose
from targets.cuda.array import Array
from targets.cuda.operators import code_of
from tests.targets.cuda.generic.check import check, code

RNG = np.random.default_rng(42)
TYPES = [np.float32, np.uint8, np.bool_, np.int16, np.int32, np.int64]
OPS: list[tuple[Op, tuple[int, ...]]] = [
    (Transpose((0, 2, 3, 1)), (2, 5, 7, 12)),
    (Transpose((0, 3, 1, 2)), (2, 5, 7, 12)),
    (Transpose((0, 2, 1, 3)), (1, 6, 5, 8)),
    (Transpose((1, 0)), (33, 65)),
    (Transpose((4, 1, 0, 3, 2)), (2, 3, 4, 5, 6)),
    (Slice((0, 1, 2, 4), (1, 1, 2, 1), (2, 3, 3, 8)), (2, 5, 7, 12)),
    (Slice((1, 4, 6, 11), (-1, -2, -3, -1), (2, 3, 3, 12)), (2, 5, 7, 12)),
    (Slice((299,), (-3,), (100,)), (300,)),
    (Expand((2, 3, 4, 8)), (3, 1, 8)),
    (Expand((2, 3, 4, 8)), (2, 3, 4, 1)),
    (Expand((5, 1, 3)), ()),
    (Tile((1, 2, 3, 2)), (2, 3, 4, 5)),
    (Tile((1, 1, 2, 2)), (1, 3, 4, 8)),
    (Reshape((2, 60, 7)), (2, 5, 7, 12)),
    (Reshape((1, 20, 6, 7)), (2, 5, 7, 12)),
    (Reshape((840,)), (2, 5, 7, 12)),
    (Reshape(()), (1, 1)),
]


def sample(shape: tuple[int, ...], dtype: type) -> np.ndarray:
    return RNG.integers(0, 2 if dtype is np.bool_ else 250, shape).astype(dtype)


@pytest.mark.parametrize("halo", [False, True], ids=["dense", "halo"])
@pytest.mark.parametrize(("op", "shape"), OPS, ids=[f"{type(op).__name__}-{i}" for i, (op, _) in enumerate(OPS)])
def test_movement(op: Op, shape: tuple[int, ...], halo: bool) -> None:
    check(op, sample(shape, np.float32), halo=halo)


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("number", [0, 6, 9, 11, 14])
def test_any_element_type(number: int, dtype: type) -> None:
    op, shape = OPS[number]
    check(op, sample(shape, dtype), halo=True)


@pytest.mark.parametrize("number", [0, 5, 12, 13])
def test_halves_move_as_they_are(number: int) -> None:
    op, shape = OPS[number]
    check(op, sample(shape, np.float32), half=True, halo=True)


@pytest.mark.parametrize("halo", [False, True])
def test_concat(halo: bool) -> None:
    parts = [sample((2, c, 3, 4), np.float32) for c in (3, 1, 0, 8)]
    check(Concat(1), parts[0], None, *parts[1:], halo=halo, constant=(4,))
    check(Concat(3), parts[0], parts[0], halo=halo, half=True)


def test_rows_of_fours_are_moved_by_fours() -> None:
    """And only where every pointer is a multiple of four elements."""
    for shape, wanted in (((1, 3, 5, 8), True), ((1, 3, 5, 7), False)):
        made, *_ = code(Slice((0, 1, 0, 0), (1, 1, 1, 1), (1, 2, *shape[2:])), [sample(shape, np.float32)])
        assert made is not None
        assert ("ld.global.nc.v4.u32" in made.kernels[0].ptx) is wanted


def test_nothing_is_launched_for_an_empty_output() -> None:
    made, *_ = code(Slice((0, 0), (1, 1), (0, 3)), [sample((4, 3), np.float32)])
    assert made is not None
    assert made.kernels == made.operands == ()


def test_what_32_bits_cannot_count_is_left_to_the_processor() -> None:
    x, y = Array.dense(DType.U8, (1, 3)), Array.dense(DType.U8, (1 << 30, 3))
    assert code_of(Expand(y.shape), [x], [y], [None]) is None
