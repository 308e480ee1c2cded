"""Tiles: what is staged covers what the threads read, without conflicts of banks."""

from __future__ import annotations

import numpy as np
import pytest

from targets.base import TargetError
from targets.cuda.tiling import Tile, choose, tile_of
from tests.targets.cuda.layers import layer_of, random_layer


def staged_places(tile: Tile, stride: int) -> dict[tuple[int, int], int]:
    """Line and column of the input -> place in a channel of shared memory, as the threads of the block stage them."""
    found = {}
    for thread in range(tile.threads):
        line, column = divmod(thread, tile.line)
        line = min(line, tile.step - 1)
        for p in range(tile.passes):
            at = (line + p * tile.step) * tile.pitch + column % stride * tile.phase + column // stride
            assert found.setdefault((line + p * tile.step, column), at) == at
    return found


@pytest.mark.parametrize("seed", range(30))
def test_windows_find_their_elements(seed: int) -> None:
    layer = random_layer(seed)
    tile = choose(layer.geometry, 64)
    down, across = layer.strides
    places = staged_places(tile, across)
    assert max(places.values()) < tile.channel
    assert len(set(places.values())) == len(places)
    for row in range(tile.rows):
        for column in range(tile.columns):
            begin = row * down * tile.pitch + column
            for r in range(layer.kernel[0]):
                for s in range(layer.kernel[1]):
                    on, residue = divmod(s * layer.dilations[1], across)
                    at = begin + r * layer.dilations[0] * tile.pitch + residue * tile.phase + on
                    element = row * down + r * layer.dilations[0], column * across + s * layer.dilations[1]
                    assert places[element] == at


def test_lanes_of_a_warp_read_different_banks() -> None:
    layer = layer_of(np.ones((64, 64, 3, 3), np.float32), (56, 56), pads=(1, 1, 1, 1))
    tile = tile_of(layer.geometry, 4, 28)
    assert tile is not None
    words = [row * tile.pitch + column for row in range(4) for column in range(28)]
    for warp in range(0, len(words), 32):
        banks = [word % 32 for word in words[warp : warp + 32]]
        assert len(set(banks)) == len(banks)


def test_blocks_have_96_to_128_threads_and_few_idle() -> None:
    for size in (28, 56, 112, 224):
        layer = layer_of(np.ones((64, 4, 3, 3), np.float32), (size, size), pads=(1, 1, 1, 1))
        tile = choose(layer.geometry, 64)
        down, across = tile.grid(layer)
        assert 96 <= tile.threads <= 128
        assert size * size / (down * across * tile.threads) > 0.85


def test_windows_wider_than_a_block_are_refused() -> None:
    with pytest.raises(TargetError, match="too wide"):
        choose(layer_of(np.ones((1, 1, 1, 9), np.float32), (1, 300), dilations=(1, 20)).geometry, 64)
