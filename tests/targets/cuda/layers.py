"""Layers of random shape for the tests of the code generators."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from packer.ir import DType
from packer.ir.ops import Activation
from targets.cuda.layer import ConvLayer, Planes

__all__ = ["ACTIVATIONS", "any_layer", "layer_of", "pooled", "random_layer", "with_halves"]

ACTIVATIONS = (
    Activation("identity"),
    Activation("relu"),
    Activation("clip", 0.0, 6.0),
    Activation("clip", -math.inf, 0.5),
    Activation("clip", -1.5, math.inf),
    Activation("leaky_relu", 0.125),
    Activation("leaky_relu", -0.5),
    Activation("leaky_relu", 2.0),
    Activation("hard_sigmoid", 0.2, 0.5),
    Activation("hard_swish", 1 / 6, 0.5),
    Activation("sigmoid"),
    Activation("silu", 1.0),
)


def layer_of(
    weights: np.ndarray,
    size: tuple[int, int],
    strides: tuple[int, int] = (1, 1),
    pads: tuple[int, int, int, int] = (0, 0, 0, 0),
    dilations: tuple[int, int] = (1, 1),
    group: int = 1,
    images: int = 1,
) -> ConvLayer:
    """A layer with ReLU over an input of `size`, planes with just the halo that it needs."""
    out = [
        (n + pads[i] + pads[i + 2] - (weights.shape[2 + i] - 1) * dilations[i] - 1) // strides[i] + 1
        for i, n in enumerate(size)
    ]
    return ConvLayer(
        weights,
        None,
        Planes.of(weights.shape[1] * group, *size, pads),
        Planes.of(weights.shape[0], out[0], out[1], (1, 1, 0, 2)),
        strides,
        pads,
        dilations,
        group,
        Activation("relu"),
        images=images,
    )


def random_layer(seed: int) -> ConvLayer:
    """Any strides, pads, dilations, groups, odd sizes, sparsity from nothing to everything, rows of zeros."""
    rng = np.random.default_rng(seed)
    group, window = int(rng.choice([1, 1, 2, 3])), (1, 1) if seed % 4 == 0 else tuple(rng.integers(1, 6, 2))
    weights = rng.standard_normal((int(rng.integers(1, 12)) * group, int(rng.integers(1, 9)), *window))
    weights[rng.random(weights.shape) < rng.choice([0, 0.5, 0.9, 1])] = 0
    weights[rng.random(len(weights)) < 0.2] = 0
    strides, dilations, pads = rng.integers(1, 4, 2), rng.integers(1, 3, 2), rng.integers(0, 3, 4)
    size = [int(rng.integers((window[i] - 1) * dilations[i] + 1, 26)) for i in range(2)]
    return layer_of(
        weights.astype(np.float32),
        (size[0], size[1]),
        (int(strides[0]), int(strides[1])),
        (int(pads[0]), int(pads[1]), int(pads[2]), int(pads[3])),
        (int(dilations[0]), int(dilations[1])),
        group,
        int(rng.integers(1, 3)),
    )


def any_layer(seed: int) -> ConvLayer:
    """A random layer with any activation, and perhaps a bias and a residual; every third one is deep enough for several
    chunks and wide enough for several tiles."""
    rng = np.random.default_rng((1, seed))
    layer = random_layer(seed)
    if seed % 3 == 0:
        weights = rng.standard_normal((int(rng.integers(3, 40)), int(rng.integers(9, 40)), *layer.kernel))
        weights[rng.random(weights.shape) < rng.choice([0.5, 0.9, 0.97])] = 0
        size = (int(rng.integers(14, 40)), int(rng.integers(14, 60)))
        layer = layer_of(weights.astype(np.float32), size, layer.strides, layer.pads, layer.dilations, 1, layer.images)
    target = layer.target
    if rng.random() < 0.7:
        layer = replace(layer, bias=rng.standard_normal(target.channels).astype(np.float32))
    if rng.random() < 0.4:
        halo = rng.integers(0, 4, 4)
        added = Planes.of(
            target.channels, target.height, target.width, (int(halo[0]), int(halo[1]), int(halo[2]), int(halo[3]))
        )
        layer = replace(layer, added=added)
    activations = (None, *ACTIVATIONS)
    return replace(layer, activation=activations[int(rng.integers(len(activations)))])


def pooled(layer: ConvLayer, pool: str) -> ConvLayer | None:
    """The layer with a pool of 2 x 2 behind it, into planes with another halo; None if it has no 2 x 2 pixels."""
    target = layer.target
    if min(target.height, target.width) < 2:
        return None
    kept = Planes.of(target.channels, target.height // 2, target.width // 2, (1, 0, 2, 1), target.dtype)
    return replace(layer, target=kept, pool=pool)


def with_halves(layer: ConvLayer, seed: int) -> ConvLayer:
    """The layer with some of its activations stored as f16."""
    halves = np.random.default_rng(seed).random(3) < 0.7
    kept = (layer.source, layer.target, layer.added)
    source, target, added = (
        replace(planes, dtype=DType.F16) if planes and half else planes
        for planes, half in zip(kept, halves, strict=True)
    )
    assert source
    assert target
    return replace(layer, source=source, target=target, added=added)
