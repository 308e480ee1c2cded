"""What happens to sums while they are in registers: residual, activation, stores."""

from __future__ import annotations

from collections.abc import Sequence

from targets.cuda.emit.activation import activate
from targets.cuda.emit.address import Cursor, Pointer
from targets.cuda.emit.element import fetch, store, widen
from targets.cuda.emit.ptx import Builder
from targets.cuda.layer import ConvLayer

__all__ = ["finish"]


def finish(
    b: Builder,
    layer: ConvLayer,
    channels: Sequence[int],
    sums: Sequence[str],
    target: Pointer,
    residual: Pointer | None,
) -> None:
    """Finish the sums of the ascending output channels and store them; `target` and `residual` point to the pixel in
    channel 0."""
    out = Cursor(b, target)
    added = None if residual is None else Cursor(b, residual)
    for channel, total in zip(channels, sums, strict=True):
        if added is not None and layer.added is not None:
            own = layer.added.dtype
            value = fetch(b, own, added.at(own.bytes * channel * layer.added.plane), cache="")
            total = b.new("f", "add.rn.f32", total, widen(b, own, value))
        address = out.at(layer.target.dtype.bytes * channel * layer.target.plane)
        store(b, layer.target.dtype, address, activate(b, total, layer.activation))
