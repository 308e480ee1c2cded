"""Networks of other kinds than those that the cost model's rates were fitted to, and layers of other shapes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

import onnx

from benchmarks.deep import BUILDERS, Builder

__all__ = ["TINY", "UNSEEN"]

# name -> filters, channels, window, stride, groups, size of the image, images
_LAYERS = {
    "conv 7x7 /2": (64, 3, 7, 2, 1, 224, 8),
    "conv 5x5 groups": (256, 96, 5, 1, 2, 27, 16),
    "conv 3x3 /2": (192, 96, 3, 2, 1, 56, 4),
    "conv 1x1": (256, 192, 1, 1, 1, 28, 32),
    "depthwise 5x5": (240, 240, 5, 1, 240, 28, 16),
}
_FIRES = ((16, 64), (16, 64), (32, 128), (32, 128), (48, 192), (48, 192), (64, 256), (64, 256))
_POOLED = (1, 3)  # fires with a pool behind them
# filters and stride of the product behind each depthwise convolution
_SEPARABLE = ((64, 1), (128, 2), (128, 1), (256, 2), (256, 1), (512, 2), *((512, 1),) * 5, (1024, 2), (1024, 1))
# channels of 1x1; before and of 3x3; before and of 5x5; behind the pool; None: a pool that halves
_INCEPTIONS = (
    (64, 96, 128, 16, 32, 32), None, (192, 96, 208, 16, 48, 64), (112, 144, 288, 32, 64, 64), None,
    (256, 160, 320, 32, 128, 128),
)  # fmt: skip


def _squeezenet() -> onnx.ModelProto:
    b = Builder("squeezenet")
    x, channels = b.pool(b.conv("input", 3, 64, 3, 2), 3), 64
    for number, (squeezed, expanded) in enumerate(_FIRES):
        y = b.conv(x, channels, squeezed, 1)
        x = b.op("Concat", [b.conv(y, squeezed, expanded, kernel) for kernel in (1, 3)], axis=1)
        x, channels = b.pool(x, 3) if number in _POOLED else x, 2 * expanded
    x = b.op("GlobalAveragePool", [b.conv(x, channels, 1000, 1)])
    return b.model(b.op("Softmax", [b.op("Flatten", [x], axis=1)], axis=1))


def _mobilenet() -> onnx.ModelProto:
    b = Builder("mobilenet")
    x, channels = b.conv("input", 3, 32, 3, 2), 32
    for filters, stride in _SEPARABLE:
        x = b.conv(b.conv(x, channels, channels, 3, stride, group=channels), channels, filters, 1)
        channels = filters
    return _classified(b, x, channels)


def _inception() -> onnx.ModelProto:
    b = Builder("inception")
    x = b.pool(b.conv("input", 3, 64, 7, 2), 3, 1)
    x, channels = b.pool(b.conv(b.conv(x, 64, 64, 1), 64, 192, 3), 3, 1), 192
    for widths in _INCEPTIONS:
        if widths is None:
            x = b.pool(x, 3, 1)
            continue
        one, before3, three, before5, five, behind = widths
        pooled = b.op("MaxPool", [x], kernel_shape=[3, 3], strides=[1, 1], pads=[1] * 4)
        branches = [
            b.conv(x, channels, one, 1),
            b.conv(b.conv(x, channels, before3, 1), before3, three, 3),
            b.conv(b.conv(x, channels, before5, 1), before5, five, 5),
            b.conv(pooled, channels, behind, 1),
        ]
        x, channels = b.op("Concat", branches, axis=1), one + three + five + behind
    return _classified(b, x, channels)


def _classified(b: Builder, x: str, channels: int) -> onnx.ModelProto:
    x = b.op("Flatten", [b.op("GlobalAveragePool", [x])], axis=1)
    return b.model(b.op("Softmax", [b.dense(x, channels, 1000, relu=False)], axis=1))


def _layer(
    filters: int, channels: int, window: int, stride: int, group: int, size: int, images: int
) -> onnx.ModelProto:
    b = Builder("layer")
    b.conv("input", channels, filters, window, stride, group=group)
    made = (size - 1) // stride + 1
    return b.between((images, channels, size, size), (images, filters, made, made))


TINY: Mapping[str, Callable[[], onnx.ModelProto]] = {"conv 3x3": partial(_layer, 16, 4, 3, 1, 1, 8, 1)}
UNSEEN: Mapping[str, Callable[[], onnx.ModelProto]] = {
    **{name: partial(_layer, *shape) for name, shape in _LAYERS.items()},
    "squeezenet": _squeezenet,
    "mobilenet": _mobilenet,
    "inception": _inception,
    "resnet50_any": BUILDERS["resnet50_any"],
}
