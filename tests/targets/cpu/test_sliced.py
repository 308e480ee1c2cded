"""Matrices in slices: nothing is lost, nothing is there twice, and about as many steps as the cost model expects."""

from __future__ import annotations

import numpy as np
import pytest

from targets.cpu.sliced import MOST_INPUTS, SLICE, Sliced, is_sliceable, sliced_matrix, steps_of


def unpacked(found: Sliced, shape: tuple[int, int]) -> np.ndarray:
    """The matrix, one weight at a time as the format tells."""
    matrix = np.zeros((shape[0], len(found.ends) * SLICE), np.float32)
    for slice, (begin, end) in enumerate(found.ends):
        for step in range(begin, end):
            for column in range(SLICE):
                two = int(found.places[8 * step + 4 * (column % 2) + column // 4])
                place = two >> 4 if column // 2 % 2 else two & 15
                matrix[int(found.windows[step]) + place, slice * SLICE + column] += found.values[16 * step + column]
    assert not matrix[:, shape[1] :].any()
    return matrix[:, : shape[1]]


@pytest.mark.parametrize("shape", [(16, 1), (16, 16), (17, 33), (40, 48), (300, 20), (16, 0)], ids=str)
@pytest.mark.parametrize("density", [0.0, 0.02, 0.3, 1.0])
def test_matrices(shape: tuple[int, int], density: float) -> None:
    random = np.random.default_rng(1)
    matrix = np.where(random.random(shape) < density, random.standard_normal(shape), 0).astype(np.float32)
    found = sliced_matrix(matrix)
    assert [found.values.dtype, found.places.dtype, found.windows.dtype, found.ends.dtype] == [
        np.float32, np.uint8, np.uint16, np.int32
    ]  # fmt: skip
    assert found.places.shape == (8 * len(found.windows),)
    assert np.count_nonzero(found.values) == np.count_nonzero(matrix)
    assert (found.windows.astype(int) + SLICE <= shape[0]).all()
    np.testing.assert_array_equal(unpacked(found, shape), matrix)


def test_steps_of_a_slice_follow_each_other() -> None:
    matrix = np.random.default_rng(2).random((50, 70), np.float32)
    ends = sliced_matrix(np.where(matrix < 0.5, matrix, 0)).ends
    assert ends[0, 0] == 0
    assert (ends[1:, 0] == ends[:-1, 1]).all()


@pytest.mark.parametrize("density", [0.02, 0.05, 0.1, 0.3, 0.5, 1.0])
@pytest.mark.parametrize("shape", [(192, 576), (1500, 256)], ids=str)
def test_how_many_steps_there_are_is_foreseen(shape: tuple[int, int], density: float) -> None:
    random = np.random.default_rng(3)
    matrix = np.where(random.random(shape) < density, np.float32(1), np.float32(0))
    assert steps_of(density, *shape) == pytest.approx(len(sliced_matrix(matrix).windows), rel=0.17)
    assert steps_of(0.0, *shape) == 0


def test_the_last_window_is_as_far_as_16_bits_reach() -> None:
    assert [is_sliceable(n) for n in (0, 15, 16, MOST_INPUTS, MOST_INPUTS + 1)] == [False, False, True, True, False]
    matrix = np.zeros((MOST_INPUTS, 1), np.float32)
    matrix[[0, -1]] = 1
    found = sliced_matrix(matrix)
    assert found.windows.tolist() == [0, MOST_INPUTS - SLICE]
    np.testing.assert_array_equal(unpacked(found, matrix.shape), matrix)
