"""conv_unrolled on every instruction set, its instructions and the walk without them: against the reference, and the
same bits however its work is cut."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, replace

import numpy as np
import pytest

from packer.ir.ops import Activation, Conv
from packer.ir.rounding import nearest
from packer.ir.types import DType, TensorType
from targets.base import Attribute, attributes_of
from tests.runtime_c.kernels.convolutions import Case, choice, empty_cases, random_case, random_conv
from tests.runtime_c.kernels.harness import CODE, Box, Rejected, check_step, isas, random_array, run_step

CONSTANTS = (1, 2, 3, 4)
MOST, FAR = 28, 63  # filters of a group, channels that a batch goes forward at once
ONES = Conv((1, 1), (0, 0, 0, 0), (1, 1))


@dataclass(frozen=True)
class Stream:
    """Non-zeros in the order in which the kernel walks them."""

    values: np.ndarray
    owners: np.ndarray
    batches: np.ndarray
    groups: np.ndarray  # [tiles, groups, 4 + taps]
    attributes: tuple[Attribute, ...]

    @property
    def operands(self) -> list[np.ndarray]:
        return [self.values, self.owners, self.batches, self.groups]


def encode(op: Conv, w: np.ndarray, channels: int, sizes: list[int] | None = None, seed: int | None = None) -> Stream:
    """The stream of weights [K, C/group, kernel] in tiles of so many channels. `sizes`: of the groups of filters of a
    group of the convolution. With a seed, the values of a batch are in any order."""
    each, taps = w.shape[0] // op.group, int(np.prod(w.shape[2:]))
    rng = np.random.default_rng(seed)
    if sizes is None:
        sizes = [MOST] * (each // MOST) + [each % MOST] * (each % MOST > 0)
    tiles = max(-(-w.shape[1] // channels), 1)
    flat = w.reshape(*w.shape[:2], taps)
    values: list[float] = []
    owners: list[int] = []
    batches: list[int] = []
    groups = np.zeros((tiles, op.group * len(sizes), 4 + taps), np.int32)
    for tile, (group, size, filter) in itertools.product(
        range(tiles), zip(range(op.group * len(sizes)), sizes * op.group, starts(sizes * op.group), strict=True)
    ):
        groups[tile, group, :4] = size, len(batches), len(values), 0
        for tap in range(taps):
            own = flat[filter : filter + size, tile * channels : (tile + 1) * channels, tap]
            steps: list[tuple[int, list[tuple[int, float]]]] = []  # channels forward, and what is there
            at = 0
            for channel in np.flatnonzero(own.any(0)):
                while channel - at > FAR:
                    steps.append((FAR, []))
                    at += FAR
                found = np.flatnonzero(own[:, channel])
                steps.append((int(channel) - at, [(int(f), float(own[f, channel])) for f in found]))
                at = int(channel)
            steps += [(0, [])] * (-len(steps) % 4)
            for first in range(0, len(steps), 4):
                four = steps[first : first + 4]
                entries = [(f + 32 * i, value) for i, (_, found) in enumerate(four) for f, value in found]
                if seed is not None:
                    entries = [entries[i] for i in rng.permutation(len(entries))]
                count = len(entries)
                batches.append(sum((on | (count >> 2 * i & 3) << 6) << 8 * i for i, (on, _) in enumerate(four)))
                owners += [owner for owner, _ in entries]
                values += [value for _, value in entries]
            groups[tile, group, 4 + tap] = len(steps) // 4
        groups[tile, group, 3] = len(values) - groups[tile, group, 2]
    extra = Attribute("kernel", ints=w.shape[2:]), Attribute("channels", ints=(channels,))
    return Stream(
        np.array(values, np.float32), np.array(owners, np.uint8), np.array(batches, np.uint32), groups,
        (*attributes_of(op), *extra),
    )  # fmt: skip


def starts(sizes: list[int]) -> list[int]:
    return [0, *itertools.accumulate(sizes)][:-1]


def sparse(rng: np.random.Generator, *shape: int, zeros: float = 0.7) -> np.ndarray:
    """Weights, most of them zero, scaled to keep sums near 1."""
    w = random_array(rng, shape, DType.F32) * (rng.random(shape) >= zeros)
    return (w / np.sqrt(max(np.count_nonzero(w) / max(shape[0], 1), 1))).astype(np.float32)


def check(
    case: Case,
    channels: int = 5,
    sizes: list[int] | None = None,
    inplace: int | None = None,
    stored: DType = DType.F32,
    seed: int | None = None,
    aligned: bool = False,
) -> None:
    """Every instruction set gives the reference's outputs, in any partition and from and to views, and where it makes
    instructions the bits that it gives without them."""
    stream = encode(case.op, case.w, channels, sizes, seed)
    inputs = [case.x, *stream.operands, case.bias, case.residual]
    want = replace(case, w=nearest(case.w, stored)).want
    how = {"constants": CONSTANTS, "inplace": inplace, "weights": stored, "aligned": aligned}
    check_step("conv_unrolled", inputs, [want], [case.output], stream.attributes, 2e-6, **how)
    for isa in isas():
        tasks, once, walked = (
            run_step("conv_unrolled", inputs, [case.output], stream.attributes, isa=isa, code=code, **how)[0]
            for code in CODE
        )
        assert tasks.tobytes() == once.tobytes() == walked.tobytes(), isa


@pytest.mark.parametrize("rank", [1, 2, 3])
@pytest.mark.parametrize("zeros", [0.0, 0.8, 0.98])
def test_random_convolutions(rank: int, zeros: float) -> None:
    rng = np.random.default_rng(rank)
    for _ in range(12):
        group, channels, filters = choice(rng, 1, 1, 2, 3), choice(rng, 1, 3, 7, 17, 90), choice(rng, 1, 4, 28, 37)
        op, spatial, kernel = random_conv(rng, rank, group)
        x = random_array(rng, (choice(rng, 1, 1, 2), group * channels, *spatial), DType.F32)
        w = sparse(rng, group * filters, channels, *kernel, zeros=zeros)
        check(random_case(rng, op, x, w), choice(rng, 1, 2, 5, 64))


@pytest.mark.parametrize("stride", [1, 2, 3])
@pytest.mark.parametrize("dilation", [1, 2, 3])
def test_every_phase_of_a_stride(stride: int, dilation: int) -> None:
    rng = np.random.default_rng(4)
    for width in (1, 2, 3, 7):
        x, w = random_array(rng, (1, 2, 23, 61), DType.F32), sparse(rng, 5, 2, 3, width)
        for pads in ((1, 5, 0, 3), (0, 0, 0, 0), (4, 9, 8, 2)):
            check(Case(Conv((stride, stride), pads, (dilation, dilation)), x, w))


@pytest.mark.parametrize("size", [(8, 57), (9, 64), (70, 81)])
@pytest.mark.parametrize("zeros", [0.8, 0.98])
def test_two_phases_of_columns_are_copied_together(size: tuple[int, int], zeros: float) -> None:
    """Of rows that follow one another, and of such that begin with lines of the cache; in one list and in several."""
    rng = np.random.default_rng(5)
    x, w = random_array(rng, (2, 18, *size), DType.F32), sparse(rng, 30, 18, 3, 3, zeros=zeros)
    for pads in ((1, 1, 1, 1), (0, 0, 1, 1), (2, 3, 0, 0)):
        check(Case(Conv((2, 2), pads, (1, 1)), x, w), 18)


def test_rows_of_every_width() -> None:
    """Vectors of parts of rows and of several rows, whose outputs move together or not; padding of any side."""
    rng = np.random.default_rng(5)
    w, bias = sparse(rng, 3, 3, 3, 3, zeros=0.5), random_array(rng, (3,), DType.F32)
    for width in (*range(1, 36), 55, 56, 57, 63, 64, 65, 112, 225):
        x = random_array(rng, (1, 3, 5, width), DType.F32)
        for pads in ((1, 1, 1, 1), (1, 0, 1, 2), (2, 3, 0, 0)) + (((0, 0, 0, 0),) if width > 2 else ()):
            case = Case(Conv((1, 1), pads, (1, 1)), x, w, bias)
            check(replace(case, residual=random_array(rng, case.output.shape, DType.F32)), channels=2)


def test_inputs_that_are_copied_or_read_in_place() -> None:
    """Rows that are apart, channels that fall into the same sets of the cache, or that begin within a line of it."""
    rng = np.random.default_rng(6)
    for shape, filters in (((2, 9, 8, 32), 120), ((2, 9, 15, 29), 120), ((1, 3, 32, 64), 5), ((1, 3, 16, 24), 120)):
        x = random_array(rng, shape, DType.F32)
        for strides, pads in (((1, 1), 0), ((1, 1), 1), ((2, 2), 0), ((2, 3), 1)):
            check(Case(Conv(strides, (pads,) * 4, (1, 1)), x, sparse(rng, filters, shape[1], 1, 1)), channels=4)
            check(Case(Conv(strides, (pads,) * 4, (1, 1)), x, sparse(rng, 5, shape[1], 3, 3)), channels=4)


@pytest.mark.parametrize("zeros", [pytest.param(0.8, marks=pytest.mark.slow), 0.97])
@pytest.mark.parametrize(("strides", "aligned"), [((1, 1), True), ((1, 1), False), ((2, 2), False), ((1, 2), False)])
def test_groups_that_share_inputs_of_one_tap(zeros: float, strides: tuple[int, int], aligned: bool) -> None:
    """Sets of groups whose first one keeps all channels, those it has no weights at, too, where vectors begin with
    lines of the cache; and inputs packed for them where they begin anywhere, and of channels in the same sets of it."""
    rng = np.random.default_rng(13)
    for channels, tile, filters, size in (
        (70, 70, 90, (8, 8)),
        (140, 70, 150, (6, 8)),
        (64, 64, 2000, (4, 4)),  # several sets
        (600, 600, 60, (4, 4)),  # more than are kept
        (70, 70, 120, (7, 7)),
        (70, 70, 120, (32, 32)),
        (64, 64, 450, (32, 32)),  # channels of whole pages, and many groups
        (128, 128, 900, (8, 8)),  # so many sets that inputs are packed instead of kept
    ):
        x, bias = random_array(rng, (2, channels, *size), DType.F32), random_array(rng, (filters,), DType.F32)
        w = sparse(rng, filters, channels, 1, 1, zeros=zeros)
        w[:MOST, channels // 2 : channels // 2 + 20] = 0
        w[MOST : 2 * MOST] = 0  # a group that reads nothing
        case = Case(Conv(strides, (0, 0, 0, 0), (1, 1), 1, Activation("relu")), x, w, bias)
        check(replace(case, residual=random_array(rng, case.output.shape, DType.F32)), tile, aligned=aligned)
        check(case, tile, stored=DType.BF16, aligned=aligned)


@pytest.mark.parametrize("zeros", [pytest.param(0.5, marks=pytest.mark.slow), 0.97])
def test_inputs_that_no_cache_holds(zeros: float) -> None:
    """Read in place, those of the next vector are fetched while the groups of a set pass by: by one, or by several."""
    rng = np.random.default_rng(17)
    for channels, filters, height in ((96, 60, 100), (300, 20, 32), (530, 29, 18)):
        x = random_array(rng, (1, channels, height, 112), DType.F32)
        assert x.size >= 1 << 20
        check(Case(ONES, x, sparse(rng, filters, channels, 1, 1, zeros=zeros)), channels)


def test_inputs_that_share_nothing_but_a_group_of_the_convolution() -> None:
    rng = np.random.default_rng(14)
    x, w = random_array(rng, (1, 3 * 64, 8, 8), DType.F32), sparse(rng, 3 * 60, 64, 1, 1)
    for aligned in (False, True):
        check(Case(Conv((1, 1), (0, 0, 0, 0), (1, 1), 3), x, w), channels=64, aligned=aligned)


@pytest.mark.parametrize("zeros", [pytest.param(0.88, marks=pytest.mark.slow), 0.97])
@pytest.mark.parametrize("kernel", [(3, 3), (1, 5), (4, 2)])
def test_inputs_that_are_copied_row_by_row(zeros: float, kernel: tuple[int, int]) -> None:
    """Rows that whole vectors hardly waste, of channels in tiles of several sizes, some of lines of the cache."""
    rng = np.random.default_rng(15)
    for size, strides, pads, dilations in (
        ((9, 28), (2, 2), (1, 1, 1, 1), (1, 1)),  # one vector
        ((12, 57), (2, 2), (1, 0, 1, 2), (1, 1)),  # two, the second one of some lanes
        ((16, 32), (1, 1), (1, 1, 1, 1), (1, 1)),  # channels in the same sets of the cache
        ((11, 96), (3, 3), (2, 2, 0, 1), (1, 2)),
        ((40, 64), (2, 1), (1, 4, 1, 4), (2, 3)),  # several strips
    ):
        x = random_array(rng, (2, 2 * 40, *size), DType.F32)
        for group, channels in ((2, 24), (1, 80)):
            w = sparse(rng, group * 30, 80 // group, *kernel, zeros=zeros)
            bias = random_array(rng, (group * 30,), DType.F32)
            case = Case(Conv(strides, pads, dilations, group, Activation("relu")), x, w, bias)
            check(replace(case, residual=random_array(rng, case.output.shape, DType.F32)), channels)
    x, w = random_array(rng, (1, 600, 5, 28), DType.F32), sparse(rng, 5, 600, *kernel, zeros=zeros)
    check(Case(Conv((2, 2), (1, 1, 1, 1), (1, 1)), x, w), channels=600)  # more lines than one byte tells apart
    x, w = random_array(rng, (1, 80, 9, 28), DType.F32), sparse(rng, 240, 80, *kernel, zeros=zeros)
    check(Case(Conv((2, 2), (1, 1, 1, 1), (1, 1)), x, w), channels=40)  # several sets of groups
    volume, w = random_array(rng, (1, 20, 4, 6, 30), DType.F32), sparse(rng, 9, 20, 2, *kernel, zeros=zeros)
    check(Case(Conv((1, 2, 2), (1, 1, 1, 0, 1, 1), (1, 1, 1)), volume, w), channels=20)


def test_images_larger_than_a_strip() -> None:
    rng = np.random.default_rng(7)
    x, w = random_array(rng, (1, 40, 70, 66), DType.F32), sparse(rng, 6, 40, 3, 3)
    check(Case(Conv((2, 2), (1, 1, 1, 1), (1, 1)), x, w), channels=40)
    check(Case(Conv((1, 1), (2, 2, 2, 2), (1, 1)), x, w), channels=40)


@pytest.mark.parametrize("kernel", [1, 3])
def test_more_vectors_than_few_pages_list(kernel: int) -> None:
    """Each task lists those of its strip; of smaller images they are listed once."""
    rng = np.random.default_rng(16)
    for shape in ((1, 3, 90, 100), (1, 3, 9, 30, 35)):
        x, w = random_array(rng, shape, DType.F32), sparse(rng, 6, 3, *[kernel] * (len(shape) - 2))
        ones = (1,) * (len(shape) - 2)
        case = Case(Conv(ones, (kernel // 2,) * 2 * len(ones), ones), x, w)
        check(replace(case, residual=random_array(rng, case.output.shape, DType.F32)))


def test_sums_of_tiles_are_rounded_apart() -> None:
    """Of many channels in several tiles, errors are those of a tile's sums, not of all that was added up before."""
    rng = np.random.default_rng(24)
    x, w = rng.random((1, 512, 8, 16), np.float32), sparse(rng, 30, 512, 3, 3, zeros=0.9)
    case = Case(Conv((1, 1), (1, 1, 1, 1), (1, 1)), x, w)
    for isa, code in itertools.product(isas(), CODE):
        errors = []
        for tile in (512, 32):
            stream = encode(case.op, w, tile)
            inputs, how = [x, *stream.operands], {"isa": isa, "code": code, "constants": CONSTANTS}
            y = run_step("conv_unrolled", inputs, [case.output], stream.attributes, **how)[0]
            errors.append(np.sqrt(((y - case.want) ** 2).mean()))
        assert errors[1] < errors[0] / 2, isa


