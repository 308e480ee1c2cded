"""concat and pad against their operators' numpy references."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from packer.ir.ops import Concat, Pad
from packer.ir.types import DType, TensorType
from targets.base import Layout, attributes_of
from tests.runtime_c.kernels.harness import Rejected, check_op, random_array, run_step


@pytest.mark.parametrize("dtype", [np.uint8, np.int16, np.float32, np.int64])
def test_concat(dtype: type) -> None:
    rng = np.random.default_rng(1)
    for axis in range(3):
        for sizes in ((1,), (3, 1, 4), (0, 5), (1, 1), (40, 17, 300)):
            parts = [random_array(rng, tuple(n if d == axis else (5, 6, 7)[d] for d in range(3)), dtype) for n in sizes]
            check_op(Concat(axis), parts, "concat")
    check_op(Concat(0), [random_array(rng, (70_000,), dtype), random_array(rng, (33_000,), dtype)], "concat")
    check_op(Concat(1), [random_array(rng, (2, 70_000), dtype), random_array(rng, (2, 33_000), dtype)], "concat")


@pytest.mark.parametrize("dtype", [np.float32, np.uint8])
@pytest.mark.parametrize("spatial", [(), (1,), (3, 5), (2, 2, 3)])
def test_concat_blocks_of_channels(spatial: tuple[int, ...], dtype: type) -> None:
    rng = np.random.default_rng(2)
    for channels in ((16, 32), (16, 5), (5, 16), (1, 1, 1), (24, 24), (3, 30, 2, 17), (7, 0, 9), (40, 3, 16), (15, 2)):
        for batch in (1, 2):
            parts = [random_array(rng, (batch, n, *spatial), dtype) for n in channels]
            check_op(Concat(1), parts, "concat", layouts=Layout.BLOCK16)
    for axis in range(2 + len(spatial)):
        if axis != 1:
            shape = (2, 19, *spatial)
            parts = [
                random_array(rng, tuple(n if d == axis else k for d, k in enumerate(shape)), dtype) for n in (1, 3)
            ]
            check_op(Concat(axis), parts, "concat", layouts=Layout.BLOCK16)


def test_concat_without_some() -> None:
    rng = np.random.default_rng(4)
    for channels, layout in itertools.product((3, 16, 24), (Layout.PLANAR, Layout.BLOCK16)):
        x, y = (random_array(rng, (2, channels, 3), np.float32) for _ in range(2))
        for inputs in ([x, None], [None, x, None, y], [None, None, y]):
            check_op(Concat(1), inputs, "concat", layouts=layout)


def test_concat_rejects() -> None:
    a, b = np.zeros((2, 3), np.float32), np.zeros((2, 4), np.float32)
    for inputs, shape in (
        ([a, b], (2, 8)),
        ([a, b], (2, 3)),
        ([a, None], (2, 4)),
        ([None, None], (2, 3)),
        ([a, b[:1]], (2, 7)),
        ([a, b.astype(np.int32)], (2, 7)),
    ):
        with pytest.raises(Rejected):
            run_step("concat", inputs, [TensorType(DType.F32, shape)], attributes_of(Concat(1)))


@pytest.mark.parametrize("mode", ["constant", "reflect", "edge", "wrap"])
def test_pad(mode: str) -> None:
    rng = np.random.default_rng(3)
    for shape, pads in (
        ((5,), (2, 3)), ((5,), (-2, 9)), ((1,), (4, 4)), ((4, 6), (0, 1, 0, 2)), ((4, 6), (1, 0, 2, 0)),
        ((4, 6), (-1, -2, 3, 5)),
        ((2, 3, 4, 5), (0, 0, 1, 2, 0, 0, 3, 1)), ((2, 3, 4, 5), (1, 2, 0, 0, 1, 0, 0, 0)),
        ((2, 3), (0, 0, 0, 0)), ((), ()),
        ((3,), (5, -5)), ((3,), (-2, -1)), ((2, 3, 70), (1, 1, 40, 0, 2, 900)),
        ((2, 60, 70), (1, 2, 3, 0, 1, 2)),
    ):  # fmt: skip
        for dtype in (np.float32, np.int8, np.int64, np.uint16):
            x = random_array(rng, shape, dtype)
            check_op(Pad(pads, mode), [x], "pad")
            if mode == "constant":
                check_op(Pad(pads), [x, np.array(9, dtype)], "pad")
                check_op(Pad(pads), [x, None], "pad")


def test_pad_empty_and_malformed() -> None:
    check_op(Pad((1, 2, 0, 2)), [np.zeros((0, 3), np.float32)], "pad")
    x = np.zeros((3, 3), np.float32)
    for pads, shape in (((1, 0, 0, 0), (3, 3)), ((2**62, 2**62, 2**62, 2**62), (3, 3)), ((1, 1, 1), (5, 5))):
        with pytest.raises(Rejected):
            run_step("pad", [x], [TensorType(DType.F32, shape)], attributes_of(Pad(pads)))
    with pytest.raises(Rejected):
        run_step("pad", [np.zeros((0,), np.float32)], [TensorType(DType.F32, (2,))], attributes_of(Pad((1, 1), "edge")))
