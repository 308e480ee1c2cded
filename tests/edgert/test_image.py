"""From pixels to inputs: layouts, channel order, mean and standard deviation."""

from __future__ import annotations

import math

import numpy as np
import pytest

from edgert.errors import InvalidArgumentError
from edgert.image import image_format, to_input
from edgert.session import TensorInfo


def info(*shape: int, dtype: type = np.float32) -> TensorInfo:
    return TensorInfo("x", np.dtype(dtype), shape, math.prod(shape) * np.dtype(dtype).itemsize)


@pytest.mark.parametrize(
    ("shape", "layout", "want"),
    [
        ((1, 3, 5, 4), None, ("nchw", 5, 4, 3)),
        ((1, 1, 5, 4), None, ("nchw", 5, 4, 1)),
        ((3, 5, 4), None, ("nchw", 5, 4, 3)),
        ((1, 5, 4, 3), None, ("nhwc", 5, 4, 3)),
        ((5, 4, 1), None, ("nhwc", 5, 4, 1)),
        ((5, 4), None, ("nchw", 5, 4, 1)),
        ((1, 3, 4, 3), None, ("nchw", 4, 3, 3)),
        ((1, 3, 4, 3), "nhwc", ("nhwc", 3, 4, 3)),
    ],
)
def test_formats(shape: tuple[int, ...], layout: str | None, want: tuple[str, int, int, int]) -> None:
    found = info(*shape)
    assert image_format(found, layout) == want
    pixels = np.random.default_rng(0).integers(0, 256, want[1:]).astype(np.uint8)
    array = to_input(pixels, found, layout)
    assert array.shape == shape
    assert array.dtype == np.float32
    expected = pixels.transpose(2, 0, 1) if want[0] == "nchw" else pixels
    assert np.array_equal(array, expected.reshape(shape))


@pytest.mark.parametrize("shape", [(10,), (2, 3, 5, 4), (1, 7, 5, 4), (1, 3, 5, 4, 2), ()])
def test_other_inputs_are_no_images(shape: tuple[int, ...]) -> None:
    with pytest.raises(InvalidArgumentError, match=r"as \.npy"):
        image_format(info(*shape))


def test_normalisation_is_per_channel_of_the_input() -> None:
    pixels = np.array([[[10, 20, 30]]], np.uint8)
    array = to_input(pixels, info(1, 3, 1, 1), mean=(1, 2, 3), std=(1, 2, 4), bgr=True)
    assert array.reshape(-1).tolist() == [29, 9, 1.75]
    assert to_input(pixels, info(1, 3, 1, 1), mean=(10,), std=(10,)).reshape(-1).tolist() == [0, 1, 2]


def test_integer_inputs_saturate() -> None:
    pixels = np.array([[[0, 128, 255]]], np.uint8)
    assert to_input(pixels, info(1, 3, 1, 1, dtype=np.uint8)).reshape(-1).tolist() == [0, 128, 255]
    assert to_input(pixels, info(1, 3, 1, 1, dtype=np.int8), mean=(128,)).reshape(-1).tolist() == [-128, 0, 127]
    assert to_input(pixels, info(1, 3, 1, 1, dtype=np.int8)).reshape(-1).tolist() == [0, 127, 127]


def test_refuses_other_sizes() -> None:
    with pytest.raises(InvalidArgumentError, match=r"expected pixels \[2,2,3\], got \[2, 3, 3\]"):
        to_input(np.zeros((2, 3, 3), np.uint8), info(1, 3, 2, 2))
    with pytest.raises(InvalidArgumentError, match="std: expected 1 or 3 numbers, got 2"):
        to_input(np.zeros((2, 2, 3), np.uint8), info(1, 3, 2, 2), std=(1, 2))
    with pytest.raises(InvalidArgumentError, match="mean: expected 1 number, got 2"):
        to_input(np.zeros((2, 2, 1), np.uint8), info(1, 1, 2, 2), mean=(0, 0))
