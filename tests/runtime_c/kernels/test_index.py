"""Gathers, scatters and one_hot against their operators' numpy references, indices out of range included."""

from __future__ import annotations

import numpy as np
import pytest

from packer.ir.ops import Gather, GatherElements, GatherND, OneHot, ReverseSequence, ScatterElements, ScatterND
from packer.ir.types import DType, TensorType
from targets.base import attributes_of
from tests.runtime_c.kernels.harness import Rejected, check_op, random_array, run_op, run_step

DTYPES = (np.bool_, np.uint8, np.int16, np.float32, np.int32, np.uint32, np.int64)
WILD = np.array([-(2**63), -(2**31) - 5, -9, -1, 0, 3, 8, 2**31, 2**63 - 1], np.int64)


def indices(rng: np.random.Generator, shape: tuple[int, ...], size: int, dtype: type = np.int64) -> np.ndarray:
    return rng.integers(-size, size, shape).astype(dtype)


@pytest.mark.parametrize("dtype", DTYPES)
def test_gather(dtype: type) -> None:
    rng = np.random.default_rng(1)
    x = random_array(rng, (4, 5, 6), dtype)
    for axis in range(3):
        for shape in ((), (1,), (7,), (2, 3), (0,)):
            check_op(Gather(axis), [x, indices(rng, shape, x.shape[axis], np.int32)], "gather")
        check_op(Gather(axis), [x, WILD], "gather")


def test_gather_long_rows() -> None:
    rng = np.random.default_rng(2)
    check_op(Gather(0), [random_array(rng, (50, 1000), np.float32), indices(rng, (90,), 50)], "gather")
    check_op(Gather(1), [random_array(rng, (300, 40, 16), np.float32), indices(rng, (33,), 40)], "gather")


@pytest.mark.parametrize("dtype", DTYPES)
def test_gather_elements(dtype: type) -> None:
    rng = np.random.default_rng(3)
    x = random_array(rng, (4, 5, 6), dtype)
    for axis in range(3):
        for shape in ((4, 5, 6), (2, 3, 4), (1, 5, 1)):
            wanted = tuple(9 if d == axis else n for d, n in enumerate(shape))
            check_op(GatherElements(axis), [x, indices(rng, wanted, x.shape[axis], np.int32)], "gather_elements")
    check_op(GatherElements(0), [x, WILD[:, None, None]], "gather_elements")


@pytest.mark.parametrize("dtype", DTYPES)
def test_gather_nd(dtype: type) -> None:
    rng = np.random.default_rng(4)
    x = random_array(rng, (2, 3, 4, 5), dtype)
    for batch, shape in (
        (0, (7, 1)),
        (0, (7, 4)),
        (0, (2,)),
        (1, (2, 6, 2)),
        (2, (2, 3, 1)),
        (1, (2, 1)),
        (0, (3, 0)),
        (0, (0, 2)),
    ):
        check_op(GatherND(batch), [x, indices(rng, shape, 2)], "gather_nd")
    check_op(GatherND(), [x, np.stack([WILD, WILD[::-1]], 1)], "gather_nd")


@pytest.mark.parametrize("reduction", ["none", "add", "mul", "min", "max"])
def test_scatter_elements(reduction: str) -> None:
    rng = np.random.default_rng(5)
    for dtype in (*DTYPES[1:], np.int8, np.uint64):
        for axis in range(3):
            x = random_array(rng, (4, 5, 6), dtype)
            where = indices(rng, tuple(8 if d == axis else n - 1 for d, n in enumerate(x.shape)), x.shape[axis])
            updates = random_array(rng, where.shape, dtype)
            op = ScatterElements(axis, reduction)
            check_op(op, [x, where, updates], "scatter_elements", 1e-6 if dtype is np.float32 else 0)
            moved = run_step(
                "scatter_elements",
                [x, where, updates],
                [TensorType(DType.of(dtype), x.shape)],
                attributes_of(op),
                inplace=0,
            )
            np.testing.assert_array_equal(moved[0], run_op(op, [x, where, updates], "scatter_elements")[0])


@pytest.mark.parametrize("reduction", ["none", "add", "mul", "min", "max"])
def test_scatter_nd(reduction: str) -> None:
    rng = np.random.default_rng(6)
    for dtype in DTYPES[1:]:
        x = random_array(rng, (4, 5, 6), dtype)
        for shape in ((7, 1), (7, 2), (2, 3, 3), (1,), (0, 2), (2, 0)):
            where = indices(rng, shape, 4)
            updates = random_array(rng, (*shape[:-1], *x.shape[shape[-1] :]), dtype)
            check_op(ScatterND(reduction), [x, where, updates], "scatter_nd", 1e-6 if dtype is np.float32 else 0)


