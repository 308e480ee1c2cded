"""Gathers, scatters and selections against ONNX's reference."""

import itertools

import numpy as np
import pytest

from packer.ir.ops import (
    Compress,
    Gather,
    GatherElements,
    GatherND,
    NonMaxSuppression,
    NonZero,
    OneHot,
    ReverseSequence,
    ScatterElements,
    ScatterND,
    TopK,
    Trilu,
)
from tests.packer.ir.oracle import check, onnx_run, run

REDUCTIONS = ("none", "add", "mul", "min", "max")


def data(rng: np.random.Generator, *shape: int, dtype: type = np.float32) -> np.ndarray:
    return np.asarray(rng.integers(-20, 20, shape)).astype(dtype)


def test_gather() -> None:
    rng = np.random.default_rng(0)
    for shape, picked in [((5,), ()), ((3, 4), (2, 2)), ((2, 3, 4), (5,)), ((2, 3), (0,)), ((2, 0), ())]:
        for axis in range(len(shape)):
            if not shape[axis]:
                continue
            for dtype, kind in itertools.product((np.float32, np.uint8, np.bool_), (np.int32, np.int64)):
                x = data(rng, *shape, dtype=dtype)
                indices = np.asarray(rng.integers(-shape[axis], shape[axis], picked)).astype(kind)
                check(Gather(axis), [x, indices], onnx_run("Gather", [x, indices], axis=axis))
    assert run(Gather(0), np.int32([1, 2, 3]), np.int64([7, -9]))[0].tolist() == [3, 1]


def test_gather_elements() -> None:
    rng = np.random.default_rng(1)
    for shape, picked in [((5,), (3,)), ((3, 4), (3, 4)), ((4, 3, 2), (4, 3, 2)), ((2, 3), (2, 0))]:
        for axis in range(len(shape)):
            longer = tuple(n + 2 * (i == axis) for i, n in enumerate(picked))
            for kind in (np.int32, np.int64):
                x, indices = data(rng, *shape), rng.integers(-shape[axis], shape[axis], longer).astype(kind)
                check(GatherElements(axis), [x, indices], onnx_run("GatherElements", [x, indices], axis=axis))
    (y,) = run(GatherElements(1), np.arange(9, dtype=np.int64).reshape(3, 3), np.int64([[2], [0]]))
    assert y.tolist() == [[2], [3]]


@pytest.mark.parametrize("batch_dims", [0, 1, 2])
def test_gather_nd(batch_dims: int) -> None:
    rng = np.random.default_rng(2)
    for depth in range(1, 4 - batch_dims):
        for middle in [(), (4,), (2, 3)]:
            x = data(rng, 2, 3, 4)
            extents = x.shape[batch_dims : batch_dims + depth]
            columns = [rng.integers(-n, n, (*x.shape[:batch_dims], *middle)) for n in extents]
            indices = np.stack(columns, -1).astype(np.int64)
            (expected,) = onnx_run("GatherND", [x, indices], engine="onnxruntime", batch_dims=batch_dims)
            check(GatherND(batch_dims), [x, indices], [expected])
    x, empty = data(rng, 2, 3), np.zeros((2, 5, 0), np.int64)
    check(GatherND(), [x, empty], [np.broadcast_to(x, (2, 5, 2, 3))])
    check(GatherND(1), [x, empty], [np.broadcast_to(x[:, None], (2, 5, 3))])