def test_the_bias_is_added_to_whole_sums() -> None:
    """A large one is rounded once, not with each product."""
    rng = np.random.default_rng(25)
    x, w = rng.random((1, 64, 8, 16), np.float32), sparse(rng, 30, 64, 3, 3, zeros=0.5)
    case = Case(Conv((1, 1), (1, 1, 1, 1), (1, 1)), x, w, np.full(30, 1000, np.float32))
    stream = encode(case.op, w, 64)
    for isa, code in itertools.product(isas(), CODE):
        inputs, how = [x, *stream.operands, case.bias], {"isa": isa, "code": code, "constants": CONSTANTS}
        y = run_step("conv_unrolled", inputs, [case.output], stream.attributes, **how)[0]
        assert np.abs(y - case.want).max() < 0.51 * np.spacing(np.float32(y.max())), isa


def test_groups_of_any_filters() -> None:
    """Of every size from 1 to 28, in any order of a batch's values."""
    rng = np.random.default_rng(8)
    x = random_array(rng, (1, 9, 5, 7), DType.F32)
    for size in range(1, MOST + 1):
        w, bias = sparse(rng, size + 3, 9, 1, 1, zeros=0.4), random_array(rng, (size + 3,), DType.F32)
        check(Case(ONES, x, w, bias), sizes=[size, 3], seed=size)
    x, w = random_array(rng, (1, 12, 5, 7), DType.F32), sparse(rng, 2 * 20, 6, 3, 3)
    check(Case(Conv((1, 1), (1, 1, 1, 1), (1, 1), 2), x, w), channels=6, sizes=[9, 1, 10], seed=1)


