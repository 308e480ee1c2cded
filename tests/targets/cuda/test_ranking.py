"""Costs that the planner uses against the model, and the ways of each tier, which all compute the same."""

from __future__ import annotations

import math
from functools import cache

import numpy as np
import pytest

from targets.base import TargetError
from targets.cuda import convolution
from targets.cuda.board import BOARDS
from targets.cuda.demand import seconds_of
from targets.cuda.emit import Settings
from targets.cuda.layer import ConvLayer
from targets.cuda.model import count, predict
from targets.cuda.ranking import parts, settings, ways
from targets.cuda.rounding import round20
from targets.cuda.toolchain import assemble, missing
from tests.targets.cuda.executed import data_of, expected
from tests.targets.cuda.launch import run
from tests.targets.cuda.layers import layer_of, pooled, random_layer

BOARD = BOARDS["jetson"]
TIERS = ("t1", "t1c", "t2", "t3")
# output channels, input channels, window, size of the input, stride
LAYERS = [
    (64, 64, 3, 56, 1),
    (128, 128, 3, 28, 1),
    (256, 64, 1, 56, 1),
    (64, 256, 1, 56, 1),
    (256, 128, 3, 28, 2),
    (256, 1024, 1, 14, 1),
    (64, 3, 7, 112, 2),
    (512, 128, 3, 7, 1),
]


def with_pool(layer: ConvLayer, pool: str) -> ConvLayer:
    return (pooled(layer, pool) or layer) if pool else layer


@cache
def pruned(filters: int, depth: int, window: int, size: int, stride: int, density: float) -> ConvLayer:
    rng = np.random.default_rng(0)
    shape = (filters, depth, window, window)
    weights = (rng.standard_normal(shape) * (rng.random(shape) < density)).astype(np.float32)
    return layer_of(round20(weights), (size, size), (stride, stride), (window // 2,) * 4)


def predicted(layer: ConvLayer, name: str) -> float:
    """Seconds by the model."""
    code = convolution.code_of(layer, settings(BOARD, layer.geometry, name), "direct")
    constants = [operand if isinstance(operand, np.ndarray) else None for operand in code.operands]
    sizes = [4 * layer.source.channels * layer.source.plane if c is None else c.nbytes for c in constants]
    sizes.append(4 * layer.target.channels * layer.target.plane)
    return sum(predict(kernel, count(kernel, constants), BOARD, sizes).seconds for kernel in code.kernels)


@pytest.mark.parametrize("pool", ["", "max"])
@pytest.mark.parametrize("density", [0.1, pytest.param(0.4, marks=pytest.mark.slow)])
@pytest.mark.parametrize("tier", ["t1", "t2", "t3", *(pytest.param(t, marks=pytest.mark.slow) for t in ("t1c", "t1h"))])
def test_costs_agree_with_the_model(tier: str, density: float, pool: str) -> None:
    ratios = []
    for shape in LAYERS:
        layer = with_pool(pruned(*shape, density), pool)
        if np.count_nonzero(layer.weights) < 120_000 and (names := ways(BOARD, layer.geometry, tier)):
            ratios.append(seconds_of(parts(BOARD, layer.geometry, names[0])) / predicted(layer, names[0]))
    assert 0.75 < min(ratios) <= max(ratios) < 1.4
    assert 0.9 < math.exp(np.log(ratios).mean()) < 1.1


@pytest.mark.parametrize("shape", [LAYERS[0], LAYERS[2], LAYERS[6]])
def test_the_first_way_is_hardly_slower_than_others_by_the_model(shape: tuple[int, ...]) -> None:
    layer = pruned(*shape, 0.1)
    for tier in TIERS:
        times = [predicted(layer, name) for name in ways(BOARD, layer.geometry, tier)]
        assert not times or times[0] < 1.15 * min(times), tier


@pytest.mark.parametrize("shape", LAYERS)
def test_names_tell_all_settings(shape: tuple[int, ...]) -> None:
    layer = pruned(*shape, 0.1).geometry
    for tier in TIERS:
        first, *others = ways(BOARD, layer, tier) or (tier,)
        assert first == tier
        assert len({settings(BOARD, layer, name) for name in others} | {tier}) == len(others) + 1
        for name in others:
            assert seconds_of(parts(BOARD, layer, name)) >= seconds_of(parts(BOARD, layer, tier))


@pytest.mark.parametrize(
    "name", ["t1 channels 64", "t2 x", "t3 5x5 1x1", "t1 channels 64 1x9999 chunk 1 pitch 1 threads 32"]
)
def test_unknown_names_are_refused(name: str) -> None:
    with pytest.raises(TargetError, match=f"expected the name of a way to make a convolution, got '{name}'"):
        settings(BOARD, pruned(*LAYERS[0], 0.1).geometry, name)


@pytest.mark.parametrize("pool", ["", "max"])
@pytest.mark.parametrize("seed", range(16))
def test_all_ways_compute_the_layer(seed: int, pool: str) -> None:
    layer = with_pool(random_layer(seed), pool)
    data = data_of(layer, seed)
    want = expected(layer, data)
    for tier in TIERS:
        for name in ways(BOARD, layer.geometry, tier):
            code = convolution.code_of(layer, settings(BOARD, layer.geometry, name), "direct")
            inputs = [(layer.source.array(layer.images), data[0])]
            (found,) = run(code, inputs, [layer.target.array(layer.images)])
            np.testing.assert_allclose(found, want, 1e-5, 1e-5, err_msg=name)


@pytest.mark.skipif(bool(missing()), reason=missing())
@pytest.mark.parametrize("pool", ["", "max"])
@pytest.mark.parametrize("density", [0.1, 0.4])
@pytest.mark.parametrize("shape", [(64, 32, 3, 28, 1), (64, 64, 1, 28, 1), (32, 16, 5, 28, 2)])
def test_few_registers_are_enough(shape: tuple[int, ...], density: float, pool: str) -> None:
    layer = with_pool(pruned(*shape, density), pool)
    names = [name for tier in ("t1", "t1c") for name in ways(BOARD, layer.geometry, tier)]
    tight = {way for name in names if isinstance(way := settings(BOARD, layer.geometry, name), Settings)}
    assert any(way.registers < 128 for way in tight)
    for way in tight:
        for kernel in convolution.code_of(layer, way, "direct").kernels:
            assert assemble(kernel.ptx, "sm_62").spilled == 0
