"""Streams of non-zeros: walking them as docs/format.md tells gives the operator's reference."""

from __future__ import annotations

import itertools
from dataclasses import replace
from math import prod

import numpy as np
import pytest

from packer.ir import SINGLE, Block, DType, Graph, TensorType, Value
from packer.ir.ops import Conv
from targets.base import Form, Layout, Work, resolve
from targets.cpu.cost.conv import Geometry
from targets.cpu.sparse import UNSORTED, Order, Stream, conv_stream, matrix_stream, taps_of
from targets.cpu.tiling import Engine, cycles, tiling


def pruned(rng: np.random.Generator, shape: tuple[int, ...], density: float) -> np.ndarray:
    weights = rng.standard_normal(shape).astype(np.float32)
    weights[rng.random(shape) >= density] = 0
    return weights


def check_starts(stream: Stream, block: Block = SINGLE, ahead: int = 0) -> None:
    """The entries of every block of 16 filters begin where its start says, tile by tile, and there are no others.
    `ahead`: bytes before a row's counts."""
    tiles, rows = stream.counts.shape[:2]
    at = 0
    for tile in range(tiles):
        for row in range(rows):
            if row * block.filters % 16 == 0:
                assert stream.starts[tile, row * block.filters // 16] == at
            at += int(np.atleast_1d(stream.counts[tile, row])[ahead:].sum(dtype=np.int64))
    assert stream.starts.shape == (tiles, -(-rows * block.filters // 16))
    assert at * block.size == len(stream.values) == len(stream.indices) * block.size


def walk(
    op: Conv, x: np.ndarray, kernel: tuple[int, ...], stream: Stream, channels: int, rows: int, block: Block
) -> np.ndarray:
    """One image [C,D,H,W] convolved strip by strip, from lines cut out of a padded copy; row by row if taps are
    spread (no rows)."""
    spread, rows = rows == 0, max(rows, 1)
    (stride, pace), (dilation, gap) = op.strides[1:], op.dilations[1:]
    spans = (
        n + a + b - (k - 1) * d
        for n, a, b, k, d in zip(x.shape[1:], op.pads[:3], op.pads[3:], kernel, op.dilations, strict=True)
    )
    depth, height, width = ((span - 1) // s + 1 for span, s in zip(spans, op.strides, strict=True))
    filters, each = stream.counts.shape[1] * block.filters, x.shape[0] // op.group
    down, right = [y * dilation for y in range(kernel[1])], [c * gap for c in range(kernel[2])]
    reach = max(c // pace for c in right)
    room = [(p, q + (rows + reach + 4) * s) for p, q, s in zip(op.pads[:3], op.pads[3:], op.strides, strict=True)]
    padded = np.pad(x, [(0, 0), *room]).astype(np.float64)
    shifts = [0] if spread else sorted({c // pace for c in right}, reverse=True)
    y = np.zeros((filters, depth, height, width))
    for z, first in itertools.product(range(depth), range(0, height, rows)):
        lines = []
        for tap in range(kernel[0]):
            plane = padded[:, z * op.strides[0] + tap * op.dilations[0]]
            if spread:
                lines += [plane[:, first * stride + d, c::pace][:, :width] for d in down for c in right]
                continue
            for phase in sorted({d % stride for d in down}):
                count = rows + max(d // stride for d in down if d % stride == phase)
                for column in sorted({c % pace for c in right}):
                    for line in range(count):
                        row = plane[:, (first + line) * stride + phase]
                        lines.append(row[:, column::pace][:, : width + reach])
        strip = np.stack(lines, 1)  # [C, lines, columns]
        at = 0
        numbered = stream.counts.shape[2] > len(shifts)
        for tile, stored in itertools.product(range(stream.counts.shape[0]), range(0, filters, block.filters)):
            counts = stream.counts[tile, stored // block.filters].tolist()
            within = stored % (filters // op.group)  # its group
            k = stored - within % 32 + counts.pop(0) * block.filters if numbered else stored
            begin = k // (filters // op.group) * each + tile * channels
            taken = min(channels, each - tile * channels)
            own = strip[begin : begin + taken].reshape(-1, strip.shape[2])
            for group, count in enumerate(counts):
                indices = stream.indices[at : at + count].astype(int)
                indices = np.cumsum(indices) if channels * len(own) // taken > 256 else indices
                assert (np.diff(indices) >= 0).all()
                values = stream.values.reshape(-1, *block)[at : at + count]
                for value, index in zip(values, indices, strict=True):
                    for i in range(min(rows, height - first)):
                        of_channels = own[index + i :: len(own) // taken][: block.channels]
                        found = of_channels[:, shifts[group] : shifts[group] + width]
                        y[k : k + block.filters, z, first + i] += value @ found
                at += count
    return y


@pytest.mark.parametrize("block", [SINGLE, Block(4, 1), Block(1, 4)])
@pytest.mark.parametrize("seed", range(25))
def test_walking_a_stream_convolves(seed: int, block: Block) -> None:
    rng = np.random.default_rng(seed)
    kernel, strides, dilations = (tuple(int(n) for n in rng.integers(1, most, 3)) for most in (4, 4, 3))
    pads = tuple(int(n) for n in rng.integers(0, 3, 6))
    group, rows = int(rng.integers(1, 3)), int(rng.integers(0, 4))
    op = Conv(strides, pads, dilations, group)
    inside = tuple((k - 1) * d + 1 + int(n) for k, d, n in zip(kernel, dilations, rng.integers(0, 7, 3), strict=True))
    each = 5 if block.channels == 1 else 12
    x = rng.standard_normal((1, each * group, *inside))
    w = pruned(
        rng, (group * int(rng.choice([4, 20]) if block.filters == 4 else rng.choice([3, 20])), each, *kernel), 0.3
    )
    taps = taps_of(kernel, strides, dilations, rows)
    channels = min(int(rng.integers(1, 6)), 2048 // taps.lines) if block.channels == 1 else 4 * int(rng.integers(1, 3))
    order = (UNSORTED, Order(True), Order(True, 4))[seed % 3]
    stream = conv_stream(w, taps, channels, block, order, group)
    assert stream.indices.dtype == np.uint8
    check_starts(stream, block, int(order.sorted))
    if order.multiple == 1 and channels * taps.lines <= 256:
        assert stream.values.reshape(-1, block.size).any(1).all(), "no entry is all zeros"
    want = op.reference(x, w.astype(np.float64))[0][0]
    np.testing.assert_allclose(walk(op, x[0], kernel, stream, channels, rows, block), want, atol=1e-9)


def test_sorted_rows_have_equal_neighbours() -> None:
    """Rows of 32 filters of a group ascend by their counts, which are filled up with zeros if they are to."""
    rng = np.random.default_rng(2)
    w, taps = pruned(rng, (200, 20, 3, 3), 0.1), taps_of((3, 3), (1, 1), (1, 1), 4)
    for multiple in (1, 4):
        stream = conv_stream(w, taps, 20, SINGLE, Order(True, multiple), 2)
        numbers, counts = stream.counts[0, :, 0], stream.counts[0, :, 1:].astype(int)
        for first in (0, 100):
            for begin in range(first, first + 100, 32):
                own = slice(begin, min(begin + 32, first + 100))
                assert sorted(numbers[own]) == list(range(own.stop - begin))
                assert sorted(map(tuple, counts[own])) == list(map(tuple, counts[own]))
        assert (counts % multiple == 0).all()
        assert np.count_nonzero(stream.values) == np.count_nonzero(w)
        assert stream.values.size == (np.count_nonzero(w) if multiple == 1 else counts.sum())


def test_far_lines_are_bridged() -> None:
    w = np.zeros((1, 250, 1, 3), np.float32)
    w[0, [0, 100, 249], 0, 1] = 1, 2, 3
    stream = conv_stream(w, taps_of((1, 3), (1, 1), (1, 1), 4), 250)
    assert np.cumsum(stream.indices.astype(int))[np.flatnonzero(stream.values)].tolist() == [0, 400, 996]
    assert stream.counts.tolist() == [[[0, 3 + 1 + 2, 0]]]


def test_fewer_dimensions_are_the_last_ones() -> None:
    assert taps_of((3,), (2,), (1,), 1) == taps_of((1, 1, 3), (1, 1, 2), (1, 1, 1), 1)
    assert taps_of((3, 3), (2, 1), (1, 2), 4) == taps_of((1, 3, 3), (5, 2, 1), (7, 1, 2), 4)
    assert taps_of((3, 3), (1, 1), (1, 1), 2).shifts == (2, 1, 0)
    assert taps_of((3, 3), (2, 2), (1, 1), 2).shifts == (1, 0)
    assert taps_of((1, 1), (1, 1), (1, 1), 1).lines == 1


@pytest.mark.parametrize("block", [SINGLE, Block(4, 1), Block(1, 4)], ids=str)
@pytest.mark.parametrize("shape", [(1, 1), (300, 7), (300, 8), (5000, 40), (9000, 17), (9000, 20), (0, 4), (4, 0)])
@pytest.mark.parametrize("density", [0.0, 0.001, 0.1, 1.0])
def test_a_stream_gives_its_matrix_back(shape: tuple[int, int], density: float, block: Block) -> None:
    if shape[0] % block.channels or shape[1] % block.filters:
        return
    matrix = pruned(np.random.default_rng(1), shape, density)
    stream = matrix_stream(matrix, block)
    check_starts(stream, block)
    found, at = np.zeros_like(matrix), 0
    for tile, row in itertools.product(range(stream.counts.shape[0]), range(stream.counts.shape[1])):
        place, column = tile * 4096 // block.channels, row * block.filters
        for _ in range(stream.counts[tile, row]):
            place += int(stream.indices[at])
            values = stream.values[at * block.size : (at + 1) * block.size].reshape(block.channels, block.filters)
            line = place * block.channels
            found[line : line + block.channels, column : column + block.filters] += values
            at += 1
    np.testing.assert_array_equal(found, matrix)
    assert len(stream.indices) <= np.count_nonzero(matrix) + matrix.size / 255
    if block.size > 1 and density == 0.1:  # longer gaps are bridged, by entries of zero
        assert len(stream.values) <= 4 * np.count_nonzero(matrix)


ENGINES = {lanes: Engine(lanes, 1.0, 4.0, 32768) for lanes in (4, 8, 16)}
GEOMETRIES = [
    Geometry(1, 1, c, k, (1, n, n), (1, -(-n // s), -(-n // s)), (1, f, f), (1, s, s), (1, 1, 1), (0, f // 2, f // 2))
    for c, k, n, f, s in [
        (64, 64, 56, 1, 1), (2048, 512, 7, 1, 1), (64, 64, 56, 3, 1), (128, 128, 28, 3, 1), (512, 512, 7, 3, 1),
        (256, 256, 28, 3, 2), (256, 512, 56, 1, 2), (3, 64, 224, 7, 2), (1, 8, 4000, 3, 1), (512, 512, 1, 1, 1),
    ]
]  # fmt: skip


@pytest.mark.parametrize("g", GEOMETRIES)
@pytest.mark.parametrize("lanes", [4, 8, 16])
@pytest.mark.parametrize("block", [SINGLE, Block(4, 1), Block(1, 4)])
def test_tiles_fit(g: Geometry, lanes: int, block: Block) -> None:
    if g.channels % block.channels:
        return
    found = tiling(g, 0.1, ENGINES[lanes], block)
    assert found is not None
    taps = taps_of(g.kernel, g.stride, g.dilation, found.rows)
    assert (prod(g.kernel) == 1) <= found.rows <= g.out[1]
    assert 1 <= found.channels <= g.channels
    narrow = g.out[2] <= 14 or block.filters == 4  # strips of few floats
    assert found.channels * taps.lines <= (2048 if narrow and g.kernel[2] > 1 else 256)
    assert found.channels % block.channels == 0
    assert all(found.channels // block.channels * taps.group.count(i) < 256 for i in range(len(taps.shifts)))
    sparser, denser = (cycles(g, density, ENGINES[lanes], found) for density in (0.1, 0.2))
    assert denser > sparser


def test_blocks_of_channels_need_lines_of_four() -> None:
    """A kernel so high that bytes cannot tell four channels' lines apart has single entries."""
    for height, block in ((60, Block(1, 4)), (70, SINGLE)):
        g = Geometry(1, 1, 8, 8, (1, 80, 40), (1, 81 - height, 40), (1, height, 1), (1, 1, 1), (1, 1, 1), (0, 0, 0))
        found = tiling(g, 0.1, ENGINES[16], Block(1, 4))
        assert found is not None
        assert found.block == block


def test_gaps_reach_the_next_block() -> None:
    """A group has taps in few of a channel's many lines; those of the next block are farther than an index goes."""
    for block in (SINGLE, Block(1, 4)):
        g = Geometry(1, 1, 64, 64, (3, 14, 14), (1, 7, 7), (3, 3, 3), (1, 2, 2), (1, 1, 1), (0, 1, 1))
        found = tiling(g, 0.1, Engine(16, 2.0, 4.0, 49152), block)
        assert found is not None
        taps, w = taps_of(g.kernel, g.stride, g.dilation, found.rows), np.zeros((64, 64, *g.kernel), np.float32)
        w[:, :: found.channels] = w[:, found.channels - 1 :: found.channels] = 1
        stream = conv_stream(w, taps, found.channels, found.block)
        assert stream.values.sum() == w.sum()


def test_a_small_cache_holds_some_tile() -> None:
    g = Geometry(1, 1, 512, 64, (1, 4, 4), (1, 4, 4), (1, 3, 3), (1, 1, 1), (1, 12, 12), (0, 12, 12))
    assert tiling(g, 0.1, replace(ENGINES[4], l1_bytes=16384), SINGLE) is not None


@pytest.mark.parametrize(("zero", "found"), [(0, Block(1, 4)), (1, Block(1, 4)), (9, SINGLE)])
def test_zeros_in_blocks(zero: int, found: Block) -> None:
    """A few are stored for the sake of blocks: up to one in fifty."""
    weights = np.zeros((10, 40, 1, 1), np.float32)
    weights[:, 12:20] = 1
    weights[0].reshape(-1)[12:20] = 0
    weights[1:].reshape(-1)[np.flatnonzero(weights[1:])[: 5 * zero : 5]] = 0
    graph = Graph("", (), (), (), {"w": Value.constant("w", weights)})
    assert graph.block("w", 1) == found


@pytest.mark.parametrize(("zero", "found"), [(0, True), (14, True), (15, False)])
@pytest.mark.parametrize("block", [Block(4, 1), Block(1, 4)], ids=str)
def test_zeros_in_blocks_of_a_matrix(block: Block, zero: int, found: bool) -> None:
    """A sixth more than the non-zeros may be stored, which takes no more bytes: of 100 elements 14 may be zero."""
    present = np.zeros((20, 20), np.float32)  # [inputs, columns], in blocks of 4x4
    present.reshape(-1)[:: 400 // 25] = 1
    matrix = present.repeat(block.channels, 0).repeat(block.filters, 1)
    assert np.count_nonzero(matrix) == 100
    line, column = np.nonzero(present)
    matrix[line[:zero] * block.channels, column[:zero] * block.filters] = 0
    graph = Graph("", (), (), (), {"w": Value.constant("w", matrix)})
    assert graph.block("w", 1) == (block if found else SINGLE)


def test_blocks_of_a_matrix_fill_it() -> None:
    graph = Graph("", (), (), (), {"w": Value.constant("w", np.repeat(np.eye(5, 7, dtype=np.float32), 4, axis=0))})
    assert graph.block("w", 1) == Block(1, 4)
    graph = Graph("", (), (), (), {"w": Value.constant("w", np.repeat(np.eye(5, 7, dtype=np.float32), 4, axis=0)[:18])})
    assert graph.block("w", 1) == SINGLE


@pytest.mark.parametrize("filters", [256, 512])
def test_halves_take_half(filters: int) -> None:
    """Strips are no higher than the rows of a core if two cores share a small image."""
    g = Geometry(1, 1, 256, filters, (1, 14, 14), (1, 14, 14), (1, 3, 3), (1, 1, 1), (1, 1, 1), (0, 1, 1))
    found = tiling(g, 0.1, ENGINES[16], SINGLE)
    assert found is not None
    assert found.rows <= 7
    half = cycles(replace(g, out=(1, 7, 14)), 0.1, ENGINES[16], found)
    assert 2 * half < 1.03 * cycles(g, 0.1, ENGINES[16], found)


@pytest.mark.parametrize(("dilation", "spread"), [(1, False), (6, True), (12, True), (32, True), (200, True)])
def test_taps_that_lie_apart_are_spread(dilation: int, spread: bool) -> None:
    d = (1, dilation, dilation)
    g = Geometry(1, 1, 512, 256, (1, 33, 33), (1, 33, 33), (1, 3, 3), (1, 1, 1), d, (0, dilation, dilation))
    found = tiling(g, 0.1, ENGINES[16], SINGLE)
    assert found is not None
    assert (found.rows == 0) == spread


def test_parts_are_tiled_like_the_whole() -> None:
    """A strip of seven rows is as much work for the four rows of a part as for all."""
    op, sides = Conv((2, 2), (1, 1, 1, 1), (1, 1)), ((1, 64, 14, 14), (64, 64, 3, 3), (1, 64, 7, 7))
    x, w, y = (TensorType(DType.F32, shape) for shape in sides)
    whole = Work(op, (x, w), (y,), (False, True), 0.1)
    of = [TensorType(DType.F32, shape) for shape in ((1, 64, 8, 14), (1, 64, 4, 7))]
    part = Work(Conv((2, 2), (1, 1, 0, 1), (1, 1)), (of[0], w), (of[1],), (False, True), 0.1)
    target = resolve("cpu")
    form = Form((Layout.PLANAR,) * 2, (Layout.PLANAR,), "sparse")
    alone, cut, all_rows = (
        target.seconds(work, form, (0, 0, 0), 0, 1) for work in (part, replace(part, of=whole), whole)
    )
    assert alone < cut <= all_rows


def test_a_window_that_bytes_cannot_tell() -> None:
    g = Geometry(1, 1, 1, 1, (1, 400, 1), (1, 100, 1), (1, 301, 1), (1, 1, 1), (1, 1, 1), (0, 0, 0))
    assert tiling(g, 0.1, ENGINES[16], SINGLE) is None
