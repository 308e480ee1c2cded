"""What happens to sums while they are in registers: residual, activation, pooling, stores."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from targets.cuda.emit.activation import activate
from targets.cuda.emit.address import Cursor, Pointer, pixel, pointer
from targets.cuda.emit.element import fetch, store, widen
from targets.cuda.emit.pool import first_of, pooled
from targets.cuda.emit.ptx import Builder
from targets.cuda.layer import ConvLayer, Planes

__all__ = ["Pixel", "finish", "pixel_of"]


@dataclass(frozen=True, slots=True)
class Pixel:
    """A thread's pixel, in channel 0 of output and residual `lines` below where they point; none where a predicate of
    `outside` holds. With pooling the output has half as many lines, and the predicate `first` says who stores."""

    outside: tuple[str, ...]
    target: Pointer
    residual: Pointer | None
    lines: int = 0
    first: str | None = None


def pixel_of(
    b: Builder, layer: ConvLayer, thread: str, image: str, y: str, x: str, outside: Sequence[str] = ()
) -> Pixel:
    """The pixel of an image's row y and column x, which a thread has."""
    target, residual, first = layer.target, None, None
    if (added := layer.added) is not None:
        residual = pointer(b, "residual", added, pixel(b, added, image, y, x), added.origin)
    if layer.pool:
        first, y, x = first_of(b, thread), b.new("r", "shr.u32", y, 1), b.new("r", "shr.u32", x, 1)
    own = pointer(b, "y", target, pixel(b, target, image, y, x), target.origin)
    return Pixel(tuple(outside), own, residual, first=first)


def finish(b: Builder, layer: ConvLayer, channels: Sequence[int], sums: Sequence[str], place: Pixel) -> None:
    """Finish the sums of a pixel's ascending output channels and store them. The pixels of a window that is pooled are
    outside together, so that those who meet are here."""
    end = b.label()
    for predicate in place.outside:
        b.emit(f"@{predicate} bra {end}")
    out = Cursor(b, place.target)
    added = None if place.residual is None else Cursor(b, place.residual)
    lines = place.lines // 2 if layer.pool else place.lines
    for channel, total in zip(channels, sums, strict=True):
        if added is not None and layer.added is not None:
            value = fetch(b, layer.added.dtype, added.at(_offset(layer.added, channel, place.lines)), cache="")
            total = b.new("f", "add.rn.f32", total, widen(b, layer.added.dtype, value))
        total = activate(b, total, layer.activation)
        if layer.pool:
            total = pooled(b, layer.pool, (total,), layer.activation)
        address = out.at(_offset(layer.target, channel, lines))
        with b.only(place.first):
            store(b, layer.target.dtype, address, total)
    b.place(end)


def _offset(planes: Planes, channel: int, lines: int) -> int:
    """Bytes to the same column of a channel so many lines down."""
    return planes.dtype.bytes * (channel * planes.plane + lines * planes.pitch)
