"""Reductions, scans, softmax and normalisations against ONNX's reference."""

import itertools

import numpy as np
import pytest

from packer.ir.ops import ArgReduce, CumSum, LpNormalize, Lrn, Normalize, Reduce, Softmax
from packer.ir.ops.reduce import REDUCE_KINDS
from tests.packer.ir.oracle import check, onnx_run, run

REDUCE_ONNX = {
    "l1": "ReduceL1", "l2": "ReduceL2", "log_sum": "ReduceLogSum", "log_sum_exp": "ReduceLogSumExp",
    "sum_square": "ReduceSumSquare",
}  # fmt: skip


def floats(rng: np.random.Generator, *shape: int) -> np.ndarray:
    return np.asarray(rng.normal(size=shape), np.float32)


@pytest.mark.parametrize("kind", REDUCE_KINDS)
def test_reduce(kind: str) -> None:
    rng = np.random.default_rng(0)
    name = REDUCE_ONNX.get(kind, f"Reduce{kind.capitalize()}")
    dtypes = [np.float32] if kind.startswith("log") else [np.float32, np.int32, np.int64]
    for shape in [(4,), (3, 5), (2, 3, 4), (2, 1, 3, 4)]:
        for count in range(len(shape) + 1):
            axes = tuple(sorted(rng.permutation(len(shape))[:count].tolist()))
            for dtype, keepdims in itertools.product(dtypes, (True, False)):
                x = (rng.integers(1, 5, shape) * (0.5 if dtype is np.float32 else 1)).astype(dtype)
                if not kind.startswith("log"):
                    x *= rng.choice([-1, 1], shape).astype(dtype)
                if count:  # ONNX's reference widens i32 for sum_square
                    expected = [y.astype(dtype) for y in onnx_run(name, [x, np.int64(axes)], keepdims=int(keepdims))]
                else:
                    (y,) = onnx_run(name, [x[None], np.int64([0])], keepdims=1)
                    expected = [y.astype(dtype).reshape(shape)]
                if dtype is not np.float32 and kind == "mean" and count:
                    total = x.astype(np.int64).sum(axes, keepdims=keepdims)
                    # ONNX's reference rounds down
                    expected = [np.trunc(total / (x.size // total.size)).astype(dtype)]
                check(Reduce(kind, axes, keepdims), [x], expected)


@pytest.mark.parametrize("kind", [k for k in REDUCE_KINDS if k != "mean"])
def test_reduce_nothing_gives_the_neutral_element(kind: str) -> None:
    name = REDUCE_ONNX.get(kind, f"Reduce{kind.capitalize()}")
    x = np.zeros((2, 0, 4), np.float32)
    with np.errstate(all="ignore"):
        check(Reduce(kind, (1,)), [x], onnx_run(name, [x, np.int64([1])]))
    check(Reduce(kind, (0,), False), [x], [np.zeros((0, 4), np.float32)])


def test_reduce_corners() -> None:
    assert np.isnan(run(Reduce("mean", (0,), False), np.zeros(0, np.float32))[0])
    assert run(Reduce("mean", (0,), False), np.zeros(0, np.int32))[0] == 0
    assert run(Reduce("max", (0,), False), np.zeros(0, np.int32))[0] == np.iinfo(np.int32).min
    assert run(Reduce("min", (0,), False), np.zeros(0, np.uint8))[0] == 255
    assert run(Reduce("sum", (0,), False), np.uint8([200, 100]))[0] == 44
    assert run(Reduce("mean", (0,), False), np.uint8([200, 101]))[0] == 150
    assert run(Reduce("mean", (0,), False), np.int32([-3, 0]))[0] == -1
    bools = np.array([[True, False], [False, False]])
    assert run(Reduce("max", (1,), False), bools)[0].tolist() == [True, False]
    assert run(Reduce("min", (0, 1), False), bools)[0].item() is False
    big = np.float32([1000, 1000])
    np.testing.assert_allclose(run(Reduce("log_sum_exp", (0,), False), big)[0], 1000 + np.log(2))
    assert run(Reduce("log_sum_exp", (0,), False), np.float32([np.inf, 0]))[0] == np.inf
    assert run(Reduce("sum", ()), np.array(3, np.float32))[0].shape == ()


@pytest.mark.parametrize(("kind", "last", "keepdims"), list(itertools.product(("max", "min"), (0, 1), (0, 1))))
def test_arg_reduce(kind: str, last: int, keepdims: int) -> None:
    rng = np.random.default_rng(1)
    for shape in [(1,), (7,), (3, 5), (2, 0, 3), (4, 3, 2)]:
        for axis in range(len(shape)):
            if not shape[axis]:
                continue
            for dtype in (np.float32, np.int32, np.uint8):
                x = rng.integers(0, 3, shape).astype(dtype)
                name = f"Arg{kind.capitalize()}"
                expected = onnx_run(name, [x], axis=axis, keepdims=keepdims, select_last_index=last)
                check(ArgReduce(kind, axis, bool(keepdims), bool(last)), [x], expected)


def test_cumsum() -> None:
    rng = np.random.default_rng(2)
    for shape in [(1,), (5,), (2, 3), (0, 2), (2, 0), (3, 1, 4)]:
        for axis in range(len(shape)):
            for exclusive, reverse in itertools.product((0, 1), repeat=2):
                for dtype in (np.float32, np.int32):
                    x = rng.integers(-5, 5, shape).astype(dtype)
                    if x.size:
                        arguments = {"exclusive": exclusive, "reverse": reverse}
                        expected = onnx_run("CumSum", [x, np.array(axis)], **arguments)
                    else:
                        expected = [x]
                    check(CumSum(axis, bool(exclusive), bool(reverse)), [x], expected)


@pytest.mark.parametrize("kind", ["softmax", "log_softmax", "hardmax"])
def test_softmax(kind: str) -> None:
    rng = np.random.default_rng(3)
    name = {"softmax": "Softmax", "log_softmax": "LogSoftmax", "hardmax": "Hardmax"}[kind]
    for shape in [(4,), (2, 3), (2, 3, 4), (1, 5, 1, 2)]:
        x = floats(rng, *shape) * 5
        for axis in range(len(shape)):
            check(Softmax(kind, (axis,)), [x], onnx_run(name, [x], axis=axis))
            trailing = tuple(range(axis, len(shape)))  # opset 11
            flat = x.reshape(int(np.prod(shape[:axis])), -1)
            check(Softmax(kind, trailing), [x], [onnx_run(name, [flat], axis=1)[0].reshape(shape)])
    for shape in [(0, 3), (3, 0)]:
        check(Softmax(kind, (1,)), [np.zeros(shape, np.float32)], [np.zeros(shape, np.float32)])
    single = np.zeros((), np.float32) if kind == "log_softmax" else np.ones((), np.float32)
    check(Softmax(kind, ()), [np.float32(3).reshape(())], [single])


def test_normalize() -> None:
    rng = np.random.default_rng(4)
    x = floats(rng, 2, 6, 3, 5) * 3 + 1
    ones, zeros = np.ones(6, np.float32), np.zeros(6, np.float32)
    expected = onnx_run("InstanceNormalization", [x, ones, zeros], epsilon=1e-3)
    check(Normalize((2, 3), 1e-3), [x], expected, 1e-4)
    wide = np.ones((3, 5), np.float32)
    check(Normalize((2, 3), 1e-3), [x], onnx_run("LayerNormalization", [x, wide], axis=2, epsilon=1e-3), 1e-4)
    expected = onnx_run("RMSNormalization", [x, wide], opset=23, axis=2, epsilon=1e-3)
    check(Normalize((2, 3), 1e-3, True), [x], expected, 1e-4)
    grouped = onnx_run("GroupNormalization", [x, ones, zeros], num_groups=3, epsilon=1e-3)
    check(Normalize((2, 3, 4), 1e-3), [x.reshape(2, 3, 2, 3, 5)], [grouped[0].reshape(2, 3, 2, 3, 5)], 1e-4, 1e-4)
    check(Normalize((0, 2, 3), 1e-9), [x], onnx_run("MeanVarianceNormalization", [x], axes=(0, 2, 3)), 1e-4, 1e-4)
    assert run(Normalize((1,), 1e-3), np.zeros((3, 0), np.float32))[0].shape == (3, 0)


def test_lp_normalize() -> None:
    rng = np.random.default_rng(5)
    for axis, p in itertools.product(range(3), (1, 2)):
        x = floats(rng, 2, 3, 4)
        x[0] = x[:, 1] = x[:, :, 2] = 0
        # onnxruntime: ONNX's reference forgets the absolute values for p = 1
        check(LpNormalize(axis, p), [x], onnx_run("LpNormalization", [x], engine="onnxruntime", axis=axis, p=p))


def test_lrn() -> None:
    rng = np.random.default_rng(6)
    for size, channels in itertools.product((1, 2, 3, 5, 8), (1, 3, 7)):
        x = floats(rng, 2, channels, 3, 2) * 4
        arguments = {"alpha": 0.3, "beta": 0.6, "bias": 1.5, "size": size}
        if size % 2:  # onnxruntime: ONNX's reference confuses batch and channels; but it takes odd sizes only
            expected = onnx_run("LRN", [x], engine="onnxruntime", **arguments)
        else:
            windows = [x[:, max(0, c - (size - 1) // 2) : c + size // 2 + 1] for c in range(channels)]
            total = np.stack([np.square(w).sum(1) for w in windows], 1)
            expected = [(x / (1.5 + 0.3 / size * total) ** 0.6).astype(np.float32)]
        check(Lrn(size, 0.3, 0.6, 1.5), [x], expected)
