"""Convolution with a window: a block stages its part of the input in shared memory, chunk of channels by chunk.

While a chunk is used, the next one is on its way through registers into the other buffer, so there is one barrier for
each chunk.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from targets.cuda.emit.address import Cursor, divide, pixel, pointer
from targets.cuda.emit.arithmetic import Arithmetic
from targets.cuda.emit.element import fetch
from targets.cuda.emit.epilogue import finish, pixel_of
from targets.cuda.emit.pool import pixel_in
from targets.cuda.emit.ptx import Builder
from targets.cuda.layer import ConvLayer
from targets.cuda.slices import Slice
from targets.cuda.tiling import Tile

__all__ = ["AHEAD", "Window"]

AHEAD = 16  # loads on the way at a time


class Window:
    """Emits the code that all slices of an entry share when it is made, and then slice by slice."""

    def __init__(self, builder: Builder, layer: ConvLayer, arithmetic: type[Arithmetic], tile: Tile) -> None:
        b = builder
        self._b, self._layer, self._arithmetic, self._tile = builder, layer, arithmetic, tile
        down, across = tile.grid(layer)
        thread = b.new("r", "mov.u32", "%tid.x")
        image = b.new("r", "mov.u32", "%ctaid.y")
        row, column = divide(b, b.new("r", "mov.u32", "%ctaid.x"), across, down * across)
        top, left = b.new("r", "mul.lo.u32", row, tile.down), b.new("r", "mul.lo.u32", column, tile.columns)
        self._shared = b.new("r", "mov.u32", "shared")
        self._stage(thread, image, top, left)
        self._own(thread, image, top, left)

    def _stage(self, thread: str, image: str, top: str, left: str) -> None:
        """Where the thread loads its element of the first pass from, and puts it."""
        b, layer, tile, source = self._b, self._layer, self._tile, self._layer.source
        line, column = divide(b, thread, tile.line, tile.threads)
        if tile.step * tile.line < tile.threads:  # the rest do again what others do: predicates would become branches
            line = b.new("r", "min.u32", line, tile.step - 1)
        first = pixel(b, source, image, top, left, layer.strides)
        within = b.new("r", "mad.lo.u32", line, source.pitch, b.new("r", "add.u32", first, column))
        begin = source.origin - layer.pads[0] * source.pitch - layer.pads[1]
        self._source = pointer(b, "x", source, within, begin)
        place, residue = column, None
        if layer.strides[1] > 1:
            place, residue = divide(b, column, layer.strides[1], tile.line)
            place = b.new("r", "mad.lo.u32", residue, tile.phase, place)
        at = b.new("r", "mad.lo.u32", line, tile.pitch, place)
        self._staged = b.new("r", "mad.lo.u32", at, 4, self._shared)

    def _own(self, thread: str, image: str, top: str, left: str) -> None:
        """Where the thread's window begins in shared memory, and where its pixels are in the output."""
        b, layer, tile = self._b, self._layer, self._tile
        height, width = layer.extent
        own = pixel_in if layer.pool else divide
        row, column = own(b, thread, tile.columns, tile.threads)
        spare = []
        if tile.rows * tile.columns < tile.threads:
            spare.append(b.new("p", "setp.ge.u32", row, tile.rows))
            row = b.new("r", "min.u32", row, tile.rows - 1)
        at = b.new("r", "mad.lo.u32", row, layer.strides[0] * tile.pitch, column)
        self._window = b.new("r", "mad.lo.u32", at, 4, self._shared)
        y, x = b.new("r", "add.u32", top, row), b.new("r", "add.u32", left, column)
        guards = []
        for number in range(tile.pixels):
            outside = list(spare)
            if height % tile.down:
                outside.append(b.new("p", "setp.ge.u32", y, max(0, height - number * tile.rows)))
            if width % tile.columns:
                outside.append(b.new("p", "setp.ge.u32", x, width))
            guards.append(tuple(outside))
        first = pixel_of(b, layer, thread, image, y, x)
        self._pixels = [replace(first, outside=own, lines=i * tile.rows) for i, own in enumerate(guards)]

    def slice(self, slice: Slice) -> None:
        """The code of a slice, up to the stores."""
        b, tile = self._b, self._tile
        sums = self._arithmetic(b, slice.bias)
        kind, type = sums.register
        used = np.flatnonzero(slice.weights.any(axis=(0, 2, 3)))
        chunks = [used[i : i + tile.chunk] for i in range(0, len(used), tile.chunk)]
        cursors = [Cursor(b, self._source) for _ in range(tile.pixels)]
        for batch in self._batches(chunks[0], slice.first, 0) if chunks else ():
            self._put(batch, self._load(cursors, batch))
        for number, chunk in enumerate(chunks):
            b.emit("bar.sync 0")
            ahead = chunks[number + 1] if number + 1 < len(chunks) else ()
            batches = self._batches(ahead, slice.first, (number + 1) % 2) or [[]]
            taps = list(self._taps(chunk, slice.weights, number % 2))
            for part, batch in enumerate(batches):
                values = self._load(cursors, batch)
                for offset, weights in taps[part * len(taps) // len(batches) : (part + 1) * len(taps) // len(batches)]:
                    sums.multiply(b.new(kind, f"ld.shared.{type}", f"[{self._window}+{4 * offset}]"), weights)
                self._put(batch, values)
            sums.settle()
        for own, place in zip(sums.sums(), self._pixels, strict=True):
            finish(b, self._layer, slice.channels, own, place)

    def _taps(self, chunk: np.ndarray, weights: np.ndarray, buffer: int) -> Iterator[tuple[int, np.ndarray]]:
        """Offset of each element of the window that is used from its begin in shared memory, and its weights."""
        layer, tile = self._layer, self._tile
        for place, channel in enumerate(chunk):
            for r, s in np.argwhere(weights[:, channel].any(axis=0)):
                phase = divmod(int(s) * layer.dilations[1], layer.strides[1])
                offset = (buffer * tile.chunk + place) * tile.channel + int(r) * layer.dilations[0] * tile.pitch
                yield offset + phase[1] * tile.phase + phase[0], weights[:, channel, r, s]

    def _batches(self, chunk: Sequence[int] | np.ndarray, first: int, buffer: int) -> list[list[tuple[int, int]]]:
        """Byte offsets of a chunk's elements in x and in shared memory, in batches that are on the way together."""
        tile, source = self._tile, self._layer.source
        offsets = [
            (
                source.dtype.bytes * ((first + int(channel)) * source.plane + p * tile.step * source.pitch),
                4 * ((buffer * tile.chunk + place) * tile.channel + p * tile.step * tile.pitch),
            )
            for place, channel in enumerate(chunk)
            for p in range(tile.passes)
        ]
        most = AHEAD // tile.pixels
        return [offsets[i : i + most] for i in range(0, len(offsets), most)]

    def _load(self, cursors: Sequence[Cursor], batch: Sequence[tuple[int, int]]) -> list[list[str]]:
        """The elements that the windows of all pixels have at the same place."""
        source = self._layer.source
        further = source.dtype.bytes * self._tile.rows * self._layer.strides[0] * source.pitch
        return [
            [fetch(self._b, source.dtype, cursor.at(offset + i * further)) for i, cursor in enumerate(cursors)]
            for offset, _ in batch
        ]

    def _put(self, batch: Sequence[tuple[int, int]], values: Sequence[Sequence[str]]) -> None:
        for elements, (_, offset) in zip(values, batch, strict=True):
            value = self._arithmetic.operand(self._b, self._layer.source.dtype, elements)
            self._b.emit(f"st.shared.{self._arithmetic.register[1]} [{self._staged}+{offset}], {value}")
