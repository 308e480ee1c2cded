"""What goes from device memory to shared memory: a chunk of input channels, and its part of the stream."""

from __future__ import annotations

from packer.ir import DType
from targets.cuda.emit.address import divide
from targets.cuda.emit.element import fetch, widen
from targets.cuda.emit.ptx import Builder
from targets.cuda.generic.access import address
from targets.cuda.layer import ConvLayer
from targets.cuda.stream.tile import Settings, Tile

__all__ = ["Input", "stage_stream"]

_AHEAD = 16  # loads on the way at a time


class Input:
    """The input of a block, of `channels` channels, chunk by chunk."""

    def __init__(
        self, b: Builder, layer: ConvLayer, settings: Settings, tile: Tile, thread: str, channels: int
    ) -> None:
        self._b, self._layer, self._settings, self._tile = b, layer, settings, tile
        self._thread, self._channels = thread, channels
        self._passes: list[tuple[str, str, str | None]] = []  # address, place in shared memory, predicate

    def start(self, image: str, first: str, top: str, left: str, shared: str) -> None:
        """Where threads load from and store to; behind a plane's last line or column the last one comes again."""
        b, source, tile, strides = self._b, self._layer.source, self._tile, self._layer.strides
        begin = source.origin - self._layer.pads[0] * source.pitch - self._layer.pads[1]
        line0, column0 = divmod(begin, source.pitch)
        unit, threads = tile.lines * tile.line, self._settings.threads
        plane = b.new("r", "mad.lo.u32", image, source.channels, first)
        for number in range(tile.passes):
            index = b.new("r", "add.u32", self._thread, number * threads)
            inside = None
            if (number + 1) * threads > tile.together * unit:
                inside = b.new("p", "setp.lt.u32", index, tile.together * unit)
            channel, rest = divide(b, index, unit, (number + 1) * threads)
            line, column = divide(b, rest, tile.line, max(unit, threads))
            y = b.new("r", "mad.lo.u32", top, strides[0], b.new("r", "add.u32", line, line0))
            x = b.new("r", "mad.lo.u32", left, strides[1], b.new("r", "add.u32", column, column0))
            y = b.new("r", "min.u32", y, source.plane // source.pitch - 1)
            x = b.new("r", "min.u32", x, source.pitch - 1)
            at = b.new("r", "mad.lo.u32", y, source.pitch, x)
            at = b.new("r", "mad.lo.u32", b.new("r", "add.u32", plane, channel), source.plane, at)
            place, residue = divide(b, column, strides[1], tile.line)
            place = b.new("r", "mad.lo.u32", residue, tile.phase, place)
            place = b.new("r", "mad.lo.u32", line, tile.pitch, place)
            place = b.new("r", "mad.lo.u32", channel, tile.channel, place)
            to = b.new("r", "mad.lo.u32", place, 4, shared)
            self._passes.append((address(b, "x", at, source.dtype), to, inside))

    def stage(self, chunk: str) -> None:
        """Load the chunk and store it to shared memory. The last one is as long as the others, and ends at the end."""
        b, tile, source, depth = self._b, self._tile, self._layer.source, self._settings.depth
        channel = b.new("r", "mul.lo.u32", chunk, depth)
        if self._channels % depth:
            channel = b.new("r", "min.u32", channel, self._channels - depth)
        size = source.plane * source.dtype.bytes
        behind = b.new("d", "mul.wide.u32", channel, size)
        places = [(b.new("d", "add.s64", at, behind), to, inside) for at, to, inside in self._passes]
        loads = [(place, step) for step in range(0, depth, tile.together) for place in places]
        for begin in range(0, len(loads), _AHEAD):
            batch = loads[begin : begin + _AHEAD]
            values = [fetch(b, source.dtype, f"[{at}+{step * size}]", inside=inside) for (at, _, inside), step in batch]
            for value, ((_, to, inside), step) in zip(values, batch, strict=True):
                word = widen(b, source.dtype, value)
                with b.only(inside):
                    b.emit(f"st.shared.f32 [{to}+{4 * step * tile.channel}], {word}")


def stage_stream(b: Builder, threads: int, thread: str, begins: str, area: str) -> None:
    """Copy the part of the stream whose begin and end are at the address `begins`, 16 bytes a thread at a time."""
    begin = b.new("r", "ld.global.nc.u32", f"[{begins}]")
    count = b.new("r", "sub.u32", b.new("r", "ld.global.nc.u32", f"[{begins}+4]"), begin)
    line = b.new("r", "mov.u32", thread)
    at = address(b, "words", b.new("r", "mul.lo.u32", b.new("r", "add.u32", begin, line), 4), DType.U32)
    to = b.new("r", "mad.lo.u32", line, 16, area)
    again, end = b.label(), b.label()
    b.place(again)
    b.emit(f"@{b.new('p', 'setp.ge.u32', line, count)} bra {end}")
    words = ", ".join(b.register("r") for _ in range(4))
    b.emit(f"ld.global.nc.v4.u32 {{{words}}}, [{at}]")
    b.emit(f"st.shared.v4.u32 [{to}], {{{words}}}")
    b.emit(f"add.s64 {at}, {at}, {16 * threads}")
    b.emit(f"add.u32 {to}, {to}, {16 * threads}")
    b.emit(f"add.u32 {line}, {line}, {threads}")
    b.emit(f"bra {again}")
    b.place(end)
