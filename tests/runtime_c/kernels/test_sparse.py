"""conv_sparse on every instruction set: against the reference, and the same bits however its work is cut."""

from __future__ import annotations

import itertools
import re
from dataclasses import dataclass, replace

import numpy as np
import pytest

from packer.ir import SINGLE, Block
from packer.ir.ops import Activation, Conv
from packer.ir.rounding import nearest
from packer.ir.types import DType, TensorType
from targets.base import Attribute, attributes_of
from tests.runtime_c.kernels.convolutions import Case, choice, empty_cases, random_case, random_conv
from tests.runtime_c.kernels.harness import Box, Rejected, check_step, isas, random_array, run_step

CONSTANTS = (1, 2, 3, 4)
FILTERS, CHANNELS = Block(4, 1), Block(1, 4)
BYTES, WIDE, GAPS = "bytes", "wide", "gaps"  # lines in 8 and in 16 bits; where a tile has more than 256, gaps in 8


@dataclass(frozen=True)
class Stream:
    """Non-zeros in the order in which the kernel walks them."""

    values: np.ndarray
    indices: np.ndarray
    counts: np.ndarray  # [tiles, K, groups], or with the rows' filters [tiles, K, 1 + groups]
    starts: np.ndarray  # [tiles, ceil(K/16)]
    attributes: tuple[Attribute, ...]

    @property
    def operands(self) -> list[np.ndarray]:
        return [self.values, self.indices, self.counts, self.starts]


def lines_of(op: Conv, kernel: tuple[int, ...], rows: int) -> tuple[dict[tuple[int, int, int], int], int]:
    """The first line of each (depth tap, row phase, column phase), and how many lines a channel has; unless taps are
    spread, `rows` being 0."""
    depth, height, width = (1,) * (3 - len(kernel)) + kernel
    strides, dilations = ((1,) * (3 - len(kernel)) + tuple(v) for v in (op.strides, op.dilations))
    last: dict[int, int] = {}
    for k in range(height):
        phase, position = k * dilations[1] % strides[1], k * dilations[1] // strides[1]
        last[phase] = max(last.get(phase, 0), position)
    columns = sorted({k * dilations[2] % strides[2] for k in range(width)})
    first, total = {}, 0
    for d in range(depth):
        for phase in sorted(last):
            for column in columns:
                first[d, phase, column] = total
                total += rows + last[phase]
    return first, total


def bridged(found: list[tuple[int, np.ndarray]]) -> list[tuple[int, np.ndarray]]:
    """Lines and values as gaps from one line to the next, far ones in several steps."""
    gaps, at = [], 0
    for line, values in found:
        while line - at > 255:
            gaps.append((255, np.zeros_like(values)))
            at += 255
        gaps.append((line - at, values))
        at = line
    return gaps


