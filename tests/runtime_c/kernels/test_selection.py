"""top_k, non_max_suppression, non_zero, compress and trilu against their operators' numpy references."""

from __future__ import annotations

import numpy as np
import pytest

from packer.ir.ops import Compress, NonMaxSuppression, NonZero, TopK, Trilu
from packer.ir.types import VALUE_TYPES, DType, TensorType
from targets.base import attributes_of
from tests.runtime_c.kernels.harness import Rejected, check_op, random_array, run_op, run_step

DTYPES = [d for d in VALUE_TYPES if d is not DType.BOOL]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("largest", [True, False])
def test_top_k(dtype: DType, largest: bool) -> None:
    rng = np.random.default_rng(1)
    for shape, axis, k in (
        ((10,), 0, 3),
        ((3, 40, 4), 1, 7),
        ((3, 4, 300), 2, 300),
        ((5, 6), 0, 1),
        ((5, 6), 1, 0),
        ((0, 6), 1, 2),
    ):
        x = random_array(rng, shape, dtype)
        if dtype is DType.F32:
            x = np.round(x, 1)
        check_op(TopK(k, axis, largest), [x], "top_k")


def test_top_k_extremes() -> None:
    for dtype in (np.int64, np.uint64, np.int8):
        limits = np.iinfo(dtype)
        x = np.array([limits.max, 0, limits.min, limits.max, 1, limits.min], dtype)
        for largest in (True, False):
            check_op(TopK(6, 0, largest), [x], "top_k")
    x = np.array([np.inf, -0.0, 0.0, np.nan, -np.inf, -np.nan, 3], np.float32)
    np.testing.assert_array_equal(run_op(TopK(7, 0), [x], "top_k")[1], [3, 5, 0, 6, 1, 2, 4])
    np.testing.assert_array_equal(run_op(TopK(7, 0, False), [x], "top_k")[1], [4, 1, 2, 6, 0, 3, 5])


def boxes_and_scores(rng: np.random.Generator, batches: int, classes: int, n: int) -> tuple[np.ndarray, np.ndarray]:
    boxes = rng.integers(0, 20, (batches, n, 4)).astype(np.float32)
    return boxes, np.round(rng.random((batches, classes, n)), 1).astype(np.float32)


@pytest.mark.parametrize("center", [False, True])
def test_non_max_suppression(center: bool) -> None:
    rng = np.random.default_rng(2)
    for batches, classes, n, limit in (
        (1, 1, 6, 3),
        (2, 3, 60, 10),
        (1, 2, 200, 1000),
        (1, 1, 5, 0),
        (2, 2, 0, 3),
        (0, 2, 4, 3),
    ):
        boxes, scores = boxes_and_scores(rng, batches, classes, n)
        for iou, score in ((0.5, 0.2), (0.0, 0.0), (1.0, -np.inf), (0.3, 0.95)):
            check_op(NonMaxSuppression(limit, iou, score, center), [boxes, scores], "non_max_suppression")


def test_non_max_suppression_of_nonsense() -> None:
    rng = np.random.default_rng(3)
    boxes, scores = boxes_and_scores(rng, 1, 2, 50)
    boxes[0, ::5, 1], boxes[0, 1::5, 2] = np.nan, np.inf
    scores[0, :, ::7] = np.nan
    selected, count = run_op(NonMaxSuppression(50, 0.5, -np.inf), [boxes, scores], "non_max_suppression")
    assert 0 < count[0] <= len(selected)
    assert (selected[count[0] :] == 0).all()
    assert not np.isnan(scores[0, selected[: count[0], 1], selected[: count[0], 2]]).any()


@pytest.mark.parametrize("dtype", list(VALUE_TYPES))
def test_non_zero(dtype: DType) -> None:
    rng = np.random.default_rng(4)
    for shape in ((), (7,), (3, 4), (2, 3, 4, 5), (0, 3), (9, 1)):
        x = random_array(rng, shape, dtype) * (rng.random(shape) < 0.5)
        check_op(NonZero(), [np.asarray(x, dtype.numpy)], "non_zero")
    if dtype is DType.F32:
        check_op(NonZero(), [np.array([0.0, -0.0, np.nan, -1], np.float32)], "non_zero")


@pytest.mark.parametrize("dtype", list(VALUE_TYPES))
def test_compress(dtype: DType) -> None:
    rng = np.random.default_rng(5)
    x = random_array(rng, (4, 5, 6), dtype)
    for axis, n in ((0, 4), (1, 5), (2, 6), (1, 3), (0, 0), (None, 120), (None, 50)):
        for share in (0, 0.5, 1.1):
            check_op(Compress(axis), [x, rng.random(n) < share], "compress")


@pytest.mark.parametrize("dtype", [np.bool_, np.uint16, np.float32, np.int64])
def test_trilu(dtype: type) -> None:
    rng = np.random.default_rng(6)
    for shape in ((4, 4), (3, 7), (7, 3), (2, 2, 5, 4), (1, 1), (0, 3), (3, 0)):
        for k in (-9, -2, 0, 1, 30, 2**63 - 1, -(2**63)):
            for upper in (True, False):
                x = random_array(rng, shape, dtype)
                got = run_op(Trilu(upper, k), [x], "trilu")[0]
                np.testing.assert_array_equal(got, (np.triu if upper else np.tril)(x, max(-99, min(99, k))))


def test_malformed_steps_are_rejected() -> None:
    x = np.zeros((4, 5), np.float32)
    i64, f32 = (lambda *shape: TensorType(DType.I64, shape)), (lambda *shape: TensorType(DType.F32, shape))
    for kernel, op, inputs, outputs in (
        ("top_k", TopK(6, 1), [x], [f32(4, 6), i64(4, 6)]),
        ("top_k", TopK(2, 1), [x], [f32(4, 2), i64(4, 3)]),
        ("non_max_suppression", NonMaxSuppression(2, 0.5, 0.0), [x[None, :, :4], x[None]], [i64(8, 3), i64(1)]),
        ("non_max_suppression", NonMaxSuppression(2, 0.5, 0.0), [x[None, :, :4], x[None, :2, :4]], [i64(3, 3), i64(1)]),
        ("non_zero", NonZero(), [x], [i64(2, 19), i64(1)]),
        ("compress", Compress(0), [x, np.ones(4, np.bool_)], [f32(3, 5), i64(1)]),
        ("trilu", Trilu(True), [x[0]], [f32(5)]),
    ):
        with pytest.raises(Rejected):
            run_step(kernel, inputs, outputs, attributes_of(op))