def test_values_of_a_place_that_fills_a_batch() -> None:
    """It is that of the channel before, whoever writes such a stream."""
    rng = np.random.default_rng(23)
    x, w = random_array(rng, (1, 1, 7, 9), DType.F32), sparse(rng, 20, 1, 3, 3, zeros=0.2)
    op, out = Conv((1, 1), (1, 1, 1, 1), (1, 1)), TensorType(DType.F32, (1, 20, 7, 9))
    stream = encode(op, w, 1)
    how = {"constants": CONSTANTS}
    for isa in isas():
        want = run_step("conv_unrolled", [x, *stream.operands], [out], stream.attributes, isa=isa, **how)[0]
        for place in 1, 3:
            operands = [stream.operands[0], stream.operands[1] + np.uint8(32 * place), *stream.operands[2:]]
            y = run_step("conv_unrolled", [x, *operands], [out], stream.attributes, isa=isa, **how)[0]
            assert y.tobytes() == want.tobytes(), isa


def test_values_behind_one_displacement() -> None:
    """Batches of 0 to 112 values, more of them than a byte tells apart, and channels far apart."""
    rng = np.random.default_rng(9)
    x = random_array(rng, (1, 700, 3, 6), DType.F32)
    for zeros in (0.0, 0.5, 0.9, 0.999):
        check(Case(ONES, x, sparse(rng, 30, 700, 1, 1, zeros=zeros)), channels=700)
    w = np.zeros((30, 700, 1, 1), np.float32)
    w[3, 699] = w[29, 0] = 0.5
    check(Case(ONES, x, w), channels=700)


