"""Matrices with a bit for every weight, walked as docs/format.md says it."""

from __future__ import annotations

import numpy as np
import pytest

from targets.cpu.masked import masked_matrix


@pytest.mark.parametrize("shape", [(1, 1), (16, 4), (33, 70), (100, 257), (5, 600), (0, 3), (3, 0), (0, 0)])
@pytest.mark.parametrize("density", [0.0, 0.1, 0.5, 1.0])
def test_masks_and_values(shape: tuple[int, int], density: float) -> None:
    rng = np.random.default_rng(shape[1])
    matrix = np.where(rng.random(shape) < density, rng.standard_normal(shape), 0).astype(np.float32)
    masked = masked_matrix(matrix)
    blocks, groups = -(-shape[1] // 4), -(-shape[0] // 16)
    assert (masked.values.dtype, masked.masks.dtype, masked.starts.dtype) == (np.float32, np.uint16, np.int32)
    assert masked.masks.shape == (blocks, groups, 4)
    assert masked.starts.shape == (blocks,)
    found, at = np.zeros((16 * groups, 4 * blocks), np.float32), 0
    for block in range(blocks):
        assert masked.starts[block] == at
        assert at + 64 * groups <= len(masked.values)
        for group in range(groups):
            for column in range(4):
                for i in range(16):
                    if masked.masks[block, group, column] >> i & 1:
                        found[16 * group + i, 4 * block + column] = masked.values[at]
                        at += 1
    assert not masked.values[at:].any()
    assert at == np.count_nonzero(matrix)
    assert not found[shape[0] :].any()
    assert not found[:, shape[1] :].any()
    np.testing.assert_array_equal(found[: shape[0], : shape[1]], matrix)
