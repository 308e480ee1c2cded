"""The ten convolutions of five networks that the method's authors measure, by their floating-point operations."""

from __future__ import annotations

import numpy as np

from packer.ir.ops import Activation
from targets.cuda.layer import ConvLayer, Planes

__all__ = ["OPERATORS", "layer"]

# name -> output channels, input channels, window, stride, pad, size of the input
OPERATORS = {
    "lenet-conv1": (20, 1, 5, 1, 0, 28),
    "lenet-conv2": (50, 20, 5, 1, 0, 12),
    "alexnet-conv1": (64, 3, 11, 4, 2, 224),
    "alexnet-conv2": (192, 64, 5, 1, 2, 27),
    "cifar-conv2": (32, 32, 5, 1, 2, 16),
    "resnet-conv1": (64, 64, 3, 1, 1, 56),
    "resnet-conv2": (128, 128, 3, 1, 1, 28),
    "vgg-conv1": (64, 3, 3, 1, 1, 224),
    "vgg-conv2": (64, 64, 3, 1, 1, 224),
    "vgg-conv3": (128, 128, 3, 1, 1, 112),
}


def layer(name: str, sparsity: float, images: int = 1, seed: int = 0) -> ConvLayer:
    """The operator with random weights, of which exactly a share of `sparsity` is zero, bias and ReLU."""
    filters, depth, window, stride, pad, size = OPERATORS[name]
    rng = np.random.default_rng(seed)
    weights = rng.standard_normal((filters, depth, window, window)) / np.sqrt(depth * window * window)
    zeros = rng.permutation(weights.size)[: round(sparsity * weights.size)]
    weights.reshape(-1)[zeros] = 0
    out = (size + 2 * pad - window) // stride + 1
    return ConvLayer(
        weights.astype(np.float32),
        rng.standard_normal(filters).astype(np.float32),
        Planes.of(depth, size, size, (pad, pad, pad, pad)),
        Planes.of(filters, out, out),
        (stride, stride),
        (pad, pad, pad, pad),
        activation=Activation("relu"),
        images=images,
    )