def encode(
    op: Conv, w: np.ndarray, channels: int, rows: int, indexed: str = BYTES, block: Block = SINGLE, ordered: bool = True
) -> Stream:
    """The stream of weights [K, C/group, kernel], in tiles of about as many channels as wanted or else possible. Unless
    rows are `ordered`, those of every 32 filters of a group are shuffled."""
    kernel = w.shape[2:]
    first, lines = lines_of(op, kernel, rows) if rows else ({}, int(np.prod(kernel)))
    lifted = w.reshape(*w.shape[:2], *(1,) * (3 - len(kernel)), *kernel)
    strides, dilations = ((1,) * (3 - len(kernel)) + tuple(v) for v in (op.strides, op.dilations))
    places = [k * dilations[2] // strides[2] if rows else 0 for k in range(lifted.shape[4])]
    groups = sorted(set(places), reverse=True)
    of_group = int(np.prod(kernel[:-1])) * max(map(places.count, places), default=1)  # taps
    most = min((256 if indexed == BYTES else 2048) // lines, 255 // of_group * block.channels)
    channels = -(-min(channels, most // block.channels * block.channels) // block.channels) * block.channels
    assert channels > 0, "this kernel has too many lines"
    gaps = indexed == GAPS and channels * lines > 256
    tiles, filters, each = max(-(-w.shape[1] // channels), 1), w.shape[0], max(w.shape[0] // op.group, 1)
    rng = np.random.default_rng(filters)
    values: list[float] = []
    indices: list[int] = []
    counts, starts = (
        np.zeros((tiles, filters // block.filters, len(groups) + (not ordered)), np.uint8),
        np.zeros((tiles, -(-filters // 16)), np.int32),
    )
    for tile in range(tiles):
        order = list(range(0, filters, block.filters))
        for begin in range(0, 0 if ordered else filters, each):
            for i in range(begin // block.filters, (begin + each) // block.filters, 32 // block.filters):
                end = min(i + 32 // block.filters, (begin + each) // block.filters)
                counts[tile, i:end, 0] = places_of = rng.permutation(end - i)
                order[i:end] = [(i + place) * block.filters for place in places_of]
        for stored, k in enumerate(order):
            if stored * block.filters % 16 == 0:
                starts[tile, stored * block.filters // 16] = len(indices)
            for g, place in enumerate(groups, start=not ordered):
                found = []
                own = lifted[k : k + block.filters, tile * channels : (tile + 1) * channels]
                blocks = own.reshape(block.filters, -1, block.channels, *lifted.shape[2:])
                for c, kz, ky, kx in np.argwhere(blocks.any((0, 2))):
                    if places[kx] != place:
                        continue
                    phase, row = ky * dilations[1] % strides[1], ky * dilations[1] // strides[1]
                    if rows:
                        line = first[kz, phase, kx * dilations[2] % strides[2]] + row
                    else:
                        line = (kz * lifted.shape[3] + ky) * lifted.shape[4] + kx
                    found.append((int(block.channels * c * lines + line), blocks[:, c, :, kz, ky, kx].reshape(-1)))
                found.sort(key=lambda entry: entry[0])
                if gaps:
                    found = bridged(found)
                counts[tile, stored, g] = len(found)
                indices += [line for line, _ in found]
                values += [float(value) for _, four in found for value in four]
    extra = (
        Attribute("kernel", ints=kernel),
        Attribute("channels", ints=(channels,)),
        Attribute("rows", ints=(rows,)),
        Attribute("together", ints=block[:] if block.channels > 1 else block[:1]),
    )
    index = np.array(indices, np.uint16 if indexed == WIDE else np.uint8)
    return Stream(np.array(values, np.float32), index, counts, starts, (*attributes_of(op), *extra))


def sparse(rng: np.random.Generator, *shape: int, zeros: float = 0.7) -> np.ndarray:
    """Weights, most of them zero, scaled to keep sums near 1."""
    w = random_array(rng, shape, DType.F32) * (rng.random(shape) >= zeros)
    return (w / np.sqrt(max(np.count_nonzero(w) / max(shape[0], 1), 1))).astype(np.float32)


def check(
    case: Case,
    channels: int = 5,
    rows: int = 1,
    indexed: str = BYTES,
    block: Block = SINGLE,
    inplace: int | None = None,
    stored: DType = DType.F32,
    ordered: bool = True,
) -> None:
    """Every instruction set gives the reference's outputs, in any partition and from and to views."""
    stream = encode(case.op, case.w, channels, rows, indexed, block, ordered)
    inputs = [case.x, *stream.operands, case.bias, case.residual]
    want = replace(case, w=nearest(case.w, stored)).want
    check_step(
        "conv_sparse", inputs, [want], [case.output], stream.attributes, 2e-6, constants=CONSTANTS, inplace=inplace,
        weights=stored,
    )  # fmt: skip


@pytest.mark.parametrize("rank", [1, 2, 3])
@pytest.mark.parametrize("indexed", [BYTES, WIDE, GAPS])
@pytest.mark.parametrize("ordered", [True, False])
def test_random_convolutions(rank: int, indexed: str, ordered: bool) -> None:
    rng = np.random.default_rng(rank)
    for _ in range(16):
        group, channels, filters = choice(rng, 1, 1, 2, 3), choice(rng, 1, 3, 7, 17, 90), choice(rng, 1, 4, 16, 37)
        op, spatial, kernel = random_conv(rng, rank, group)
        x = random_array(rng, (choice(rng, 1, 1, 2), group * channels, *spatial), DType.F32)
        w = sparse(rng, group * filters, channels, *kernel, zeros=choice(rng, 0, 1) * 0.8)
        rows = 1 if np.prod(kernel) == 1 else choice(rng, 0, 1, 2, 3, 7)
        check(random_case(rng, op, x, w), choice(rng, 1, 2, 5, 64), rows, indexed, ordered=ordered)


@pytest.mark.parametrize("stride", [1, 2, 3])
@pytest.mark.parametrize("dilation", [1, 2, 3])
def test_every_phase_of_a_stride(stride: int, dilation: int) -> None:
    rng = np.random.default_rng(4)
    for width in (1, 2, 3, 7):
        x, w = random_array(rng, (1, 2, 23, 61), DType.F32), sparse(rng, 5, 2, 3, width)
        for rows in (0, 1, 2, 4):
            check(Case(Conv((stride, stride), (1, 5, 0, 3), (dilation, dilation)), x, w), rows=rows)


def test_rows_of_every_width() -> None:
    """Every number of accumulators, with a part of the last one; padding shared by neighbouring rows or not."""
    rng = np.random.default_rng(5)
    w, bias = sparse(rng, 3, 3, 3, 3, zeros=0.5), random_array(rng, (3,), DType.F32)
    for width in (*range(1, 36), 55, 56, 57, 63, 64, 65, 112, 224, 225, 300):
        x = random_array(rng, (1, 3, 5, width), DType.F32)
        residual = random_array(rng, (1, 3, 5, width), DType.F32)
        pads = (1, 1, 1, 1) if width < 3 or width % 2 else (1, 0, 1, 2)
        check(Case(Conv((1, 1), pads, (1, 1)), x, w, bias, residual), channels=2, rows=1 + width % 7)
        check(Case(Conv((1, 1), pads, (1, 1)), x, w, bias, residual), channels=2, rows=0)
        flat = sparse(rng, 3, 3, 1, 1, zeros=0.3)
        check(Case(Conv((1, 1), (0, 0, 0, 0), (1, 1)), x, flat, bias, residual), channels=2)


@pytest.mark.parametrize("size", [(1, 17), (6, 6), (7, 7), (9, 9), (10, 10)])
def test_a_few_positions_behind_whole_vectors(size: tuple[int, int]) -> None:
    """Up to four of them lie apart: of one tile or several, of inputs that are copied run by run."""
    rng = np.random.default_rng(9)
    height, width = size
    for (kernel, stride), channels in itertools.product(((1, 1), (3, 1), (1, 2), (3, 2)), (3, 20, 40)):
        pads = (kernel // 2,) * 4
        x = random_array(rng, (2, 37, stride * (height - 1) + 1, stride * (width - 1) + 1), DType.F32)
        w, bias = sparse(rng, 70, 37, kernel, kernel), random_array(rng, (70,), DType.F32)
        residual = random_array(rng, (2, 70, height, width), DType.F32)
        case = Case(Conv((stride, stride), pads, (1, 1)), x, w, bias, residual)
        indexed, stored = (BYTES, WIDE, GAPS)[choice(rng, 0, 1, 2)], (DType.F32, DType.F16)[choice(rng, 0, 1)]
        check(case, channels, 1 if kernel == 1 else 0, indexed, inplace=6, stored=stored, ordered=channels == 3)


@pytest.mark.parametrize("size", [(7, 7), (26, 3), (40, 2), (50, 3), (30, 7)])
def test_short_runs_are_listed_once_for_all_tiles(size: tuple[int, int]) -> None:
    """In lists that hold all vectors of a strip, and where a strip has too many; one strip after the other."""
    rng = np.random.default_rng(11)
    height, width = size
    x = random_array(rng, (2, 27, 2 * height - 1, 2 * width - 1), DType.F32)
    case = Case(Conv((2, 2), (1, 1, 1, 1), (1, 1)), x, sparse(rng, 20, 27, 3, 3))
    for channels in (9, 12):  # tiles of as many, and a last one of too few for a list
        check(case, channels, rows=0)


@pytest.mark.parametrize("pads", [(0, 0, 0, 0), (1, 1, 1, 1), (2, 0, 1, 2), (0, 5, 0, 4)])
@pytest.mark.parametrize("size", [(5, 37), (9, 40), (6, 75), (30, 110)])
@pytest.mark.parametrize("kernel", [(3, 3), (1, 2), (2, 6)])
def test_two_phases_of_columns_are_copied_together(
    size: tuple[int, int], pads: tuple[int, int, int, int], kernel: tuple[int, int]
) -> None:
    """Each with zeros of its own before and behind it, in lists that hold all of a strip and in several."""
    rng = np.random.default_rng(12)
    x, w = random_array(rng, (1, 9, *size), DType.F32), sparse(rng, 6, 9, *kernel)
    for strides, dilations in (((2, 2), (1, 1)), ((1, 2), (1, 3)), ((1, 2), (1, 1))):
        case = Case(Conv(strides, pads, dilations), x, w)
        for rows in (0, 1, 4):
            check(case, 5, rows)


def test_two_phases_of_columns_that_are_joined_differently() -> None:
    """Rows of one tap follow one another, those of the other are clipped each: zeros behind them stay."""
    rng = np.random.default_rng(13)
    for size, kernel, pads in (
        ((5, 16), (3, 4), (0, 1, 0, 1)),
        ((6, 8), (2, 3), (1, 0, 1, 1)),
        ((7, 9), (3, 3), (1, 2, 1, 2)),
    ):
        x, w = random_array(rng, (1, 8, *size), DType.F32), sparse(rng, 6, 8, *kernel)
        check(Case(Conv((1, 2), pads, (1, 1)), x, w), 8, rows=0)


def test_strided_and_padded_pointwise() -> None:
    rng = np.random.default_rng(6)
    for strides, pads in (
        ((2, 2), (0, 0, 0, 0)),
        ((3, 1), (0, 0, 0, 0)),
        ((1, 1), (1, 2, 0, 1)),
        ((2, 3), (2, 1, 1, 3)),
    ):
        x, w = random_array(rng, (2, 9, 15, 29), DType.F32), sparse(rng, 18, 9, 1, 1)
        check(Case(Conv(strides, pads, (1, 1)), x, w), channels=4)


def test_pointwise_inputs_are_read_in_place() -> None:
    """Where every channel is whole lines of the cache, whatever lies around, else copied; indices are proven."""
    rng = np.random.default_rng(8)
    for block, channels, filters in ((SINGLE, 40, 37), (FILTERS, 33, 32), (CHANNELS, 40, 37), (SINGLE, 1, 1)):
        for height, width, whole in ((9, 16, 11), (9, 5, 16)):
            x, w = random_array(rng, (2, channels, height, width), DType.F32), sparse(rng, filters, channels, 1, 1)
            stream = encode(Conv((1, 1), (0, 0, 0, 0), (1, 1)), w, 16, 1, block=block)
            out = TensorType(DType.F32, (2, filters, height, width))
            inputs = [x, *stream.operands, random_array(rng, (filters,), DType.F32)]
            boxes = [Box((2, channels, whole, width), (0, 0, 0, 0)), *[None] * 6]
            for isa in isas():
                how = {"isa": isa, "constants": CONSTANTS}
                copied = run_step("conv_sparse", inputs, [out], stream.attributes, **how)[0]
                read = run_step("conv_sparse", inputs, [out], stream.attributes, boxes=boxes, aligned=True, **how)[0]
                assert read.tobytes() == copied.tobytes(), isa
            stream.indices[-1:] = 17 - block.channels
            if stream.indices.size:
                with pytest.raises(Rejected, match="index of a non-zero\nexpected one of the channels"):
                    run_step("conv_sparse", inputs, [out], stream.attributes, boxes=boxes, constants=CONSTANTS)


@pytest.mark.parametrize("rank", [1, 2, 3])
def test_four_filters_together(rank: int) -> None:
    """Blocks of 4 filters that have weights at the same places, but for some zeros."""
    rng = np.random.default_rng(20 + rank)
    for indexed, ordered in ((BYTES, True), (WIDE, True), (GAPS, True), (BYTES, False), (GAPS, False)):
        for _ in range(6):
            group, channels, fours = choice(rng, 1, 1, 3), choice(rng, 3, 17, 70), choice(rng, 1, 4, 9)
            op, spatial, kernel = random_conv(rng, rank, group)
            x = random_array(rng, (choice(rng, 1, 2), group * channels, *spatial), DType.F32)
            w = sparse(rng, group * fours * 4, channels, *kernel)
            w *= np.repeat(rng.random((group * fours, channels, *kernel)) < 0.5, 4, axis=0)
            rows = 1 if np.prod(kernel) == 1 else choice(rng, 0, 1, 2, 3, 7)
            check(random_case(rng, op, x, w), choice(rng, 1, 5, 64), rows, indexed, FILTERS, ordered=ordered)
    w = sparse(rng, 8, 3, *(3,) * rank, zeros=0.4)
    for width in (*range(1, 36), 56, 97):  # every number of accumulators
        x = random_array(rng, (1, 3, *(2,) * (rank - 1), width), DType.F32)
        check(Case(Conv((1,) * rank, (1,) * 2 * rank, (1,) * rank), x, w), 3, 1 + width % 2, block=FILTERS)


@pytest.mark.parametrize("rank", [1, 2, 3])
def test_four_channels_together(rank: int) -> None:
    """Blocks of 4 channels of which a filter has weights, but for some zeros."""
    rng = np.random.default_rng(40 + rank)
    for indexed, ordered in ((BYTES, True), (WIDE, True), (GAPS, True), (BYTES, False), (GAPS, False)):
        for _ in range(6):
            group, fours, filters = choice(rng, 1, 1, 3), choice(rng, 1, 2, 5, 17), choice(rng, 1, 7, 37)
            op, spatial, kernel = random_conv(rng, rank, group)
            x = random_array(rng, (choice(rng, 1, 2), group * fours * 4, *spatial), DType.F32)
            w = sparse(rng, group * filters, fours * 4, *kernel, zeros=choice(rng, 0, 1) * 0.1)
            w *= np.repeat(rng.random((group * filters, fours, *kernel)) < 0.5, 4, axis=1)
            rows = 1 if np.prod(kernel) == 1 else choice(rng, 0, 1, 2, 3)
            check(random_case(rng, op, x, w), choice(rng, 1, 8, 64), rows, indexed, CHANNELS, ordered=ordered)
    w = sparse(rng, 8, 8, *(3,) * rank, zeros=0.4)
    for width in (*range(1, 36), 56, 97):  # every number of accumulators
        x = random_array(rng, (1, 8, *(2,) * (rank - 1), width), DType.F32)
        check(Case(Conv((1,) * rank, (1,) * 2 * rank, (1,) * rank), x, w), 4, 1 + width % 2, block=CHANNELS)
        check(Case(Conv((1,) * rank, (0,) * 2 * rank, (1,) * rank), x, w[(..., *[slice(1)] * rank)]), block=CHANNELS)


@pytest.mark.parametrize("stored", [DType.F16, DType.BF16])
@pytest.mark.parametrize("block", [SINGLE, FILTERS, CHANNELS])
def test_values_of_16_bits(stored: DType, block: Block) -> None:
    """Copied inputs or those in place, one tile or several, filters whose values are widened at once or in parts."""
    rng = np.random.default_rng(30 + block.size)
    for rank in (1, 2, 3):
        for _ in range(6):
            group, channels, fours = choice(rng, 1, 3), choice(rng, 3, 17), choice(rng, 1, 5)
            channels *= block.channels
            op, spatial, kernel = random_conv(rng, rank, group)
            x = random_array(rng, (1, group * channels, *spatial), DType.F32)
            w = sparse(rng, group * fours * 4, channels, *kernel)
            rows = 1 if np.prod(kernel) == 1 else choice(rng, 0, 1, 2, 7)
            indexed, ordered = GAPS if rank == 3 else BYTES, rank != 2
            check(
                random_case(rng, op, x, w), choice(rng, 1, 5, 64), rows, indexed, block, stored=stored, ordered=ordered
            )
    for shape, group, pads in (((200, 92, 1, 1), 1, 0), ((168, 40, 3, 3), 2, 1), ((200, 60, 1, 1), 2, 0)):
        x, w = random_array(rng, (1, group * shape[1], 6, 5), DType.F32), sparse(rng, *shape, zeros=0.4)
        w[0, :3] = 2.0**-24  # the least f16
        case = Case(Conv((1, 1), (pads,) * 4, (1, 1), group), x, w, random_array(rng, shape[:1], DType.F32))
        check(case, 24, 1 + 5 * pads, block=block, stored=stored, ordered=group == 1)


def test_more_non_zeros_than_one_load() -> None:
    """Counts of 0 to 255 in a group."""
    rng = np.random.default_rng(7)
    w = np.zeros((40, 255, 1, 1), np.float32)
    for k, count in enumerate((*range(38), 254, 255)):
        w[k, rng.permutation(255)[:count]] = rng.standard_normal((count, 1, 1)) / 16
    x = random_array(rng, (1, 255, 7, 7), DType.F32)
    check(Case(Conv((1, 1), (0, 0, 0, 0), (1, 1)), x, w), channels=255)


def test_dead_rows_and_empty_tiles() -> None:
    rng = np.random.default_rng(8)
    w, bias = sparse(rng, 33, 12, 3, 3), random_array(rng, (33,), DType.F32)
    w[[0, 7, 32]] = 0
    w[:, 4:8] = 0
    x = random_array(rng, (1, 12, 7, 7), DType.F32)
    check(Case(Conv((1, 1), (1, 1, 1, 1), (1, 1), 1, Activation("relu")), x, w, bias), channels=4, rows=7)
    check(Case(Conv((1, 1), (1, 1, 1, 1), (1, 1)), x, np.zeros_like(w), bias), channels=4, rows=7)


def test_residual_in_place() -> None:
    rng = np.random.default_rng(9)
    for group, kernel, rows in ((1, 3, 2), (2, 3, 0), (2, 1, 1)):
        pads = (kernel // 2,) * 4
        op = Conv((1, 1), pads, (1, 1), group, Activation("relu"))
        x, w = random_array(rng, (1, 8, 9, 9), DType.F32), sparse(rng, 20, 8 // group, kernel, kernel)
        check(Case(op, x, w, None, random_array(rng, (1, 20, 9, 9), DType.F32)), 3, rows, inplace=6)


@pytest.mark.parametrize("rows", [0, 3])
def test_parts_have_the_bits_of_the_whole(rows: int) -> None:
    """Filters from a multiple of 16 on, rows and columns of their own pads."""
    rng = np.random.default_rng(10)
    op = Conv((1, 1), (1, 1, 1, 1), (1, 1))
    x, w, bias = (
        random_array(rng, (1, 9, 12, 30), DType.F32),
        sparse(rng, 40, 9, 3, 3),
        random_array(rng, (40,), DType.F32),
    )
    stream = encode(op, w, 4, rows)

    def run(op: Conv, stream: Stream, x: np.ndarray, bias: np.ndarray, isa: str) -> np.ndarray:
        shape = op.infer([TensorType(DType.F32, x.shape), TensorType(DType.F32, (bias.size, 9, 3, 3))])
        attributes = (*attributes_of(op), *stream.attributes[-4:])
        inputs = [x, *stream.operands, bias]
        return run_step("conv_sparse", inputs, shape, attributes, isa=isa, constants=CONSTANTS)[0]

    for isa in isas():
        whole = run(op, stream, x, bias, isa)
        part = replace(stream, counts=stream.counts[:, 16:40], starts=stream.starts[:, 1:3])
        assert run(op, part, x, bias[16:40], isa).tobytes() == whole[:, 16:40].tobytes(), isa
        top = run(replace(op, pads=(1, 1, 0, 1)), stream, x[:, :, :6], bias, isa)
        assert top.tobytes() == whole[:, :, :5].tobytes(), isa
        right = run(replace(op, pads=(1, 0, 1, 1)), stream, x[:, :, :, 6:], bias, isa)
        assert right.tobytes() == whole[:, :, :, 7:].tobytes(), isa


@pytest.mark.parametrize(("group", "filters"), [(1, 200), (2, 168), (2, 96)])
def test_filters_of_different_numbers_of_weights(group: int, filters: int) -> None:
    """Three workers share one strip by non-zeros, whose filters may begin within sixteen of all groups."""
    rng = np.random.default_rng(11)
    w = sparse(rng, filters, 96 // group, 3, 3, zeros=0.2)
    w[filters // 4 :, 3:] = 0
    op = Conv((1, 1), (1, 1, 1, 1), (1, 1), group)
    for ordered in (True, False):
        check(Case(op, random_array(rng, (1, 96, 6, 6), DType.F32), w), 12, 6, ordered=ordered)


def test_any_index_stays_in_scratch() -> None:
    """Lines are not proven: wrong ones give wrong outputs, nothing else (which sanitizers see)."""
    rng = np.random.default_rng(11)
    op = Conv((1, 1), (1, 1, 1, 1), (1, 1))
    x, w = random_array(rng, (1, 12, 7, 7), DType.F32), sparse(rng, 17, 12, 3, 3)
    worst_of = ((BYTES, 255), (WIDE, 65535))
    for block, (indexed, worst), rows in itertools.product((SINGLE, CHANNELS), worst_of, (0, 7)):
        stream = encode(op, w, 4, rows, indexed, block)
        stream.indices[:] = worst
        inputs = [x, *stream.operands]
        for isa in isas():
            run_step("conv_sparse", inputs, [TensorType(DType.F32, (1, 17, 7, 7))], stream.attributes, isa=isa,
                     constants=CONSTANTS)  # fmt: skip


def test_nothing() -> None:
    for case in empty_cases():
        check(case)


def test_operands_are_proven() -> None:
    rng = np.random.default_rng(12)
    op, far = Conv((1, 1), (1, 1, 1, 1), (1, 1)), 2**29
    x, w = np.ones((1, 6, 5, 5), np.float32), sparse(rng, 20, 6, 3, 3)
    stream = encode(op, w, 4, 2)

    def run(
        op: Conv = op, y: tuple[int, ...] = (1, 20, 5, 5), constants: tuple[int, ...] = CONSTANTS, **how: object
    ) -> None:
        changed = {k: v for k, v in how.items() if k in ("values", "indices", "counts", "starts")}
        given = replace(stream, **changed)  # type: ignore[arg-type]
        extra = {a.name: a for a in stream.attributes[-4:]} | {
            k: Attribute(k, ints=v) for k, v in how.items() if k in ("kernel", "channels", "rows", "together")
        }  # type: ignore[arg-type]
        inputs = [x, *given.operands]
        attributes = (*attributes_of(op), *extra.values())
        run_step("conv_sparse", inputs, [TensorType(DType.F32, y)], attributes, isa=isas()[0], constants=constants)

    run()
    starts, counts = stream.starts, stream.counts
    for change in (
        {"op": Conv((1, 1), (1, 1, 1, 0), (1, 1))},
        {"op": Conv((0, 1), (1, 1, 1, 1), (1, 1))},
        {"op": Conv((1, 1), (1, 1, 1, 1), (1, 1), 4)},
        {"op": Conv((1, 1), (1, 1, 1, 1), (1, 1), 1, Activation("is_nan"))},
        {"op": Conv((1, 1), (far, 1, far, 1), (far, 1))},
        {"op": Conv((1, 1), (1, far, 1, far), (1, far))},
        {"y": (1, 20, 5, 6)},
        {"y": (1, 21, 5, 5)},
        {"constants": ()},
        {"values": stream.values[:-1]},
        {"values": stream.values.astype(np.int32)},
        {"values": stream.values[:-1], "indices": stream.indices[:-1]},
        {"indices": stream.indices.astype(np.int32)},
        {"counts": counts[:, :, :2]},
        {"counts": np.full_like(counts, 255)},
        {"starts": starts + 1},
        {"starts": starts - 1},
        {"starts": starts - (np.arange(starts.shape[1]) == 1)},  # blocks overlap
        {"starts": np.full_like(starts, 2**31 - 1)},
        {"starts": starts[:, :1]},
        {"kernel": (3, 2)},
        {"kernel": (0, 3)},
        {"kernel": (3, far)},
        {"channels": (0,)},
        {"channels": (64,)},
        {"channels": (65,)},
        {"together": (2,)},
        {"together": (4,)},
        {"together": (1, 4)},
        {"together": (1, 1)},
        {"rows": (-1,)},
        {"rows": (0,)},  # one group
        {"rows": (255,)},
    ):
        with pytest.raises(Rejected):
            run(**change)  # type: ignore[arg-type]


def test_sorted_rows_and_gaps_are_proven() -> None:
    """Of each filter there is one row, and gaps lead to no line that a tile lacks."""
    rng = np.random.default_rng(13)
    op = Conv((1, 1), (1, 1, 1, 1), (1, 1))
    x, w = random_array(rng, (1, 64, 7, 7), DType.F32), sparse(rng, 40, 64, 3, 3)
    out = TensorType(DType.F32, (1, 40, 7, 7))
    for block in (SINGLE, FILTERS, CHANNELS):
        stream = encode(op, w, 64, 7, GAPS, block, ordered=False)

        def run(counts: np.ndarray, indices: np.ndarray, stream: Stream = stream) -> None:
            inputs = [x, stream.values, indices, counts, stream.starts]
            run_step("conv_sparse", inputs, [out], stream.attributes, isa=isas()[0], constants=CONSTANTS)

        run(stream.counts, stream.indices)
        last = len(stream.counts[0]) - 1
        for row, number in ((0, 32 // block.filters), (last, last % (32 // block.filters) + 1), (0, 255)):
            counts = stream.counts.copy()
            counts[0, row, 0] = number
            with pytest.raises(Rejected, match="filter of a sorted row\nexpected each of those"):
                run(counts, stream.indices)
        counts = stream.counts.copy()
        counts[0, 1, 0] = counts[0, 0, 0]
        with pytest.raises(Rejected, match=r"filter of a sorted row\n.* again"):
            run(counts, stream.indices)
        indices = stream.indices.copy()
        indices[: stream.counts[0, 0, 1]] = 255
        with pytest.raises(Rejected, match="gaps of a row\nexpected to lines of its tile"):
            run(stream.counts, indices)


@pytest.mark.parametrize("isa", isas())
def test_gaps_lead_just_to_the_last_line(isa: str) -> None:
    """Whichever row, of however many gaps, and whichever of its gaps lead there."""
    rng = np.random.default_rng(14)
    op = Conv((1, 1), (1, 1, 1, 1), (1, 1))
    x, w = random_array(rng, (1, 40, 5, 5), DType.F32), random_array(rng, (40, 40, 3, 3), DType.F32)
    w[rng.random(w.shape) < np.linspace(0, 1, 40)[:, None, None, None]] = 0
    out, stream = TensorType(DType.F32, (1, 40, 5, 5)), encode(op, w, 40, 5, GAPS, SINGLE, ordered=False)
    counts = stream.counts[0, :, 1:]
    begins = np.cumsum(counts) - counts.ravel()
    lengths = set()

    def run(row: int, gaps: np.ndarray) -> None:
        indices = stream.indices.copy()
        indices[begins[row] : begins[row] + len(gaps)] = gaps
        inputs = [x, stream.values, indices, stream.counts, stream.starts]
        run_step("conv_sparse", inputs, [out], stream.attributes, isa=isa, constants=CONSTANTS)

    with pytest.raises(Rejected, match="to lines of its tile") as refused:
        run(int(np.argmax(counts)), np.full(counts.max(), 255, np.uint8))
    lines = int(re.findall(r" of (\d+)", str(refused.value))[-1])
    for row, count in enumerate(counts.ravel().tolist()):
        if count * 255 < lines:
            continue
        for _ in range(3):  # full gaps, one that is not, and none, in any order
            gaps = np.zeros(count, np.uint8)
            places = rng.permutation(count)
            for place in places:
                gaps[place] = min(lines - 1 - int(gaps.sum()), 255)
            run(row, gaps)
            gaps[np.flatnonzero(gaps < 255)[0]] += 1
            with pytest.raises(Rejected, match="to lines of its tile"):
                run(row, gaps)
        lengths.add(count)
    assert len(lengths) > 20
    assert max(lengths) > 64
