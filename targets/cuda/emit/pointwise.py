"""Convolution with a window of one element: pixels of all images in a row, one a thread, nothing shared.

No element is used by two threads, so values go from memory into registers, a chunk of channels ahead.
"""

from __future__ import annotations

import numpy as np

from targets.cuda.emit.address import Cursor, divide, pixel, pointer
from targets.cuda.emit.element import fetch, widen
from targets.cuda.emit.epilogue import finish
from targets.cuda.emit.multiply import multiply, start
from targets.cuda.emit.ptx import Builder
from targets.cuda.layer import ConvLayer
from targets.cuda.slices import Slice

__all__ = ["Pointwise"]


class Pointwise:
    """Emits the code that all slices of an entry share when it is made, and then slice by slice."""

    def __init__(self, builder: Builder, layer: ConvLayer, threads: int, chunk: int) -> None:
        b, self._b, self._layer, self._chunk = builder, builder, layer, chunk
        each = layer.target.height * layer.target.width
        index = b.new("r", "mad.lo.u32", b.new("r", "mov.u32", "%ctaid.x"), threads, b.new("r", "mov.u32", "%tid.x"))
        self._outside = None
        if each * layer.images % threads:
            self._outside = b.new("p", "setp.ge.u32", index, each * layer.images)
            index = b.new("r", "min.u32", index, each * layer.images - 1)
        image, place = divide(b, index, each, each * layer.images)
        y, x = divide(b, place, layer.target.width, each)
        begin = layer.source.origin - layer.pads[0] * layer.source.pitch - layer.pads[1]
        self._source = pointer(b, "x", layer.source, pixel(b, layer.source, image, y, x, layer.strides), begin)
        self._target = pointer(b, "y", layer.target, pixel(b, layer.target, image, y, x), layer.target.origin)
        self._residual = None
        if layer.added is not None:
            self._residual = pointer(b, "residual", layer.added, pixel(b, layer.added, image, y, x), layer.added.origin)

    def slice(self, slice: Slice) -> None:
        """The code of a slice, up to the stores."""
        b = self._b
        sums = start(b, slice.bias)
        used = np.flatnonzero(slice.weights.any(axis=(0, 2, 3)))
        chunks = [used[i : i + self._chunk] for i in range(0, len(used), self._chunk)]
        cursor = Cursor(b, self._source)
        values = self._load(cursor, slice, chunks[0]) if chunks else []
        for chunk, ahead in zip(chunks, (*chunks[1:], used[:0]), strict=False):
            following = self._load(cursor, slice, ahead)
            for channel, value in zip(chunk, values, strict=True):
                multiply(b, sums, widen(b, self._layer.source.dtype, value), slice.weights[:, channel, 0, 0])
            values = following
        end = b.label()
        if self._outside is not None:
            b.emit(f"@{self._outside} bra {end}")
        finish(b, self._layer, slice.channels, sums, self._target, self._residual)
        b.place(end)

    def _load(self, cursor: Cursor, slice: Slice, channels: np.ndarray) -> list[str]:
        source = self._layer.source
        offsets = source.dtype.bytes * source.plane * (slice.first + channels)
        return [fetch(self._b, source.dtype, cursor.at(int(offset))) for offset in offsets]
