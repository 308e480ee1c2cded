"""Data movement and matrix products against ONNX's reference."""

import numpy as np
import pytest

from packer.ir.ops import Activation, Attention, Concat, Expand, MatMul, Pad, Reshape, Slice, Tile, Transpose, Unary
from tests.packer.ir.oracle import check, onnx_run, run

DTYPES = (np.float32, np.int64, np.uint8, np.bool_)


def data(rng: np.random.Generator, shape: tuple[int, ...], dtype: type = np.float32) -> np.ndarray:
    return np.asarray(rng.integers(0, 2 if dtype is np.bool_ else 100, shape)).astype(dtype)


@pytest.mark.parametrize("dtype", DTYPES)
def test_reshape_transpose_expand_tile(dtype: type) -> None:
    rng = np.random.default_rng(0)
    for shape, other in [((), (1, 1)), ((2, 3, 4), (4, 6)), ((0, 3), (3, 0, 2)), ((1,), ()), ((5,), (5, 1))]:
        x = data(rng, shape, dtype)
        check(Reshape(other), [x], onnx_run("Reshape", [x, np.int64(other)], allowzero=1))
    for shape in [(), (3,), (2, 3), (2, 0, 4), (2, 3, 1, 4), (2, 1, 3, 2, 2)]:
        x = data(rng, shape, dtype)
        perm = tuple(rng.permutation(len(shape)).tolist())
        check(Transpose(perm), [x], onnx_run("Transpose", [x], perm=perm) if shape else [x])
        repeats = tuple(rng.integers(0, 4, len(shape)).tolist())
        check(Tile(repeats), [x], onnx_run("Tile", [x, np.int64(repeats)]))
    for shape, wide in [((), (2, 3)), ((3, 1), (2, 3, 4)), ((1,), (0,)), ((2, 1), (2, 1))]:
        x = data(rng, shape, dtype)
        check(Expand(wide), [x], onnx_run("Expand", [x, np.int64(wide)]))


def test_slice() -> None:
    rng = np.random.default_rng(1)
    for _ in range(60):
        shape = tuple(rng.integers(1, 6, rng.integers(1, 5)).tolist())
        x = data(rng, shape)
        starts, steps, sizes, ends = [], [], [], []
        for n in shape:
            start, step = int(rng.integers(0, n)), int(rng.choice([-3, -2, -1, 1, 2, 3]))
            most = (n - 1 - start) // step + 1 if step > 0 else start // -step + 1
            size = int(rng.integers(0, most + 1))
            end = start + size * step
            starts, steps, sizes = [*starts, start], [*steps, step], [*sizes, size]
            ends.append(end if end >= 0 else -n - 1)
        axes = np.arange(len(shape))
        expected = onnx_run("Slice", [x, np.int64(starts), np.int64(ends), axes, np.int64(steps)])
        check(Slice(tuple(starts), tuple(steps), tuple(sizes)), [x], expected)
    check(Slice((), (), ()), [np.float32(3)], [np.array(3, np.float32)])


def test_concat() -> None:
    rng = np.random.default_rng(2)
    cases = [(0, [(1,)]), (1, [(2, 3), (2, 0), (2, 4)]), (2, [(1, 2, 3), (1, 2, 1)]), (0, [(0, 2), (3, 2)])]
    for axis, shapes in cases:
        for dtype in DTYPES:
            inputs = [data(rng, shape, dtype) for shape in shapes]
            check(Concat(axis), inputs, onnx_run("Concat", inputs, axis=axis))


@pytest.mark.parametrize("mode", ["constant", "reflect", "edge", "wrap"])
def test_pad(mode: str) -> None:
    rng = np.random.default_rng(3)
    for _ in range(30):
        shape = tuple(rng.integers(2, 6, rng.integers(1, 5)).tolist())
        pads = tuple(rng.integers(0, min(shape), 2 * len(shape)).tolist())
        for dtype in (np.float32, np.int64):
            x = data(rng, shape, dtype)
            value = np.array(7, dtype)
            inputs = [x, np.int64(pads), value] if mode == "constant" else [x, np.int64(pads)]
            check(Pad(pads, mode), [x, value] if mode == "constant" else [x], onnx_run("Pad", inputs, mode=mode))


