"""Direct emission: each weight that is not zero is one multiply-add with that weight, and nothing else is."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest

from packer.ir import DType
from packer.ir.ops import Activation
from targets.base import TargetError
from targets.cuda.emit import emit, settings_of
from targets.cuda.emit.address import Cursor, Pointer, _reciprocal
from targets.cuda.emit.ptx import Builder, f32
from targets.cuda.kernel import Kernel
from targets.cuda.layer import ConvLayer, Planes
from tests.targets.cuda.layers import layer_of, random_layer
from tests.targets.cuda.symbolic import multiply_adds


def expected(weights: np.ndarray) -> dict[tuple[int, ...], str]:
    return {tuple(map(int, place)): f32(weights[tuple(place)]) for place in np.argwhere(weights)}


def found(layer: ConvLayer, kernels: list[Kernel]) -> dict[tuple[int, ...], str]:
    tile = settings_of(layer).tile
    together: dict[tuple[int, ...], str] = {}
    for kernel in kernels:
        own = multiply_adds(kernel, layer, tile)
        assert len(own) == kernel.multiplies == kernel.ptx.count("fma.rn.f32")
        assert not together.keys() & own.keys()
        together |= own
    return together


@pytest.mark.parametrize("seed", range(40))
def test_multiply_adds_are_the_weights(seed: int) -> None:
    layer = random_layer(seed)
    assert found(layer, emit(layer)) == expected(layer.weights)


@pytest.mark.parametrize("seed", range(5, 15))
def test_entries_of_few_multiply_adds_hold_all(seed: int) -> None:
    layer = random_layer(seed)
    settings = replace(settings_of(layer), channels=3, multiplies=40)
    kernels = emit(layer, settings)
    assert found(layer, kernels) == expected(layer.weights)
    assert all(kernel.multiplies <= 40 or len(kernel.channels) == 1 for kernel in kernels)
    assert sorted(c for kernel in kernels for own in kernel.channels for c in own) == list(range(len(layer.weights)))
    assert all(kernel.grid[2] == len(kernel.channels) for kernel in kernels)


@pytest.mark.parametrize("window", [1, 3])
def test_planes_farther_than_an_offset_reaches(window: int) -> None:
    rng = np.random.default_rng(window)
    weights = rng.standard_normal((50, 50, window, window)).astype(np.float32)
    weights[rng.random(weights.shape) < 0.9] = 0
    layer = layer_of(weights, (224, 224), pads=(window // 2,) * 4)
    assert 50 * 4 * layer.source.plane > 1 << 23
    kernels = emit(layer)
    assert found(layer, kernels) == expected(weights)
    offsets = [int(n) for kernel in kernels for n in re.findall(r"global[.a-z0-9]* .*?\+(\d+)\]", kernel.ptx)]
    assert max(offsets) < 1 << 23


def test_same_layer_gives_same_text() -> None:
    assert emit(random_layer(7)) == emit(random_layer(7))


def test_bias_begins_the_sums_and_rows_of_zeros_are_stored() -> None:
    weights = np.zeros((3, 2, 3, 3), np.float32)
    layer = replace(layer_of(weights, (9, 9)), bias=np.float32([1.5, -2, 0]))
    (kernel,) = emit(layer)
    assert kernel.multiplies == 0
    assert "bar.sync" not in kernel.ptx
    assert "ld.global" not in kernel.ptx
    assert [line for line in kernel.ptx.splitlines() if "mov.f32" in line] == [
        f"mov.f32 %f{i}, {f32(b)};" for i, b in enumerate((1.5, -2, 0))
    ]
    assert kernel.ptx.count("st.global.f32") == 3


def test_one_barrier_a_chunk() -> None:
    layer = layer_of(np.ones((4, 20, 3, 3), np.float32), (16, 16))
    tile = settings_of(layer).tile
    assert tile is not None
    (kernel,) = emit(layer)
    assert kernel.ptx.count("bar.sync") == -(-20 // tile.chunk)


def test_channels_that_no_weight_reads_are_not_loaded() -> None:
    weights = np.ones((4, 8, 1, 1), np.float32)
    weights[:, [1, 2, 5]] = 0
    (kernel,) = emit(layer_of(weights, (16, 16)))
    assert kernel.ptx.count("ld.global") == 5


def test_loads_stay_within_planes_and_slack() -> None:
    for seed in range(1, 40):
        layer = random_layer(seed)
        tile = settings_of(layer).tile
        if tile is None:
            continue
        down, across = tile.grid(layer)
        lines = (down - 1) * tile.rows * layer.strides[0] + tile.passes * tile.step
        columns = (across - 1) * tile.columns * layer.strides[1] + tile.line
        begin = layer.source.origin - layer.pads[0] * layer.source.pitch - layer.pads[1]
        last = begin + (lines - 1) * layer.source.pitch + columns - 1
        assert last < layer.source.plane + tile.slack(layer)
        # all that counts lies in a line of the plane
        assert layer.source.left - layer.pads[1] + (layer.target.width - 1) * layer.strides[1] < layer.source.pitch


def test_residual_is_added_before_the_activation() -> None:
    layer = layer_of(np.ones((2, 1, 1, 1), np.float32), (8, 8))
    added = Planes.of(2, 8, 8)
    (kernel,) = emit(replace(layer, added=added))
    assert re.findall(r"\.param \.u64 (\w+)", kernel.ptx) == ["x", "residual", "y"]
    order = re.findall(r"fma|add\.rn\.f32|max\.f32|st\.global", kernel.ptx)
    assert order == ["fma", "fma", "add.rn.f32", "max.f32", "st.global", "add.rn.f32", "max.f32", "st.global"]


def test_unknown_activations_are_refused() -> None:
    layer = replace(random_layer(3), activation=Activation("relish"))
    with pytest.raises(TargetError, match="relish"):
        emit(layer)


@pytest.mark.parametrize("side", range(4))
def test_halos_smaller_than_pads_are_refused(side: int) -> None:
    layer = layer_of(np.ones((1, 1, 3, 3), np.float32), (8, 7), pads=(1, 1, 1, 1))
    halo = [1, 1, 1, 1]
    halo[side] = 0
    with pytest.raises(TargetError, match="halo"):
        replace(layer, source=Planes.of(1, 8, 7, (halo[0], halo[1], halo[2], halo[3])))


def test_outputs_of_another_size_are_refused() -> None:
    layer = layer_of(np.ones((1, 1, 3, 3), np.float32), (8, 8))
    with pytest.raises(TargetError, match="expected 6, got 7"):
        replace(layer, target=Planes.of(1, 7, 6))


def test_cursors_move_on_where_an_offset_would_not_fit() -> None:
    b = Builder()
    cursor = Cursor(b, Pointer("%d9", "%d8", "%r9", 4))
    assert cursor.at(8_000_000) == "[%d9+8000000]"
    assert cursor.at(9_000_000) == "[%d1+0]"
    assert cursor.at(9_000_004) == "[%d1+4]"
    assert "add.u32 %r0, %r9, 2250000;\nmul.wide.u32 %d0, %r0, 4;\nadd.s64 %d1, %d8, %d0;" in b.entry("e", ["x"], 32)


def test_cursors_count_in_elements_of_their_size() -> None:
    b = Builder()
    cursor = Cursor(b, Pointer("%d9", "%d8", "%r9", 2))
    assert cursor.at(9_000_002) == "[%d1+0]"
    assert "add.u32 %r0, %r9, 4500001;\nmul.wide.u32 %d0, %r0, 2;" in b.entry("e", ["x"], 32)


def test_integers_are_refused() -> None:
    layer = layer_of(np.ones((1, 1, 3, 3), np.float32), (8, 8))
    with pytest.raises(TargetError, match="expected activations of f32 or f16, got i8"):
        replace(layer, source=replace(layer.source, dtype=DType.I8))


@pytest.mark.parametrize("limit", [1, 2, 33, 96, 128, 129, 5000, 65_537, 802_816, 1 << 31])
def test_reciprocals_divide_exactly(limit: int) -> None:
    for by in (*range(3, 260), 784, 3136, 12_544, 50_176, 65_535, 1_000_003):
        if by & (by - 1) == 0 or limit <= by:
            continue
        multiplier, shift = _reciprocal(by, limit)
        assert multiplier < 1 << 32
        edges = {v for q in (1, 2, 3, limit // by - 1, limit // by) for v in (q * by - 1, q * by, q * by + 1)}
        for value in (v for v in {*edges, limit - 1} if 0 <= v < limit):
            assert value * multiplier >> shift == value // by
            assert shift >= 32 or value * multiplier < 1 << 32


def test_immediates_are_exact() -> None:
    assert f32(1) == "0f3F800000"
    assert f32(np.float32(-0.1)) == "0fBDCCCCCD"
