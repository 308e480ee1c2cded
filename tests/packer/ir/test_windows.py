"""Convolution and pooling against ONNX's reference."""

import itertools

import numpy as np
import pytest

from packer.ir.ops import Activation, Conv, ConvTranspose, MaxUnpool, Pool, Unary
from tests.packer.ir.oracle import check, onnx_run, run


def attributes(rng: np.random.Generator, spatial: int, most: int = 3) -> tuple[tuple[int, ...], ...]:
    """Random kernel, strides, pads, dilations; pads smaller than the kernel."""
    kernel = tuple(rng.integers(1, most + 1, spatial).tolist())
    strides = tuple(rng.integers(1, 4, spatial).tolist())
    dilations = tuple(rng.integers(1, 3, spatial).tolist())
    pads = tuple(int(rng.integers(0, k)) for k in kernel * 2)
    return kernel, strides, pads, dilations


def numbers(rng: np.random.Generator, *shape: int) -> np.ndarray:
    return rng.normal(size=shape).astype(np.float32)


@pytest.mark.parametrize("seed", range(40))
def test_conv(seed: int) -> None:
    rng = np.random.default_rng(seed)
    spatial = 1 + seed % 3
    kernel, strides, pads, dilations = attributes(rng, spatial)
    group, inputs, outputs = (int(v) for v in rng.integers(1, 4, 3))
    if seed % 5 == 0:
        inputs = outputs = 1  # depthwise
    x = numbers(rng, int(rng.integers(0, 3)) if seed % 7 == 0 else 2, group * inputs, *rng.integers(5, 9, spatial))
    w = numbers(rng, group * outputs, inputs, *kernel)
    bias = numbers(rng, group * outputs)
    expected = onnx_run(
        "Conv", [x, w, bias], engine="onnxruntime", group=group, strides=strides, pads=pads, dilations=dilations
    )  # onnxruntime: ONNX's reference is minutes slow in three dimensions
    op = Conv(strides, pads, dilations, group)
    check(op, [x, w, bias], expected, 1e-4, 1e-4)
    check(op, [x, w], [expected[0] - bias.reshape(-1, *(1,) * spatial)], 1e-4, 1e-4)
    residual = numbers(rng, *expected[0].shape)
    fused = Conv(strides, pads, dilations, group, Activation("leaky_relu", 0.1))
    (sum_,) = Unary("leaky_relu", 0.1).reference(expected[0] + residual)
    check(fused, [x, w, bias, residual], [sum_], 1e-4, 1e-4)


def test_conv_in_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    x, w = numbers(rng, 2, 4, 13, 7), numbers(rng, 6, 2, 3, 3)
    op = Conv((2, 1), (1, 1, 1, 1), (1, 1), 2)
    (whole,) = run(op, x, w)
    monkeypatch.setattr("packer.ir.ops.conv._CHUNK", 500)
    np.testing.assert_allclose(op.reference(x, w)[0], whole, 1e-5, 1e-6)
    np.testing.assert_allclose(whole, onnx_run("Conv", [x, w], group=2, strides=(2, 1), pads=(1,) * 4)[0], 1e-4, 1e-4)


def test_conv_without_channels_gives_the_bias() -> None:
    x, w, bias = np.zeros((1, 0, 4, 4), np.float32), np.zeros((2, 0, 3, 3), np.float32), np.float32([1, 2])
    (y,) = run(Conv((1, 1), (0,) * 4, (1, 1)), x, w, bias)
    np.testing.assert_array_equal(y, np.broadcast_to(bias[:, None, None], (1, 2, 2, 2)))


@pytest.mark.parametrize("seed", range(40))
def test_conv_transpose(seed: int) -> None:
    rng = np.random.default_rng(seed)
    spatial = 1 + seed % 3
    kernel, strides, pads, dilations = attributes(rng, spatial)
    group, inputs, outputs = (int(v) for v in rng.integers(1, 4, 3))
    extra = tuple(int(rng.integers(0, s)) for s in strides)
    x = numbers(rng, 2, group * inputs, *rng.integers(4, 7, spatial))
    w = numbers(rng, group * inputs, outputs, *kernel)
    bias = numbers(rng, group * outputs)
    expected = onnx_run(
        "ConvTranspose", [x, w, bias], engine="onnxruntime", group=group, strides=strides, pads=pads,
        dilations=dilations, output_padding=extra,
    )  # fmt: skip
    check(ConvTranspose(strides, pads, dilations, extra, group), [x, w, bias], expected, 1e-4, 1e-4)


POOLS = list(itertools.product(("max", "average", "lp"), (0, 1), (0, 1)))


