"""How a thread block covers the output, and how it keeps its part of the input in shared memory."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache

from targets.base import TargetError
from targets.cuda.geometry import Geometry
from targets.cuda.lanes import conflicts
from targets.cuda.layer import ConvLayer

__all__ = ["Tile", "choose", "tile_of", "tiles"]

_WARP = 32
_MOST_THREADS = 128
_MOST_AHEAD = 16  # registers of a thread for input that is fetched ahead
_MOST_SHARED = 16 * 1024  # bytes a block: four blocks fit on a multiprocessor of 64 KB


@dataclass(frozen=True, slots=True)
class Tile:
    """Output pixels `rows` x `columns` of a block of `threads`, one a thread, and the input that they need; lanes.py
    says who has which.

    With two `pixels` a thread, the second one is `rows` further down, and the block has `down` rows. A word of shared
    memory then holds what the two have at the same place of their windows.

    Of a channel, `lines` x `line` elements are staged. A thread loads one element in each of `passes`, `step` lines
    further on each time; `step * line` threads take part. In shared memory a line takes `pitch` elements, and columns
    of the input that are equal modulo the stride lie together, `phase` elements for each residue, so that neighbouring
    pixels read neighbouring words. `chunk` channels are staged at a time, in two buffers.
    """

    rows: int
    columns: int
    threads: int
    lines: int
    line: int
    passes: int
    step: int
    phase: int
    pitch: int
    chunk: int
    pixels: int = 1

    @property
    def down(self) -> int:
        """Rows of the output."""
        return self.rows * self.pixels

    @property
    def channel(self) -> int:
        """Elements of shared memory for one channel."""
        return self.passes * self.step * self.pitch

    @property
    def shared(self) -> int:
        """Bytes of shared memory."""
        return 2 * self.chunk * self.channel * 4

    def grid(self, layer: ConvLayer) -> tuple[int, int]:
        """Tiles down and across the output."""
        height, width = layer.extent
        return -(-height // self.down), -(-width // self.columns)

    def slack(self, layer: ConvLayer) -> int:
        """Elements behind the last plane of the input that loads touch."""
        source = layer.source
        down, across = self.grid(layer)
        line = (down * self.down - self.rows) * layer.strides[0] + self.passes * self.step - 1
        column = (across - 1) * self.columns * layer.strides[1] + self.line - 1
        begin = source.origin - layer.pads[0] * source.pitch - layer.pads[1]
        return max(0, begin + line * source.pitch + column + 1 - source.plane)


def tile_of(layer: Geometry, rows: int, columns: int, chunk: int | None = None, pixels: int = 1) -> Tile | None:
    """The tile of that many threads, with `chunk` channels at a time (None: up to 8); None if it cannot be."""
    (height, width), (down, across) = layer.kernel, layer.strides
    threads = -(-rows * columns // _WARP) * _WARP
    lines = (rows - 1) * down + (height - 1) * layer.dilations[0] + 1
    line = (columns - 1) * across + (width - 1) * layer.dilations[1] + 1
    if line > threads:
        return None
    passes = -(-lines // (threads // line))
    step = -(-lines // passes)
    phase = -(-line // across)
    pitch = phase * across
    if layer.pool:
        pitch = min(range(pitch, pitch + _WARP), key=lambda p: conflicts(threads, columns, p * down, True))
    elif columns % _WARP:  # lanes of a warp that go on in the next row find other banks
        pitch = next((p for p in range(pitch, pitch + _WARP) if (p * down - columns) % _WARP == 0), pitch)
    channel = passes * step * pitch
    if chunk is None:
        chunk = max(1, min(8, layer.depth, _MOST_AHEAD // (passes * pixels), _MOST_SHARED // (8 * channel)))
    tile = Tile(rows, columns, threads, lines, line, passes, step, phase, pitch, chunk, pixels)
    return tile if tile.shared <= 48 * 1024 else None


@cache
def choose(layer: Geometry, channels: int, threads: tuple[int, int] = (96, _MOST_THREADS), pixels: int = 1) -> Tile:
    """The first of `tiles`. Raises TargetError if not even one row of a tile's input can be loaded at once."""
    found = tiles(layer, channels, threads, pixels, range(1, min(layer.extent[1], threads[1]) + 1))
    if not found:
        raise TargetError(f"a window of {layer.kernel}, dilated by {layer.dilations}, is too wide for a block")
    return found[0]


def tiles(
    layer: Geometry, channels: int, threads: tuple[int, int], pixels: int = 1, widths: Iterable[int] = ()
) -> list[Tile]:
    """Tiles of some widths, those with the fewest instructions for the layer first when a thread computes `channels`
    output channels of so many pixels. Without `widths` they are those of which a row of the output has just enough.

    Blocks have between the two numbers of threads, fewer only where the output is small. Those whose pixels are pooled
    have even numbers of rows and columns.
    """
    height, width = layer.extent
    taps = layer.kernel[0] * layer.kernel[1]
    multiplies = max(1.0, layer.density * channels * taps)  # of an input channel
    unit = 2 if layer.pool else 1  # rows and columns that belong together
    highest = -(-height // (pixels * unit)) * unit
    fewest = min(threads[0], highest * width)
    found: list[tuple[float, int, Tile]] = []
    for columns in widths or sorted({-(-width // (parts * unit)) * unit for parts in range(1, width + 1)}):
        for rows in range(unit, min(highest, threads[1] // columns) + 1, unit) if columns % unit == 0 else ():
            tile = tile_of(layer, rows, columns, pixels=pixels)
            if tile is None or tile.threads < fewest - _WARP + 1:
                continue
            down, across = -(-height // tile.down), -(-width // tile.columns)
            issued = multiplies + taps + 2 * tile.passes * pixels + 2 / tile.chunk
            found.append((down * across * tile.threads * issued, -columns, tile))
    return [tile for _, _, tile in sorted(found, key=lambda one: one[:2])]
