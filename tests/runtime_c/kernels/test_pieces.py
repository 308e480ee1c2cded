"""Operators cut into pieces along every dimension they may be: a piece, computed by itself or over views of the whole
operands, has the bits of the whole."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np
import pytest

from packer.ir.ops import (
    Activation,
    Binary,
    Cast,
    Concat,
    Dependence,
    DequantizeLinear,
    Lookup,
    LpNormalize,
    Lrn,
    MatMul,
    Normalize,
    Op,
    Pad,
    QuantizedBinary,
    QuantizeLinear,
    Reduce,
    Resize,
    ScaleShift,
    Softmax,
    Unary,
    Where,
)
from packer.ir.ops.reduce import REDUCE_KINDS
from packer.ir.types import Box as Span
from packer.ir.types import DType, TensorType, extents_of
from targets.base import Layout, attributes_of
from tests.runtime_c.kernels.harness import VECTORIZED, Box, isas, random_array, run_step, types_of

PLANAR, BLOCK16, WEIGHT16 = Layout.PLANAR, Layout.BLOCK16, Layout.WEIGHT16
F32 = DType.F32
Arrays = Sequence[np.ndarray | None]


def cut(rng: np.random.Generator, shape: Sequence[int], whole_along: Sequence[bool], blocked: int | None) -> list[Span]:
    """A tensor as boxes: one to three along each dimension that may be cut, some of them a single entry wide; of whole
    blocks of 16 along `blocked`."""
    spans = []
    for axis, extent in enumerate(shape):
        unit = 16 if axis == blocked else 1
        inner = [] if whole_along[axis] else list(range(unit, extent, unit))
        first = rng.choice(inner, min(len(inner), int(rng.integers(3))), replace=False) if inner else []
        edges = sorted({0, extent, *map(int, first), *map(int, inner[: int(rng.integers(2))])})
        spans.append(list(itertools.pairwise(edges)) if extent else [(0, 0)])
    boxes = list(itertools.product(*spans))
    return [boxes[i] for i in rng.choice(len(boxes), min(len(boxes), 6), replace=False)]


def within(x: np.ndarray | None, span: Span | None) -> np.ndarray | None:
    return None if x is None or span is None else x[tuple(slice(*s) for s in span)]


def check_pieces(
    kernel: str, op: Op, inputs: Arrays, layouts: Layout | Sequence[Layout] = PLANAR, seed: int = 0
) -> None:
    types, rng = types_of(inputs), np.random.default_rng(seed)
    (y, *_) = op.infer(types)
    blocked = None
    full = [d is Dependence.FULL for d in op.dependence(types)]
    if isinstance(op, MatMul) and y.dtype is F32:
        blocked = y.rank - 1
    if BLOCK16 in ([layouts] if isinstance(layouts, Layout) else layouts):
        blocked = min(1, y.rank - 1)
        full = [f or (isinstance(op, Lrn) and axis == 1) for axis, f in enumerate(full)]
    for isa in isas() if kernel in VECTORIZED else isas()[-1:]:
        want = run_step(kernel, inputs, [y], attributes_of(op), layouts, isa)[0]
        for box in cut(rng, y.shape, full, blocked):
            part = op.part(box, types)
            operands = [within(x, span) for x, span in zip(inputs, part.reads, strict=True)]
            places = zip((*inputs, want), (*part.reads, box), strict=True)
            views = [
                None if x is None or span is None else Box(x.shape, tuple(begin for begin, _ in span))
                for x, span in places
            ]
            for boxes in ((), views):
                output = TensorType(y.dtype, extents_of(box))
                got = run_step(kernel, operands, [output], attributes_of(part.op), layouts, isa, boxes=boxes)[0]
                piece = within(want, box)
                assert piece is not None
                assert got.tobytes() == np.ascontiguousarray(piece).tobytes(), (kernel, isa, op, part, bool(boxes))


def random(shape: Sequence[int], dtype: DType = F32, seed: int = 1) -> np.ndarray:
    return random_array(np.random.default_rng(seed), shape, dtype)


def test_pointwise() -> None:
    x, y = random((2, 33, 5, 7)), random((2, 33, 5, 7), seed=2)
    for kind in ("sigmoid", "gelu", "relu"):
        check_pieces("unary", Unary(kind), [x])
        check_pieces("unary", Unary(kind), [x], BLOCK16)
    for b in (y, random((33, 1, 1)), random((1,)), random((2, 1, 5, 1)), random((7,))):
        check_pieces("binary", Binary("mul", Activation("hard_swish", 1 / 6, 0.5)), [x, b])
        check_pieces("binary", Binary("pow"), [np.abs(x), b])
    for b in (y, random((1, 33, 1, 1)), random((1,))):
        check_pieces("binary", Binary("add"), [x, b], (BLOCK16, PLANAR if b.size == 1 else BLOCK16, BLOCK16))
    bytes, table = random((2, 33, 5, 7), DType.U8), random((256,), DType.U8)
    check_pieces("lookup", Lookup(), [bytes, table])
    check_pieces("lookup", Lookup(), [bytes, table], (BLOCK16, PLANAR, BLOCK16))
    pair = QuantizedBinary("mul", (100, 90, 80), (0.5, 0.025), 5, 240)
    for b in (random((1, 33, 1, 1), DType.U8), random((1,), DType.U8), random((2, 33, 5, 7), DType.U8, 2)):
        check_pieces("quantized_binary", pair, [bytes, b])
        check_pieces("quantized_binary", pair, [b, bytes], (PLANAR if b.size == 1 else BLOCK16, BLOCK16, BLOCK16))
    check_pieces("where", Where(), [x > 0, y, random((5, 1))])
    check_pieces("cast", Cast(DType.I8), [x * 50])


@pytest.mark.parametrize("shape", [(2, 33, 5, 7), (3, 40), (1, 17, 30)])
def test_scales(shape: tuple[int, ...]) -> None:
    x, scale, shift = random(shape), random(shape[1:2]), random(shape[1:2], seed=2)
    check_pieces("scale_shift", ScaleShift(Activation("tanh")), [x, scale, shift])
    check_pieces("scale_shift", ScaleShift(), [x, scale, shift], (BLOCK16, PLANAR, PLANAR, BLOCK16))
    zero = np.arange(shape[1], dtype=np.int8)
    check_pieces("quantize_linear", QuantizeLinear(1), [x * 50, np.abs(scale), zero])
    q = random(shape, DType.I8)
    check_pieces("dequantize_linear", DequantizeLinear(1), [q, scale, zero])


@pytest.mark.parametrize("kind", REDUCE_KINDS)
def test_reduce(kind: str) -> None:
    for number, shape in enumerate(((2, 5, 3, 70), (3, 150, 4, 5), (2, 3, 130))):
        x = np.abs(random(shape)) + np.float32(0.1)
        for count in range(1, len(shape)):
            for axes in itertools.combinations(range(len(shape)), count):
                check_pieces("reduce", Reduce(kind, axes, keepdims=number != 1), [x], seed=number)
    if kind in ("sum", "mean", "max"):
        for layouts in (BLOCK16, (BLOCK16, PLANAR)):
            check_pieces("reduce", Reduce(kind, (2, 3)), [random((2, 40, 13, 11))], layouts)
    if not kind.startswith("log"):
        check_pieces("reduce", Reduce(kind, (1,)), [random((3, 7, 9), DType.I32)])


@pytest.mark.parametrize("kind", ["softmax", "log_softmax", "hardmax"])
def test_softmax(kind: str) -> None:
    for shape in ((2, 21, 5, 7), (2, 3, 130), (5, 40)):
        for begin, end in itertools.combinations(range(len(shape) + 1), 2):
            check_pieces("softmax", Softmax(kind, tuple(range(begin, end))), [random(shape) * 20])


def test_normalisations() -> None:
    for shape in ((2, 6, 5, 40), (3, 30)):
        for count in range(1, len(shape)):
            for axes in itertools.combinations(range(len(shape)), count):
                check_pieces("normalize", Normalize(axes, 1e-3, count == 1), [random(shape)])
        last = shape[-1:]
        scaled = [random(shape), random(last, seed=2), random(last, seed=3)]
        check_pieces("normalize", Normalize((len(shape) - 1,), 1e-3), scaled)
        for axis, p in itertools.product(range(len(shape)), (1, 2)):
            check_pieces("lp_normalize", LpNormalize(axis, p), [random(shape)])
    for size in (1, 4, 5, 100):
        check_pieces("lrn", Lrn(size, 0.1, 0.75, 1.0), [random((2, 20, 5, 7))])
        check_pieces("lrn", Lrn(size, 0.1, 0.75, 1.0), [random((2, 40, 5, 7))], BLOCK16)


def test_concat() -> None:
    for shape in ((3, 4, 5), (2, 40)):
        for axis in range(len(shape)):
            sizes = (1, 5, 2, 9)
            parts = [random([n if d == axis else m for d, m in enumerate(shape)], seed=n) for n in sizes]
            check_pieces("concat", Concat(axis), parts)
    blocks = [random((2, n, 5, 7), seed=n) for n in (32, 16, 21)]
    check_pieces("concat", Concat(1), blocks, BLOCK16)
    check_pieces("concat", Concat(2), [blocks[0], blocks[0]], BLOCK16)


@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
def test_resize(mode: str) -> None:
    for shape, out in (
        ((2, 5, 6, 7), (2, 5, 12, 14)),
        ((2, 5, 6, 7), (2, 5, 9, 7)),
        ((3, 6, 4), (7, 6, 4)),
        ((2, 4, 3, 5), (2, 6, 3, 5)),
    ):
        scales = tuple(o / n for o, n in zip(out, shape, strict=True))
        for coordinate, antialias in itertools.product(("half_pixel", "align_corners"), (False, mode != "nearest")):
            op = Resize(out, scales, mode=mode, coordinate=coordinate, antialias=antialias)
            check_pieces("resize", op, [random(shape)])
    op = Resize((2, 40, 10, 5), (1.0, 1.0, 2.0, 1.0), mode=mode)
    check_pieces("resize", op, [random((2, 40, 5, 5))], BLOCK16)


@pytest.mark.parametrize("mode", ["constant", "reflect", "edge", "wrap"])
def test_pad(mode: str) -> None:
    for pads in ((0, 1, 2, 0, 0, 3), (2, 0, 0, 1, 0, 0), (0, -1, 0, 0, 4, 0)):
        check_pieces("pad", Pad(pads, mode), [random((3, 4, 5)), *([random(())] if mode == "constant" else [])])


def test_matmul() -> None:
    for a, b, bias in (
        ((2, 7, 30), (2, 30, 40), (40,)),
        ((3, 1, 9, 17), (4, 17, 33), (9, 1)),
        ((50, 512), (512, 70), None),
        ((9,), (3, 9, 5), None),
        ((4, 6, 9), (9,), None),
        ((3, 1, 130), (3, 130, 49), (49,)),
        ((3, 50, 130), (3, 130, 1), (50, 1)),
    ):
        values = [random(a), random(b, seed=2), *([] if bias is None else [random(bias, seed=3)])]
        check_pieces("matmul", MatMul(Activation("gelu")), values)
        check_pieces("matmul", MatMul(), [random(a, DType.I32), random(b, DType.I32, 2)])


@pytest.mark.parametrize("rows", [(1,), (9,), (3, 4, 2)])
def test_linear(rows: tuple[int, ...]) -> None:
    """Rows, blocks of columns, and partial sums over views of the weights along their depth."""
    depth, columns, rng = 512, 70, np.random.default_rng(5)
    x, w = random((*rows, depth)), random((1, columns, depth), seed=2)
    bias, layouts = random((columns,), seed=3), (PLANAR, WEIGHT16, BLOCK16, PLANAR)
    shape = (*rows, columns)
    for isa in isas():
        want = run_step("linear", [x, w, bias], [TensorType(F32, shape)], (), layouts, isa)[0]
        for box in cut(rng, shape, [False] * len(shape), False):
            column = (box[-1][0] // 16 * 16, columns if box[-1][1] == columns else -(-box[-1][1] // 16) * 16)
            spans = [(*box[:-1], (0, depth)), ((0, 1), column, (0, depth)), (column,), (*box[:-1], column)]
            pieces = [within(v, s) for v, s in zip((x, w, bias, want), spans, strict=True)]
            views = [Box(v.shape, tuple(b for b, _ in s)) for v, s in zip((x, w, bias, want), spans, strict=True)]
            got = run_step("linear", pieces[:3], [TensorType(F32, pieces[3].shape)], (), layouts, isa, boxes=views)[0]
            assert got.tobytes() == np.ascontiguousarray(pieces[3]).tobytes()
        sums = []
        for begin in (0, 160, 320):
            end = min(begin + 160, depth) if begin < 320 else depth
            spans = [(*((0, n) for n in rows), (begin, end)), ((0, 1), (0, columns), (begin, end))]
            operands = [within(x, spans[0]), within(w, spans[1])]
            views = [*(Box(v.shape, tuple(b for b, _ in s)) for v, s in zip((x, w), spans, strict=True)), None]
            sums += run_step("linear", operands, [TensorType(F32, shape)], (), (*layouts[:2], PLANAR), isa, boxes=views)
        np.testing.assert_allclose(np.sum(sums, axis=0) + bias, want, rtol=0, atol=1e-4)
