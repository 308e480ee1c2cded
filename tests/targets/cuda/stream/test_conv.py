"""Streamed convolutions, executed: against float64, on random shapes, with many settings."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from packer.ir.ops import Activation
from targets.base import TargetError
from targets.cuda.layer import ConvLayer
from targets.cuda.stream import Settings, conv, settings_of
from targets.cuda.stream.pack import stream_of
from targets.cuda.stream.tile import RUN, tile_of
from tests.targets.cuda import executed
from tests.targets.cuda.driver import counters, reset_counters
from tests.targets.cuda.layers import ACTIVATIONS, any_layer, layer_of, with_halves


def check(layer: ConvLayer, settings: Settings | None = None, seed: int = 0) -> None:
    executed.check(layer, conv(layer, settings), seed, 1e-5)


def sparse(*shape: int, density: float = 0.2, seed: int = 1) -> np.ndarray:
    rng = np.random.default_rng(seed)
    weights = rng.standard_normal(shape).astype(np.float32)
    weights[rng.random(shape) >= density] = 0
    return weights


@pytest.mark.parametrize("seed", range(30))
def test_random_layers(seed: int) -> None:
    check(any_layer(seed), seed=seed)


@pytest.mark.parametrize("density", [0, 0.01, 0.1, 0.5, 1])
@pytest.mark.parametrize("size", [(7, 7), (14, 14), (9, 31)])
def test_densities(density: float, size: tuple[int, int]) -> None:
    check(layer_of(sparse(40, 48, 3, 3, density=density), size, pads=(1, 1, 1, 1)))


@pytest.mark.parametrize("high", [1, 2, 5])
@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("depth", [1, 4, 7])
def test_settings(high: int, channels: int, depth: int) -> None:
    layer = layer_of(sparse(21, 10, 3, 2), (15, 12), (1, 2), (1, 1, 1, 1), images=2)
    for columns, groups, threads in ((6, 5, 64), (4, 9, 128), (3, 2, 96)):
        check(layer, Settings(high, columns, groups, channels, depth, threads))


@pytest.mark.parametrize(("group", "each", "depth"), [(40, 1, 1), (12, 2, 3), (5, 7, 2), (2, 40, 20)])
def test_groups(group: int, each: int, depth: int) -> None:
    """Blocks have several groups where those are small; the last block may have fewer."""
    check(layer_of(sparse(group * each, depth, 3, 3, density=0.7), (13, 10), pads=(1, 1, 1, 1), group=group))


@pytest.mark.parametrize("seed", range(8))
def test_halves(seed: int) -> None:
    check(with_halves(any_layer(seed), seed), seed=seed)


@pytest.mark.parametrize("activation", ACTIVATIONS, ids=lambda a: f"{a.kind}({a.alpha:g},{a.beta:g})")
def test_activations(activation: Activation) -> None:
    check(replace(layer_of(sparse(20, 9, 3, 3), (9, 8)), activation=activation))


def test_filters_without_weights() -> None:
    weights = sparse(30, 12, 3, 3)
    weights[::3] = 0
    check(replace(layer_of(weights, (8, 8), pads=(1, 1, 1, 1)), bias=sparse(30, density=1)))


def test_weights_crowded_in_some_channels() -> None:
    """Fewer channels are staged at a time where all their pairs together would not fit."""
    weights = sparse(64, 800, 3, 3, density=0.002)
    weights[:, 44:80] = sparse(64, 36, 3, 3, density=1)
    layer = layer_of(weights, (7, 7), pads=(1, 1, 1, 1))
    with pytest.raises(TargetError, match="expected at most 49152 bytes of shared memory, got"):
        conv(layer, settings_of(layer.geometry))
    check(layer)


def test_pairs_are_the_weights() -> None:
    layer = layer_of(sparse(64, 64, 3, 3, density=0.1), (14, 14), pads=(1, 1, 1, 1))
    settings = settings_of(layer.geometry)
    stream = stream_of(layer, settings, tile_of(layer.geometry, settings))
    assert sorted(stream.filters.reshape(-1).tolist()) == list(range(64))
    bits = np.bincount(stream.words.view(np.float32) == 0)
    weights = layer.weights[layer.weights != 0]
    assert set(weights.view(np.uint32).tolist()) <= set(stream.words.tolist())
    lists = 64 * stream.chunks
    heads = len(stream.first) * stream.chunks * (settings.filters + 4)
    assert bits.sum() <= 2 * (len(weights) + lists * (RUN - 1)) + heads


def test_few_cycles_of_shared_memory_for_a_multiply_add() -> None:
    """What these kernels wait for: one for a multiply-add, and two for a pair, which pixels share."""
    layer = layer_of(sparse(64, 64, 3, 3, density=0.3), (14, 14), pads=(1, 1, 1, 1))
    reset_counters()
    check(layer)
    found = counters()
    assert found["shared_cycles"] < 1.35 * found["instructions"]["fma.f32"][0]


def test_settings_that_need_too_much_shared_memory_are_refused() -> None:
    layer = layer_of(sparse(8, 64, 3, 3), (28, 28), pads=(1, 1, 1, 1))
    with pytest.raises(TargetError, match="expected at most 49152 bytes of shared memory, got"):
        conv(layer, Settings(4, 28, 8, 1, 64, 256))
    with pytest.raises(TargetError, match="too large for shared memory"):
        settings_of(layer_of(sparse(1, 1, 120, 120), (120, 120)).geometry)
