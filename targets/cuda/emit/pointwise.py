"""Convolution with a window of one element: pixels of all images in a row, one or two a thread, nothing shared.

No element is used by two threads, so values go from memory into registers, a chunk of channels ahead.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from targets.cuda.emit.address import Cursor, divide, pixel, pointer
from targets.cuda.emit.arithmetic import Arithmetic
from targets.cuda.emit.element import fetch
from targets.cuda.emit.epilogue import finish, pixel_of
from targets.cuda.emit.pool import pixel_in
from targets.cuda.emit.ptx import Builder
from targets.cuda.layer import ConvLayer
from targets.cuda.slices import Slice

__all__ = ["Pointwise"]


class Pointwise:
    """Emits the code that all slices of an entry share when it is made, and then slice by slice."""

    def __init__(
        self, builder: Builder, layer: ConvLayer, arithmetic: type[Arithmetic], threads: int, chunk: int
    ) -> None:
        b, self._b, self._layer, self._arithmetic, self._chunk = builder, builder, layer, arithmetic, chunk
        (height, width), source = layer.extent, layer.source
        block, begin = threads * arithmetic.pixels, source.origin - layer.pads[0] * source.pitch - layer.pads[1]
        first = b.new("r", "mad.lo.u32", b.new("r", "mov.u32", "%ctaid.x"), block, b.new("r", "mov.u32", "%tid.x"))
        self._sources, self._pixels = [], []
        for number in range(arithmetic.pixels):
            index, outside = b.new("r", "add.u32", first, number * threads) if number else first, []
            if layer.pixels % block:
                outside.append(b.new("p", "setp.ge.u32", index, layer.pixels))
                index = b.new("r", "min.u32", index, layer.pixels - 1)
            image, place = divide(b, index, height * width, layer.pixels)
            own = pixel_in if layer.pool else divide
            y, x = own(b, place, width, height * width)
            self._sources.append(pointer(b, "x", source, pixel(b, source, image, y, x, layer.strides), begin))
            self._pixels.append(pixel_of(b, layer, place, image, y, x, outside))

    def slice(self, slice: Slice) -> None:
        """The code of a slice, up to the stores."""
        b = self._b
        sums = self._arithmetic(b, slice.bias)
        used = np.flatnonzero(slice.weights.any(axis=(0, 2, 3)))
        chunks = [used[i : i + self._chunk] for i in range(0, len(used), self._chunk)]
        cursors = [Cursor(b, source) for source in self._sources]
        values = self._load(cursors, slice, chunks[0]) if chunks else []
        for chunk, ahead in zip(chunks, (*chunks[1:], used[:0]), strict=False):
            following = self._load(cursors, slice, ahead)
            for channel, elements in zip(chunk, values, strict=True):
                value = sums.operand(b, self._layer.source.dtype, elements)
                sums.multiply(value, slice.weights[:, channel, 0, 0])
            sums.settle()
            values = following
        for own, place in zip(sums.sums(), self._pixels, strict=True):
            finish(b, self._layer, slice.channels, own, place)

    def _load(self, cursors: Sequence[Cursor], slice: Slice, channels: np.ndarray) -> list[list[str]]:
        """The elements of all pixels, channel by channel."""
        source = self._layer.source
        offsets = source.dtype.bytes * source.plane * (slice.first + channels)
        return [[fetch(self._b, source.dtype, cursor.at(int(offset))) for cursor in cursors] for offset in offsets]
