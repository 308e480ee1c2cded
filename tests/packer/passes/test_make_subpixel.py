"""make_subpixel: transposed convolutions as convolutions of more filters, the same sums, exactly."""

from __future__ import annotations

import numpy as np
import pytest

from packer.ir import Graph
from packer.ir.ops import Activation, Conv, ConvTranspose
from packer.passes.make_subpixel import make_subpixel
from tests.packer.passes.sketch import Sketch

RELU = Activation("relu")


def kinds(graph: Graph) -> list[str]:
    return [type(node.op).__name__ for node in graph.nodes]


@pytest.mark.parametrize(
    ("strides", "group"), [((2,), 1), ((2, 2), 1), ((3, 1), 1), ((2, 4), 5), ((1, 1), 1), ((2, 3, 2), 2)], ids=str
)
def test_kernels_as_large_as_strides(strides: tuple[int, ...], group: int) -> None:
    rank, sketch = len(strides), Sketch()
    zeros, ones = (0,) * rank, (1,) * rank
    op = ConvTranspose(strides, zeros * 2, ones, zeros, group, RELU)
    x, w = sketch.input(2, 20 * group, *(4, 5, 3)[:rank]), sketch.constant(20 * group, 3, *strides)
    sketch.add(op, x, w, sketch.constant(3 * group))
    _, after = sketch.check(make_subpixel)
    assert kinds(after) == ["Conv", "Reshape", "Transpose", "Reshape"]
    conv = after.nodes[0]
    assert after.type(conv.inputs[1] or "").shape == (3 * group * int(np.prod(strides)), 20, *ones)
    assert isinstance(conv.op, Conv)
    assert conv.op.activation == RELU


@pytest.mark.parametrize("seed", range(40))
def test_groups_of_few_channels(seed: int) -> None:
    """Kernels of any extent, pads, and outputs up to the last place that a tap reaches."""
    rng, sketch = np.random.default_rng(seed), Sketch()
    rank, group, channels, filters = (int(rng.integers(a, b)) for a, b in ((1, 4), (2, 4), (1, 5), (1, 4)))
    strides, taps, inside = (tuple(int(n) for n in rng.integers(1, most, rank)) for most in (4, 6, 6))
    pads = tuple(int(rng.integers(0, n)) for n in taps * 2)
    more = [-n % s + p for n, s, p in zip(taps, strides, pads[rank:], strict=True)]  # places to the last one
    padding = tuple(int(rng.integers(0, min(n + 1, s))) for n, s in zip(more, strides, strict=True))
    op = ConvTranspose(strides, pads, (1,) * rank, padding, group)
    extents = (s * (n - 1) + k + o for s, n, k, o in zip(strides, inside, taps, padding, strict=True))
    if any(n <= a + b for n, a, b in zip(extents, pads[:rank], pads[rank:], strict=True)):
        return
    x, w = sketch.input(1, channels * group, *inside), sketch.constant(channels * group, filters, *taps)
    sketch.add(op, x, w, *([sketch.constant(filters * group)] if seed % 2 else []))
    _, after = sketch.check(make_subpixel)
    assert kinds(after)[:3] == ["Conv", "Reshape", "Transpose"]


@pytest.mark.parametrize(
    ("op", "taps"),
    [
        (ConvTranspose((2, 2), (0,) * 4, (1, 1), (0, 0)), (3, 3)),  # taps overlap
        (ConvTranspose((2, 2), (0, 0, 1, 0), (1, 1), (0, 0)), (2, 2)),
        (ConvTranspose((2, 2), (0,) * 4, (1, 1), (1, 0)), (2, 2)),
        (ConvTranspose((2, 2), (0,) * 4, (2, 1), (0, 0), 10), (2, 2)),
        (ConvTranspose((2, 2), (0,) * 4, (1, 1), (0, 1), 10), (4, 4)),  # an output that no tap reaches
        (ConvTranspose((2, 2), (0,) * 4, (1, 1), (0, 0), 2), (4, 4)),  # groups of five channels
    ],
    ids=str,
)
def test_others_stay(op: ConvTranspose, taps: tuple[int, int]) -> None:
    sketch = Sketch()
    sketch.add(op, sketch.input(1, 10, 4, 5), sketch.constant(10, 3, *taps))
    before, after = sketch.check(make_subpixel)
    assert after is before


def test_weights_that_are_computed_stay() -> None:
    sketch = Sketch()
    sketch.add(ConvTranspose((2,), (0, 0), (1,), (0,)), sketch.input(1, 10, 4), sketch.input(10, 3, 2))
    before, after = sketch.check(make_subpixel)
    assert after is before
