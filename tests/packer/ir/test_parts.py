"""Parts of operators: what they compute is the box of the whole, and what they read is what that box needs."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from packer.importers import import_onnx
from packer.ir import DType, ops
from packer.ir.ops import Activation, Dependence, Op, ShapeError
from packer.ir.ops.quantized import whole_groups
from packer.ir.types import whole
from packer.passes import optimize
from tests.e2e.random_networks import random_network
from tests.packer.ir.oracle import type_of
from tests.packer.ir.parts import Arrays, apply, check_part, cut, grid, needed, random_box

Case = tuple[Op, Arrays]
Rng = np.random.Generator
POINTWISE, REGION, FULL = Dependence.POINTWISE, Dependence.REGION, Dependence.FULL


def ints(rng: Rng, low: int, high: int, count: int) -> tuple[int, ...]:
    """`count` numbers from low to high, both included."""
    return tuple(rng.integers(low, high + 1, count).tolist())


def one(rng: Rng, *choices: str) -> str:
    return choices[int(rng.integers(len(choices)))]


def chance(rng: Rng, probability: float = 0.5) -> bool:
    return bool(rng.random() < probability)


def shape_of(rng: Rng, rank: int) -> tuple[int, ...]:
    return ints(rng, 1, 6, rank)


# ---- one random case of each operator that can be cut ----


def conv(rng: Rng) -> Case:
    spatial = int(rng.integers(1, 4))
    kernel, strides, dilations = ints(rng, 1, 4, spatial), ints(rng, 1, 3, spatial), ints(rng, 1, 3, spatial)
    windows = [(k - 1) * d + 1 for k, d in zip(kernel, dilations, strict=True)]
    pads = [int(rng.integers(0, window + chance(rng, 0.1))) for window in windows * 2]
    extents = [max(1, window - b - e) + int(rng.integers(0, 7)) for window, b, e in
               zip(windows, pads[:spatial], pads[spatial:], strict=True)]  # fmt: skip
    group, inputs, outputs = 1 if chance(rng) else int(rng.integers(2, 5)), *ints(rng, 1, 3, 2)
    x, w = grid(rng, 2, group * inputs, *extents), grid(rng, group * outputs, inputs, *kernel)
    activation = Activation("leaky_relu", 0.5) if chance(rng) else None
    op = ops.Conv(strides, tuple(pads), dilations, group, activation)
    y = op.infer([type_of(x), type_of(w)])[0]
    bias = grid(rng, group * outputs) if chance(rng) else None
    residual = grid(rng, *y.shape) if chance(rng) else None
    return op, [x, w, bias, residual][: 4 if residual is not None else 3 if bias is not None else 2]


def levels(rng: Rng, *shape: int, dtype: type = np.uint8) -> np.ndarray:
    info = np.iinfo(dtype)
    return rng.integers(info.min, int(info.max) + 1, shape).astype(dtype)


def constants_of(rng: Rng, filters: int) -> list[np.ndarray]:
    """Scales and biases that leave results within bytes."""
    return [rng.uniform(0.001, 0.01, filters).astype(np.float32), rng.integers(-999, 999, filters).astype(np.int32)]


def quantized_conv(rng: Rng) -> Case:
    group = int(rng.choice((1, 1, 2, 20)))
    channels, filters = (16, 32) if group == 2 else (int(rng.integers(1, 9)), int(rng.integers(1, 9)))
    if group == 20:
        channels, filters = 1, 20
    kernel, strides, dilations = ints(rng, 1, 3, 2), ints(rng, 1, 2, 2), ints(rng, 1, 2, 2)
    op = ops.QuantizedConv(strides, ints(rng, 0, 2, 4), dilations, group, 100, 90, 5, 240)
    x = levels(rng, 2, group * channels, *ints(rng, 6, 12, 2))
    w = levels(rng, filters, channels, *kernel, dtype=np.int8)
    if group == 1 and filters % 2 == channels % 2 == 0:
        w, _, together = whole_groups(w[:, : channels // 2], 2)
        op = replace(op, together=together)
    inputs = [x, w, *constants_of(rng, filters)]
    if chance(rng):
        op = replace(op, sum_scales=(0.75,), sum_levels=(7, 80, 0, 200))
    if op.sum_scales and chance(rng):
        inputs.append(levels(rng, *op.reference(*inputs)[0].shape))
        op = replace(op, sum_scales=(0.75, 0.5))
    return op, inputs


def quantized_matmul(rng: Rng) -> Case:
    depth, columns = ints(rng, 1, 9, 2)
    x = levels(rng, *shape_of(rng, 2), depth)
    return ops.QuantizedMatMul(100, 90), [x, levels(rng, depth, columns, dtype=np.int8), *constants_of(rng, columns)]


def lookup(rng: Rng) -> Case:
    return ops.Lookup(), [levels(rng, *shape_of(rng, 3)), levels(rng, 256)]


def quantized_binary(rng: Rng) -> Case:
    a, b = broadcast(rng, 2)
    op = ops.QuantizedBinary(one(rng, "add", "mul"), (100, 90, 80), (0.5, 0.25), 5, 240)
    return op, [levels(rng, *a.shape), levels(rng, *b.shape)]


def integer_conv(rng: Rng) -> Case:
    op, (x, w, scale, *_) = quantized_conv(rng)
    assert isinstance(op, ops.QuantizedConv)
    made = ops.IntegerConv(op.strides, op.pads, op.dilations, op.group, together=op.together)
    inputs = [x, w, np.asarray(100, np.uint8)]
    return made, [*inputs, np.asarray(0.5, np.float32), scale, scale] if chance(rng) else inputs


def integer_matmul(rng: Rng) -> Case:
    _, (x, w, scale, _) = quantized_matmul(rng)
    inputs = [x, w, np.asarray(100, np.uint8)]
    return ops.IntegerMatMul(), [*inputs, np.asarray(0.5, np.float32), scale, scale] if chance(rng) else inputs


def conv_transpose(rng: Rng) -> Case:
    spatial = int(rng.integers(1, 4))
    kernel, strides, dilations = ints(rng, 1, 4, spatial), ints(rng, 1, 3, spatial), ints(rng, 1, 2, spatial)
    group, inputs, outputs = 1 if chance(rng) else int(rng.integers(2, 5)), *ints(rng, 1, 3, 2)
    extents, extra = ints(rng, 2, 6, spatial), ints(rng, 0, 3, spatial)
    rows = zip(extents, strides, kernel, dilations, extra, strict=True)
    full = [s * (n - 1) + (k - 1) * d + 1 + p for n, s, k, d, p in rows]
    pads = [int(rng.integers(0, (n + 1) // 2)) for n in full * 2]
    op = ops.ConvTranspose(strides, tuple(pads), dilations, extra, group)
    x, w = grid(rng, 2, group * inputs, *extents), grid(rng, group * inputs, outputs, *kernel)
    return op, [x, w] + [grid(rng, group * outputs)] * chance(rng)


def pool(rng: Rng) -> Case:
    spatial = int(rng.integers(1, 4))
    kernel, strides, dilations = ints(rng, 1, 4, spatial), ints(rng, 1, 4, spatial), ints(rng, 1, 2, spatial)
    windows = [(k - 1) * d + 1 for k, d in zip(kernel, dilations, strict=True)]
    pads = [int(rng.integers(0, window + chance(rng, 0.1))) for window in windows * 2]
    extents = [window + int(rng.integers(0, 7)) for window in windows]
    kind = one(rng, "max", "average", "average", "lp")
    op = ops.Pool(kind, kernel, strides, tuple(pads), dilations, chance(rng), chance(rng), int(rng.integers(1, 3)))
    x = grid(rng, 2, 3, *extents)
    return op, [x if kind != "max" or chance(rng) else (4 * x).astype(np.int8)]


def unary(rng: Rng) -> Case:
    return ops.Unary(one(rng, "relu", "hard_sigmoid", "is_nan"), 0.25, 0.5), [grid(rng, *shape_of(rng, 4))]


def broadcast(rng: Rng, count: int) -> list[np.ndarray]:
    shape = shape_of(rng, 4)
    kept = [tuple(1 if chance(rng, 0.3) else n for n in shape)[int(rng.integers(0, 3)) :] for _ in range(count)]
    kept[int(rng.integers(count))] = shape
    return [grid(rng, *s) for s in kept]


def binary(rng: Rng) -> Case:
    return ops.Binary(one(rng, "add", "mul", "less"), None), broadcast(rng, 2)


def where(rng: Rng) -> Case:
    condition, a, b = broadcast(rng, 3)
    return ops.Where(), [condition > 0, a, b]


def scale_shift(rng: Rng) -> Case:
    x = grid(rng, *shape_of(rng, 3))
    return ops.ScaleShift(Activation("relu")), [x, grid(rng, x.shape[1]), grid(rng, x.shape[1])]


def cast(rng: Rng) -> Case:
    return ops.Cast(DType.I32), [grid(rng, *shape_of(rng, 3))]


def quantize(rng: Rng) -> Case:
    x, axis = grid(rng, *shape_of(rng, 3)), int(rng.integers(3))
    sizes = [(x.shape[axis],) if chance(rng) else () for _ in range(2)]
    return ops.QuantizeLinear(axis), [x, np.abs(grid(rng, *sizes[0])), grid(rng, *sizes[1]).astype(np.int8)]


def dequantize(rng: Rng) -> Case:
    op, (x, scale, zero) = quantize(rng)
    assert x is not None
    assert isinstance(op, ops.QuantizeLinear)
    return ops.DequantizeLinear(op.axis), [(4 * x).astype(np.int8), scale, zero][: 2 + chance(rng)]


def softmax(rng: Rng) -> Case:
    begin, count = ints(rng, 0, 2, 2)
    op = ops.Softmax(one(rng, "softmax", "log_softmax", "hardmax"), tuple(range(begin, begin + count)))
    return op, [grid(rng, *shape_of(rng, 4))]


def axes_of(rng: Rng, rank: int) -> tuple[int, ...]:
    return tuple(axis for axis in range(rank) if chance(rng))


def reduce(rng: Rng) -> Case:
    kind = one(rng, "sum", "max", "min", "l1", "sum_square")
    return ops.Reduce(kind, axes_of(rng, 4), chance(rng)), [grid(rng, *shape_of(rng, 4))]


def arg_reduce(rng: Rng) -> Case:
    op = ops.ArgReduce(one(rng, "max", "min"), int(rng.integers(3)), chance(rng), chance(rng))
    return op, [grid(rng, *shape_of(rng, 3))]


def cum_sum(rng: Rng) -> Case:
    return ops.CumSum(int(rng.integers(3)), chance(rng), chance(rng)), [grid(rng, *shape_of(rng, 3))]


def normalize(rng: Rng) -> Case:
    return ops.Normalize(axes_of(rng, 4), 0.5, chance(rng)), [grid(rng, *shape_of(rng, 4))]


def lp_normalize(rng: Rng) -> Case:
    return ops.LpNormalize(int(rng.integers(3)), int(rng.integers(1, 3))), [grid(rng, *shape_of(rng, 3))]


def lrn(rng: Rng) -> Case:
    halo = (0, 0) if chance(rng, 0.8) else (1, 2)
    x = grid(rng, 2, int(rng.integers(4, 12)), *shape_of(rng, int(rng.integers(0, 3))))
    return ops.Lrn(int(rng.integers(1, 8)), 0.5, 1.0, 2.0, halo), [x]


def matmul(rng: Rng) -> Case:
    batch, (rows, inner, columns) = shape_of(rng, int(rng.integers(0, 3))), shape_of(rng, 3)
    batches = [tuple(1 if chance(rng, 0.3) else n for n in batch)[int(rng.integers(0, 2)) :] for _ in range(2)]
    a, b = grid(rng, *batches[0], rows, inner), grid(rng, *batches[1], inner, columns)
    a, b = a.reshape(-1)[:inner] if chance(rng, 0.2) else a, b.reshape(-1)[:inner] if chance(rng, 0.2) else b
    y = ops.MatMul().infer([type_of(a), type_of(b)])[0].shape
    bias = grid(rng, *[1 if chance(rng, 0.3) else n for n in y][int(rng.integers(0, len(y) + 1)) :])
    return ops.MatMul(Activation("relu") if chance(rng) else None), [a, b] + [bias] * chance(rng)


def attention(rng: Rng) -> Case:
    batch, (rows, keys, depth, columns) = shape_of(rng, int(rng.integers(0, 3))), shape_of(rng, 4)
    rank = len(batch) + 2
    orders = [tuple(rng.permutation(rank).tolist()) for _ in range(4)]

    def stored(axes: tuple[int, ...], *matrix: int) -> np.ndarray:
        seen = (*(1 if chance(rng, 0.3) else n for n in batch), *matrix)
        return grid(rng, *(seen[axes.index(axis)] for axis in range(rank)))

    sizes = ((rows, depth), (keys, depth), (keys, columns))
    operands = [stored(axes, *size) for axes, size in zip(orders, sizes, strict=False)]
    op = ops.Attention(0.5, *orders)
    y = op.infer([type_of(x) for x in operands])[0].shape
    scores = (*(y[axis] for axis in orders[3][:-1]), keys)
    mask = grid(rng, *[1 if chance(rng, 0.3) else n for n in scores][int(rng.integers(0, rank + 1)) :])
    return op, operands + [mask] * chance(rng)


def concat(rng: Rng) -> Case:
    shape, axis = shape_of(rng, 3), int(rng.integers(3))
    parts = [grid(rng, *shape[:axis], int(rng.integers(0, 5)), *shape[axis + 1 :]) for _ in range(4)]
    return ops.Concat(axis), [*parts, grid(rng, *shape)]


def transpose(rng: Rng) -> Case:
    return ops.Transpose(tuple(rng.permutation(4).tolist())), [grid(rng, *shape_of(rng, 4))]


def reshape(rng: Rng) -> Case:
    """Shapes that have neighbours in common, or parts of them, and some of extent 1."""
    factors = ints(rng, 1, 5, 5)

    def merged() -> tuple[int, ...]:
        ends = sorted({*rng.choice(range(1, 5), int(rng.integers(0, 5)), replace=False).tolist(), 5})
        return tuple(math.prod(factors[begin:end]) for begin, end in itertools.pairwise((0, *ends)))

    return ops.Reshape(merged()), [grid(rng, *merged())]


def slice_(rng: Rng) -> Case:
    shape = ints(rng, 1, 9, 3)
    steps = [int(rng.choice([1, 1, 2, 3, -1, -2])) for _ in shape]
    starts = [int(rng.integers(0, n)) for n in shape]
    rows = zip(shape, starts, steps, strict=True)
    sizes = [1 + int(rng.integers(0, ((n - 1 - start) // step if step > 0 else start // -step) + 1)) for n, start, step
             in rows]  # fmt: skip
    return ops.Slice(tuple(starts), tuple(steps), tuple(sizes)), [grid(rng, *shape)]


def expand(rng: Rng) -> Case:
    shape = shape_of(rng, 4)
    kept = tuple(1 if chance(rng) else n for n in shape)[int(rng.integers(0, 3)) :]
    return ops.Expand(shape), [grid(rng, *kept)]


def tile(rng: Rng) -> Case:
    return ops.Tile(ints(rng, 1, 2, 4)), [grid(rng, *shape_of(rng, 4))]


def pad(rng: Rng) -> Case:
    shape = ints(rng, 3, 6, 3)
    pads = tuple(0 if chance(rng, 0.3) else int(rng.integers(-1, 5)) for _ in range(6))
    mode = one(rng, "constant", "constant", "reflect", "edge", "wrap")
    return ops.Pad(pads, mode), [grid(rng, *shape), *[np.float32(1.25).reshape(())] * (chance(rng))]


def resize(rng: Rng) -> Case:
    shape = ints(rng, 1, 6, 4)
    out = (*shape[:2], *ints(rng, 1, 9, 2))
    coordinate = one(rng, "half_pixel", "half_pixel_symmetric", "pytorch_half_pixel", "align_corners", "asymmetric")
    scales = tuple(float(m / n) for m, n in zip(out, shape, strict=True))
    op = ops.Resize(
        out, scales, one(rng, "nearest", "linear", "cubic"), coordinate, one(rng, "floor", "round_prefer_ceil")
    )
    return op, [grid(rng, *shape)]


def gather(rng: Rng) -> Case:
    x, axis = grid(rng, *shape_of(rng, 3)), int(rng.integers(3))
    indices = rng.integers(-x.shape[axis], x.shape[axis], shape_of(rng, int(rng.integers(0, 3))))
    return ops.Gather(axis), [x, np.asarray(indices, np.int64)]


CASES: tuple[Callable[[Rng], Case], ...] = (
    quantized_conv, quantized_matmul, lookup, quantized_binary, integer_conv, integer_matmul,
    conv, conv_transpose, pool, unary, binary, where, scale_shift, cast, quantize, dequantize, softmax, reduce,
    arg_reduce, cum_sum, normalize, lp_normalize, lrn, matmul, attention, concat, transpose, reshape, slice_, expand,
    tile, pad, resize, gather,
)  # fmt: skip
# numpy adds up in an order that depends on the shape
ROUNDS = ("attention", "softmax", "normalize", "lp_normalize", "resize")


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.__name__.strip("_"))
def test_a_part_gives_the_box_of_the_whole(case: Callable[[Rng], Case]) -> None:
    for seed in range(40):
        rng = np.random.default_rng(seed)
        op, inputs = case(rng)
        types = [type_of(x) for x in inputs]
        for _ in range(4):
            part = check_part(op, inputs, random_box(rng, op, types), case.__name__ not in ROUNDS)
            pieces = [cut(x, box) for x, box in zip(inputs, part.reads, strict=True)]
            inner = [type_of(x) for x in pieces]
            check_part(part.op, pieces, random_box(rng, part.op, inner), case.__name__ not in ROUNDS)


def test_every_piece_of_a_pool() -> None:
    """Of one dimension, with windows past the end padding (ceil_mode), which averages must not count."""
    rng, past = np.random.default_rng(0), 0
    for _ in range(300):
        kernel, stride, dilation, extent = (int(rng.integers(1, most)) for most in (5, 5, 3, 10))
        window = (kernel - 1) * dilation + 1
        pads = tuple(int(rng.integers(0, window)) for _ in range(2))
        if extent + sum(pads) < window:
            continue
        kind, ceil_mode = one(rng, "max", "average"), chance(rng, 0.7)
        op = ops.Pool(kind, (kernel,), (stride,), pads, (dilation,), ceil_mode, chance(rng))
        x = grid(rng, 1, 1, extent)
        count = op.infer([type_of(x)])[0].shape[2]
        past += (count - 1) * stride + window > sum(pads) + extent and op.kind == "average" and op.count_include_pad
        for begin, end in itertools.combinations(range(count + 1), 2):
            check_part(op, [x], ((0, 1), (0, 1), (begin, end)))
    assert past >= 10


EXACT = (conv, conv_transpose, pool, lrn, matmul, concat, transpose, reshape, slice_, expand, pad)


@pytest.mark.parametrize("case", EXACT, ids=lambda case: case.__name__.strip("_"))
def test_a_part_reads_what_it_needs_and_no_more(case: Callable[[Rng], Case]) -> None:
    for seed in range(25):
        rng = np.random.default_rng(seed)
        op, inputs = case(rng)
        op = replace(op, activation=None) if hasattr(op, "activation") else op
        types = [type_of(x) for x in inputs]
        box = random_box(rng, op, types)
        for i, read in enumerate(op.part(box, types).reads):
            changes = [[]] if inputs[i] is None else needed(rng, op, inputs, i, box)
            if not all(changes):
                continue  # an absent input, or padding alone
            assert read is not None, (op, i)
            bounds = [(positions[0], positions[-1] + 1) for positions in changes]
            for (low, high), (begin, end) in zip(bounds, read, strict=True):
                assert begin <= low < high <= end, (op, i)
                if FULL in op.dependence(types) or (i == 1 and case in (conv, conv_transpose)):
                    continue  # taps of the weights that meet only padding are read all the same
                gap = case is conv_transpose and begin + 1 == low  # pads cannot be negative
                assert (begin, end) == (low - gap, high), (op, i)


def test_a_part_leaves_out_the_inputs_of_a_concat_that_it_does_not_meet() -> None:
    part = ops.Concat(0).part(((2, 5),), [type_of(grid(np.random.default_rng(0), n)) for n in (2, 1, 0, 4, 3)])
    assert part.reads == (None, ((0, 1),), None, ((0, 2),), None)


def test_partial_sums_add_up() -> None:
    for seed in range(30):
        rng = np.random.default_rng(seed)
        op, inputs = (conv, matmul)[seed % 2](rng)
        types = [type_of(x) for x in inputs]
        terms = op.terms(types)
        if isinstance(op, ops.Conv) and op.group > 1:
            assert terms == 0
            continue
        cuts = sorted({0, terms, *rng.integers(0, terms + 1, 2).tolist()})
        parts = [op.partial(begin, end, types) for begin, end in itertools.pairwise(cuts)]
        assert all(part.writes == whole(op.infer(types)[0]) for part in parts)
        y = np.sum([apply(part, inputs) for part in parts], 0)
        if isinstance(op, ops.Conv) and len(inputs) > 3 and inputs[3] is not None:
            y = y + inputs[3]
        assert isinstance(op, ops.Conv | ops.MatMul)
        if op.activation is not None:
            (y,) = ops.Unary(op.activation.kind, op.activation.alpha).reference(y)
        np.testing.assert_array_equal(y, op.reference(*inputs)[0], str(op))


def test_channels_of_groups_are_cut_between_groups() -> None:
    rng = np.random.default_rng(0)
    op, types = ops.Conv((1,), (0, 0), (1,), 4), [type_of(grid(rng, 1, 8, 5)), type_of(grid(rng, 12, 2, 1))]
    assert op.grain(types) == (1, 3, 1)
    assert op.part(((0, 1), (3, 9), (0, 5)), types).op == replace(op, group=2)
    with pytest.raises(ShapeError, match="expected output channels cut between groups of 3, got 3 to 8"):
        op.part(((0, 1), (3, 8), (0, 5)), types)
    depthwise = ops.Conv((1,), (0, 0), (1,), 8)
    assert depthwise.grain([types[0], type_of(grid(rng, 8, 1, 1))]) == (1, 1, 1)


def test_classes() -> None:
    """The classes of the operators that networks are made of."""
    x = type_of(np.zeros((1, 8, 9, 9), np.float32))
    w1, w3 = (type_of(np.zeros((8, 8, k, k), np.float32)) for k in (1, 3))
    ones, none = (1, 1), (0,) * 4
    assert ops.Conv(ones, none, ones).dependence([x, w1]) == (POINTWISE,) * 4
    assert ops.Conv((2, 2), none, ones).dependence([x, w1]) == (POINTWISE, POINTWISE, REGION, REGION)
    assert ops.Conv(ones, (1, 0, 1, 0), ones).dependence([x, w3]) == (POINTWISE, POINTWISE, REGION, REGION)
    assert ops.Conv(ones, (3, 0, 0, 0), ones).dependence([x, w3]) == (POINTWISE, POINTWISE, FULL, REGION)
    assert ops.Pool("max", (2, 2), (2, 2), none, ones).dependence([x]) == (POINTWISE, POINTWISE, REGION, REGION)
    assert ops.Lrn(5, 1.0, 1.0, 1.0).dependence([x]) == (POINTWISE, REGION, POINTWISE, POINTWISE)
    assert ops.Softmax("softmax", (1,)).dependence([x]) == (POINTWISE, FULL, POINTWISE, POINTWISE)
    assert ops.Reduce("mean", (2, 3)).dependence([x]) == (POINTWISE, POINTWISE, FULL, FULL)
    assert ops.Reduce("mean", (2, 3), False).dependence([x]) == (POINTWISE, POINTWISE)
    assert ops.Concat(1).dependence([x, x]) == (POINTWISE, REGION, POINTWISE, POINTWISE)


def test_a_change_of_shape_is_cut_where_both_shapes_have_the_same_blocks() -> None:
    x = type_of(np.zeros((1, 8, 9, 9), np.float32))
    for shape, classes, grain in (
        ((8, 81), (POINTWISE, REGION), (1, 9)),
        ((1, 2, 4, 9, 9), (POINTWISE, REGION, FULL, POINTWISE, POINTWISE), (1, 1, 1, 1, 1)),
        ((4, 18, 9), (REGION, FULL, POINTWISE), (1, 1, 1)),
        ((12, 54), (REGION, FULL), (3, 1)),  # of 54 elements, and channels have 81
        ((648,), (REGION,), (81,)),
        ((648, 1), (REGION, POINTWISE), (81, 1)),
    ):
        op = ops.Reshape(shape)
        assert (op.dependence([x]), op.grain([x])) == (classes, grain), shape
    part = ops.Reshape((1, 2, 4, 9, 9)).part(((0, 1), (1, 2), (0, 4), (2, 5), (0, 9)), [x])
    assert part.op == ops.Reshape((1, 1, 4, 3, 9))
    assert part.reads == (((0, 1), (4, 8), (2, 5), (0, 9)),)
    assert ops.Reshape((0, 4)).dependence([type_of(np.zeros((2, 0), np.float32))]) == (FULL, FULL)


# ---- operators that are not cut ----

X = np.ones((2, 3, 4), np.float32)
INDEX = np.zeros((2, 3, 4), np.int64)
UNCUT: tuple[Case, ...] = (
    (ops.GatherElements(1), [X, INDEX]),
    (ops.GatherND(1), [X, np.zeros((2, 1), np.int64)]),
    (ops.ScatterElements(1), [X, INDEX, X]),
    (ops.ScatterND(), [X, np.zeros((5, 1), np.int64), np.ones((5, 3, 4), np.float32)]),
    (ops.OneHot(0, 5), [INDEX, np.zeros(2, np.float32)]),
    (ops.ReverseSequence(0, 1), [X, np.zeros(2, np.int64)]),
    (ops.RoiAlign("avg", 2, 2, 1, 1.0, True), [X[None], np.zeros((3, 4), np.float32), np.zeros(3, np.int64)]),
    (ops.GridSample("linear", "zeros"), [X[None], np.zeros((1, 5, 5, 2), np.float32)]),
    (ops.TopK(2, 1), [X]),
    (ops.NonMaxSuppression(2, 0.5, 0.5), [np.ones((1, 4, 4), np.float32), np.ones((1, 2, 4), np.float32)]),
    (ops.DynamicLevels(), [X]),
    (ops.NonZero(), [X]),
    (ops.Compress(1), [X, np.ones(3, np.bool_)]),
    (ops.Trilu(True), [X]),
    (ops.MaxUnpool((1, 2, 4), (1, 2, 4)), [np.ones((1, 2, 2), np.float32), np.zeros((1, 2, 2), np.int64)]),
    (
        ops.Recurrent("rnn", "forward", 2, ("tanh",), (0.0,), (0.0,)),
        [X, np.ones((1, 2, 4), np.float32), np.ones((1, 2, 2), np.float32), None],
    ),
)


@pytest.mark.parametrize("case", UNCUT, ids=lambda case: type(case[0]).__name__)
def test_an_operator_that_is_not_cut_has_itself_as_part(case: Case) -> None:
    op, inputs = case
    types = [type_of(x) for x in inputs]
    y = op.infer(types)[0]
    assert op.dependence(types) == (FULL,) * y.rank
    assert op.terms(types) == 0
    assert check_part(op, inputs, whole(y)).op is op


def test_every_operator_declares_as_many_classes_as_dimensions() -> None:
    """Of every subclass of Op: whoever adds one adds a case here."""
    rng = np.random.default_rng(1)
    known = {type(op).__name__: (op, inputs) for op, inputs in (*(case(rng) for case in CASES), *UNCUT)}
    assert {kind.__name__ for kind in Op.__subclasses__() if kind.__module__.startswith("packer.")} == set(known)
    for op, inputs in known.values():
        types = [type_of(x) for x in inputs]
        assert len(op.dependence(types)) == len(op.grain(types)) == op.infer(types)[0].rank, op


@pytest.mark.parametrize("seed", range(24))
def test_parts_of_random_networks(seed: int) -> None:
    """Of the nodes of imported networks, as they are and fused, with the values they work on."""
    rng, network = np.random.default_rng(seed), random_network(seed)
    for graph in (import_onnx(network.model), optimize(import_onnx(network.model))):
        values = {**network.inputs, **{name: v.data for name, v in graph.values.items() if v.data is not None}}
        for node in graph.nodes:
            inputs = [None if name is None else values[name] for name in node.inputs]
            values.update(zip(node.outputs, node.op.reference(*inputs), strict=False))
            if values[node.outputs[0]].size:
                check_part(node.op, inputs, random_box(rng, node.op, [type_of(x) for x in inputs]), exact=False)
