"""Layers of random shape for the tests of the code generators."""

from __future__ import annotations

import numpy as np

from packer.ir.ops import Activation
from targets.cuda.layer import ConvLayer, Planes

__all__ = ["layer_of", "random_layer"]


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
