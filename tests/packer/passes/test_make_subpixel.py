"""make_subpixel: transposed convolutions as convolutions of more filters, the same sums, exactly."""

from __future__ import annotations

from collections import Counter

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


@pytest.mark.parametrize(("taps", "pad", "padding", "reaches"), [
    (3, 1, 1, {(1, 1): 1, (1, 2): 1, (2, 1): 1, (2, 2): 1}),
    (4, 1, 0, {(2, 2): 4}),
    (2, 0, 0, {(1, 1): 1}),
])  # fmt: skip
def test_every_phase_meets_its_own_taps(taps: int, pad: int, padding: int, reaches: dict[tuple[int, ...], int]) -> None:
    sketch = Sketch()
    op = ConvTranspose((2, 2), (pad,) * 4, (1, 1), (padding,) * 2)
    sketch.add(op, sketch.input(1, 5, 6, 7), sketch.constant(5, 3, taps, taps))
    _, after = sketch.check(make_subpixel)
    found = Counter(after.type(n.inputs[1] or "").shape[2:] for n in after.nodes if isinstance(n.op, Conv))
    assert found == reaches


def test_neighbouring_phases_that_meet_the_same_inputs_are_one_convolution() -> None:
    sketch = Sketch()
    op = ConvTranspose((8,), (4, 4), (1,), (0,))
    sketch.add(op, sketch.input(1, 6, 9), sketch.constant(6, 5, 16))
    _, after = sketch.check(make_subpixel)
    assert kinds(after) == ["Conv", "Conv", "Concat", "Reshape", "Transpose", "Reshape"]
    assert [after.type(node.inputs[1] or "").shape for node in after.nodes[:2]] == [(20, 6, 2)] * 2


@pytest.mark.parametrize(("side", "zeros", "taps", "joined"), [
    (12, 0, 4, True), (12, 0, 5, True), (12, 0, 3, False), (12, 50, 4, False), (9, 0, 4, False)
])  # fmt: skip
def test_one_convolution_of_three_by_three_taps_for_dense_weights(
    side: int, zeros: int, taps: int, joined: bool
) -> None:
    sketch, weights = Sketch(), np.arange(1, 15 * taps**2 + 1).reshape(5, 3, taps, taps) % 7 + 1
    weights.flat[: weights.size * zeros // 100] = 0
    op = ConvTranspose((2, 2), ((taps - 1) // 2,) * 4, (1, 1), (taps % 2,) * 2)
    sketch.add(op, sketch.input(1, 5, side, side), sketch.given(weights))
    _, after = sketch.check(make_subpixel)
    shapes = [after.type(node.inputs[1] or "").shape for node in after.nodes if isinstance(node.op, Conv)]
    assert (shapes == [(12, 5, 3, 3)]) == joined


@pytest.mark.parametrize("seed", range(120))
def test_any(seed: int) -> None:
    """Kernels of any extent, strides with and without taps, pads, groups, outputs that no tap reaches."""
    rng, sketch = np.random.default_rng(seed), Sketch()
    rank, group, channels, filters = (int(rng.integers(a, b)) for a, b in ((1, 4), (1, 4), (1, 5), (1, 4)))
    strides, taps, inside = (tuple(int(n) for n in rng.integers(1, 6, rank)) for _ in range(3))
    padding = tuple(int(n) for n in rng.integers(0, 4, rank))
    most = [s * (n - 1) + k + o - 1 for s, n, k, o in zip(strides, inside, taps, padding, strict=True)]
    begins = [int(rng.integers(0, min(n, k + 1) + 1)) for n, k in zip(most, taps, strict=True)]
    ends = [int(rng.integers(0, min(n - b, k + 1) + 1)) for n, b, k in zip(most, begins, taps, strict=True)]
    op = ConvTranspose(strides, (*begins, *ends), (1,) * rank, padding, group, RELU if seed % 3 else None)
    x, w = sketch.input(2, channels * group, *inside), sketch.constant(channels * group, filters, *taps)
    sketch.add(op, x, w, *([sketch.constant(filters * group)] if seed % 2 else []))
    _, after = sketch.check(make_subpixel)
    assert "ConvTranspose" not in kinds(after)


def test_dilated_ones_stay() -> None:
    sketch = Sketch()
    op = ConvTranspose((2, 2), (0,) * 4, (2, 1), (0, 0), 10)
    sketch.add(op, sketch.input(1, 10, 4, 5), sketch.constant(10, 3, 2, 2))
    before, after = sketch.check(make_subpixel)
    assert after is before


def test_weights_that_are_computed_stay() -> None:
    sketch = Sketch()
    sketch.add(ConvTranspose((2,), (0, 0), (1,), (0,)), sketch.input(1, 10, 4), sketch.input(10, 3, 2))
    before, after = sketch.check(make_subpixel)
    assert after is before
