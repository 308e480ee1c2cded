"""roi_align and grid_sample against their operators' numpy references, and on positions that make no sense."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from packer.ir.ops import GridSample, RoiAlign
from tests.runtime_c.kernels.harness import check_op, random_array, run_op


@pytest.mark.parametrize("mode", ["avg", "max"])
def test_roi_align(mode: str) -> None:
    rng = np.random.default_rng(1)
    x = random_array(rng, (2, 3, 9, 11), np.float32)
    for ratio, half_pixel, scale in itertools.product((0, 1, 2, 3), (False, True), (1.0, 0.5, 0.0625)):
        corner = rng.uniform(-6, 12, (12, 2)) / scale
        rois = np.concatenate([corner, corner + rng.uniform(-3, 14, (12, 2)) / scale], 1).astype(np.float32)
        batch = rng.integers(-1, 4, 12)
        for height, width in ((1, 1), (3, 2), (7, 7)):
            check_op(RoiAlign(mode, height, width, ratio, scale, half_pixel), [x, rois, batch], "roi_align", 1e-4)


def test_roi_align_survives_nonsense() -> None:
    x = random_array(np.random.default_rng(2), (1, 2, 5, 5), np.float32)
    wild = np.array([np.nan, np.inf, -np.inf, 3e38, -3e38, 1e9, 0, 2.5], np.float32)
    rois = np.array(list(itertools.product(wild, repeat=2)), np.float32)
    rois = np.concatenate([rois, rois[:, ::-1]], 1)
    batch = np.full(len(rois), 2**63 - 1)
    for ratio, half_pixel in itertools.product((0, 2), (False, True)):
        run_op(RoiAlign("avg", 3, 3, ratio, 1.0, half_pixel), [x, rois, batch], "roi_align")


def test_roi_align_of_nothing() -> None:
    x = random_array(np.random.default_rng(3), (1, 2, 5, 5), np.float32)
    check_op(
        RoiAlign("avg", 2, 2, 0, 1.0, False), [x, np.zeros((0, 4), np.float32), np.zeros(0, np.int64)], "roi_align"
    )


@pytest.mark.parametrize("mode", ["linear", "nearest", "cubic"])
@pytest.mark.parametrize("padding", ["zeros", "border", "reflection"])
def test_grid_sample(mode: str, padding: str) -> None:
    rng = np.random.default_rng(4)
    for spatial, align in itertools.product(((5, 6), (1, 4), (4, 1), (2, 3, 4)), (False, True)):
        x = random_array(rng, (2, 3, *spatial), np.float32)
        grid = rng.uniform(-1.7, 1.7, (2, *(7, 4, 2)[: len(spatial)], len(spatial))).astype(np.float32)
        check_op(GridSample(mode, padding, align), [x, grid], "grid_sample", 2e-4)


@pytest.mark.parametrize("padding", ["zeros", "border", "reflection"])
def test_grid_sample_survives_nonsense(padding: str) -> None:
    x = random_array(np.random.default_rng(5), (1, 2, 4, 4), np.float32)
    wild = np.array([np.nan, np.inf, -np.inf, 3e38, -3e38, 1e18, -1e9, 0], np.float32)
    grid = np.array(list(itertools.product(wild, repeat=2)), np.float32).reshape(1, 8, 8, 2)
    for mode, align in itertools.product(("linear", "nearest", "cubic"), (False, True)):
        got = run_op(GridSample(mode, padding, align), [x, grid], "grid_sample")[0]
        if padding == "zeros":
            assert (got[:, :, :7, :7] == 0).all()