def test_scatter_bool_and_wild_indices() -> None:
    rng = np.random.default_rng(7)
    x, updates = rng.random(9) < 0.5, rng.random(9) < 0.5
    for reduction, combine in (("none", None), ("add", np.logical_or), ("mul", np.logical_and)):
        step = [x, np.arange(9), updates], [TensorType(DType.BOOL, (9,))], attributes_of(ScatterElements(0, reduction))
        got = run_step("scatter_elements", *step)[0]
        np.testing.assert_array_equal(got, updates if combine is None else combine(x, updates))
    x = random_array(rng, (5, 3), np.float32)
    check_op(ScatterND(), [x, WILD[:, None], random_array(rng, (9, 3), np.float32)], "scatter_nd")
    check_op(ScatterElements(0), [x, WILD[:, None], random_array(rng, (9, 1), np.float32)], "scatter_elements")


def test_scatter_propagates_nan() -> None:
    x, updates = np.array([1, np.nan, 3], np.float32), np.array([np.nan, 2, 2], np.float32)
    for reduction in ("min", "max"):
        check_op(ScatterElements(0, reduction), [x, np.arange(3), updates], "scatter_elements")


@pytest.mark.parametrize("dtype", [np.uint8, np.int8, np.int32, np.int64, np.uint64, np.float32])
def test_one_hot(dtype: type) -> None:
    rng = np.random.default_rng(8)
    for axis, shape, depth in (
        (0, (), 4),
        (0, (5,), 3),
        (1, (5,), 3),
        (1, (2, 3, 4), 6),
        (3, (2, 3, 4), 1),
        (0, (60, 70), 9),
        (1, (2, 0), 3),
    ):
        picks = rng.integers(0 if np.dtype(dtype).kind == "u" else -depth - 2, depth + 2, shape).astype(dtype)
        for values in (np.array([0, 1], np.float32), np.array([5, -7], np.int64), np.array([True, False])):
            check_op(OneHot(axis, depth), [picks, values], "one_hot")


def test_one_hot_wild_indices() -> None:
    off_on = np.array([0, 1], np.int32)
    check_op(OneHot(1, 4), [WILD, off_on], "one_hot")
    wild = np.array([np.nan, np.inf, -np.inf, 1e30, -1e30, 2.7, -1.2], np.float32)
    got = run_op(OneHot(1, 4), [wild, off_on], "one_hot")[0]
    np.testing.assert_array_equal(got.argmax(1) * got.any(1), [0, 0, 0, 0, 0, 2, 3])


@pytest.mark.parametrize("batch_axis", [0, 1])
def test_reverse_sequence(batch_axis: int) -> None:
    rng = np.random.default_rng(9)
    for shape in ((4, 5), (4, 5, 3), (1, 1, 2, 2)):
        for dtype in (np.float32, np.uint8, np.int64):
            lengths = rng.integers(-1, 8, shape[batch_axis])
            check_op(
                ReverseSequence(batch_axis, 1 - batch_axis),
                [random_array(rng, shape, dtype), lengths],
                "reverse_sequence",
            )


def test_malformed_steps_are_rejected() -> None:
    x, f32 = np.zeros((4, 5), np.float32), lambda *shape: [TensorType(DType.F32, shape)]
    for kernel, op, inputs, outputs in (
        ("gather", Gather(2), [x, np.zeros(3, np.int64)], f32(4, 3)),
        ("gather", Gather(0), [x, np.zeros(3, np.int64)], f32(4, 5)),
        ("gather", Gather(0), [x, np.zeros(3, np.float32)], f32(3, 5)),
        ("gather", Gather(0), [x[:0], np.zeros(3, np.int64)], f32(3, 5)),
        ("gather_elements", GatherElements(0), [x, np.zeros((4, 6), np.int64)], f32(4, 6)),
        ("gather_nd", GatherND(), [x, np.zeros((2, 3), np.int64)], f32(2)),
        ("gather_nd", GatherND(1), [x, np.zeros((3, 1), np.int64)], f32(3)),
        (
            "scatter_elements",
            ScatterElements(0),
            [x, np.zeros((2, 6), np.int64), np.zeros((2, 6), np.float32)],
            f32(4, 5),
        ),
        (
            "scatter_elements",
            ScatterElements(0, "mean"),
            [x, np.zeros((2, 5), np.int64), np.zeros((2, 5), np.float32)],
            f32(4, 5),
        ),
        ("scatter_nd", ScatterND(), [x, np.zeros((2, 1), np.int64), np.zeros((2, 4), np.float32)], f32(4, 5)),
        ("one_hot", OneHot(0, 3), [np.zeros(2, np.int64), np.zeros(2, np.float32)], f32(2, 3)),
        ("reverse_sequence", ReverseSequence(0, 1), [x, np.zeros(5, np.int64)], f32(4, 5)),
    ):
        with pytest.raises(Rejected):
            run_step(kernel, inputs, outputs, attributes_of(op))
