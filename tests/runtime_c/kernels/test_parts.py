"""Convolutions and pools in parts: the pieces that operators cut themselves into, run as ordinary steps over views of
the whole operands, give the bits of the whole; partial sums give its values."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

import numpy as np
import pytest

from packer.ir.ops import Activation, Conv, ConvTranspose, Dependence, Op, Part, Pool
from packer.ir.types import Box as Span
from packer.ir.types import DType, TensorType, extents_of
from targets.base import Layout, attributes_of
from tests.runtime_c.kernels.convolutions import choice, far_conv
from tests.runtime_c.kernels.harness import Box, isas, random_array, run_step, types_of

PLANAR, BLOCK16, WEIGHT16, DEPTH16 = Layout.PLANAR, Layout.BLOCK16, Layout.WEIGHT16, Layout.DEPTH16
Arrays = Sequence[np.ndarray | None]
KERNELS = {
    "conv": (WEIGHT16, BLOCK16),
    "conv_depthwise": (DEPTH16, BLOCK16),
    "conv_im2col_caffe": (PLANAR, PLANAR),
    "conv_im2col_nhwc": (PLANAR, PLANAR),
    "conv_transpose": (PLANAR, PLANAR),
    "pool": (),
}


def as_stored(kernel: str, op: Op, given: Arrays) -> list[np.ndarray | None]:
    """Operands in the logical shapes that the kernel takes."""
    x, *rest = given
    if kernel == "conv":
        w, bias, *residual = rest
        assert isinstance(op, Conv)
        groups = (op.group, w.shape[0] // op.group)
        return [x, w.reshape(*groups, *w.shape[1:]), None if bias is None else bias.reshape(groups), *residual]
    if kernel == "conv_depthwise":
        return [x, rest[0][:, 0], *rest[1:]]
    if kernel == "conv_im2col_nhwc":
        return [x, np.moveaxis(rest[0], 1, -1), *rest[1:]]
    return list(given)


def boxes_as_stored(kernel: str, op: Op, part: Part, types: Sequence[TensorType | None]) -> list[Span | None]:
    """What the part reads of the operands that `as_stored` gives."""
    x, *rest = part.reads
    if kernel == "conv":
        assert isinstance(op, Conv)
        w, bias, *residual = rest
        each = types[1].shape[0] // op.group
        own = (w[0][0] // each, w[0][1] // each), (0, each)
        if op.group == 1:
            own = (0, 1), w[0]
        return [x, (*own, *w[1:]), None if bias is None else own, *residual]
    if kernel == "conv_depthwise":
        return [x, (rest[0][0], *rest[0][2:]), *rest[1:]]
    if kernel == "conv_im2col_nhwc":
        w, *others = rest
        return [x, (w[0], *w[2:], w[1]), *others]
    return list(part.reads)


def channel_unit(kernel: str, op: Op, types: Sequence[TensorType | None], blocked: bool) -> int:
    """What cuts of the output's channels must be multiples of, so that blocks of 16 stay whole in every operand."""
    grain = op.grain(types)[1]
    if kernel == "conv" and isinstance(op, Conv) and op.group > 1:
        filters, channels = grain, types[1].shape[1]
        return filters * math.lcm(16 // math.gcd(16, filters), 16 // math.gcd(16, channels)) if blocked else grain
    return 16 if blocked or kernel in ("conv", "conv_depthwise") else grain


def cuts(
    rng: np.random.Generator, kernel: str, op: Op, types: Sequence[TensorType | None], blocked: bool
) -> list[Span]:
    """The output cut into random boxes, one to three along each dimension that may be."""
    (y, *_), spans = op.infer(types), []
    for axis, (extent, kind) in enumerate(zip(y.shape, op.dependence(types), strict=True)):
        unit = channel_unit(kernel, op, types, blocked) if axis == 1 else 1
        inner = [n for n in range(unit, extent, unit) if kind is not Dependence.FULL]
        chosen = sorted(rng.choice(inner, min(len(inner), int(rng.integers(3))), replace=False)) if inner else []
        edges = [0, *map(int, chosen), extent]
        spans.append(list(itertools.pairwise(edges)))
    return list(itertools.product(*spans))


def within(x: np.ndarray, span: Span) -> np.ndarray:
    return x[tuple(slice(*s) for s in span)]


def run_part(
    kernel: str, op: Op, part: Part, given: Arrays, shape: Sequence[int], layouts: Sequence[Layout], isa: str
) -> np.ndarray:
    """The part's output as one step over views of the operands, whose surroundings are poison, and of an output of
    `shape`."""
    whole = as_stored(kernel, op, given)
    spans = boxes_as_stored(kernel, op, part, types_of(given))
    operands = [None if x is None or span is None else within(x, span) for x, span in zip(whole, spans, strict=True)]
    shapes = [*(None if x is None else x.shape for x in whole), tuple(shape)]
    spans.append(part.writes)
    boxes = [s and n and Box(n, tuple(begin for begin, _ in s)) for n, s in zip(shapes, spans, strict=True)]
    output = TensorType(DType.of(given[0].dtype), extents_of(part.writes))
    return run_step(kernel, operands, [output], attributes_of(part.op), layouts, isa, boxes=boxes)[0]


def check_parts(rng: np.random.Generator, kernel: str, op: Op, given: Arrays, x: Layout, y: Layout) -> None:
    """Up to 12 pieces that the output is cut into at random."""
    pieces = cuts(rng, kernel, op, types_of(given), BLOCK16 in (x, y))
    if len(pieces) > 12:
        pieces = [pieces[i] for i in rng.choice(len(pieces), 12, replace=False)]
    check_pieces(kernel, op, given, [*[x, *KERNELS[kernel], y][: len(given)], y], pieces)


def check_pieces(kernel: str, op: Op, given: Arrays, layouts: Sequence[Layout], pieces: Sequence[Span]) -> None:
    types, stored = types_of(given), as_stored(kernel, op, given)
    for isa in isas():
        want = run_step(kernel, stored, op.infer(types)[:1], attributes_of(op), layouts, isa)[0]
        for piece in pieces:
            part = op.part(piece, types)
            got = run_part(kernel, op, part, given, want.shape, layouts, isa)
            assert got.tobytes() == np.ascontiguousarray(within(want, piece)).tobytes(), (
                kernel,
                isa,
                op,
                part,
                layouts,
            )


def random_conv(rng: np.random.Generator, rank: int, group: int, channels: int, filters: int) -> tuple[Conv, Arrays]:
    """Windows that always touch the input, so that every dimension may be cut."""
    kernel = tuple(choice(rng, 1, 1, 2, 3, 3, 5) for _ in range(rank))
    dilations = tuple(choice(rng, 1, 1, 2) for _ in range(rank))
    windows = [(k - 1) * d + 1 for k, d in zip(kernel, dilations, strict=True)]
    pads = tuple(int(rng.integers(0, n)) for n in (*windows, *windows))
    spatial = tuple(n + choice(rng, *((3, 8, 13, 30) if rank < 3 else (1, 4))) for n in windows)
    activation = (None, Activation("relu"), Activation("hard_swish", 1 / 6, 0.5))[rng.integers(3)]
    op = Conv(tuple(choice(rng, 1, 1, 2, 3) for _ in range(rank)), pads, dilations, group, activation)
    x = random_array(rng, (choice(rng, 1, 2), group * channels, *spatial), DType.F32)
    w = random_array(rng, (group * filters, channels, *kernel), DType.F32)
    bias = random_array(rng, (group * filters,), DType.F32) if rng.random() < 0.7 else None
    residual = random_array(rng, op.infer(types_of([x, w]))[0].shape, DType.F32) if rng.random() < 0.4 else None
    return op, [x, w, bias, residual]


@pytest.mark.parametrize("rank", [1, 2, 3])
@pytest.mark.parametrize("kernel", ["conv", "conv_depthwise", "conv_im2col_caffe", "conv_im2col_nhwc"])
def test_conv(kernel: str, rank: int) -> None:
    rng = np.random.default_rng(rank)
    for _ in range(12):
        if kernel == "conv_depthwise":
            op, given = random_conv(rng, rank, choice(rng, 3, 40, 50), 1, 1)
        else:
            op, given = random_conv(
                rng, rank, choice(rng, 1, 1, 2, 3), choice(rng, 1, 3, 16, 40), choice(rng, 5, 16, 40)
            )
        check_parts(rng, kernel, op, given, PLANAR, PLANAR)
        if kernel in ("conv", "conv_depthwise"):
            check_parts(rng, kernel, op, given, BLOCK16, BLOCK16)


@pytest.mark.parametrize("rank", [1, 2, 3])
def test_conv_far_taps(rank: int) -> None:
    rng = np.random.default_rng(5 + rank)
    for _ in range(12):
        group, channels, filters = choice(rng, 1, 1, 2), choice(rng, 3, 16, 40), choice(rng, 5, 16, 40)
        op, spatial, kernel = far_conv(rng, rank, group)
        x = random_array(rng, (1, group * channels, *spatial), DType.F32)
        w = random_array(rng, (group * filters, channels, *kernel), DType.F32)
        check_parts(rng, "conv", op, [x, w, None], PLANAR, PLANAR)
        check_parts(rng, "conv", op, [x, w, None], BLOCK16, BLOCK16)


def test_conv_groups_of_blocks() -> None:
    rng = np.random.default_rng(4)
    for _ in range(4):
        op, given = random_conv(rng, 2, 4, 16, 32)
        check_parts(rng, "conv", op, given, BLOCK16, BLOCK16)


@pytest.mark.parametrize("rank", [1, 2, 3])
def test_conv_transpose(rank: int) -> None:
    rng = np.random.default_rng(10 + rank)
    for _ in range(12):
        strides, dilations = (tuple(choice(rng, 1, 2, 2, 3) for _ in range(rank)) for _ in range(2))
        kernel = tuple(choice(rng, 1, 2, 3, 4) for _ in range(rank))
        pads, slack = (tuple(choice(rng, 0, 0, 1, 2) for _ in range(n * rank)) for n in (2, 1))
        group, channels, filters = choice(rng, 1, 1, 2), choice(rng, 1, 3, 40), choice(rng, 1, 5, 70)
        op = ConvTranspose(strides, pads, dilations, slack, group, Activation("relu"))
        x = random_array(
            rng, (choice(rng, 1, 2), group * channels, *(choice(rng, 5, 7) for _ in range(rank))), DType.F32
        )
        w = random_array(rng, (group * channels, filters, *kernel), DType.F32)
        check_parts(rng, "conv_transpose", op, [x, w], PLANAR, PLANAR)


@pytest.mark.parametrize("rank", [1, 2, 3])
@pytest.mark.parametrize("kind", ["max", "average", "lp"])
def test_pool(kind: str, rank: int) -> None:
    rng = np.random.default_rng(20 + rank)
    for _ in range(12):
        kernel = tuple(choice(rng, 1, 2, 3, 5) for _ in range(rank))
        dilations = tuple(choice(rng, 1, 1, 2) for _ in range(rank))
        windows = [(k - 1) * d + 1 for k, d in zip(kernel, dilations, strict=True)]
        pads = tuple(int(rng.integers(0, n)) for n in (*windows, *windows))
        spatial = tuple(n + choice(rng, *((3, 8, 30) if rank < 3 else (1, 4))) for n in windows)
        strides = tuple(choice(rng, 1, 2, 3) for _ in range(rank))
        flags = [bool(b) for b in rng.integers(0, 2, 2)]
        op = Pool(kind, kernel, strides, pads, dilations, *flags)
        x = random_array(rng, (choice(rng, 1, 2), choice(rng, 1, 5, 40), *spatial), DType.F32)
        for layout in (PLANAR, BLOCK16):
            check_parts(rng, "pool", op, [x], layout, layout)


@pytest.mark.parametrize("kind", ["max", "average", "lp"])
def test_pool_of_windows_much_wider_than_what_a_part_reads(kind: str) -> None:
    op = Pool(kind, (2500,), (100,), (2000, 2000), (1,))
    x = random_array(np.random.default_rng(24), (1, 5, 4000), DType.F32)
    check_pieces("pool", op, [x], [PLANAR, PLANAR], [((0, 1), (0, 5), span) for span in ((0, 1), (1, 9), (20, 56))])


@pytest.mark.parametrize("kernel", ["conv", "conv_im2col_caffe", "conv_im2col_nhwc"])
def test_partial_sums(kernel: str) -> None:
    rng = np.random.default_rng(30)
    for layout in (PLANAR, BLOCK16) if kernel == "conv" else (PLANAR,):
        for channels in (20, 48, 70):
            op, (x, w, bias, _) = random_conv(rng, 2, 1, channels, 20)
            given = [x, w, bias]
            types, layouts = types_of(given), [layout, *KERNELS[kernel], layout]
            parts = [op.partial(n, min(n + 32, channels), types) for n in range(0, channels, 32)]
            want = Conv(op.strides, op.pads, op.dilations).reference(
                *(a if a is None else a.astype(np.float64) for a in given)
            )[0]
            for isa in isas():
                sums = [run_part(kernel, op, part, given, want.shape, layouts, isa) for part in parts]
                np.testing.assert_allclose(np.sum(sums, axis=0), want, rtol=0, atol=2e-5 * np.abs(want).max())