@pytest.mark.parametrize("reduction", REDUCTIONS)
def test_scatter_elements(reduction: str) -> None:
    rng = np.random.default_rng(3)
    for shape, picked in [((5,), (5,)), ((3, 4), (3, 4)), ((4, 3, 2), (2, 2, 1)), ((2, 3), (2, 0))]:
        for axis in range(len(shape)):
            x, updates = data(rng, *shape), data(rng, *picked)
            # without a reduction equal positions would make the result depend on the order
            columns = np.argsort(rng.random((*picked[:axis], shape[axis], *picked[axis + 1 :])), axis)
            indices = np.take(columns, np.arange(picked[axis]), axis)
            indices = indices - shape[axis] * rng.integers(0, 2, picked)
            if reduction != "none":
                indices = rng.integers(-shape[axis], shape[axis], picked)
            expected = onnx_run(
                "ScatterElements", [x, indices, updates], engine="onnxruntime", axis=axis, reduction=reduction
            )
            check(ScatterElements(axis, reduction), [x, indices, updates], expected)
    (y,) = run(ScatterElements(0), np.zeros(2, np.uint8), np.int32([0, 0]), np.uint8([1, 2]))
    assert y.tolist() == [2, 0]


@pytest.mark.parametrize("reduction", REDUCTIONS)
def test_scatter_nd(reduction: str) -> None:
    rng = np.random.default_rng(4)
    for depth, middle in [(1, (2,)), (2, (3, 2)), (3, (4,)), (3, ()), (1, (0,))]:
        x = data(rng, 4, 3, 5)
        flat = rng.permutation(int(np.prod(x.shape[:depth])))[: int(np.prod(middle))]
        indices = np.stack(np.unravel_index(flat, x.shape[:depth]), -1).reshape(*middle, depth).astype(np.int64)
        updates = data(rng, *middle, *x.shape[depth:])
        expected = onnx_run("ScatterND", [x, indices, updates], reduction=reduction) if updates.size else [x]
        check(ScatterND(reduction), [x, indices, updates], expected)
    (y,) = run(ScatterND("add"), np.int64([1, 2]), np.zeros((2, 0), np.int64), np.int64([[1, 1], [2, 2]]))
    assert y.tolist() == [4, 5]
    (y,) = run(ScatterND("add"), np.int64([1, 2]), np.int64([[0], [0], [-1]]), np.int64([1, 1, 5]))
    assert y.tolist() == [3, 7]


def test_one_hot() -> None:
    rng = np.random.default_rng(5)
    for shape in [(), (4,), (2, 3), (0, 2)]:
        for axis in range(len(shape) + 1):
            for kind, values in itertools.product((np.int64, np.int32, np.uint8, np.float32), (np.float32, np.int32)):
                indices = np.asarray(rng.integers(0 if kind is np.uint8 else -7, 8, shape)).astype(kind)
                levels = np.array([2, 5], values)
                expected = onnx_run("OneHot", [indices, np.array(5), levels], axis=axis)
                check(OneHot(axis, 5), [indices, levels], expected)


def test_reverse_sequence() -> None:
    rng = np.random.default_rng(6)
    for batch, time in ((0, 1), (1, 0)):
        x = data(rng, 4, 5, 3)
        lengths = rng.integers(0, x.shape[time] + 1, x.shape[batch])
        lengths[0] = 0
        steps = np.arange(x.shape[time])
        y = np.moveaxis(x, (batch, time), (0, 1)).copy()
        for row, n in zip(y, lengths, strict=True):
            row[steps[:n]] = row[steps[:n]][::-1].copy()
        expected = np.moveaxis(y, (0, 1), (batch, time))
        check(ReverseSequence(batch, time), [x, lengths], [expected])
        lengths = np.maximum(lengths, 1)
        arguments = {"batch_axis": batch, "time_axis": time}
        check(ReverseSequence(batch, time), [x, lengths], onnx_run("ReverseSequence", [x, lengths], **arguments))


@pytest.mark.parametrize(("largest", "ordered"), list(itertools.product((0, 1), (0, 1))))
def test_top_k(largest: int, ordered: int) -> None:
    rng = np.random.default_rng(7)
    for shape in [(1,), (9,), (3, 7), (4, 3, 5)]:
        for axis in range(len(shape)):
            for dtype in (np.float32, np.int64, np.uint8):
                x = rng.integers(0, 4, shape).astype(dtype)
                k = int(rng.integers(1, shape[axis] + 1))
                (y, index) = run(TopK(k, axis, bool(largest), bool(ordered)), x)
                # by hand: ONNX's reference does not order ties
                key = -x.astype(np.int64) if largest else x.astype(np.int64)
                want = np.take(np.argsort(key, axis, kind="stable"), np.arange(k), axis)
                np.testing.assert_array_equal(index, want)
                expected = onnx_run("TopK", [x, np.int64([k])], 2, axis=axis, largest=largest, sorted=1)[0]
                np.testing.assert_array_equal(y, expected)
    assert run(TopK(0, 0), np.zeros((0, 2), np.float32))[0].shape == (0, 2)


