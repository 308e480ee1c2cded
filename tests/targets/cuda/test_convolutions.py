"""Sparse convolutions by the direct route, executed: against float64, on random shapes."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from packer.ir.ops import Conv
from targets.cuda.emit import emit, settings_of
from targets.cuda.kernel import Code
from targets.cuda.layer import ConvLayer, Planes
from tests.targets.cuda.launch import run
from tests.targets.cuda.layers import random_layer


def expected(layer: ConvLayer, x: np.ndarray, added: np.ndarray | None) -> np.ndarray:
    """The layer in float64, by the reference of the operator."""
    op = Conv(layer.strides, layer.pads, layer.dilations, layer.group, layer.activation)
    bias = None if layer.bias is None else layer.bias.astype(np.float64)
    residual = None if added is None else added.astype(np.float64)
    found = op.reference(x.astype(np.float64), layer.weights.astype(np.float64), bias, residual)
    return np.asarray(found[0] if isinstance(found, tuple) else found)


@pytest.mark.parametrize("seed", range(12))
def test_direct(seed: int) -> None:
    layer, rng = random_layer(seed), np.random.default_rng(seed)
    target = layer.target
    added = None
    if seed % 3 == 0:
        layer = replace(layer, added=Planes.of(target.channels, target.height, target.width, (0, 1, 2, 3)))
        added = rng.standard_normal((layer.images, target.channels, target.height, target.width)).astype(np.float32)
    source = layer.source.array(layer.images)
    x = rng.standard_normal(source.shape).astype(np.float32)
    code = Code(tuple(emit(layer, settings_of(layer))), (0,) if added is None else (0, 1))
    inputs = [(source, x)]
    if added is not None and layer.added is not None:
        inputs.append((layer.added.array(layer.images), added))
    (found,) = run(code, inputs, [target.array(layer.images)])
    np.testing.assert_allclose(found, expected(layer, x, added), rtol=1e-5, atol=1e-5)
