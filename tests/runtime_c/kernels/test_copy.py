"""copy against numpy: transposes, slices, broadcasts, tilings, and walks that leave the input."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from packer.ir.types import DType, TensorType
from targets.base import Attribute
from tests.runtime_c.kernels.harness import Box, Rejected, check_step, random_array, run_step


def walk(
    dtype: np.dtype, shape: tuple[int, ...], strides: tuple[int, ...], offset: int
) -> tuple[tuple[TensorType], tuple[Attribute, ...]]:
    """Output and attributes of a copy."""
    output = TensorType(DType.of(dtype), shape if len(shape) <= 8 else (int(np.prod(shape)),))
    return (output,), (Attribute("offset", (offset,)), Attribute("shape", shape), Attribute("strides", strides))


def check_view(x: np.ndarray, view: np.ndarray) -> None:
    """The kernel makes `view`, a view of x, contiguous."""
    strides = tuple(s // x.itemsize for s in view.strides)
    offset = (view.__array_interface__["data"][0] - x.__array_interface__["data"][0]) // x.itemsize
    outputs, attributes = walk(x.dtype, view.shape, strides, offset if view.size else 0)
    check_step("copy", [x], [view.reshape(outputs[0].shape)], outputs, attributes)


@pytest.mark.parametrize("dtype", [np.uint8, np.int16, np.float32, np.int64])
@pytest.mark.parametrize("shape", [(2, 3, 4, 5), (1, 17, 33, 5), (3, 1, 16, 16), (2, 20, 7, 36), (1, 3, 40, 90)])
def test_every_transpose(dtype: type, shape: tuple[int, ...]) -> None:
    x = random_array(np.random.default_rng(1), shape, dtype)
    for perm in itertools.permutations(range(4)):
        check_view(x, x.transpose(perm))


@pytest.mark.parametrize("shape", [(19, 512, 17), (16, 512, 32), (40, 512, 5), (3, 1024, 50)])
def test_transposes_of_rows_that_share_places_in_the_cache(shape: tuple[int, ...]) -> None:
    x = random_array(np.random.default_rng(7), shape, np.float32)
    check_view(x, x.transpose(2, 1, 0))


@pytest.mark.parametrize("dtype", [np.int16, np.float32])
def test_two_and_three_interleaved(dtype: type) -> None:
    """To planes and back, of any length, and every second element, up to the last one of the input."""
    rng = np.random.default_rng(6)
    for n in range(1, 14):
        for channels in (2, 3):
            x = random_array(rng, (3, n, channels), dtype)
            check_view(x, x.transpose(0, 2, 1))
            check_view(x.reshape(3, channels, n), x.reshape(3, channels, n).transpose(0, 2, 1))
        for x in (random_array(rng, (3, 2 * n), dtype), random_array(rng, (3, 2 * n - 1), dtype)):
            check_view(x, x[:, ::2])
            check_view(x, x[:, 1::2])


@pytest.mark.parametrize("dtype", [np.bool_, np.uint16, np.float32, np.uint64])
def test_slices_and_broadcasts(dtype: type) -> None:
    x = random_array(np.random.default_rng(2), (6, 9, 10), dtype)
    for view in (
        x[1:5:2, ::-1, 3:], x[:, 8:2:-3, ::4], x[::-1, ::-1, ::-1], x[2:2], x[5], x[..., 0], x[:, 3:4, ::9],
        np.broadcast_to(x, (3, 6, 9, 10)), np.broadcast_to(x[:, :1], (6, 7, 10)),
        np.broadcast_to(x[..., :1], (6, 9, 33)),
        np.broadcast_to(x[:1, :1, :1], (2, 300, 70)), np.broadcast_to(x[:, :, None, :], (6, 9, 3, 10)),
    ):  # fmt: skip
        check_view(x, view)


@pytest.mark.parametrize("dtype", [np.uint8, np.int16, np.float32, np.int64])
def test_short_runs(dtype: type) -> None:
    """Of as many bytes as some element has, and others; between multiples of their length, and elsewhere."""
    rng = np.random.default_rng(8)
    for n in (2, 3, 4, 8, 16, 20):
        x = random_array(rng, (5, 2, 18, n), dtype)
        wide, beside = random_array(rng, (5, 2, 18, 2 * n), dtype), random_array(rng, (5, 2, 18, n + 1), dtype)
        for whole, part in ((x, x), (wide, wide[..., n:]), (wide, wide[..., 1 : n + 1]), (beside, beside[..., 1:])):
            for view in (part.transpose(0, 2, 1, 3), part.transpose(2, 1, 0, 3), part[::-1, :, ::3], part[:, :, ::2]):
                check_view(whole, view)
        check_view(x, np.broadcast_to(x[:, :, None], (5, 2, 3, 18, n)))


@pytest.mark.parametrize("size", [1, 40_000, 300_001])
def test_long_runs(size: int) -> None:
    x = random_array(np.random.default_rng(3), (size,), np.float32)
    check_view(x, x)


def test_random_walks() -> None:
    rng = np.random.default_rng(4)
    for _ in range(300):
        x = random_array(
            rng, tuple(rng.integers(1, 9, rng.integers(1, 5))), rng.choice([np.uint8, np.float32, np.int64])
        )
        view = x.transpose(rng.permutation(x.ndim))
        view = view[tuple(slice(None, None, int(rng.choice([1, 1, 2, -1]))) for _ in range(view.ndim))]
        for axis in range(view.ndim):
            if view.shape[axis] == 1 and rng.random() < 0.7:
                view = np.broadcast_to(view, (*view.shape[:axis], int(rng.integers(1, 20)), *view.shape[axis + 1 :]))
        check_view(x, view)


def test_sixteen_dimensions() -> None:
    x = random_array(np.random.default_rng(5), (2,) * 16, np.float32)
    order = np.random.default_rng(6).permutation(16)
    check_view(x.reshape(-1), x.transpose(order))


def test_rank_zero() -> None:
    x = np.array([7, 8], np.int32)
    check_view(x, x[1:].reshape(()))


def test_walks_are_cut_where_rows_of_views_end() -> None:
    """A reshape is one dimension, whatever the shapes of the operands."""
    x = random_array(np.random.default_rng(7), (4, 6, 10), np.float32)
    for shape in ((4, 6, 10), (24, 10), (2, 2, 60), (240,), (8, 30)):
        boxes = [Box((5, 9, 11), (1, 2, 1)), Box(tuple(n + 3 for n in shape), (2,) * len(shape))]
        outputs = [TensorType(DType.F32, shape)]
        for source, target in ((0, 1), (0, None), (None, 1)):
            _, attributes = walk(x.dtype, (240,), (1,), 0)
            views = [None if i is None else boxes[i] for i in (source, target)]
            (y,) = run_step("copy", [x], outputs, attributes, boxes=views)
            np.testing.assert_array_equal(y, x.reshape(shape))


def test_walks_that_cannot_be_cut_are_rejected() -> None:
    x = np.zeros(12, np.float32)
    _, attributes = walk(x.dtype, (6, 2), (1, 6), 0)
    output = [TensorType(DType.F32, (4, 3))]
    run_step("copy", [x], output, attributes)
    with pytest.raises(Rejected):
        run_step("copy", [x], output, attributes, boxes=[None, Box((4, 5), (0, 1))])


@pytest.mark.parametrize(
    ("shape", "strides", "offset"),
    [
        ((10,), (1,), 1),
        ((10,), (-1,), 8),
        ((2,), (2**62,), 0),
        ((3, 5), (5, 1), 0),
        ((2, 2), (2**62, 2**62), 0),
        ((10,), (1, 1), 0),
    ],
)
def test_walks_outside_are_rejected(shape: tuple[int, ...], strides: tuple[int, ...], offset: int) -> None:
    x = np.zeros(10, np.float32)
    with pytest.raises(Rejected):
        run_step("copy", [x], *walk(x.dtype, shape, strides, offset))
