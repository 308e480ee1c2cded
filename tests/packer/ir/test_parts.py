"""Parts of operators: what they compute is the box of the whole, and what they read is what that box needs."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import pytest

import packer.ir.ops as ops
from packer.ir import DType
from packer.ir.ops import Activation, Dependence, Op, ShapeError
from packer.ir.types import Box, whole
from tests.packer.ir.oracle import type_of
from tests.packer.ir.parts import Arrays, apply, check_part, cut, grid, random_box

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
    assert x is not None and zero is not None and isinstance(op, ops.QuantizeLinear)
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


def concat(rng: Rng) -> Case:
    shape, axis = shape_of(rng, 3), int(rng.integers(3))
    parts = [grid(rng, *shape[:axis], int(rng.integers(0, 5)), *shape[axis + 1 :]) for _ in range(4)]
    return ops.Concat(axis), [*parts, grid(rng, *shape)]


def transpose(rng: Rng) -> Case:
    return ops.Transpose(tuple(rng.permutation(4).tolist())), [grid(rng, *shape_of(rng, 4))]


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
    conv, conv_transpose, pool, unary, binary, where, scale_shift, cast, quantize, dequantize, softmax, reduce,
    arg_reduce, cum_sum, normalize, lp_normalize, lrn, matmul, concat, transpose, slice_, expand, tile, pad, resize,
    gather,
)  # fmt: skip
ROUNDS = ("softmax", "normalize", "lp_normalize", "resize")  # numpy adds up in an order that depends on the shape


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