@pytest.mark.parametrize(("kind", "ceil_mode", "include"), POOLS)
def test_pool(kind: str, ceil_mode: int, include: int) -> None:
    for seed in range(12):
        rng = np.random.default_rng(seed)
        spatial = 1 + seed % 3
        kernel, strides, pads, dilations = attributes(rng, spatial)
        x = numbers(rng, 2, 3, *rng.integers(5, 9, spatial))
        p = int(rng.integers(1, 4))
        common = {
            "kernel_shape": kernel, "strides": strides, "pads": pads, "ceil_mode": ceil_mode, "dilations": dilations,
        }  # fmt: skip
        op = Pool(kind, kernel, strides, pads, dilations, bool(ceil_mode), bool(include), p, bool(include))
        if kind == "max":
            # onnxruntime: ONNX's reference has no column-major indices beyond two dimensions
            expected = onnx_run(
                "MaxPool", [x], 2, "onnxruntime", types=(np.float32, np.int64), storage_order=include, **common
            )
        elif kind == "average":
            if ceil_mode and include:
                expected = [average_by_hand(x, op)]  # the engines differ about what lies beyond the end padding
            else:
                expected = onnx_run("AveragePool", [x], engine="onnxruntime", count_include_pad=include, **common)
        else:
            expected = onnx_run("LpPool", [x], engine="onnxruntime", p=p, **common)
        check(op, [x], expected, 1e-4, 1e-5)


def average_by_hand(x: np.ndarray, op: Pool) -> np.ndarray:
    """Averages window by window, counting input and padding but nothing beyond."""
    spatial = x.shape[2:]
    y = np.empty(run(op, x)[0].shape, np.float32)
    for place in np.ndindex(y.shape):
        axes = []
        counted = 1
        for i, n in enumerate(spatial):
            begin = place[2 + i] * op.strides[i] - op.pads[i]
            taps = [begin + k * op.dilations[i] for k in range(op.kernel[i])]
            counted *= sum(t < n + op.pads[i + len(spatial)] for t in taps)
            axes.append([t for t in taps if 0 <= t < n])
        y[place] = x[place[:2]][np.ix_(*axes)].sum() / counted
    return y


def test_pool_follows_the_onnx_reference_too() -> None:
    rng = np.random.default_rng(9)
    x = numbers(rng, 1, 2, 7, 8)
    for ceil_mode in (0, 1):
        common = {"kernel_shape": (3, 2), "strides": (2, 3), "pads": (1, 0, 1, 1), "ceil_mode": ceil_mode}
        op = Pool("max", (3, 2), (2, 3), (1, 0, 1, 1), (1, 1), bool(ceil_mode))
        check(op, [x], onnx_run("MaxPool", [x], 2, **common))
        op = Pool("average", (3, 2), (2, 3), (1, 0, 1, 1), (1, 1), bool(ceil_mode))
        check(op, [x], onnx_run("AveragePool", [x], **common))


def test_max_pool_of_bytes_and_corners() -> None:
    rng = np.random.default_rng(10)
    for dtype in (np.int8, np.uint8):
        x = rng.integers(0, 100, (1, 2, 5, 5)).astype(dtype) - np.array(50, dtype)
        op = Pool("max", (2, 2), (2, 2), (1, 1, 0, 0), (1, 1))
        check(op, [x], onnx_run("MaxPool", [x], kernel_shape=(2, 2), strides=(2, 2), pads=(1, 1, 0, 0)))
    y, index = run(Pool("max", (2,), (1,), (0, 0), (1,)), np.float32([[[3, 3, np.nan, -np.inf, -np.inf]]]))
    np.testing.assert_array_equal(y, [[[3, np.nan, np.nan, -np.inf]]])
    assert index.tolist() == [[[0, 2, 2, 3]]]
    y, _ = run(Pool("max", (2,), (1,), (1, 1), (2,)), np.float32([[[5]]]))
    np.testing.assert_array_equal(y, [[[-np.inf]]])
    y, _ = run(Pool("max", (1, 1), (1, 1), (0,) * 4, (1, 1)), np.zeros((0, 3, 2, 2), np.float32))
    assert y.shape == (0, 3, 2, 2)


def test_max_unpool() -> None:
    rng = np.random.default_rng(11)
    x = numbers(rng, 2, 3, 6, 8)
    y, index = run(Pool("max", (2, 2), (2, 2), (0,) * 4, (1, 1)), x)
    expected = onnx_run("MaxUnpool", [y, index], kernel_shape=(2, 2), strides=(2, 2))
    check(MaxUnpool(x.shape, x.shape), [y, index], expected)
    larger = np.array([2, 3, 7, 9])
    expected = onnx_run("MaxUnpool", [y, index, larger], kernel_shape=(2, 2), strides=(2, 2))
    check(MaxUnpool(tuple(larger.tolist()), x.shape), [y, index], expected)
