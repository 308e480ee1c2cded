"""Pooling in the kernels of convolutions, executed: against float64, and bit for bit against kernels of its own."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from packer.ir import DType
from packer.ir.ops import Activation
from targets.cuda import dense, stream
from targets.cuda.emit import emit, settings_of
from targets.cuda.generic.pool import pool as pool_code
from targets.cuda.geometry import RESIDUAL
from targets.cuda.kernel import Code
from targets.cuda.lanes import conflicts, pixels_of
from targets.cuda.layer import ConvLayer, Planes
from targets.cuda.template import knows, specialised
from targets.cuda.tiling import tile_of, tiles
from tests.targets.cuda.executed import Data, data_of, expected, pool_of
from tests.targets.cuda.launch import run
from tests.targets.cuda.layers import ACTIVATIONS, any_layer, layer_of, pooled, with_halves
from tests.targets.cuda.test_convolutions import needs_compiler, seeds

Make = Callable[[ConvLayer], Code]


def straight(layer: ConvLayer) -> Code:
    return Code(tuple(emit(layer)), (0,) if layer.added is None else (0, RESIDUAL))


def in_halves(layer: ConvLayer) -> Code:
    """With the chunks that the pooled layer has: after how many products halves become floats depends on them."""
    like = layer if layer.pool else pooled(layer, "max")
    assert like is not None
    return Code(tuple(emit(layer, settings_of(like, arithmetic="half2"))), straight(layer).operands)


def by_template(layer: ConvLayer) -> Code:
    return Code(tuple(specialised(layer)), straight(layer).operands)


def executed(layer: ConvLayer, make: Make, data: Data) -> np.ndarray:
    x, added = data
    inputs = [(layer.source.array(layer.images), x), None, None, None]
    if added is not None and layer.added is not None:
        inputs[RESIDUAL] = (layer.added.array(layer.images), added)
    (found,) = run(make(layer), inputs, [layer.target.array(layer.images)])
    return found


def apart(layer: ConvLayer, plain: ConvLayer, make: Make, data: Data) -> np.ndarray:
    """What the layer gives if its convolution is stored, and pooled by a kernel of its own."""
    between, kept = plain.target.array(layer.images), layer.target.array(layer.images)
    code = pool_code(pool_of(layer), [between], [kept], [None])
    assert code is not None
    return run(code, [(between, executed(plain, make, data))], [kept])[0]


def alike(seed: int, make: Make, tolerance: float, halves: bool = False) -> None:
    plain = any_layer(seed)
    plain = with_halves(plain, seed) if halves else plain
    layer = pooled(plain, "max" if halves or seed % 3 else "average")
    if layer is None:
        pytest.skip("no 2 x 2 pixels")
    data = data_of(layer, seed)
    found, want = executed(layer, make, data), expected(layer, data)
    tolerance = max(tolerance, 2e-3 if layer.target.dtype is DType.F16 else 0)
    np.testing.assert_allclose(found, want, rtol=tolerance, atol=tolerance * max(1.0, float(np.abs(want).max())))
    np.testing.assert_array_equal(found, apart(layer, plain, make, data))


@pytest.mark.parametrize("seed", seeds(12, 90))
@pytest.mark.parametrize("make", [straight, dense.conv, stream.conv])
def test_every_tier(make: Make, seed: int) -> None:
    alike(seed, make, 1e-5)


@pytest.mark.parametrize("seed", seeds(6, 60))
@pytest.mark.parametrize("make", [straight, dense.conv, stream.conv])
def test_every_tier_stored_as_halves(make: Make, seed: int) -> None:
    alike(seed, make, 1e-5, halves=True)


@pytest.mark.parametrize("seed", seeds(8, 60))
def test_products_of_halves(seed: int) -> None:
    alike(seed, in_halves, 1e-2, halves=bool(seed % 2))


@needs_compiler
@pytest.mark.parametrize("seed", seeds(4, 40))
def test_templates_give_the_bits_of_direct_code(seed: int) -> None:
    plain = any_layer(seed)
    layer = pooled(plain, "max" if seed % 3 else "average")
    if layer is None or not knows(layer.activation):
        pytest.skip("no 2 x 2 pixels")
    data = data_of(layer, seed)
    found, direct = executed(layer, by_template, data), executed(layer, straight, data)
    if layer.activation is not None and layer.activation.kind == "silu":  # the template divides
        np.testing.assert_allclose(found, direct, rtol=1e-6, atol=1e-7)
    else:
        np.testing.assert_array_equal(found, direct)


@pytest.mark.parametrize("activation", [None, *ACTIVATIONS], ids=str)
@pytest.mark.parametrize("make", [straight, dense.conv, stream.conv, pytest.param(by_template, marks=needs_compiler)])
@np.errstate(all="ignore")
def test_what_is_no_number_and_zeros_of_both_signs(make: Make, activation: Activation | None) -> None:
    plain = replace(layer_of(np.ones((8, 1, 1, 1), np.float32), (8, 8)), activation=activation)
    layer = pooled(plain, "max")
    assert layer is not None
    x = np.random.default_rng(3).choice(np.float32([np.nan, np.inf, -np.inf, 0.0, -0.0, 1, -1]), (1, 1, 8, 8))
    found = executed(layer, make, (x, None))
    np.testing.assert_array_equal(found.view(np.uint32), apart(layer, plain, make, (x, None)).view(np.uint32))


@pytest.mark.parametrize("size", [(2, 2), (3, 3), (2, 40), (33, 2), (57, 31), (12, 128)])
@pytest.mark.parametrize("make", [straight, dense.conv, stream.conv])
def test_sizes(make: Make, size: tuple[int, int]) -> None:
    weights = np.random.default_rng(1).standard_normal((20, 3, 3, 3)).astype(np.float32)
    plain = layer_of(weights, size, pads=(1, 1, 1, 1), images=2)
    layer = pooled(plain, "max")
    assert layer is not None
    data = data_of(layer, 0)
    np.testing.assert_array_equal(executed(layer, make, data), apart(layer, plain, make, data))


def test_a_window_lies_in_a_warp_and_is_whole() -> None:
    for rows, columns in ((2, 2), (8, 16), (2, 28), (6, 14), (4, 30)):
        y, x = (own[: rows * columns].reshape(-1, 4) for own in pixels_of(128, columns, True))
        assert {*zip(y.ravel().tolist(), x.ravel().tolist(), strict=True)} == {*np.ndindex(rows, columns)}
        assert (np.array([y // 2, x // 2]) == np.array([y // 2, x // 2])[..., :1]).all()
        assert (y % 2 == [0, 0, 1, 1]).all()
        assert (x % 2 == [0, 1, 0, 1]).all()


def test_tiles_are_even_and_their_pitch_avoids_conflicts_of_banks() -> None:
    plain = layer_of(np.ones((64, 64, 3, 3), np.float32), (57, 56), pads=(1, 1, 1, 1))
    layer = pooled(plain, "max")
    assert layer is not None
    assert (layer.geometry.extent, plain.geometry.extent) == ((56, 56), (57, 56))
    found = tiles(layer.geometry, 64, (64, 128))
    assert found
    assert all(tile.rows % 2 == tile.columns % 2 == 0 for tile in found)
    for columns in (8, 16, 32):
        tile = tile_of(layer.geometry, 4, columns)
        assert tile is not None
        assert conflicts(tile.threads, columns, tile.pitch, True) == 1
    assert conflicts(128, 16, 32, True) == 2


def test_outputs_of_another_size_are_refused() -> None:
    layer = pooled(layer_of(np.ones((8, 1, 1, 1), np.float32), (9, 9)), "max")
    assert layer is not None
    with pytest.raises(ValueError, match="expected 4, got 5"):
        replace(layer, target=Planes.of(8, 5, 4))
