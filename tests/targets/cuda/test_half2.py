"""Two pixels at a time in halves: exact where halves are, and how far off elsewhere."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from packer.ir import DType
from targets.base import TargetError
from targets.cuda.cubin import machine_instructions
from targets.cuda.emit import emit, settings_of
from targets.cuda.emit.half2 import Half2
from targets.cuda.kernel import Kernel
from targets.cuda.layer import ConvLayer
from targets.cuda.rounding import round20
from targets.cuda.slices import entries_of, slices_of
from targets.cuda.toolchain import assemble, disassemble, missing
from tests.targets.cuda.executed import data_of, execute, expected
from tests.targets.cuda.layers import any_layer, layer_of


def half2(layer: ConvLayer) -> list[Kernel]:
    return emit(layer, settings_of(layer, arithmetic="half2"))


def pruned(shape: tuple[int, ...], density: float) -> np.ndarray:
    rng = np.random.default_rng(0)
    weights = rng.standard_normal(shape) / np.sqrt(np.prod(shape[1:]))
    weights[rng.random(shape) >= density] = 0
    return weights.astype(np.float32)


@pytest.mark.parametrize("seed", [*range(8), *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(8, 80))])
def test_integers_are_exact(seed: int) -> None:
    """Sums of small integers are exact in halves, so only a wrong place or a sum left out can make a difference."""
    layer, rng = any_layer(seed), np.random.default_rng((3, seed))
    shape = layer.weights.shape
    weights = np.where(layer.weights != 0, rng.integers(1, 4, shape) * rng.choice([-1, 1], shape), 0)
    source = replace(layer.source, dtype=DType.F16 if rng.random() < 0.5 else DType.F32)
    layer = replace(layer, weights=weights.astype(np.float32), source=source)
    x, added = data_of(layer, seed)
    data = np.clip(np.rint(x), -2, 2), added
    want = expected(layer, data)
    np.testing.assert_allclose(execute(layer, half2(layer), data), want, rtol=3e-6, atol=3e-6 * np.abs(want).max())


@pytest.mark.parametrize(("density", "depth"), [(0.1, 64), (0.1, 128), (0.5, 48)])
@pytest.mark.parametrize("window", [1, 3])
def test_error(density: float, depth: int, window: int) -> None:
    weights = round20(pruned((32, depth, window, window), density))
    layer = replace(layer_of(weights, (14, 15), pads=(window // 2,) * 4), activation=None)
    data = data_of(layer, 0)
    want = expected(layer, data)
    error = np.linalg.norm(execute(layer, half2(layer), data) - want) / np.linalg.norm(want)
    assert 2e-4 < error < 8e-4
    single = np.linalg.norm(execute(layer, emit(layer), data) - want) / np.linalg.norm(want)
    assert single < 3e-7


def test_an_instruction_for_each_weight() -> None:
    layer = layer_of(pruned((40, 24, 3, 3), 0.2), (14, 15))
    kernels = half2(layer)
    assert sum(kernel.multiplies for kernel in kernels) == np.count_nonzero(layer.weights)
    for kernel in kernels:
        assert kernel.ptx.count("fma.rn.f16x2") + kernel.ptx.count("mul.rn.f16x2") == kernel.multiplies
        assert "fma.rn.f32" not in kernel.ptx
        assert all(len(channels) <= 32 for channels in kernel.channels)


def test_entries_hold_no_more_halves_than_the_constant_bank() -> None:
    bits = np.random.default_rng(0).permutation(np.arange(1, 0x7B00, dtype=np.uint16))  # all below 57,344
    weights = bits.view(np.float16)[:30_000].astype(np.float32).reshape(30, 1000, 1, 1)
    entries = entries_of(slices_of(weights, None, 1, 1), 10**9, Half2.constants)
    sizes = [len(Half2.constants(np.concatenate([slice.weights for slice in entry]))) for entry in entries]
    assert sizes == [16_000, 14_000]


def test_weights_too_large_are_refused() -> None:
    layer = layer_of(np.full((1, 1, 3, 3), -1e5, np.float32), (8, 8))
    with pytest.raises(TargetError, match="weights of at most 65504, got 100000"):
        half2(layer)


def test_unknown_arithmetic_is_refused() -> None:
    layer = layer_of(np.ones((1, 1, 3, 3), np.float32), (8, 8))
    with pytest.raises(TargetError, match="expected float32, half2, got 'half'"):
        settings_of(layer, arithmetic="half")


@pytest.mark.skipif(bool(missing()), reason=missing())
@pytest.mark.parametrize("arch", ["sm_62", "sm_90"])
def test_weights_come_from_the_constant_bank_or_immediates(arch: str) -> None:
    layer = layer_of(pruned((32, 64, 3, 3), 0.2), (28, 28), pads=(1, 1, 1, 1))
    layer = replace(layer, source=replace(layer.source, dtype=DType.F16))
    (kernel,) = half2(layer)
    cubin = assemble(kernel.ptx, arch)
    assert cubin.spilled == 0
    if arch == "sm_62":
        assert cubin.constants > 3 * len(Half2.constants(layer.weights))
    assert machine_instructions(cubin) < 1.7 * kernel.multiplies
    opcodes = disassemble(cubin)
    if opcodes is not None:
        products = sum(opcode.startswith(("HFMA2", "HMUL2")) for opcode in opcodes)
        assert 0.99 * kernel.multiplies < products <= kernel.multiplies + 64
        assert "MOV32I" not in opcodes
