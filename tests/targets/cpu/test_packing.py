"""Packed constants against the index formulas of the format."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from packer.ir import DType, TensorType
from targets.base import Layout, stored_bytes
from targets.cpu.packing import block16, depth16, lines, weight16


@pytest.mark.parametrize(
    ("groups", "outputs", "channels", "kernel"),
    [(1, 5, 3, (3, 3)), (1, 16, 16, (1, 1)), (2, 20, 35, (2,)), (3, 33, 1, (1, 2, 3)), (1, 7, 40, ())],
)
def test_weight16(groups: int, outputs: int, channels: int, kernel: tuple[int, ...]) -> None:
    data = np.random.default_rng(0).standard_normal((groups, outputs, channels, *kernel)).astype(np.float32)
    packed = weight16(data)
    assert packed.nbytes == stored_bytes(TensorType(DType.F32, data.shape), Layout.WEIGHT16)
    taps = list(itertools.product(*map(range, kernel)))
    blocks = -(-outputs // 16)
    for g, k, c, t in itertools.product(range(groups), range(blocks * 16), range(channels), range(len(taps))):
        start = c // 16 * 16
        width = min(16, channels - start)
        row = (g * blocks + k // 16) * channels * len(taps) + start * len(taps) + t * width + c % 16
        want = data[(g, k, c, *taps[t])] if k < outputs else 0.0
        assert packed[row * 16 + k % 16] == want


@pytest.mark.parametrize("shape", [(5,), (16,), (1, 3), (2, 17, 4), (1, 32, 2, 3)])
def test_block16(shape: tuple[int, ...]) -> None:
    data = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
    packed = block16(data)
    assert packed.nbytes == stored_bytes(TensorType(DType.F32, shape), Layout.BLOCK16)
    axis = 0 if len(shape) == 1 else 1
    back = np.moveaxis(packed, -1, axis + 1).reshape(*shape[:axis], -1, *shape[axis + 1 :])
    assert np.array_equal(np.take(back, range(shape[axis]), axis), data)
    assert not np.take(back, range(shape[axis], back.shape[axis]), axis).any()


def test_depth16() -> None:
    data = np.random.default_rng(0).standard_normal((19, 3, 2)).astype(np.float32)
    packed = depth16(data)
    assert packed.shape == (2, 3, 2, 16)
    assert packed.nbytes == stored_bytes(TensorType(DType.F32, data.shape), Layout.DEPTH16)
    assert packed[1, 2, 1, 2] == data[18, 2, 1]
    assert not packed[1, :, :, 3:].any()


@pytest.mark.parametrize("dilation", [1, 3])
@pytest.mark.parametrize(("channels", "kernel"), [(3, (2, 7)), (1, (3,)), (4, (2, 3, 5)), (5, (1, 1))])
def test_lines(channels: int, kernel: tuple[int, ...], dilation: int) -> None:
    data = np.random.default_rng(0).standard_normal((2, 5, channels, *kernel)).astype(np.float32)
    columns = (kernel[-1] - 1) * dilation + 1
    found = lines(data, dilation)
    assert found.shape == (2, 5, -(-columns * channels // 2) * 2, *kernel[:-1])
    for i in range(found.shape[2]):
        column, channel = divmod(i, channels)
        tap, between = divmod(column, dilation)
        want = 0.0 if between or column >= columns else data[:, :, channel, ..., tap]
        np.testing.assert_array_equal(found[:, :, i], want)
