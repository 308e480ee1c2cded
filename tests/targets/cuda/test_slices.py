"""Slices of output channels and entries of slices."""

from __future__ import annotations

import numpy as np

from targets.cuda.rounding import round20
from targets.cuda.slices import MOST_MULTIPLIES, cache_resident, channels_a_thread, entries_of, slices_of


def pruned(shape: tuple[int, ...], density: float) -> np.ndarray:
    rng = np.random.default_rng(0)
    weights = rng.standard_normal(shape).astype(np.float32)
    weights[rng.random(shape) >= density] = 0
    return weights


def test_slices_are_a_partition_of_equal_sizes_within_groups() -> None:
    weights = pruned((150, 4, 3, 3), 0.3)
    slices = slices_of(weights, None, 2, 32)
    assert sorted(c for s in slices for c in s.channels) == list(range(150))
    assert {len(s.channels) for s in slices} == {25}
    for s in slices:
        group = s.channels[0] // 75
        assert all(c // 75 == group for c in s.channels)
        assert s.first == group * 4
        assert s.channels == tuple(sorted(s.channels))
        np.testing.assert_array_equal(s.weights, weights[list(s.channels)])


def test_channels_of_equally_many_weights_go_together() -> None:
    weights = np.zeros((8, 10, 1, 1), np.float32)
    for k, count in enumerate((1, 9, 0, 8, 1, 10, 0, 9)):
        weights[k, :count] = 1
    dense, sparse = slices_of(weights, None, 1, 4)
    assert (dense.channels, sparse.channels) == ((1, 3, 5, 7), (0, 2, 4, 6))


def test_channels_a_thread() -> None:
    assert channels_a_thread(pruned((64, 64, 3, 3), 0.1)) == 64
    assert channels_a_thread(pruned((64, 64, 3, 3), 0.5)) == 32
    many = np.ones((8, 4096, 3, 3), np.float32)
    assert channels_a_thread(many) * 4096 * 9 <= MOST_MULTIPLIES or channels_a_thread(many) == 1


def test_cache_resident_slices_are_small_or_none() -> None:
    assert cache_resident(pruned((64, 64, 3, 3), 0.05)) == 32
    assert cache_resident(pruned((64, 256, 3, 3), 0.05)) == 16
    assert cache_resident(pruned((64, 256, 3, 3), 0.5)) is None


def test_entries_hold_no_more_long_values_than_the_constant_bank() -> None:
    weights = pruned((64, 320, 3, 3), 1.0)
    slices = slices_of(weights, None, 1, 4)
    long = entries_of(slices, 10**9)
    assert sum(map(len, long)) == len(slices)
    for entry in long:
        values = np.unique(np.concatenate([s.weights.reshape(-1) for s in entry]))
        assert np.count_nonzero(round20(values) != values) <= 16_384
    assert len(long) > 1
    assert len(entries_of(slices_of(round20(weights), None, 1, 4), 10**9)) == 1
