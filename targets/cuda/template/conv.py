"""A convolution by way of its operator template: one entry for each slice of neighbouring output channels."""

from __future__ import annotations

import math

import numpy as np

from targets.cuda.cache import Cache
from targets.cuda.emit.ptx import f32, module
from targets.cuda.kernel import Kernel
from targets.cuda.layer import ConvLayer
from targets.cuda.slices import channels_a_thread
from targets.cuda.template.parse import Template, parse
from targets.cuda.template.shape import MOST_WEIGHTS, Shape, shape_of
from targets.cuda.template.specialise import specialise

__all__ = ["specialised"]

_WEIGHTS, _BIASES = 0x3F800001, 0x40000001  # bits of the first values that stand for weights and biases in conv.cu


def specialised(
    layer: ConvLayer, channels: int | None = None, cache: Cache | None = None, name: str = "conv"
) -> list[Kernel]:
    """The kernels of a layer, which may run in any order; entry i is called `name`_i."""
    each = layer.weights.shape[0] // layer.group
    most = max(1, MOST_WEIGHTS // math.prod(layer.kernel))  # a template has at least one input channel
    slices = -(-each // min(channels or channels_a_thread(layer.weights), most))
    templates: dict[int, tuple[Shape, Template]] = {}
    kernels = []
    for number in range(layer.group * slices):
        group, part = divmod(number, slices)
        first, end = (group * each + p * each // slices for p in (part, part + 1))
        if end - first not in templates:
            shape = shape_of(layer, end - first)
            templates[end - first] = shape, parse(shape.compile(cache).ptx)
        kernels.append(_kernel(*templates[end - first], first, group, f"{name}_{number}"))
    return kernels


def _kernel(shape: Shape, template: Template, first: int, group: int, name: str) -> Kernel:
    """The kernel for the output channels from `first` on."""
    layer, tile = shape.layer, shape.tile
    depth = layer.weights.shape[1]
    weights = layer.weights[first : first + shape.filters]
    parts = [_immediates(weights[:, c : c + tile.chunk], _WEIGHTS) for c in range(0, depth, tile.chunk)]
    bias = np.zeros(len(weights), np.float32) if layer.bias is None else layer.bias[first : first + shape.filters]
    pointers = 2 if layer.added is None else 3
    values = (len(parts), first, group * depth)
    numbers = {parameter[1]: value for parameter, value in zip(template.parameters[pointers:], values, strict=True)}
    entry, deleted = specialise(template, name, parts, _immediates(bias, _BIASES), numbers)
    grid = (math.prod(tile.grid(layer)), layer.images, 1)
    return Kernel(
        name,
        module(entry),
        grid,
        tile.threads,
        tile.slack(layer),
        (tuple(range(first, first + shape.filters)),),
        weights.size - deleted,
        deleted,
    )


def _immediates(values: np.ndarray, begin: int) -> dict[str, str]:
    """What stands for each of the values in a template -> the value, as immediates."""
    flat = np.ascontiguousarray(values, np.float32).reshape(-1)
    return {f"0f{begin + i:08X}": f32(value) for i, value in enumerate(flat)}