def test_pad_crops_and_repeats() -> None:
    x = np.float32([0, 1, 2, 3])
    for pads, mode, expected in [
        ((-1, 2), "constant", [1, 2, 3, 0, 0]),
        ((-2, -1), "edge", [2]),
        ((-1, 2), "edge", [1, 2, 3, 3, 3]),
        ((-1, 2), "reflect", [1, 2, 3, 2, 1]),
        ((7, 0), "reflect", [1, 0, 1, 2, 3, 2, 1, 0, 1, 2, 3]),
        ((5, 5), "wrap", [3, 0, 1, 2, 3, 0, 1, 2, 3, 0, 1, 2, 3, 0]),
        ((-4, 0), "reflect", []),
    ]:
        np.testing.assert_array_equal(run(Pad(pads, mode), x)[0], expected)
    np.testing.assert_array_equal(run(Pad((2, 1), "reflect"), np.float32([5]))[0], [5] * 4)
    empty = np.zeros((0, 2), np.float32)
    np.testing.assert_array_equal(run(Pad((1, 0, 1, 0)), empty, np.array(4, np.float32))[0], np.full((2, 2), 4))
    np.testing.assert_array_equal(run(Pad((0, 3, 0, 0), "edge"), empty)[0], np.zeros((0, 5)))


def test_negative_pads_like_onnxruntime() -> None:
    rng = np.random.default_rng(4)
    for mode in ("constant", "reflect", "edge"):
        for _ in range(20):
            x = data(rng, (6, 7))
            pads = tuple(rng.integers(-2, 3, 4).tolist())
            expected = onnx_run("Pad", [x, np.int64(pads)], engine="onnxruntime", mode=mode)
            check(Pad(pads, mode), [x], expected)


def test_matmul() -> None:
    rng = np.random.default_rng(5)
    for left, right in [
        ((3,), (3,)), ((2, 3), (3,)), ((3,), (3, 4)), ((2, 3), (3, 4)), ((5, 2, 3), (3, 4)), ((2, 3), (5, 3, 4)),
        ((6, 1, 2, 3), (5, 3, 4)), ((0, 3), (3, 2)), ((2, 0), (0, 3)), ((0, 2, 3), (1, 3, 1)),
    ]:  # fmt: skip
        for dtype in (np.float32, np.int32, np.int64, np.uint32, np.uint64):
            a, b = data(rng, left, dtype), data(rng, right, dtype)
            (product,) = onnx_run("MatMul", [a, b])
            check(MatMul(), [a, b], [product])
            bias = data(rng, product.shape[-1:], dtype)
            check(MatMul(), [a, b, bias], [product + bias])
    a, b = rng.normal(size=(2, 4, 4)).astype(np.float32)
    (activated,) = Unary("tanh").reference(onnx_run("MatMul", [a, b])[0] + np.float32(1))
    check(MatMul(Activation("tanh")), [a, b, np.ones((), np.float32)], [activated])


def test_attention() -> None:
    rng = np.random.default_rng(6)
    for batch, rows, keys, depth, columns in (((2, 3), 7, 5, 4, 6), ((1, 1), 1, 9, 1, 2), ((3, 1), 4, 4, 8, 8)):
        q, k, v = (
            rng.normal(size=(*batch, *matrix)).astype(np.float32)
            for matrix in ((rows, depth), (keys, depth), (keys, columns))
        )
        mask = rng.normal(size=(rows, keys)).astype(np.float32)
        for masks in ([], [mask]):
            expected = onnx_run("Attention", [q, k, v, *masks], opset=23, scale=0.3)
            for _ in range(4):
                orders = [tuple(rng.permutation(4).tolist()) for _ in range(4)]
                stored = [x.transpose(np.argsort(axes)) for x, axes in zip((q, k, v), orders, strict=False)]
                result = [expected[0].transpose(np.argsort(orders[3]))]
                check(Attention(0.3, *orders), [*stored, *masks], result, 1e-6)
