"""conv_sparse on every instruction set: against the reference, and the same bits however its work is cut."""

from __future__ import annotations

import itertools
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


@dataclass(frozen=True)
class Stream:
    """Non-zeros in the order in which the kernel walks them."""

    values: np.ndarray
    indices: np.ndarray
    counts: np.ndarray  # [tiles, K, groups]
    starts: np.ndarray  # [tiles, ceil(K/16)]
    attributes: tuple[Attribute, ...]

    @property
    def operands(self) -> list[np.ndarray]:
        return [self.values, self.indices, self.counts, self.starts]


def lines_of(op: Conv, kernel: tuple[int, ...], rows: int) -> tuple[dict[tuple[int, int, int], int], int]:
    """The first line of each (depth tap, row phase, column phase), and how many lines a channel has."""
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


def encode(op: Conv, w: np.ndarray, channels: int, rows: int, wide: bool = False, block: Block = SINGLE) -> Stream:
    """The stream of weights [K, C/group, kernel], in tiles of about as many channels as wanted or else possible."""
    kernel = w.shape[2:]
    first, lines = lines_of(op, kernel, rows)
    channels = -(-min(channels, (2048 if wide else 256) // lines // block.channels * block.channels) // block.channels)
    channels *= block.channels
    assert channels > 0, "this kernel has too many lines"
    lifted = w.reshape(*w.shape[:2], *(1,) * (3 - len(kernel)), *kernel)
    strides, dilations = ((1,) * (3 - len(kernel)) + tuple(v) for v in (op.strides, op.dilations))
    places = [k * dilations[2] // strides[2] for k in range(lifted.shape[4])]
    groups = sorted(set(places), reverse=True)
    tiles, filters = max(-(-w.shape[1] // channels), 1), w.shape[0]
    values: list[float] = []
    indices: list[int] = []
    counts, starts = (
        np.zeros((tiles, filters // block.filters, len(groups)), np.uint8),
        np.zeros((tiles, -(-filters // 16)), np.int32),
    )
    for tile in range(tiles):
        for k in range(0, filters, block.filters):
            if k % 16 == 0:
                starts[tile, k // 16] = len(indices)
            for g, place in enumerate(groups):
                found = []
                own = lifted[k : k + block.filters, tile * channels : (tile + 1) * channels]
                blocks = own.reshape(block.filters, -1, block.channels, *lifted.shape[2:])
                for c, kz, ky, kx in np.argwhere(blocks.any((0, 2))):
                    if places[kx] != place:
                        continue
                    phase, row = ky * dilations[1] % strides[1], ky * dilations[1] // strides[1]
                    line = block.channels * c * lines + first[kz, phase, kx * dilations[2] % strides[2]] + row
                    found.append((int(line), blocks[:, c, :, kz, ky, kx].reshape(-1)))
                found.sort(key=lambda entry: entry[0])
                counts[tile, k // block.filters, g] = len(found)
                indices += [line for line, _ in found]
                values += [float(value) for _, four in found for value in four]
    extra = (
        Attribute("kernel", ints=kernel),
        Attribute("channels", ints=(channels,)),
        Attribute("rows", ints=(rows,)),
        Attribute("together", ints=block[:] if block.channels > 1 else block[:1]),
    )
    index = np.array(indices, np.uint16 if wide else np.uint8)
    return Stream(np.array(values, np.float32), index, counts, starts, (*attributes_of(op), *extra))


def sparse(rng: np.random.Generator, *shape: int, zeros: float = 0.7) -> np.ndarray:
    """Weights, most of them zero, scaled to keep sums near 1."""
    w = random_array(rng, shape, DType.F32) * (rng.random(shape) >= zeros)
    return (w / np.sqrt(max(np.count_nonzero(w) / max(shape[0], 1), 1))).astype(np.float32)


def check(
    case: Case,
    channels: int = 5,
    rows: int = 1,
    wide: bool = False,
    block: Block = SINGLE,
    inplace: int | None = None,
    stored: DType = DType.F32,
) -> None:
    """Every instruction set gives the reference's outputs, in any partition and from and to views."""
    stream = encode(case.op, case.w, channels, rows, wide, block)
    inputs = [case.x, *stream.operands, case.bias, case.residual]
    want = replace(case, w=nearest(case.w, stored)).want
    check_step(
        "conv_sparse", inputs, [want], [case.output], stream.attributes, 2e-6, constants=CONSTANTS, inplace=inplace,
        weights=stored,
    )  # fmt: skip


@pytest.mark.parametrize("rank", [1, 2, 3])
@pytest.mark.parametrize("wide", [False, True])
def test_random_convolutions(rank: int, wide: bool) -> None:
    rng = np.random.default_rng(rank)
    for _ in range(25):
        group, channels, filters = choice(rng, 1, 1, 2, 3), choice(rng, 1, 3, 7, 17), choice(rng, 1, 4, 16, 37)
        op, spatial, kernel = random_conv(rng, rank, group)
        x = random_array(rng, (choice(rng, 1, 1, 2), group * channels, *spatial), DType.F32)
        w = sparse(rng, group * filters, channels, *kernel, zeros=choice(rng, 0, 1) * 0.8)
        rows = 1 if np.prod(kernel) == 1 else choice(rng, 1, 2, 3, 7)
        check(random_case(rng, op, x, w), choice(rng, 1, 2, 5, 64), rows, wide)


@pytest.mark.parametrize("stride", [1, 2, 3])
@pytest.mark.parametrize("dilation", [1, 2, 3])
def test_every_phase_of_a_stride(stride: int, dilation: int) -> None:
    rng = np.random.default_rng(4)
    for width in (1, 2, 3, 7):
        x, w = random_array(rng, (1, 2, 23, 61), DType.F32), sparse(rng, 5, 2, 3, width)
        for rows in (1, 2, 4):
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
        flat = sparse(rng, 3, 3, 1, 1, zeros=0.3)
        check(Case(Conv((1, 1), (0, 0, 0, 0), (1, 1)), x, flat, bias, residual), channels=2)


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
    """Where every channel begins with a line of the cache, whatever lies around; indices are proven then."""
    rng = np.random.default_rng(8)
    for block, channels, filters in ((SINGLE, 40, 37), (FILTERS, 33, 32), (CHANNELS, 40, 37), (SINGLE, 1, 1)):
        x, w = random_array(rng, (2, channels, 9, 5), DType.F32), sparse(rng, filters, channels, 1, 1)
        stream = encode(Conv((1, 1), (0, 0, 0, 0), (1, 1)), w, 16, 1, block=block)
        out = TensorType(DType.F32, (2, filters, 9, 5))
        inputs = [x, *stream.operands, random_array(rng, (filters,), DType.F32)]
        # An array begins one element behind a multiple of 64 bytes, row 3 of it 16 elements behind.
        boxes = [Box((2, channels, 16, 5), (0, 0, 3, 0)), *[None] * 6]
        for isa in isas():
            how = {"isa": isa, "constants": CONSTANTS}
            copied = run_step("conv_sparse", inputs, [out], stream.attributes, **how)[0]
            read = run_step("conv_sparse", inputs, [out], stream.attributes, boxes=boxes, **how)[0]
            assert read.tobytes() == copied.tobytes(), isa
        stream.indices[-1:] = 17 - block.channels
        if stream.indices.size:
            with pytest.raises(Rejected, match="index of a non-zero\nexpected one of the channels"):
                run_step("conv_sparse", inputs, [out], stream.attributes, boxes=boxes, constants=CONSTANTS)


@pytest.mark.parametrize("rank", [1, 2, 3])
def test_four_filters_together(rank: int) -> None:
    """Blocks of 4 filters that have weights at the same places, but for some zeros."""
    rng = np.random.default_rng(20 + rank)
    for wide in (False, True):
        for _ in range(12):
            group, channels, fours = choice(rng, 1, 1, 3), choice(rng, 3, 17), choice(rng, 1, 4, 9)
            op, spatial, kernel = random_conv(rng, rank, group)
            x = random_array(rng, (choice(rng, 1, 2), group * channels, *spatial), DType.F32)
            w = sparse(rng, group * fours * 4, channels, *kernel)
            w *= np.repeat(rng.random((group * fours, channels, *kernel)) < 0.5, 4, axis=0)
            rows = 1 if np.prod(kernel) == 1 else choice(rng, 1, 2, 3, 7)
            check(random_case(rng, op, x, w), choice(rng, 1, 5, 64), rows, wide, FILTERS)
    w = sparse(rng, 8, 3, *(3,) * rank, zeros=0.4)
    for width in (*range(1, 36), 56, 97):  # every number of accumulators
        x = random_array(rng, (1, 3, *(2,) * (rank - 1), width), DType.F32)
        check(Case(Conv((1,) * rank, (1,) * 2 * rank, (1,) * rank), x, w), 3, 1 + width % 2, block=FILTERS)


@pytest.mark.parametrize("rank", [1, 2, 3])
def test_four_channels_together(rank: int) -> None:
    """Blocks of 4 channels of which a filter has weights, but for some zeros."""
    rng = np.random.default_rng(40 + rank)
    for wide in (False, True):
        for _ in range(12):
            group, fours, filters = choice(rng, 1, 1, 3), choice(rng, 1, 2, 5), choice(rng, 1, 7, 37)
            op, spatial, kernel = random_conv(rng, rank, group)
            x = random_array(rng, (choice(rng, 1, 2), group * fours * 4, *spatial), DType.F32)
            w = sparse(rng, group * filters, fours * 4, *kernel, zeros=choice(rng, 0, 1) * 0.1)
            w *= np.repeat(rng.random((group * filters, fours, *kernel)) < 0.5, 4, axis=1)
            rows = 1 if np.prod(kernel) == 1 else choice(rng, 1, 2, 3)
            check(random_case(rng, op, x, w), choice(rng, 1, 8, 64), rows, wide, CHANNELS)
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
            rows = 1 if np.prod(kernel) == 1 else choice(rng, 1, 2, 7)
            check(random_case(rng, op, x, w), choice(rng, 1, 5, 64), rows, rank == 3, block, stored=stored)
    for shape, group, pads in (((200, 92, 1, 1), 1, 0), ((168, 40, 3, 3), 2, 1), ((200, 60, 1, 1), 2, 0)):
        x, w = random_array(rng, (1, group * shape[1], 6, 5), DType.F32), sparse(rng, *shape, zeros=0.4)
        w[0, :3] = 2.0**-24  # the least f16
        case = Case(Conv((1, 1), (pads,) * 4, (1, 1), group), x, w, random_array(rng, shape[:1], DType.F32))
        check(case, 24, 1 + 5 * pads, block=block, stored=stored)


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
    for group, kernel, rows in ((1, 3, 2), (2, 1, 1)):
        pads = (kernel // 2,) * 4
        op = Conv((1, 1), pads, (1, 1), group, Activation("relu"))
        x, w = random_array(rng, (1, 8, 9, 9), DType.F32), sparse(rng, 20, 8 // group, kernel, kernel)
        check(Case(op, x, w, None, random_array(rng, (1, 20, 9, 9), DType.F32)), 3, rows, inplace=6)


def test_parts_have_the_bits_of_the_whole() -> None:
    """Filters from a multiple of 16 on, rows and columns of their own pads."""
    rng = np.random.default_rng(10)
    op = Conv((1, 1), (1, 1, 1, 1), (1, 1))
    x, w, bias = (
        random_array(rng, (1, 9, 12, 30), DType.F32),
        sparse(rng, 40, 9, 3, 3),
        random_array(rng, (40,), DType.F32),
    )
    stream = encode(op, w, 4, 3)

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
    check(Case(op, random_array(rng, (1, 96, 6, 6), DType.F32), w), 12, 6)


def test_any_index_stays_in_scratch() -> None:
    """Indices are not proven: wrong ones give wrong outputs, nothing else (which sanitizers see)."""
    rng = np.random.default_rng(11)
    op = Conv((1, 1), (1, 1, 1, 1), (1, 1))
    x, w = random_array(rng, (1, 12, 7, 7), DType.F32), sparse(rng, 17, 12, 3, 3)
    for block, (wide, worst) in itertools.product((SINGLE, CHANNELS), ((False, 255), (True, 65535))):
        stream = encode(op, w, 4, 7, wide, block)
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
        {"rows": (0,)},
        {"rows": (64,)},
        {"rows": (255,)},
    ):
        with pytest.raises(Rejected):
            run(**change)  # type: ignore[arg-type]