@pytest.mark.parametrize("seed", range(12))
def test_non_max_suppression(seed: int) -> None:
    rng = np.random.default_rng(seed)
    batches, classes, count = (int(v) for v in rng.integers(1, 4, 3) * (1, 1, 6))
    boxes = rng.random((batches, count, 4)).astype(np.float32)
    boxes[:, ::5, 2:] = boxes[:, ::5, :2]  # no area
    scores = (rng.integers(0, 8, (batches, classes, count)) / 8).astype(np.float32)
    limit, overlap, threshold, center = int(rng.integers(0, 9)), 0.2, float(rng.choice([-np.inf, 0.3])), seed % 2
    inputs = [boxes, scores, np.int64([limit]), np.float32([overlap]), np.float32([threshold])]
    (expected,) = onnx_run("NonMaxSuppression", inputs, center_point_box=center)
    selected, found = run(NonMaxSuppression(limit, overlap, threshold, bool(center)), boxes, scores)
    assert found.tolist() == [len(expected)]
    np.testing.assert_array_equal(selected[: len(expected)], expected)
    assert not selected[len(expected) :].any()


def test_non_max_suppression_of_nothing() -> None:
    op = NonMaxSuppression(3, 0.5, 0.0)
    for batches, classes, count in [(0, 2, 3), (1, 0, 3), (1, 2, 0)]:
        boxes, scores = np.zeros((batches, count, 4), np.float32), np.zeros((batches, classes, count), np.float32)
        assert run(op, boxes, scores)[1].tolist() == [0]


def test_non_zero_and_compress() -> None:
    rng = np.random.default_rng(8)
    for dtype in (np.float32, np.int64, np.bool_, np.uint8):
        for shape in [(4,), (3, 4), (2, 3, 2), (0, 3)]:
            x = rng.integers(0, 2, shape).astype(dtype)
            indices, found = run(NonZero(), x)
            (expected,) = onnx_run("NonZero", [x])
            np.testing.assert_array_equal(indices[:, : int(found[0])], expected)
            assert found[0] == expected.shape[1]
            assert not indices[:, found[0] :].any()
            for axis in (None, *range(len(shape))):
                most = x.size if axis is None else shape[axis]
                condition = rng.random(int(rng.integers(0, most + 1))) < 0.6
                arguments = {} if axis is None else {"axis": axis}
                (expected,) = onnx_run("Compress", [x, condition], **arguments)
                y, kept = run(Compress(axis), x, condition)
                assert kept[0] == expected.shape[axis or 0]
                rows = np.moveaxis(y, axis or 0, 0)
                np.testing.assert_array_equal(rows[: kept[0]], np.moveaxis(expected, axis or 0, 0))
                assert not rows[kept[0] :].any()
    indices, found = run(NonZero(), np.array(3, np.int32))
    assert (indices.shape, found.tolist()) == ((0, 1), [1])


def test_trilu() -> None:
    rng = np.random.default_rng(9)
    for shape, upper, k in itertools.product([(3, 4), (2, 4, 3), (0, 3), (2, 3, 0)], (0, 1), (-9, -2, 0, 1, 9)):
        for dtype in (np.float32, np.int64, np.bool_):
            x = data(rng, *shape, dtype=dtype)
            expected = [np.triu(x, k) if upper else np.tril(x, k)]
            if x.size:
                np.testing.assert_array_equal(expected[0], onnx_run("Trilu", [x, np.array(k)], upper=upper)[0])
            check(Trilu(bool(upper), k), [x], expected)