@pytest.mark.parametrize("stored", [DType.F16, DType.BF16])
def test_values_of_16_bits(stored: DType) -> None:
    rng = np.random.default_rng(30)
    for rank in (1, 2, 3):
        for _ in range(4):
            group, channels, filters = choice(rng, 1, 3), choice(rng, 3, 17), choice(rng, 1, 37)
            op, spatial, kernel = random_conv(rng, rank, group)
            x = random_array(rng, (1, group * channels, *spatial), DType.F32)
            w = sparse(rng, group * filters, channels, *kernel)
            check(random_case(rng, op, x, w), choice(rng, 1, 5, 64), stored=stored)


def test_dead_filters_and_empty_tiles() -> None:
    rng = np.random.default_rng(8)
    w, bias = sparse(rng, 33, 12, 3, 3), random_array(rng, (33,), DType.F32)
    w[[0, 7, 32]] = 0
    w[:, 4:8] = 0
    x = random_array(rng, (1, 12, 7, 7), DType.F32)
    op = Conv((1, 1), (1, 1, 1, 1), (1, 1), 1, Activation("relu"))
    check(Case(op, x, w, bias), channels=4)
    check(Case(op, x, np.zeros_like(w), bias), channels=4)
    check(Case(op, x, np.zeros_like(w)), channels=4)


