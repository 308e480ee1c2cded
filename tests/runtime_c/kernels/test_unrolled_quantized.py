"""conv_unrolled_quantized on every instruction set, its instructions and the walk without them: the very bytes of the
reference."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from packer.ir.ops import QuantizedConv
from packer.ir.types import DType, TensorType
from targets.base import Attribute, Layout, attributes_of
from targets.cpu.quantized import unrolled_constants, words_of
from targets.cpu.unrolled import unrolled_stream
from tests.runtime_c.kernels.convolutions import choice
from tests.runtime_c.kernels.harness import CODE, Box, Rejected, check_step, isas, run_step
from tests.runtime_c.kernels.test_quantized import bytes_of, scaled_again, scales, weights

KERNEL = "conv_unrolled_quantized"
CONSTANTS = (1, 2, 3, 4)
PLANAR, BLOCK16 = Layout.PLANAR, Layout.BLOCK16
LAYOUTS = (BLOCK16, PLANAR, PLANAR, PLANAR, PLANAR, BLOCK16, BLOCK16)
ONES = QuantizedConv((1, 1), (0, 0, 0, 0), (1, 1), 1, 3, 110)


def pruned(rng: np.random.Generator, density: float, *shape: int) -> np.ndarray:
    return np.where(rng.random(shape) < density, weights(rng, *shape), 0).astype(np.int8)


def operands(op: QuantizedConv, w: np.ndarray, bias: np.ndarray, scale: np.ndarray) -> list[np.ndarray]:
    """The logical arrays of the constants: the harness packs bias and scale itself."""
    words = words_of(w)
    sizes = [min(16, len(words) - i) for i in range(0, len(words), 16)]
    made = unrolled_constants(w, unrolled_stream(words, max(words.shape[1], 1), 1, sizes), bias, scale, op.x_zero)
    sums = w.reshape(w.shape[0], -1).sum(axis=1, dtype=np.int64)
    stream = [operand.data for operand in made[:4] if operand.data is not None]
    return [*stream, (bias - op.x_zero * sums).astype(np.int32)[None], scale[None]]


def attributes(op: QuantizedConv, w: np.ndarray) -> tuple[Attribute, ...]:
    return (*attributes_of(op), Attribute("kernel", ints=w.shape[2:]))


def check(
    op: QuantizedConv,
    x: np.ndarray,
    w: np.ndarray,
    scale: np.ndarray,
    bias: np.ndarray,
    residual: np.ndarray | None = None,
    inplace: int | None = None,
) -> None:
    (want,) = op.reference(x, w, scale, bias, residual)
    added = [] if residual is None else [residual]
    layouts = (*LAYOUTS, *(BLOCK16 for _ in added), BLOCK16)
    inputs, outputs = [x, *operands(op, w, bias, scale), *added], [TensorType(DType.U8, want.shape)]
    for code in CODE:
        check_step(
            KERNEL, inputs, [want], outputs, attributes(op, w), layouts=layouts, inplace=inplace,
            code=code, constants=CONSTANTS,
        )  # fmt: skip


@pytest.mark.parametrize("seed", range(40))
def test_random_convolutions(seed: int) -> None:
    rng = np.random.default_rng(seed)
    rank = choice(rng, 1, 2, 2, 2, 3)
    channels, filters = choice(rng, 1, 3, 16, 20, 70, 300), choice(rng, 5, 16, 33)
    kernel = tuple(int(n) for n in rng.integers(1, 4, rank)) if rng.random() < 0.7 else (1,) * rank
    pads = tuple(int(n) for n in rng.integers(0, 3, 2 * rank)) if rng.random() < 0.7 else (0,) * 2 * rank
    strides, dilations = (tuple(int(n) for n in rng.integers(1, 4, rank)) for _ in range(2))
    x = bytes_of(rng, choice(rng, 1, 2), channels, *(int(n) for n in rng.integers(7, 18, rank)))
    w = pruned(rng, choice(rng, 0, 0.1, 0.3, 1), filters, channels, *kernel)
    zeros = rng.integers(0, 256, 4).tolist()
    op = QuantizedConv(strides, pads, dilations, 1, zeros[0], zeros[1], min(zeros[1], 3), 250)
    scale, bias = scales(rng, filters, w[0].size), rng.integers(-9999, 9999, filters).astype(np.int32)
    op, residual = scaled_again(rng, op, x, w, scale, bias, (zeros[2], zeros[3]))
    check(op, x, w, scale, bias, residual)


def test_strips_and_sets_of_groups() -> None:
    """More rows than one strip has inputs, more groups than a set has instructions, more vectors than wait at once."""
    rng = np.random.default_rng(1)
    x, w = bytes_of(rng, 1, 320, 50, 50), pruned(rng, 0.02, 160, 320, 3, 3)
    op = replace(ONES, pads=(1,) * 4)
    check(op, x, w, scales(rng, 160, 60), np.zeros(160, np.int32))
    x, w = bytes_of(rng, 1, 700, 31, 37), pruned(rng, 0.1, 200, 700, 1, 1)
    check(ONES, x, w, scales(rng, 200, 70), np.zeros(200, np.int32))


def test_the_largest_sums() -> None:
    """Products of 16 bits would saturate."""
    for value in (127, -128):
        x, w = np.full((1, 64, 5, 5), 255, np.uint8), np.full((16, 64, 3, 3), value, np.int8)
        op = replace(ONES, x_zero=0, y_zero=128)
        check(op, x, w, np.full(16, 100 / (255 * 128 * 576), np.float32), np.zeros(16, np.int32))


def test_residual_in_place() -> None:
    rng = np.random.default_rng(2)
    x, w = bytes_of(rng, 1, 32, 14, 14), pruned(rng, 0.2, 48, 32, 3, 3)
    op = replace(ONES, pads=(1,) * 4, sum_scales=(1.0, 0.5), sum_levels=(100, 0, 0, 255))
    check(op, x, w, scales(rng, 48, 60), np.zeros(48, np.int32), bytes_of(rng, 1, 48, 14, 14), inplace=7)


def test_every_other_depth() -> None:
    """Of one tap: rows and columns lie as those of the output, depths do not."""
    rng = np.random.default_rng(7)
    x, w = bytes_of(rng, 2, 20, 5, 4, 6), pruned(rng, 0.3, 20, 20, 1, 1, 1)
    op = replace(ONES, strides=(2, 1, 1), pads=(0,) * 6, dilations=(1,) * 3)
    check(op, x, w, scales(rng, 20, 7), np.zeros(20, np.int32))


def test_channels_far_apart() -> None:
    """A batch goes at most 63 quads of channels forward."""
    rng = np.random.default_rng(3)
    w = np.zeros((16, 1200, 1, 1), np.int8)
    w[3, 2], w[5, 1190] = 7, -9
    check(ONES, bytes_of(rng, 1, 1200, 5, 6), w, np.full(16, 0.1, np.float32), np.zeros(16, np.int32))


@pytest.mark.parametrize("residual", [False, True])
def test_views(residual: bool) -> None:
    """Of wider and longer tensors: the same bytes."""
    rng = np.random.default_rng(4)
    x, w = bytes_of(rng, 2, 32, 9, 11), pruned(rng, 0.2, 32, 32, 3, 3)
    op = replace(ONES, pads=(1,) * 4)
    added = [bytes_of(rng, 2, 32, 9, 11)] if residual else []
    if residual:
        op = replace(op, sum_scales=(0.7, 0.5), sum_levels=(100, 9, 0, 255))
    scale, bias = scales(rng, 32, 60), np.zeros(32, np.int32)
    (want,) = op.reference(x, w, scale, bias, *added)
    inputs, layouts = [x, *operands(op, w, bias, scale), *added], (*LAYOUTS, *(BLOCK16 for _ in added), BLOCK16)
    whole = Box((3, 64, 12, 14), (1, 16, 2, 3))
    boxes = [whole, *(None for _ in range(6)), *(whole for _ in added), whole]
    for isa in isas():
        got = run_step(
            KERNEL, inputs, [TensorType(DType.U8, want.shape)], attributes(op, w), layouts, isa,
            boxes=boxes, constants=CONSTANTS,
        )  # fmt: skip
        np.testing.assert_array_equal(got[0], want)


@pytest.mark.parametrize(
    "change",
    [
        {"x_zero": (256,)}, {"lo": (9,), "hi": (8,)}, {"y_zero": (-1,)}, {"kernel": (3, 2)}, {"kernel": (0, 1)},
        {"group": (2,)}, {"strides": (1,)}, {"kernel": (65, 64)}, {"dilations": (1 << 30, 1)},
    ],
)  # fmt: skip
def test_attributes_that_are_refused(change: dict[str, tuple[int, ...]]) -> None:
    rng = np.random.default_rng(5)
    w = pruned(rng, 0.5, 16, 16, 2, 1)
    op = replace(ONES, pads=(0, 0, 1, 0))
    inputs = [bytes_of(rng, 1, 16, 8, 8), *operands(op, w, np.zeros(16, np.int32), scales(rng, 16, 16))]
    named = {a.name: a for a in attributes(op, w)} | {k: Attribute(k, ints=v) for k, v in change.items()}
    outputs = [TensorType(DType.U8, (1, 16, 8, 8))]
    with pytest.raises(Rejected):
        run_step(KERNEL, inputs, outputs, list(named.values()), (*LAYOUTS, BLOCK16), constants=CONSTANTS)


def test_taps_out_of_all_proportion_are_refused() -> None:
    rng = np.random.default_rng(5)
    w, far = pruned(rng, 0.5, 16, 16, 2, 1), 1 << 19
    op = replace(ONES, pads=(0, 0, far, 0), dilations=(far, 1))
    inputs = [bytes_of(rng, 1, 16, 8, 8), *operands(op, w, np.zeros(16, np.int32), scales(rng, 16, 16))]
    with pytest.raises(Rejected, match="what taps reach"):
        run_step(
            KERNEL, inputs, [TensorType(DType.U8, (1, 16, 8, 8))], attributes(op, w), (*LAYOUTS, BLOCK16),
            constants=CONSTANTS,
        )  # fmt: skip


@pytest.mark.parametrize(
    "broken",
    ["owner of no filter", "channel beyond", "group of 8", "values of floats", "too few values", "bias of floats"],
)
def test_streams_that_are_refused(broken: str) -> None:
    rng = np.random.default_rng(6)
    w, op = pruned(rng, 0.5, 24, 40, 1, 1), ONES
    values, owners, batches, groups, bias, scale = operands(op, w, np.zeros(24, np.int32), scales(rng, 24, 16))
    if broken == "owner of no filter":
        owners[-1] = owners[-1] & 0xE0 | 8
    elif broken == "channel beyond":
        batches[0] |= 63
    elif broken == "group of 8":
        groups[0, :, 0] = 8, 16
    elif broken == "values of floats":
        values = values.view(np.float32)
    elif broken == "too few values":
        values, owners = values[:-1], owners[:-1]
    else:
        bias = bias.astype(np.float32)
    inputs = [bytes_of(rng, 1, 40, 4, 4), values, owners, batches, groups, bias, scale]
    with pytest.raises(Rejected):
        run_step(
            KERNEL, inputs, [TensorType(DType.U8, (1, 24, 4, 4))], attributes(op, w),
            (*LAYOUTS, BLOCK16), constants=CONSTANTS,
        )  # fmt: skip
