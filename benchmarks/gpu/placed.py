"""A layer's data on the device, and its code in one of several ways over that data."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from benchmarks.gpu.driver import Buffer, launch
from benchmarks.gpu.modules import Loaded
from packer.ir import DType, TensorType
from packer.ir.ops import Conv
from targets.cuda.board import Board
from targets.cuda.convolution import code_of
from targets.cuda.geometry import Geometry
from targets.cuda.kernel import Code
from targets.cuda.layer import ConvLayer, Planes
from targets.cuda.ranking import settings, ways

__all__ = [
    "DENSE",
    "HALVES",
    "SPARSE",
    "TEMPLATE",
    "TIERS",
    "Data",
    "Placed",
    "checked",
    "error",
    "references",
    "ways_of",
]

TEMPLATE = "template"  # t1 by the route as published, which has one way
HALVES = "t1h"
SPARSE, DENSE = ("t1", "t1c", HALVES, "t2", TEMPLATE), "t3"
TIERS = (*SPARSE, DENSE)
_SLACK = 1 << 16  # elements behind an array that loads may touch
_IMAGES = 4  # that differ; all others are multiples of them


def ways_of(board: Board, layer: ConvLayer, tier: str, most: int) -> Iterator[tuple[str, Code]]:
    """The best ways to compute the layer in one of TIERS, by their names, best first as the packer estimates them."""
    op = Conv(layer.strides, layer.pads, layer.dilations, layer.group, layer.activation)
    x = TensorType(DType.F32, layer.source.array(layer.images).shape)
    types = (x, TensorType(DType.F32, layer.weights.shape))
    geometry = Geometry.of(op, types, op.infer(types)[0], layer.density, DType.F32)
    own, route = ("t1", "template") if tier == TEMPLATE else (tier, "direct")
    for way in ways(board, geometry, own)[: min(most, 1) if tier == TEMPLATE else most]:
        yield way.replace(own, tier, 1), code_of(layer, settings(board, geometry, way), route)


class Data:
    """Input and output of a layer on the device, shared by all forms of it, and the input as an array [N, C, H, W]."""

    def __init__(self, layer: ConvLayer) -> None:
        array = layer.source.array(layer.images)
        some = np.random.default_rng(1).standard_normal((min(_IMAGES, layer.images), *array.shape[1:]), np.float32)
        self.images = np.empty(array.shape, np.float32)
        for number, image in enumerate(self.images):
            np.multiply(some[number % len(some)], 1 + number / layer.images, image)
        memory = np.zeros(_extent(layer.source, layer.images) + _SLACK, np.float32)
        _elements(layer.source, layer.images, memory)[...] = self.images
        self.x, self.y = Buffer(memory), Buffer(4 * _extent(layer.target, layer.images))

    def free(self) -> None:
        self.x.free()
        self.y.free()


@dataclass(frozen=True, slots=True)
class Placed:
    """Code over data: `launch` gives one call to a stream."""

    work: tuple[tuple[ctypes.c_void_p, tuple[int, int, int], int], ...]
    operands: tuple[Buffer, ...]
    own: tuple[Buffer, ...]

    @classmethod
    def of(cls, code: Code, loaded: Sequence[Loaded], x: Buffer, y: Buffer) -> Placed:
        """With the code's modules, from x to y."""
        if max(kernel.slack for kernel in code.kernels) > _SLACK:
            raise ValueError(f"expected kernels that read up to {_SLACK} elements too many")
        own = {number: Buffer(operand) for number, operand in enumerate(code.operands) if not isinstance(operand, int)}
        operands = tuple(own.get(number, x) for number in range(len(code.operands)))
        work = [
            (one.module.function(kernel.name), kernel.grid, kernel.threads)
            for kernel, one in zip(code.kernels, loaded, strict=True)
        ]
        return cls(tuple(work), (*operands, y), tuple(own.values()))

    def launch(self, stream: ctypes.c_void_p) -> None:
        for function, grid, threads in self.work:
            launch(function, grid, (threads,), *self.operands, stream=stream)

    def free(self) -> None:
        for buffer in self.own:
            buffer.free()


def checked(layer: ConvLayer) -> list[int]:
    """The images whose outputs are compared: the first and the last."""
    return sorted({0, layer.images - 1})


def references(layers: Mapping[float, ConvLayer], data: Data) -> dict[float, np.ndarray]:
    """What layers that differ in their weights only make of those images, in float64."""
    first = next(iter(layers.values()))
    assert first.bias is not None
    op = Conv(first.strides, first.pads, first.dilations, first.group, first.activation)
    weights = np.concatenate([layer.weights for layer in layers.values()])
    operands = (data.images[checked(first)], weights, np.tile(first.bias, len(layers)))
    found = np.asarray(op.reference(*(x.astype(np.float64) for x in operands))[0])
    return dict(zip(layers, np.split(found, len(layers), axis=1), strict=True))


def error(layer: ConvLayer, data: Data, want: np.ndarray) -> float:
    """The relative error of those images on the device, in the norm of all their elements."""
    target, size = layer.target, 4 * layer.target.channels * layer.target.plane
    found = []
    for number in checked(layer):
        memory = data.y.read(np.float32, -1, number * size, (number + 1) * size)
        found.append(_elements(target, 1, memory)[0])
    return float(np.linalg.norm(np.stack(found) - want) / np.linalg.norm(want))


def _extent(planes: Planes, images: int) -> int:
    return images * planes.channels * planes.plane


def _elements(planes: Planes, images: int, memory: np.ndarray) -> np.ndarray:
    """The elements of the images as a view of memory."""
    array = planes.array(images)
    strides = tuple(stride * memory.itemsize for stride in array.strides)
    return np.lib.stride_tricks.as_strided(memory[array.origin :], array.shape, strides)