def test_residual_in_place() -> None:
    rng = np.random.default_rng(9)
    for group, kernel in ((1, 3), (2, 3), (2, 1)):
        op = Conv((1, 1), (kernel // 2,) * 4, (1, 1), group, Activation("relu"))
        x, w = random_array(rng, (1, 8, 9, 9), DType.F32), sparse(rng, 20, 8 // group, kernel, kernel)
        check(Case(op, x, w, None, random_array(rng, (1, 20, 9, 9), DType.F32)), 3, inplace=6)


def test_limits_keep_nan() -> None:
    rng = np.random.default_rng(10)
    x, w = random_array(rng, (1, 3, 4, 16), DType.F32), sparse(rng, 2, 3, 1, 1, zeros=0)
    x[0, 1, 2, 3] = np.nan
    stream = encode(replace(ONES, activation=Activation("clip", -0.1, 0.1)), w, 3)
    out = TensorType(DType.F32, (1, 2, 4, 16))
    for isa, code in itertools.product(isas(), CODE):
        y = run_step("conv_unrolled", [x, *stream.operands], [out], stream.attributes, isa=isa, code=code,
                     constants=CONSTANTS)[0]  # fmt: skip
        assert np.isnan(y[0, :, 2, 3]).all()
        assert np.isnan(y).sum() == 2
        assert np.nanmax(np.abs(y)) == np.float32(0.1)


def test_parts_have_the_bits_of_the_whole() -> None:
    """Groups of filters, and rows and columns of their own pads."""
    rng = np.random.default_rng(11)
    op, x = Conv((1, 1), (1, 1, 1, 1), (1, 1)), random_array(rng, (1, 9, 12, 30), DType.F32)
    w, bias = sparse(rng, 40, 9, 3, 3), random_array(rng, (40,), DType.F32)
    stream = encode(op, w, 4, [16, 12, 12])
    for isa in isas():
        how = {"isa": isa, "constants": CONSTANTS}
        inputs = [x, *stream.operands, bias]
        whole = run_step("conv_unrolled", inputs, [TensorType(DType.F32, (1, 40, 12, 30))], stream.attributes, **how)[0]
        filters = [x, *stream.operands[:3], stream.groups[:, 1:3].copy(), bias[16:]]
        boxes = [None, None, None, None, Box(stream.groups.shape, (0, 1, 0)), None, None]
        part = run_step(
            "conv_unrolled", filters, [TensorType(DType.F32, (1, 24, 12, 30))], stream.attributes, boxes=boxes, **how
        )[0]
        assert part.tobytes() == whole[:, 16:].tobytes(), isa
        own = Attribute("pads", ints=(1, 0, 0, 0))
        attributes = [own if a.name == "pads" else a for a in stream.attributes]
        corner = [x[:, :, :6, 8:28].copy(), *stream.operands, bias]
        part = run_step("conv_unrolled", corner, [TensorType(DType.F32, (1, 40, 5, 18))], attributes, **how)[0]
        assert part.tobytes() == whole[:, :, :5, 9:27].tobytes(), isa


def test_empty_operands() -> None:
    for case in empty_cases():
        if 0 not in case.w.shape[2:]:
            stream = encode(case.op, case.w, 4, None if case.w.shape[0] else [])
            check_step(
                "conv_unrolled", [case.x, *stream.operands, case.bias], [case.want], [case.output], stream.attributes,
                constants=CONSTANTS,
            )  # fmt: skip


def test_streams_that_do_not_hold_are_refused() -> None:
    rng = np.random.default_rng(12)
    x, w = random_array(rng, (1, 20, 4, 5), DType.F32), sparse(rng, 40, 20, 3, 3, zeros=0.5)
    op, out = Conv((1, 1), (1, 1, 1, 1), (1, 1)), TensorType(DType.F32, (1, 40, 4, 5))
    good = encode(op, w, 8)

    def refused(match: str, constants: tuple[int, ...] = CONSTANTS, **changed: np.ndarray) -> None:
        stream = replace(good, **changed)
        with pytest.raises(Rejected, match=match):
            run_step("conv_unrolled", [x, *stream.operands], [out], good.attributes, constants=constants)

    def groups(tile: int, group: int, field: int, value: int) -> np.ndarray:
        changed = good.groups.copy()
        changed[tile, group, field] = value
        return changed

    first = good.groups[0, 0]
    refused("filters of all groups\nexpected those of the convolution", groups=groups(0, 0, 0, 27))
    refused("filters of a group\nexpected 1 to 28, in each tile", groups=groups(1, 0, 0, 27))
    refused("batches and values of a group\nexpected ones that are stored", groups=groups(2, 1, 2, len(good.values)))
    refused("batches and values of a group\nexpected ones behind", groups=groups(0, 0, 1, -1))
    refused("batches and values of a group\nexpected ones behind", groups=groups(1, 0, 2, 0))
    refused("batches and values of a group\nexpected ones that are stored", groups=groups(0, 1, 4, -1))
    refused("batches and values of a group\nexpected ones that are stored", groups=groups(2, 1, 4, 1 << 30))
    refused("values of a group\nexpected as many as its batches tell", groups=groups(0, 0, 3, first[3] - 1))
    refused("channels of a group of filters\nexpected ones of its tile", batches=good.batches | 8)
    refused("owner of a value\nexpected a filter of its group", owners=good.owners | 31)
    refused("owners, batches and groups\nexpected constants", constants=(1, 2, 3))
    refused("shape of 'operand'", groups=good.groups[:, :, :-1].copy())
    refused("groups of filters|shape of 'operand'", groups=good.groups[:, :0].copy())
    refused("type", batches=good.batches.astype(np.int64))
