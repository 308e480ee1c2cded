"""remove_outside_taps: the same sums, exactly, with as few taps as pads allow."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from packer.ir import Graph, Value
from packer.ir.ops import Activation, Conv, ConvTranspose, IntegerConv, Op, QuantizedConv, ShapeError
from packer.ir.ops.window import extents
from packer.passes.remove_outside_taps import remove_outside_taps
from tests.packer.passes.sketch import Sketch

F32 = np.float32


def kernels(graph: Graph) -> list[tuple[int, ...]]:
    return [graph.type(node.inputs[1] or "").shape[2:] for node in graph.nodes]


@pytest.mark.parametrize(
    ("extent", "taps", "stride", "pads", "dilation", "kept", "left"),
    [
        ((2, 2), (9, 9), 1, (4, 4, 4, 4), 1, (3, 3), (1, 1, 1, 1)),
        ((2, 2), (5, 5), 2, (2, 2, 2, 2), 1, (2, 2), (0, 0, 0, 0)),
        ((1, 1), (3, 3), 1, (1, 1, 1, 1), 1, (1, 1), (0, 0, 0, 0)),
        ((10, 30), (3, 3), 1, (12, 12, 12, 12), 12, (1, 3), (0, 12, 0, 12)),
        ((3,), (7,), 1, (6, 2), 1, (5,), (4, 2)),
        ((1, 2, 1), (3, 3, 3), 1, (1, 1, 1, 1, 1, 1), 1, (1, 3, 1), (0, 1, 0, 0, 1, 0)),
        ((2,), (5,), 3, (2, 4), 1, (4,), (2, 3)),  # tap 1 meets nothing either, between two that do
        ((1,), (3,), 9, (10, 0), 1, (1,), (8, 0)),  # no tap meets anything
    ],
)
def test_what_stays(
    extent: tuple[int, ...],
    taps: tuple[int, ...],
    stride: int,
    pads: tuple[int, ...],
    dilation: int,
    kept: tuple[int, ...],
    left: tuple[int, ...],
) -> None:
    s = Sketch()
    op = Conv((stride,) * len(taps), pads, (dilation,) * len(taps), activation=Activation("relu"))
    s.add(op, s.input(2, 3, *extent), s.constant(4, 3, *taps), s.constant(4))
    _, after = s.check(remove_outside_taps)
    assert kernels(after) == [kept]
    (node,) = after.nodes
    assert isinstance(node.op, Conv)
    assert node.op.pads == left
    assert node.sources == ("v3",)


def _fewest(extent: int, taps: int, stride: int, begin: int, end: int, dilation: int) -> int:
    """The fewest taps in a row, all that meet any of x among them, that give as many outputs with any pads."""

    def outputs(taps: int, begin: int, end: int) -> int:
        return extents((extent,), (taps,), (stride,), (begin, end), (dilation,))[0]

    count = outputs(taps, begin, end)
    meets = [any(0 <= o * stride + k * dilation - begin < extent for o in range(count)) for k in range(taps)]
    found = [taps]
    for first, last in itertools.combinations(range(taps + 1), 2):
        if any(meets[:first]) or any(meets[last:]) or begin < first * dilation:
            continue
        for other in range(end + taps * dilation + 1):
            try:
                fits = outputs(last - first, begin - first * dilation, other) == count
            except ShapeError:
                continue
            if fits:
                found.append(last - first)
    return min(found)


@pytest.mark.parametrize("kind", [Conv, IntegerConv, QuantizedConv])
def test_any_geometry(kind: type[Op]) -> None:
    changed, depthwise, several = 0, 0, 0
    for seed in range(150):
        s = Sketch(seed)
        rank = int(s.rng.integers(1, 4))
        rows = []
        while len(rows) < rank:
            extent, taps, stride, dilation = (int(s.rng.integers(1, n)) for n in (5, 7, 4, 5))
            begin, end = (int(n) for n in s.rng.integers(0, 3 * dilation + 1, 2))
            if extent + begin + end > (taps - 1) * dilation:
                rows.append((extent, taps, stride, begin, end, dilation))
        spatial, kernel, strides, begins, ends, dilations = zip(*rows, strict=True)
        group = int(s.rng.choice([1, 3]))
        channels = 3 if kind is Conv else 1  # of each group, those of bytes multiples of 16 or one
        filters = 2 if kind is Conv or group == 1 else 1
        x = s.input(2, group * channels, *spatial, dtype=F32 if kind is Conv else np.uint8)
        w = s.constant(group * filters, channels, *kernel, dtype=F32 if kind is Conv else np.int8)
        geometry = (strides, (*begins, *ends), dilations, group)
        if kind is Conv:
            s.add(Conv(*geometry), x, w)
        elif kind is IntegerConv:
            s.add(IntegerConv(*geometry), x, w, s.given(77, np.uint8))
        else:
            scale, bias = s.given(np.full(group * filters, 0.05)), s.constant(group * filters, dtype=np.int32)
            mean = bool(s.rng.integers(2))
            s.add(QuantizedConv(*geometry, x_zero=77, y_zero=100, mean=mean), x, w, scale, bias)
        before, after = s.check(remove_outside_taps)
        fewest = tuple(_fewest(*row) for row in rows)
        assert kernels(after) == [fewest]
        assert (after is before) == (fewest == kernel)
        changed += after is not before
        depthwise += after is not before and group > 1
        several += after is not before and rank > 1
    assert changed > 50
    assert depthwise > 20
    assert several > 20


def test_weights_that_several_read() -> None:
    """Each reader has its own taps; readers of the same ones share them, others keep the whole."""
    s = Sketch()
    w = s.constant(4, 3, 3, 3)
    op = Conv((1, 1), (1,) * 4, (1, 1))
    for extent in (1, 5, 2, 1):
        s.add(op, s.input(1, 3, extent, extent), w)
    s.add(op, s.input(1, 3, 1, 5), w)
    first = s.nodes[0].outputs[0]
    s.values[f"{first}.weights"] = Value.constant(f"{first}.weights", np.full((4, 3, 1, 1), 7, F32))
    s.add(Conv((1, 1), (0,) * 4, (1, 1)), s.input(1, 3, 2, 2), f"{first}.weights")
    _, after = s.check(remove_outside_taps)
    assert kernels(after) == [(1, 1), (3, 3), (3, 3), (1, 1), (1, 3), (1, 1)]
    read = [node.inputs[1] for node in after.nodes]
    assert read[0] == read[3] == f"{first}.weights.1"
    assert read[1] == read[2] == w
    assert read[5] == f"{first}.weights"


def test_what_is_left_alone() -> None:
    """Taps that padding cannot make up for; weights of the run; infinities, of which zeros make NaN; transposes."""
    s = Sketch()
    pixel, line = s.input(1, 3, 1, 1), s.input(1, 3, 10)
    same = Conv((1, 1), (1,) * 4, (1, 1))
    s.add(Conv((1,), (0, 2), (11,)), line, s.constant(4, 3, 2))
    s.add(Conv((3,), (1, 0), (2,)), s.input(1, 3, 2), s.constant(4, 3, 2))
    s.add(same, pixel, s.input(4, 3, 3, 3))
    s.add(same, pixel, s.given(np.full((4, 3, 3, 3), np.inf)))
    s.add(ConvTranspose((1, 1), (1,) * 4, (1, 1), (0, 0)), pixel, s.constant(3, 4, 3, 3))
    before, after = s.check(remove_outside_taps)
    assert after is before
