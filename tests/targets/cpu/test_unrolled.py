"""Streams that instructions are made of have exactly the weights; how convolutions are cut; parts; which targets."""

from __future__ import annotations

import math

import numpy as np
import pytest

from packer.ir import DType, Graph, Node, TensorType, Value
from packer.ir.ops import Conv
from targets.base import Form, Work, resolve
from targets.cpu.cost.conv import Geometry
from targets.cpu.unrolled import (
    FILTERS,
    Strips,
    Unrolled,
    channels_of_tile,
    group_sizes,
    strips_of,
    unrolled_stream,
    window,
)

TARGET = resolve("cpu-x86_64-avx512")


def decoded(stream: Unrolled, shape: tuple[int, ...], channels: int, of: int) -> np.ndarray:
    """The weights [K, C, taps] of a stream, read as docs/format.md says."""
    w = np.zeros((shape[0], shape[1], int(np.prod(shape[2:]))), np.float32)
    for tile, rows in enumerate(stream.groups):
        filter = 0
        for filters, batch, value, values, *of_taps in rows:
            end = value + values
            for tap, count in enumerate(of_taps):
                channel = tile * channels
                for four in stream.batches[batch : batch + count]:
                    steps = [int(four) >> 8 * i & 255 for i in range(4)]
                    at = channel + np.cumsum([step & 63 for step in steps])
                    n = sum((step >> 6) << 2 * i for i, step in enumerate(steps))
                    for owner, weight in zip(stream.owners[value:][:n], stream.values[value:][:n], strict=True):
                        assert owner % 32 < filters
                        assert w[filter + owner % 32, at[owner // 32], tap] == 0
                        assert weight != 0
                        w[filter + owner % 32, at[owner // 32], tap] = weight
                    value, channel = value + n, at[3]
                batch += count
            assert value == end
            filter += filters
        assert filter == shape[0]
    return w


@pytest.mark.parametrize("zeros", [0.0, 0.7, 0.99, 1.0])
def test_streams_have_the_weights(zeros: float) -> None:
    rng = np.random.default_rng(1)
    for shape, of, channels in (
        ((40, 9, 3, 3), 1, 4),
        ((6, 5, 1), 3, 5),
        ((90, 300, 1, 1), 1, 300),
        ((1, 1, 2, 3, 1), 1, 7),
        ((448, 3, 1, 1), 1, 2),
        ((58, 200, 3), 2, 130),
    ):
        w = (rng.standard_normal(shape) * (rng.random(shape) >= zeros)).astype(np.float32)
        for positions in (1, 1 << 20):
            sizes = group_sizes(shape[0] // of, positions)
            stream = unrolled_stream(w, channels, of, sizes)
            assert stream.groups.shape == (-(-shape[1] // channels), of * len(sizes), 4 + w[0, 0].size)
            assert np.array_equal(decoded(stream, shape, channels, of), w.reshape(*shape[:2], -1))
            if zeros == 0.7 and stream.values.size > 1000:
                assert stream.batches.nbytes < stream.values.size


def test_groups_are_full_or_even_and_end_where_cores_may_part() -> None:
    for filters in (*range(1, 200), 256, 512, 1000, 1024, 2048):
        even, full = group_sizes(filters, 49), group_sizes(filters, 112 * 112)
        assert max(even) - min(even) <= 1
        assert min(full[: window(filters) // FILTERS], default=FILTERS) == FILTERS
        assert len(full) == len(even)
        for sizes in even, full:
            assert sum(sizes) == filters
            assert max(sizes) <= FILTERS
            ends = set(np.cumsum(sizes).tolist())
            assert ends >= set(range(window(filters), filters + 1, window(filters)))
        assert window(filters) == filters or window(filters) % 16 == 0


def geometry(channels: int, size: int, kernel: int = 1, stride: int = 1, filters: int = 128) -> Geometry:
    pad = kernel // 2
    out = (size + 2 * pad - kernel) // stride + 1
    return Geometry(
        1, 1, channels, filters, (1, size, size), (1, out, out), (1, kernel, kernel), (1, stride, stride), (1, 1, 1),
        (0, pad, pad),
    )  # fmt: skip


def strips(g: Geometry, channels: int, density: float) -> Strips:
    """Where nothing lies between the planes."""
    return strips_of(g, channels, density, math.prod(g.inside))


def test_strips_and_tiles() -> None:
    read = strips(geometry(256, 56), 256, 0.1)
    assert (read.count, read.vectors, read.floats) == (1, 196, 0)  # in place, without padding
    assert strips(geometry(64, 56, 3), 64, 0.1).vectors == 196
    assert strips(geometry(64, 32, 3), 64, 0.1).floats > 0  # all channels would be in the same sets of the cache
    halves = strips(geometry(64, 112, 3, 2), 64, 0.1)
    assert halves.count > 1
    assert halves.vectors >= 56 * 56 // 16
    assert channels_of_tile(geometry(2048, 28)) == 256
    assert channels_of_tile(geometry(2048, 28, 1, 2)) == 512
    assert channels_of_tile(geometry(2048, 7)) == 1024
    assert channels_of_tile(geometry(130, 28, 3)) == 44
    assert channels_of_tile(geometry(3, 224, 7, 2)) == 3


def test_inputs_of_one_tap_are_kept_or_packed_for_several_groups() -> None:
    kept = strips(geometry(256, 56), 256, 0.1)
    assert (kept.inputs, kept.sets) == ("kept", 1)
    assert strips(geometry(256, 56, filters=1024), 256, 0.1).sets > 1  # whose instructions have no room together
    dense = strips(geometry(256, 56), 256, 0.5)
    assert (dense.inputs, dense.sets, dense.floats) == ("apart", 0, 0)  # which no few groups would have, either
    packed = strips(geometry(256, 14), 256, 0.1)  # vectors of all channels do not begin with lines of the cache
    assert (packed.inputs, packed.sets, packed.floats) == ("packed", 2, 196)
    assert strips(geometry(256, 14, filters=32), 256, 0.1).floats == 0  # too few to copy inputs for
    assert strips(geometry(512, 8, filters=512), 512, 0.1).floats == 64  # more sets than vectors are worth
    assert strips(geometry(512, 8, filters=512), 512, 0.3).floats == 0  # no group has room
    assert strips(geometry(64, 32, filters=512), 64, 0.1).floats == 1024  # each channel is whole pages
    line = strips(geometry(512, 4, filters=512), 512, 0.1)  # of the cache: each channel
    assert (line.inputs, line.floats, line.sets > 1) == ("packed", 0, True)
    strided = strips(geometry(256, 28, 1, 2), 256, 0.1)
    assert (strided.inputs, strided.floats, strided.runs) == ("packed", 2 * 196, 14)  # to lines, and from there
    assert strips(geometry(64, 56, 3), 64, 0.1).sets == 0


def test_few_values_of_many_channels_are_copied_row_by_row() -> None:
    rowed = strips(geometry(64, 28, 3, 2), 64, 0.1)
    assert (rowed.inputs, rowed.far, rowed.vectors, rowed.floats) == ("rowed", 0, 14, 4 * 15 * 16)
    for size, channels, density in ((28, 64, 0.5), (20, 64, 0.1), (28, 3, 0.1)):  # many, wasteful, few channels
        planes = strips(geometry(channels, size, 3, 2), channels, density)
        assert planes.floats == 4 * (size // 2 + 1) * (size // 2)
        assert planes.far == 4 * (channels > 3)


def convolution(filters: int = 448, group: int = 1) -> tuple[Graph, Node]:
    rng = np.random.default_rng(3)
    w = (rng.standard_normal((filters, 20, 3, 3)) * (rng.random((filters, 20, 3, 3)) < 0.1)).astype(np.float32)
    op = Conv((1, 1), (1, 1, 1, 1), (1, 1), group)
    values = [Value("x", TensorType(DType.F32, (1, 20 * group, 9, 9))), Value.constant("w", w)]
    values.append(Value("y", op.infer([value.type for value in values])[0]))
    node = Node(op, ("x", "w"), ("y",))
    return Graph("g", ("x",), ("y",), (node,), {value.name: value for value in values}), node


def form_of(graph: Graph, node: Node) -> Form:
    return next(form for form in TARGET.forms(graph, node) if form.implementation == "unrolled")


@pytest.mark.parametrize(
    ("group", "filters", "groups"),
    [(1, (0, 112), (0, 4)), (1, (112, 336), (4, 12)), (1, (224, 448), (8, 16)), (4, (112, 336), (4, 12))],
)
def test_parts_are_whole_groups(group: int, filters: tuple[int, int], groups: tuple[int, int]) -> None:
    graph, node = convolution(group=group)
    form = form_of(graph, node)
    assert form.grain == (1, 112, 1, 1)
    whole = TARGET.lower(graph, node, form)
    part = node.op.part(((0, 1), filters, (3, 6), (0, 9)), [graph.type("x"), graph.type("w")])
    step = TARGET.restrict(graph, node, form, whole, part)
    assert step.kernel == "conv_unrolled"
    table = step.inputs[4]
    assert table is not None
    assert table.box == ((0, 1), groups, (0, 13))
    assert [operand and operand.data for operand in step.inputs[1:4]] == [
        operand and operand.data for operand in whole.inputs[1:4]
    ]
    assert {"channels", "kernel"} <= {attribute.name for attribute in step.attributes}


def test_only_where_processors_have_avx512() -> None:
    graph, node = convolution()
    for name in ("cpu-x86_64", "cpu-aarch64", "cpu-jetson-tx2"):
        assert "unrolled" not in {form.implementation for form in resolve(name).forms(graph, node)}
    assert form_of(graph, node).arithmetic == "unrolled"
    halves = {form.implementation for form in resolve("cpu-x86_64-avx512", precision="f16").forms(graph, node)}
    assert "unrolled" not in halves  # which asks for weights of 16 bits


@pytest.mark.parametrize("kernel", [1, 3])
def test_more_zeros_take_less_time(kernel: int) -> None:
    graph, node = convolution()
    form = form_of(graph, node)
    types = tuple(graph.type(name or "") for name in node.inputs)

    def seconds(density: float) -> float:
        work = Work(node.op, types, (graph.type("y"),), (False, True), density)
        return TARGET.seconds(work, form, [0] * 3, 0, 1)

    times = [seconds(density) for density in (0.02, 0.05, 0.1, 0.2, 0.5)]
    assert times == sorted(times)
    assert times[4] < 6 * times[2]
