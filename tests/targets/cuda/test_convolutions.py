"""Sparse convolutions by both routes, executed: against float64, and against each other."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from packer.ir import DType
from packer.ir.ops import Activation
from targets.cuda.emit import emit, settings_of
from targets.cuda.layer import ConvLayer
from targets.cuda.template import specialised
from targets.cuda.toolchain import missing
from tests.targets.cuda.executed import data_of, execute, expected
from tests.targets.cuda.layers import ACTIVATIONS, any_layer, layer_of

LONG = (Activation("elu", 0.7), Activation("gelu"), Activation("mish"), Activation("tanh"), Activation("softplus"))
needs_compiler = pytest.mark.skipif(bool(missing()), reason=missing())


def seeds(quick: int, all: int) -> list[object]:
    """The first `quick` seeds always, the rest with the slow tests."""
    return [seed if seed < quick else pytest.param(seed, marks=pytest.mark.slow) for seed in range(all)]


def agree(layer: ConvLayer, found: np.ndarray, want: np.ndarray) -> None:
    scale = max(1.0, float(np.abs(want).max()))
    np.testing.assert_allclose(found, want, rtol=1e-5, atol=1e-6 * scale)


@pytest.mark.parametrize("seed", seeds(12, 120))
def test_direct(seed: int) -> None:
    layer = any_layer(seed)
    data = data_of(layer, seed)
    agree(layer, execute(layer, emit(layer), data), expected(layer, data))


@pytest.mark.parametrize("seed", seeds(6, 60))
def test_few_channels_a_thread_and_small_entries_in_any_order_give_the_same_bits(seed: int) -> None:
    """A sum adds its products in the order of input channels, rows and columns of the window, whatever the slice."""
    layer = any_layer(seed)
    data = data_of(layer, seed)
    rng = np.random.default_rng(seed)
    settings = replace(settings_of(layer, int(rng.integers(1, 5))), multiplies=int(rng.integers(20, 400)))
    kernels = emit(layer, settings)
    found = execute(layer, [kernels[i] for i in rng.permutation(len(kernels))], data)
    np.testing.assert_array_equal(found, execute(layer, emit(layer), data))


@pytest.mark.parametrize("seed", seeds(8, 80))
def test_halves_are_widened_exactly_and_sums_rounded_once(seed: int) -> None:
    """With source, target or residual of f16, the same bits as float32 makes of those values, rounded if stored so."""
    layer, rng = any_layer(seed), np.random.default_rng((2, seed))
    source, target, added = (
        None if planes is None else replace(planes, dtype=DType.F16 if half else DType.F32)
        for planes, half in zip((layer.source, layer.target, layer.added), rng.random(3) < 0.6, strict=True)
    )
    assert source is not None
    assert target is not None
    stored = replace(layer, source=source, target=target, added=added)
    x, residual = data_of(stored, seed)
    found = execute(stored, emit(stored), (x, residual))
    same = x.astype(np.float32), None if residual is None else residual.astype(np.float32)
    np.testing.assert_array_equal(found, execute(layer, emit(layer), same).astype(target.dtype.numpy))
    agree(layer, execute(layer, emit(layer), same), expected(layer, same))


def test_halves_too_large_are_infinite() -> None:
    layer = layer_of(np.full((1, 1, 1, 1), 1e3, np.float32), (3, 4))
    layer = replace(layer, target=replace(layer.target, dtype=DType.F16))
    x = np.float32([[[[65.5, 65.4, 66, 1], [0, 60, -80, 65.51], [65.53, 1e-9, 0, 0]]]])
    found = execute(layer, emit(layer), (x, None))
    with np.errstate(over="ignore"):
        np.testing.assert_array_equal(found, np.maximum(x * np.float32(1e3), 0).astype(np.float16))
    assert np.isinf(found).sum() == 2


@needs_compiler
@pytest.mark.parametrize("seed", seeds(3, 40))
def test_template_gives_the_same_bits_as_direct(seed: int) -> None:
    """Order of sums and epilogue are the same. But the template divides for a SiLU, where `emit` has a reciprocal."""
    layer = any_layer(seed)
    data = data_of(layer, seed)
    found, direct = execute(layer, specialised(layer), data), execute(layer, emit(layer), data)
    agree(layer, found, expected(layer, data))
    if layer.activation is not None and layer.activation.kind == "silu":
        np.testing.assert_allclose(found, direct, rtol=3e-7)
    else:
        np.testing.assert_array_equal(found, direct)


@pytest.mark.parametrize("activation", [*ACTIVATIONS, *LONG], ids=lambda a: f"{a.kind}({a.alpha:g},{a.beta:g})")
@pytest.mark.parametrize("window", [1, 2])
def test_activations(activation: Activation, window: int) -> None:
    weights = np.random.default_rng(0).standard_normal((5, 3, window, window)).astype(np.float32)
    layer = replace(layer_of(4 * weights, (9, 8)), activation=activation)
    data = data_of(layer, 1)
    agree(layer, execute(layer, emit(layer), data), expected(layer, data))


@needs_compiler
@pytest.mark.slow
@pytest.mark.parametrize("activation", ACTIVATIONS, ids=lambda a: f"{a.kind}({a.alpha:g},{a.beta:g})")
def test_activations_of_templates(activation: Activation) -> None:
    weights = np.random.default_rng(0).standard_normal((5, 3, 2, 2)).astype(np.float32)
    layer = replace(layer_of(4 * weights, (9, 8)), activation=activation)
    data = data_of(layer, 1)
    agree(layer, execute(layer, specialised(layer), data), expected(layer, data))
