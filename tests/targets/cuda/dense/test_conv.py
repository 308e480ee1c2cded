"""Dense convolutions, executed: against float64, on random shapes, with every tile."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from packer.ir import DType
from packer.ir.ops import Activation
from targets.base import TargetError
from targets.cuda.dense import TILES, Tile, conv, tile_of
from targets.cuda.dense.pack import terms_of
from targets.cuda.layer import ConvLayer, Planes
from tests.targets.cuda import executed
from tests.targets.cuda.layers import ACTIVATIONS, any_layer, layer_of, with_halves


def check(layer: ConvLayer, tile: Tile | None = None, seed: int = 0) -> None:
    executed.check(layer, conv(layer, tile), seed, 2e-5)


def weighted(*shape: int, seed: int = 1) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


@pytest.mark.parametrize("seed", range(24))
def test_random_layers(seed: int) -> None:
    check(any_layer(seed), TILES[seed % len(TILES)] if seed % 2 else None, seed)


@pytest.mark.parametrize("tile", TILES, ids=str)
def test_tiles(tile: Tile) -> None:
    """Channels and pixels that fill tiles, and some beyond."""
    added = Planes.of(136, 13, 11, (1, 0, 1, 0))
    layer = replace(layer_of(weighted(136, 16, 3, 3), (13, 11), pads=(1,) * 4), added=added, bias=weighted(136))
    check(layer, tile)
    check(layer_of(weighted(128, 8, 1, 1), (16, 16)), tile)


@pytest.mark.parametrize("seed", range(8))
def test_halves(seed: int) -> None:
    check(with_halves(any_layer(seed), seed), seed=seed)


@pytest.mark.parametrize("activation", ACTIVATIONS, ids=lambda a: f"{a.kind}({a.alpha:g},{a.beta:g})")
def test_activations(activation: Activation) -> None:
    check(replace(layer_of(weighted(20, 9, 3, 3), (9, 8)), activation=activation))


def test_first_layers() -> None:
    check(layer_of(weighted(24, 3, 7, 7), (40, 37), (2, 2), (3, 3, 3, 3)))
    check(layer_of(weighted(20, 1, 5, 5), (28, 28), images=3))


@pytest.mark.parametrize(
    ("shape", "table"),
    [((9, 16, 1, 1), 0), ((9, 16, 3, 3), 2 * 9 + 1), ((9, 12, 3, 3), 12 * 9 + 4 + 8)],
    ids=["steps", "chunks", "terms"],
)
def test_offsets_in_memory_are_few(shape: tuple[int, ...], table: int) -> None:
    """None where chunks follow each other at equal steps, one a chunk where channels fill chunks, else one a term."""
    layer = layer_of(weighted(*shape), (9, 9), pads=(1, 1, 1, 1))
    found = terms_of(layer, 8).table
    assert (0 if found is None else len(found)) == table
    check(layer)


def test_terms_that_no_channel_uses_are_left_out() -> None:
    weights = weighted(8, 32, 3, 3)
    weights[:, ::2] = 0
    layer = layer_of(weights, (12, 12), pads=(1, 1, 1, 1))
    assert len(terms_of(layer, 8).order) == 16 * 9
    check(layer)
    weights[:] = 0
    check(replace(layer, bias=weighted(8)))


def test_small_layers_get_small_tiles() -> None:
    assert tile_of(layer_of(weighted(256, 256, 3, 3), (56, 56))).rows >= 64
    assert tile_of(layer_of(weighted(32, 32, 3, 3), (8, 8))).rows == 32
    assert tile_of(layer_of(weighted(64, 1, 3, 3), (30, 30), group=64)).rows == 16


def test_groups_too_large_for_offsets_are_refused() -> None:
    layer = layer_of(np.ones((1, 1 << 10, 1, 1), np.float32), (1 << 10, (1 << 11) - 1))
    with pytest.raises(TargetError, match="expected channels of a group in less than 4 GiB"):
        conv(layer)
    conv(replace(layer, source=replace(layer.source, dtype=DType.F16)))
