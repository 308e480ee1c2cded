"""What happens to sums while they are in registers: residual, activation, stores."""

from __future__ import annotations

from collections.abc import Sequence

from targets.cuda.emit.activation import activate
from targets.cuda.emit.address import Cursor, Pointer
from targets.cuda.emit.ptx import Builder
from targets.cuda.layer import ConvLayer

__all__ = ["store"]


def store(
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
            value = b.new("f", "ld.global.f32", added.at(4 * channel * layer.added.plane))
            total = b.new("f", "add.rn.f32", total, value)
        b.emit(f"st.global.f32 {out.at(4 * channel * layer.target.plane)}, {activate(b, total, layer.activation)}")
