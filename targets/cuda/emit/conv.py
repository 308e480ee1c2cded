"""A convolution as entries: slices of output channels, those of an entry chosen by the grid's last dimension."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from targets.cuda.emit.arithmetic import Arithmetic, arithmetic_of
from targets.cuda.emit.pointwise import Pointwise
from targets.cuda.emit.ptx import Builder, module
from targets.cuda.emit.window import Window
from targets.cuda.kernel import Kernel
from targets.cuda.layer import ConvLayer
from targets.cuda.slices import MOST_MULTIPLIES, Slice, channels_a_thread, entries_of, slices_of
from targets.cuda.tiling import Tile, choose

__all__ = ["CHUNK", "Settings", "emit", "settings_of"]

CHUNK = 8  # input channels that are loaded together for windows of one element
_MOST_OF_HALVES = 32  # channels a thread: more would need more than 128 registers


@dataclass(frozen=True, slots=True)
class Settings:
    """What may be tuned: output channels a thread, the tile (None: flattened pixels, for windows of one element only),
    threads of a block, the most registers of a thread, multiply-adds of an entry, and how products are summed:
    "float32", or "half2" for twice as many pixels in about the same number of instructions. Halves take absolute values
    up to 65,504; the relative error of a layer is up to 8e-4."""

    channels: int
    tile: Tile | None
    threads: int
    registers: int = 128
    multiplies: int = MOST_MULTIPLIES
    arithmetic: str = "float32"


def settings_of(layer: ConvLayer, channels: int | None = None, arithmetic: str = "float32") -> Settings:
    """What is likely good for a layer: unrolled immediates (T1); with few `channels` a thread its code stays in the
    instruction cache (T1c). Blocks of one slice follow each other in both. With halves, a channel needs three registers
    instead of one, so half as many channels are a thread's."""
    pixels = arithmetic_of(arithmetic).pixels
    channels = channels or channels_a_thread(layer.weights)
    if pixels > 1:
        channels = min(channels, _MOST_OF_HALVES)
    if layer.kernel == (1, 1):
        return Settings(channels, None, 128, arithmetic=arithmetic)
    tile = choose(layer.geometry, min(channels, layer.weights.shape[0] // layer.group), pixels=pixels)
    return Settings(channels, tile, tile.threads, arithmetic=arithmetic)


def emit(layer: ConvLayer, settings: Settings | None = None, name: str = "conv") -> list[Kernel]:
    """The kernels of a layer, which may run in any order; entry i is called `name`_i."""
    settings = settings or settings_of(layer)
    arithmetic = arithmetic_of(settings.arithmetic)
    slices = slices_of(layer.weights, layer.bias, layer.group, settings.channels)
    parts = entries_of(slices, settings.multiplies, arithmetic.constants)
    return [_entry(layer, settings, arithmetic, part, f"{name}_{i}") for i, part in enumerate(parts)]


def _entry(
    layer: ConvLayer, settings: Settings, arithmetic: type[Arithmetic], slices: Sequence[Slice], name: str
) -> Kernel:
    b = Builder()
    body: Pointwise | Window
    if settings.tile is None:
        slack = 0
        body = Pointwise(b, layer, arithmetic, settings.threads, CHUNK)
        grid = (-(-layer.pixels // (settings.threads * arithmetic.pixels)), 1, len(slices))
    else:
        slack = settings.tile.slack(layer)
        body = Window(b, layer, arithmetic, settings.tile)
        down, across = settings.tile.grid(layer)
        grid = (down * across, layer.images, len(slices))
    which = b.new("r", "mov.u32", "%ctaid.z") if len(slices) > 1 else ""
    for number, slice in enumerate(slices):
        following = b.label() if number + 1 < len(slices) else None
        if following:
            b.emit(f"@{b.new('p', 'setp.ne.u32', which, number)} bra {following}")
        body.slice(slice)
        b.emit("ret")
        if following:
            b.place(following)
    parameters = ("x", "y") if layer.added is None else ("x", "residual", "y")
    shared = settings.tile.shared if settings.tile is not None else 0
    text = b.entry(name, parameters, settings.threads, shared, settings.registers)
    multiplies = sum(slice.multiplies for slice in slices)
    channels = tuple(slice.channels for slice in slices)
    return Kernel(name, module(text), grid, settings.threads, slack, channels, multiplies)
