"""make_patches: the same sums, exactly, as convolutions of one tap where patches are apart and weights are sparse."""

from __future__ import annotations

from math import prod

import numpy as np
import pytest

from packer.ir import Graph
from packer.ir.ops import Activation, Conv
from packer.passes.make_patches import make_patches
from tests.packer.passes.sketch import Sketch

RELU = Activation("relu")


def kinds(graph: Graph) -> list[str]:
    return [type(node.op).__name__ for node in graph.nodes]


def sparse(sketch: Sketch, *shape: int, zeros: float = 0.6) -> str:
    data = sketch.rng.integers(1, 9, shape)
    data.reshape(-1)[sketch.rng.permutation(data.size)[: round(zeros * data.size)]] = 0
    return sketch.given(data)


def convolution(*strides: int, group: int = 1) -> Conv:
    rank = len(strides)
    return Conv(strides, (0,) * (2 * rank), (1,) * rank, group, RELU)


@pytest.mark.parametrize("more", [0, 3])
@pytest.mark.parametrize("strides", [(16,), (4, 4), (5, 7), (1, 16), (2, 3, 4)], ids=str)
def test_positions_become_channels(strides: tuple[int, ...], more: int) -> None:
    """Of patches that fill the image, or leave some of it."""
    sketch = Sketch()
    extents = [3 * n + min(more, n - 1) for n in strides]
    x, w = sketch.input(2, 5, *extents), sparse(sketch, 7, 5, *strides)
    y = sketch.add(convolution(*strides), x, w, sketch.constant(7))
    sketch.add(convolution(*strides), x, w, sketch.constant(7), y)
    _, after = sketch.check(make_patches)
    moved = (["Slice"] if more else []) + ["Reshape", "Transpose", "Reshape", "Conv"]
    assert kinds(after) == moved * 2
    conv = after.nodes[-1]
    assert after.type(conv.inputs[1] or "").shape == (7, 5 * prod(strides), *(1 for _ in strides))
    assert isinstance(conv.op, Conv)
    assert conv.op.activation == RELU


@pytest.mark.parametrize(
    ("op", "taps", "zeros"),
    [
        (convolution(3, 5), (3, 5), 0.9),  # few taps
        (convolution(4, 4), (4, 4), 0.4),
        (convolution(4, 4), (4, 5), 0.9),  # they overlap
        (convolution(4, 5), (4, 4), 0.9),
        (convolution(4, 4, group=2), (4, 4), 0.9),
        (Conv((4, 4), (0, 0, 1, 0), (1, 1)), (4, 4), 0.9),
        (Conv((4, 4), (0, 0, 0, 0), (1, 2)), (4, 4), 0.9),
    ],
    ids=str,
)
def test_others_stay(op: Conv, taps: tuple[int, int], zeros: float) -> None:
    sketch = Sketch()
    sketch.add(op, sketch.input(1, 6, 16, 20), sparse(sketch, 8, 6 // op.group, *taps, zeros=zeros))
    before, after = sketch.check(make_patches)
    assert after is before


def test_weights_that_are_computed_stay() -> None:
    sketch = Sketch()
    x, w = sketch.input(1, 3, 16, 16), sketch.input(8, 3, 4, 4)
    sketch.inputs[w] *= np.float32(0)
    sketch.add(convolution(4, 4), x, w)
    before, after = sketch.check(make_patches)
    assert after is before
