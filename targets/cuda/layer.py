"""A convolution as the code generators see it: constant weights, and activations in planes with a halo of zeros."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from packer.ir import DType
from packer.ir.ops import Activation
from targets.base import TargetError
from targets.cuda.array import Array
from targets.cuda.geometry import Geometry

__all__ = ["ConvLayer", "Planes"]

_STORED = (DType.F32, DType.F16)
_MOST_ELEMENTS = 1 << 31  # kernels count elements of a tensor in 32 bits


@dataclass(frozen=True, slots=True)
class Planes:
    """How an activation [N, C, H, W] of f32 or f16 lies in device memory: planar, each plane in a halo of zeros.

    Element (n, c, y, x) is at `(n channels + c) plane + (y + top) pitch + x + left`. The halo stands for padding, so
    kernels read without tests. Kernels never write into it: it is zeroed once.
    """

    channels: int
    height: int
    width: int
    top: int
    left: int
    pitch: int
    plane: int
    dtype: DType = DType.F32

    @classmethod
    def of(
        cls,
        channels: int,
        height: int,
        width: int,
        halo: tuple[int, int, int, int] = (0, 0, 0, 0),
        dtype: DType = DType.F32,
    ) -> Planes:
        """Planes with a halo (top, left, bottom, right); the pitch is a multiple of 4, but without a halo the width."""
        top, left, bottom, right = halo
        pitch = -(-(left + width + right) // 4) * 4 if any(halo) else width
        return cls(channels, height, width, top, left, pitch, pitch * (top + height + bottom), dtype)

    @property
    def origin(self) -> int:
        """Where element (0, 0) of a plane is in it."""
        return self.top * self.pitch + self.left

    def array(self, images: int) -> Array:
        """The same of so many images."""
        shape = (images, self.channels, self.height, self.width)
        return Array(self.dtype, shape, (self.channels * self.plane, self.plane, self.pitch, 1), self.origin)


@dataclass(frozen=True, slots=True, eq=False)
class ConvLayer:
    """`y = activation(conv(x, weights) + bias + residual)` in two spatial dimensions, as `packer.ir.ops.Conv` has it.

    weights [K, C / group, R, S], bias [K], both f32; `pads` holds the begins, then the ends. Rows come first in all
    pairs. `added` is the layout of a residual. Sums are float32 whatever the element types of the activations.
    With a `pool` of POOLS, `target` is what that makes of each 2 x 2 pixels of y; there may be a row or a column more.
    Raises TargetError where the halo of `source` is smaller than the pads.
    """

    weights: np.ndarray
    bias: np.ndarray | None
    source: Planes
    target: Planes
    strides: tuple[int, int] = (1, 1)
    pads: tuple[int, int, int, int] = (0, 0, 0, 0)
    dilations: tuple[int, int] = (1, 1)
    group: int = 1
    activation: Activation | None = None
    added: Planes | None = None
    images: int = 1
    pool: str = ""

    def __post_init__(self) -> None:
        filters, depth, *kernel = self.weights.shape
        source = self.source
        sizes = ((source.height, source.width), (self.target.height, self.target.width))
        before = (source.top, source.left)
        behind = (source.plane // source.pitch - source.top, source.pitch - source.left)
        for i, (size, out) in enumerate(zip(*sizes, strict=True)):
            reach = (kernel[i] - 1) * self.dilations[i] + 1
            found = (size + self.pads[i] + self.pads[i + 2] - reach) // self.strides[i] + 1
            kept = found // 2 if self.pool else found
            if kept != out:
                raise TargetError(f"dimension {i + 2} of the output: expected {kept}, got {out}")
            if before[i] < self.pads[i] or behind[i] < (found - 1) * self.strides[i] + reach - self.pads[i]:
                raise TargetError(f"expected a halo that holds pads of {self.pads}, got {source}")
        if (self.source.channels, self.target.channels) != (depth * self.group, filters) or filters % self.group:
            raise TargetError(
                f"expected {self.source.channels} to {self.target.channels} channels, got weights of shape "
                f"{self.weights.shape} in {self.group} groups"
            )
        for planes in (self.source, self.target, *([self.added] if self.added else ())):
            if planes.dtype not in _STORED:
                raise TargetError(f"expected activations of f32 or f16, got {planes.dtype.name.lower()}")
            if self.images * planes.channels * planes.plane >= _MOST_ELEMENTS:
                raise TargetError(f"expected fewer than {_MOST_ELEMENTS} elements, got {self.images} x {planes}")

    @property
    def kernel(self) -> tuple[int, int]:
        """R and S."""
        return int(self.weights.shape[2]), int(self.weights.shape[3])

    @property
    def extent(self) -> tuple[int, int]:
        """Rows and columns of the pixels that are computed."""
        each = 2 if self.pool else 1
        return each * self.target.height, each * self.target.width

    @property
    def pixels(self) -> int:
        """That are computed, in all images."""
        return self.images * math.prod(self.extent)

    @property
    def density(self) -> float:
        """Share of the weights that are not zero."""
        return float(np.count_nonzero(self.weights)) / max(1, self.weights.size)

    @property
    def geometry(self) -> Geometry:
        """What its time depends on; the density to two digits, as the planner has it."""
        source, target = self.source, self.target
        return Geometry(
            self.weights.shape[0],
            self.weights.shape[1],
            self.kernel,
            self.strides,
            self.dilations,
            self.group,
            self.extent,
            self.images,
            float(f"{self.density:.2g}"),
            source.channels * source.height * source.width * source.dtype.bytes,
            target.dtype.bytes,
            self.added is not None,
            self.pool,
        )

    @property
    def flops(self) -> int:
        """Floating-point operations of the dense layer, 2 for a multiply-add."""
        return 2 * self.weights.size * self.pixels
