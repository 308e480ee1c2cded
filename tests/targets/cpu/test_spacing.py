"""Planes are spread over the sets of caches, for a few rows more."""

from __future__ import annotations

import math

import pytest

from targets.cpu.spacing import distance, spaced


def lines(shape: tuple[int, ...]) -> int:
    """How many lines planes are apart, as far as their number is a power of two."""
    bytes = 4 * math.prod(shape[2:])
    assert bytes % 64 == 0
    return math.gcd(bytes // 64, 64)


@pytest.mark.parametrize(
    ("own", "wider"),
    [
        ((1, 64, 64, 64), (1, 64, 65, 64)),
        ((2, 64, 32, 32), (2, 64, 33, 32)),
        ((1, 32, 112, 112), (1, 32, 113, 112)),
        ((1, 64, 40, 64), (1, 64, 41, 64)),
        ((1, 64, 48, 24), (1, 64, 48, 24)),  # 9 times 8 lines: no better than what has not to move
        ((1, 64, 32, 40), (1, 64, 34, 40)),  # 33 rows would not end with a line
        ((1, 40, 1024), (1, 40, 1040)),
        ((1, 32, 16, 32, 32), (1, 32, 16, 32, 32)),  # slices are whole pages
        ((1, 32, 16, 8, 8), (1, 32, 17, 8, 8)),
        ((1, 3, 64, 64), (1, 3, 64, 64)),  # few channels
        ((1, 64, 56, 56), (1, 64, 56, 56)),
        ((1, 64, 7, 7), (1, 64, 7, 7)),
        ((1, 64, 4, 256), (1, 64, 4, 256)),  # a row more would be a quarter
        ((1, 64, 0, 64), (1, 64, 0, 64)),
        ((1024, 1024), (1024, 1024)),
    ],
)
def test_planes_that_are_too_many_lines_apart_get_more_rows(own: tuple[int, ...], wider: tuple[int, ...]) -> None:
    assert spaced(own, 4) == wider
    if own != wider:
        assert lines(wider) < lines(own)
        assert math.prod(wider) <= 1.125 * math.prod(own)


def test_all_extents() -> None:
    for height in range(1, 140):
        for width in range(1, 140):
            own, wider = (1, 16, height, width), spaced((1, 16, height, width), 4)
            if own != wider:
                assert lines(wider) < lines(own)
            assert wider[1:2] + wider[3:] == own[1:2] + own[3:]
            assert height <= wider[2] <= 1.125 * height


def test_distances_of_planes() -> None:
    assert distance((1, 64, 64), 64) == 65 * 64
    assert distance((1, 1, 1024), 64) == 1040
    assert distance((8, 64, 64), 64) == 8 * 64 * 64
    assert distance((1, 64, 64), 3) == 64 * 64
    assert distance((1, 1, 1), 64) == 1
