"""What the time of a convolution depends on, without its weights."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from packer.ir import DType, TensorType
from packer.ir.ops import Conv

__all__ = ["POOLS", "RESIDUAL", "Geometry"]

POOLS = ("max", "average")  # of 2 x 2 pixels, which a convolution's kernel may do
RESIDUAL = 3  # its number among the inputs of a `Conv` node; 0 is x


@dataclass(frozen=True, slots=True)
class Geometry:
    """A convolution in two dimensions of `filters` output channels in `group` groups, each over `depth` input channels;
    rows come first in all pairs, `extent` is that of the pixels that are computed. `density` is the share of weights
    that are not zero. `size` are the bytes of an element of activations, `source` those of one image of the input. With
    a `pool` of POOLS that is all that is kept of each 2 x 2 pixels; a last row or column without a partner is not
    computed."""

    filters: int
    depth: int
    kernel: tuple[int, int]
    strides: tuple[int, int]
    dilations: tuple[int, int]
    group: int
    extent: tuple[int, int]
    images: int
    density: float
    source: int
    size: int = 4
    added: bool = False
    pool: str = ""

    @classmethod
    def of(
        cls,
        op: Conv,
        inputs: Sequence[TensorType | None],
        output: TensorType,
        density: float,
        storage: DType,
        pool: str = "",
    ) -> Geometry:
        """Of an operator over tensors, floats stored as `storage`, and of the pooling that follows."""
        height, width = output.shape[2:]
        x, weights = inputs[:2]
        assert x is not None
        assert weights is not None
        return cls(
            weights.shape[0],
            weights.shape[1],
            (weights.shape[2], weights.shape[3]),
            (op.strides[0], op.strides[1]),
            (op.dilations[0], op.dilations[1]),
            op.group,
            (height // 2 * 2, width // 2 * 2) if pool else (height, width),
            output.shape[0],
            density,
            x.elements // x.shape[0] * storage.bytes,
            storage.bytes,
            len(inputs) > RESIDUAL and inputs[RESIDUAL] is not None,
            pool,
        )

    @property
    def each(self) -> int:
        """Output channels of a group."""
        return self.filters // self.group

    @property
    def pixels(self) -> int:
        """That are computed, in all images."""
        return self.images * math.prod(self.extent)

    @property
    def kept(self) -> float:
        """The share of the pixels that is stored."""
        return 0.25 if self.pool else 1.0

    @property
    def taps(self) -> int:
        """Weights of an output channel."""
        return self.depth * math.prod(self.kernel)

    @property
    def nonzeros(self) -> float:
        """Weights that are not zero."""
        return self.filters * self.taps * self.density

    def used(self, channels: float, taps: int = 1) -> float:
        """The share of what belongs to so many taps, by which any of so many output channels is multiplied."""
        return float(1 - (1 - min(1.0, self.density)) ** (channels * taps))
