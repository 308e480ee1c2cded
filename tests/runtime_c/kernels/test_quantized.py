"""Kernels of bytes on every instruction set: the very bytes of the reference."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from packer.ir.ops import DequantizeLinear, Lookup, QuantizedBinary, QuantizedConv, QuantizedMatMul, QuantizeLinear
from packer.ir.ops.quantized import whole_groups
from packer.ir.types import DType, TensorType
from targets.base import Attribute, Layout, attributes_of
from targets.cpu.packing import quads
from targets.cpu.quantized import constants, tap_quads
from tests.runtime_c.kernels.convolutions import choice
from tests.runtime_c.kernels.harness import STORED, Rejected, check_step, random_array, run_step

PLANAR, BLOCK16, WEIGHT16, DEPTH16 = Layout.PLANAR, Layout.BLOCK16, Layout.WEIGHT16, Layout.DEPTH16
CONSTANTS = (WEIGHT16, BLOCK16, BLOCK16)


def bytes_of(rng: np.random.Generator, *shape: int) -> np.ndarray:
    return rng.integers(0, 256, shape).astype(np.uint8)


def weights(rng: np.random.Generator, *shape: int) -> np.ndarray:
    return rng.integers(-128, 128, shape).astype(np.int8)


def scales(rng: np.random.Generator, filters: int, terms: int) -> np.ndarray:
    """Such that results fill the range of bytes, some more."""
    return (rng.uniform(0.2, 2.0, filters) / (74 * np.sqrt(max(terms, 1)))).astype(np.float32)


def packed(w: np.ndarray, bias: np.ndarray, scale: np.ndarray, group: int, x_zero: int) -> list[np.ndarray]:
    """The logical arrays of the constants: the harness packs them itself."""
    made = constants(w, bias, scale, group, x_zero)
    shape = made[1].type.shape
    sums = w.reshape(w.shape[0], -1).sum(axis=1, dtype=np.int64)

    words = quads(w.reshape(group, w.shape[0] // group, *w.shape[1:]))
    assert np.array_equal(STORED[WEIGHT16](words).reshape(-1), made[0].data.reshape(-1))
    return [words, (bias - x_zero * sums).astype(np.int32).reshape(shape), scale.reshape(shape)]


def constants_of(
    op: QuantizedConv, w: np.ndarray, bias: np.ndarray, scale: np.ndarray
) -> tuple[str, tuple[Layout, ...], list[np.ndarray]]:
    """The kernel that takes one filter a channel, or else many, with the layouts of its constants and these."""
    if op.group == 1 or w.shape[1] > 1:
        return "conv_quantized", CONSTANTS, packed(w, bias, scale, op.group, op.x_zero)
    sums = w.reshape(w.shape[0], -1).sum(axis=1, dtype=np.int64)
    stored = [tap_quads(w, op.dilations[-1]), (bias - op.x_zero * sums).astype(np.int32), scale]
    return "conv_depthwise_quantized", (DEPTH16, BLOCK16, BLOCK16), stored


def check(
    op: QuantizedConv,
    x: np.ndarray,
    w: np.ndarray,
    scale: np.ndarray,
    bias: np.ndarray,
    residual: np.ndarray | None = None,
    layout: Layout = BLOCK16,
    inplace: int | None = None,
) -> None:
    (want,) = op.reference(x, w, scale, bias, residual)
    kernel, packing, stored = constants_of(op, w, bias, scale)
    added = [] if residual is None else [residual]
    layouts = (layout, *packing, *(BLOCK16 for _ in added), BLOCK16)
    attributes = (*attributes_of(op), Attribute("kernel", ints=w.shape[2:]))
    outputs = [TensorType(DType.U8, want.shape)]
    check_step(kernel, [x, *stored, *added], [want], outputs, attributes, layouts=layouts, inplace=inplace)


def expect_refused(
    kernel: str, op: QuantizedConv, inputs: list[np.ndarray], layouts: tuple[Layout, ...], change: dict[str, object]
) -> None:
    """A kernel of one tap with changed attributes."""
    attributes = {a.name: a for a in (*attributes_of(op), Attribute("kernel", ints=(1, 1)))}
    for name, value in change.items():
        attributes[name] = Attribute(name, ints=value if isinstance(value, tuple) else (value,))
    outputs = [TensorType(DType.U8, inputs[0].shape)]
    with pytest.raises(Rejected):
        run_step(kernel, inputs, outputs, list(attributes.values()), (BLOCK16, *layouts, BLOCK16))


def scaled_again(
    rng: np.random.Generator,
    op: QuantizedConv,
    x: np.ndarray,
    w: np.ndarray,
    scale: np.ndarray,
    bias: np.ndarray,
    zeros: tuple[int, int],
) -> tuple[QuantizedConv, np.ndarray | None]:
    """The convolution as it is, with results that are scaled twice, or with a residual, which comes with it."""
    again = rng.integers(3)
    if again:
        op = replace(op, sum_scales=(float(np.float32(0.7)),), sum_levels=(*zeros, 0, 255))
    if again < 2:
        return op, None
    residual = bytes_of(rng, *op.reference(x, w, scale, bias)[0].shape)
    return replace(op, sum_scales=(*op.sum_scales, float(np.float32(0.4)))), residual


@pytest.mark.parametrize("seed", range(30))
def test_random_convolutions(seed: int) -> None:
    rng = np.random.default_rng(seed)
    rank = choice(rng, 1, 2, 2, 2, 3)
    group = choice(rng, 1, 1, 1, 2)
    channels, filters = (16, choice(rng, 16, 32)) if group > 1 else (choice(rng, 1, 3, 16, 20, 70), choice(rng, 5, 33))
    kernel = tuple(int(n) for n in rng.integers(1, 4, rank))
    pads = tuple(int(n) for n in rng.integers(0, 3, 2 * rank))
    strides, dilations = (tuple(int(n) for n in rng.integers(1, 3, rank)) for _ in range(2))
    x = bytes_of(rng, choice(rng, 1, 2), group * channels, *(int(n) for n in rng.integers(5, 18, rank)))
    w = weights(rng, group * filters, channels, *kernel)
    zeros = rng.integers(0, 256, 4).tolist()
    op = QuantizedConv(strides, pads, dilations, group, zeros[0], zeros[1], 3 if seed % 3 else zeros[1], 250)
    if op.lo > op.hi:
        op = QuantizedConv(strides, pads, dilations, group, zeros[0], zeros[1])
    scale, bias = scales(rng, group * filters, w[0].size), rng.integers(-9999, 9999, group * filters).astype(np.int32)
    shape = op.reference(x, w, scale, bias)[0].shape
    residual = None
    if rng.random() < 0.5:
        residual = bytes_of(rng, *shape)
        levels = (zeros[2], zeros[3], 0, 255)
        op = replace(op, sum_scales=(float(np.float32(0.7)), float(np.float32(0.4))), sum_levels=levels)
    check(op, x, w, scale, bias, residual, (PLANAR, BLOCK16)[rng.integers(2)])


@pytest.mark.parametrize("seed", range(30))
def test_random_depthwise(seed: int) -> None:
    rng = np.random.default_rng(100 + seed)
    rank, channels = choice(rng, 1, 2, 2, 2, 3), choice(rng, 2, 16, 20, 40)
    kernel = tuple(int(n) for n in rng.integers(1, 8 if rank < 3 else 4, rank))
    pads = tuple(int(n) for n in rng.integers(0, 3, 2 * rank))
    strides, dilations = (tuple(int(n) for n in rng.integers(1, 3, rank)) for _ in range(2))
    extents = [
        (k - 1) * d + 1 + int(rng.integers(0, 30 if rank < 3 else 5)) for k, d in zip(kernel, dilations, strict=True)
    ]
    x, w = bytes_of(rng, choice(rng, 1, 2), channels, *extents), weights(rng, channels, 1, *kernel)
    zeros = rng.integers(0, 256, 4).tolist()
    op = QuantizedConv(strides, pads, dilations, channels, zeros[0], zeros[1], 3, 250)
    scale, bias = scales(rng, channels, w[0].size), rng.integers(-9999, 9999, channels).astype(np.int32)
    op, residual = scaled_again(rng, op, x, w, scale, bias, (zeros[2], zeros[3]))
    check(op, x, w, scale, bias, residual)


def test_depthwise_bands_and_the_largest_sums() -> None:
    x, w = np.full((1, 16, 120, 130), 255, np.uint8), np.full((16, 1, 5, 5), -128, np.int8)
    op = QuantizedConv((1, 1), (2,) * 4, (1, 1), 16, 128, 128)
    check(op, x, w, np.full(16, 100 / (255 * 128 * 25), np.float32), np.zeros(16, np.int32))


def test_scaled_twice() -> None:
    """As bytes of other levels are stored."""
    rng = np.random.default_rng(6)
    x, w = bytes_of(rng, 1, 20, 9, 7), weights(rng, 40, 20, 1, 1)
    op = QuantizedConv((1, 1), (0,) * 4, (1, 1), 1, 3, 110, 9, sum_scales=(0.8,), sum_levels=(0, 33, 30, 200))
    for layout in (PLANAR, BLOCK16):
        check(op, x, w, scales(rng, 40, 20), np.zeros(40, np.int32), layout=layout)


def test_halves_round_to_even() -> None:
    x = np.arange(256, dtype=np.uint8).reshape(1, 1, 16, 16)
    op = QuantizedConv((1, 1), (0, 0, 0, 0), (1, 1), 1, 0, 7)
    check(op, x, np.ones((1, 1, 1, 1), np.int8), np.float32([0.5]), np.zeros(1, np.int32))


def test_the_largest_sums() -> None:
    """Products of 16 bits would saturate."""
    for value in (127, -128):
        x, w = np.full((1, 64, 3, 3), 255, np.uint8), np.full((16, 64, 3, 3), value, np.int8)
        op = QuantizedConv((1, 1), (0, 0, 0, 0), (1, 1), 1, 0, 128)
        check(op, x, w, np.full(16, 100 / (255 * 128 * 576), np.float32), np.zeros(16, np.int32))


@pytest.mark.parametrize(
    ("group", "channels", "filters", "kernel"),
    [(4, 34, 10, 1), (3, 5, 24, 3), (16, 2, 4, 3), (4, 20, 7, 2), (2, 3, 1, 1)],
)
def test_groups_together(group: int, channels: int, filters: int, kernel: int) -> None:
    """Weights of zero between groups are left out."""
    rng = np.random.default_rng(group)
    x, w = bytes_of(rng, 1, group * channels, 9, 12), weights(rng, group * filters, channels, kernel, kernel)
    scale, bias = scales(rng, group * filters, w[0].size), rng.integers(-999, 999, group * filters).astype(np.int32)
    wide, groups, together = whole_groups(w, group)
    assert groups * together == group
    op = QuantizedConv((1, 1), (1,) * 4, (1, 1), groups, 3, 110, together=together)
    (want,) = replace(op, group=group, together=1).reference(x, w, scale, bias)
    np.testing.assert_array_equal(op.reference(x, wide, scale, bias)[0], want)
    for layout in (PLANAR, BLOCK16):
        check(op, x, wide, scale, bias, layout=layout)


@pytest.mark.parametrize("seed", range(8))
def test_means_of_windows_that_the_padding_cuts(seed: int) -> None:
    rng = np.random.default_rng(200 + seed)
    rank = choice(rng, 1, 2, 2, 3)
    kernel, pads = (tuple(int(n) for n in rng.integers(1, 4, n)) for n in (rank, 2 * rank))
    strides, dilations = (tuple(int(n) for n in rng.integers(1, 3, rank)) for _ in range(2))
    x = bytes_of(rng, 2, 20, *(int(n) for n in rng.integers(7, 15, rank)))
    op = QuantizedConv(strides, pads, dilations, 20, 120, 110, mean=True)
    w, scale, bias = np.ones((20, 1, *kernel), np.int8), np.full(20, 0.9, np.float32), np.zeros(20, np.int32)
    residual = None
    if seed % 2:
        residual = bytes_of(rng, *op.reference(x, w, scale, bias)[0].shape)
        op = replace(op, sum_scales=(0.75, 0.5), sum_levels=(3, 99, 0, 255))
    check(op, x, w, scale, bias, residual)


@pytest.mark.parametrize("depthwise", [False, True])
def test_residual_in_place(depthwise: bool) -> None:
    rng = np.random.default_rng(1)
    filters, channels, size, group = (32, 1, 3, 32) if depthwise else (48, 32, 1, 1)
    x, w = bytes_of(rng, 1, 32, 14, 14), weights(rng, filters, channels, size, size)
    op = QuantizedConv((1, 1), (size // 2,) * 4, (1, 1), group, 3, 110)
    op = replace(op, sum_scales=(1.0, 0.5), sum_levels=(100, 0, 0, 255))
    scale, bias = scales(rng, filters, w[0].size), np.zeros(filters, np.int32)
    check(op, x, w, scale, bias, bytes_of(rng, 1, filters, 14, 14), inplace=4)


def test_many_pixels_and_runs() -> None:
    rng = np.random.default_rng(2)
    x, w = bytes_of(rng, 1, 130, 20, 40), weights(rng, 150, 130, 3, 3)
    op = QuantizedConv((1, 1), (1,) * 4, (1, 1), 1, 77, 128)
    check(op, x, w, scales(rng, 150, 130 * 9), np.zeros(150, np.int32))


@pytest.mark.parametrize("depthwise", [False, True])
@pytest.mark.parametrize(
    "change",
    [
        {"x_zero": 256}, {"lo": 9, "hi": 8}, {"y_zero": -1}, {"kernel": (3, 2)}, {"kernel": (0, 1)}, {"group": 3},
        {"group": 4}, {"strides": (1,)}, {"mean": 2},
    ],
)  # fmt: skip
def test_what_is_refused(depthwise: bool, change: dict[str, object]) -> None:
    rng = np.random.default_rng(3)
    x, w = bytes_of(rng, 1, 16, 8, 8), weights(rng, 16, 1 if depthwise else 16, 1, 1)
    op = QuantizedConv((1, 1), (0,) * 4, (1, 1), 16 if depthwise else 1, 3, 110)
    kernel, layouts, stored = constants_of(op, w, np.zeros(16, np.int32), scales(rng, 16, w[0].size))
    expect_refused(kernel, op, [x, *stored], layouts, change)


@pytest.mark.parametrize("together", [0, 3, 32])
def test_what_groups_cannot_be_together(together: int) -> None:
    rng = np.random.default_rng(3)
    x, w = bytes_of(rng, 1, 16, 8, 8), weights(rng, 16, 16, 1, 1)
    op = QuantizedConv((1, 1), (0,) * 4, (1, 1), 1, 3, 110)
    kernel, layouts, stored = constants_of(op, w, np.zeros(16, np.int32), scales(rng, 16, 16))
    expect_refused(kernel, op, [x, *stored], layouts, {"together": together})


def test_weights_of_another_shape_are_refused() -> None:
    rng = np.random.default_rng(4)
    op = QuantizedConv((1, 1), (0,) * 4, (1, 1), 1, 3, 110)
    constant = packed(weights(rng, 16, 20, 1, 1), np.zeros(16, np.int32), scales(rng, 16, 16), 1, 3)
    x = random_array(rng, (1, 16, 8, 8), DType.U8)
    expect_refused("conv_quantized", op, [x, *constant], CONSTANTS, {})


@pytest.mark.parametrize(
    ("rows", "depth", "columns"), [(1, 64, 48), (1, 30, 17), (5, 33, 40), (30, 128, 100), (3, 0, 5)]
)
def test_linear(rows: int, depth: int, columns: int) -> None:
    rng = np.random.default_rng(rows)
    x, w = bytes_of(rng, rows, depth), weights(rng, depth, columns)
    op, bias = QuantizedMatMul(100, 30, 5, 200), rng.integers(-999, 999, columns).astype(np.int32)
    scale = scales(rng, columns, depth)
    inputs = [x, *packed(np.ascontiguousarray(w.T), bias, scale, 1, op.x_zero)]
    (want,) = op.reference(x, w, scale, bias)
    check_step(
        "linear_quantized", inputs, [want], [TensorType(DType.U8, want.shape)], attributes_of(op),
        layouts=(PLANAR, *CONSTANTS, PLANAR),
    )  # fmt: skip


def test_quantising_blocks() -> None:
    """One scale for all: also blocks of 16 channels."""
    rng = np.random.default_rng(5)
    for shape in ((2, 20, 5, 7), (1, 16, 300)):
        x, scale, zero = random_array(rng, shape, DType.F32), np.float32(0.02), np.uint8(120)
        (q,) = QuantizeLinear(0).reference(x, scale, zero)
        blocks = (BLOCK16, PLANAR, PLANAR, BLOCK16)
        parameters = [np.asarray(scale), np.asarray(zero)]
        axis = attributes_of(QuantizeLinear(0))
        check_step("quantize_linear", [x, *parameters], [q], [TensorType(DType.U8, shape)], axis, layouts=blocks)
        (back,) = DequantizeLinear(0).reference(q, scale, zero)
        check_step("dequantize_linear", [q, *parameters], [back], [TensorType(DType.F32, shape)], axis, layouts=blocks)


@pytest.mark.parametrize("shape", [(1,), (15,), (3, 333), (2, 20, 5, 7), (0, 4)])
def test_looking_up(shape: tuple[int, ...]) -> None:
    rng = np.random.default_rng(7)
    x, table = bytes_of(rng, *shape), bytes_of(rng, 256)
    want, outputs = table[x], [TensorType(DType.U8, shape)]
    check_step("lookup", [x, table], [want], outputs, attributes_of(Lookup()), inplace=0)
    if len(shape) > 2:
        layouts = (BLOCK16, PLANAR, BLOCK16)
        check_step("lookup", [x, table], [want], outputs, attributes_of(Lookup()), layouts=layouts, inplace=0)


def test_looking_up_every_byte() -> None:
    x = np.tile(np.arange(256, dtype=np.uint8), 2)
    check_step("lookup", [x, 255 - x[:256]], [255 - x], [TensorType(DType.U8, x.shape)], ())


PAIRS = [
    ((2, 20, 5, 7), (2, 20, 5, 7)), ((1, 20, 5, 7), (1, 20, 1, 1)), ((2, 1, 1), (2, 33, 18)), ((1, 40, 16), (16,)),
    ((3, 1), (1, 50)), ((1,), (2, 19)), ((0, 4), (4,)), ((), ()),
]  # fmt: skip


@pytest.mark.parametrize("kind", ["add", "mul"])
@pytest.mark.parametrize("shapes", PAIRS, ids=str)
def test_pairs(kind: str, shapes: tuple[tuple[int, ...], tuple[int, ...]]) -> None:
    rng = np.random.default_rng(8)
    pair = [bytes_of(rng, *shape) for shape in shapes]
    scales = (float(np.float32(0.7)), float(np.float32(-0.33))) if kind == "add" else (float(np.float32(0.013)), 1.0)
    op = QuantizedBinary(kind, (100, 7, 120), scales, 3, 250)
    for operands in (pair, pair[::-1]):
        (want,) = op.reference(*operands)
        outputs = [TensorType(DType.U8, want.shape)]
        inplace = [i for i, x in enumerate(operands) if x.shape == want.shape]
        check_step(
            "quantized_binary", operands, [want], outputs, attributes_of(op), inplace=inplace[-1] if inplace else None
        )
        if shapes[0][:2] == shapes[1][:2] == want.shape[:2] and want.ndim > 2:
            check_step("quantized_binary", operands, [want], outputs, attributes_of(op), layouts=(BLOCK16,) * 3)


@pytest.mark.parametrize("scale", [float("nan"), float("inf"), 5e9])
def test_scales_of_pairs_that_are_refused(scale: float) -> None:
    op, x = QuantizedBinary("add", (0, 0, 0), (1.0, scale)), np.zeros(3, np.uint8)
    with pytest.raises(Rejected):
        run_step("quantized_binary", [x, x], [TensorType(DType.U8, (3,))], attributes_of(op))
