"""Sparse convolution with weights as data: pairs of value and offset are streamed through shared memory."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from packer.ir import DType
from targets.base import TargetError
from targets.cuda.emit.activation import activate
from targets.cuda.emit.address import divide, pixel
from targets.cuda.emit.element import fetch, store, widen
from targets.cuda.emit.pool import first_of, pooled
from targets.cuda.emit.ptx import Builder, f32, module
from targets.cuda.generic.access import address
from targets.cuda.geometry import RESIDUAL
from targets.cuda.kernel import Code, Kernel
from targets.cuda.layer import ConvLayer, Planes
from targets.cuda.stream.pack import Stream, stream_of
from targets.cuda.stream.stage import Input, stage_stream
from targets.cuda.stream.tile import MOST_SHARED, RUN, Settings, Tile, settings_of, tile_of

__all__ = ["conv"]

_NONE = (1 << 32) - 1


def conv(layer: ConvLayer, settings: Settings | None = None) -> Code:
    """The layer in one kernel. Operands are x, the tables and words of `Stream`, perhaps the bias, perhaps the
    residual. Raises TargetError where shared memory is too small for the settings."""
    settings, tile, stream = _fitting(layer) if settings is None else _staged(layer, settings)
    operands: dict[str, int | np.ndarray] = {"x": 0}
    operands |= {"filters": stream.filters, "first": stream.first, "begins": stream.begins, "words": stream.words}
    if layer.bias is not None:
        operands["bias"] = layer.bias
    if layer.added is not None:
        operands["residual"] = RESIDUAL
    shared = _shared(settings, tile, stream)
    if shared > MOST_SHARED:
        raise TargetError(f"expected at most {MOST_SHARED} bytes of shared memory, got {shared} for {settings}")
    b = Builder()
    _Body(b, layer, settings, tile, stream).run()
    tiles = -(-layer.extent[0] // settings.rows) * -(-layer.extent[1] // settings.columns)
    text = b.entry("stream_conv", (*operands, "y"), settings.threads, shared, settings.registers)
    kernel = Kernel("stream_conv", module(text), (tiles, layer.images, len(stream.first)), settings.threads)
    return Code((kernel,), tuple(operands.values()))


def _staged(layer: ConvLayer, settings: Settings) -> tuple[Settings, Tile, Stream]:
    tile = tile_of(layer.geometry, settings)
    return settings, tile, stream_of(layer, settings, tile)


def _fitting(layer: ConvLayer) -> tuple[Settings, Tile, Stream]:
    """Settings for the layer, fewer channels staged at a time where weights are crowded in some."""
    found = _staged(layer, settings_of(layer.geometry))
    while _shared(*found) > MOST_SHARED:
        found = _staged(layer, replace(found[0], depth=found[0].depth // 2))
    return found


def _shared(settings: Settings, tile: Tile, stream: Stream) -> int:
    return _input_bytes(settings, tile) + stream.most


def _input_bytes(settings: Settings, tile: Tile) -> int:
    return -(-4 * settings.depth * tile.channel // 16) * 16


class _Body:
    """Emits the kernel."""

    def __init__(self, b: Builder, layer: ConvLayer, settings: Settings, tile: Tile, stream: Stream) -> None:
        self._b, self._layer, self._settings, self._tile, self._stream = b, layer, settings, tile, stream
        self._thread = b.new("r", "mov.u32", "%tid.x")
        self._block = b.new("r", "mov.u32", "%ctaid.z")
        self._image = b.new("r", "mov.u32", "%ctaid.y")
        across = -(-layer.extent[1] // settings.columns)
        tiles = across * -(-layer.extent[0] // settings.rows)
        row, column = divide(b, b.new("r", "mov.u32", "%ctaid.x"), across, tiles)
        self._top = b.new("r", "mul.lo.u32", row, settings.rows)
        self._left = b.new("r", "mul.lo.u32", column, settings.columns)
        self._shared = b.new("r", "mov.u32", "shared")
        self._area = b.new("r", "add.u32", self._shared, _input_bytes(settings, tile))
        self._sums = [[b.new("f", "mov.f32", f32(0)) for _ in range(settings.high)] for _ in range(settings.channels)]

    def run(self) -> None:
        """All chunks, and what is done with the sums."""
        b, settings, tile = self._b, self._settings, self._tile
        part, place = divide(b, self._thread, settings.places, settings.threads)
        group, column = divide(b, place, settings.columns, settings.places)
        outside = None
        if settings.columns * settings.groups < settings.places:
            outside = b.new("p", "setp.ge.u32", group, settings.groups)
            group = b.new("r", "min.u32", group, settings.groups - 1)
        row = b.new("r", "mul.lo.u32", group, settings.high)
        at = b.new("r", "mad.lo.u32", row, self._layer.strides[0] * tile.pitch, column)
        window = b.new("r", "mad.lo.u32", at, 4, self._shared)
        slot = b.new("r", "mul.lo.u32", part, settings.channels)
        heads = b.new("r", "mad.lo.u32", slot, 4, self._area)
        self._chunks(window, heads)
        self._finish(slot, b.new("r", "add.u32", self._top, row), b.new("r", "add.u32", self._left, column), outside)
        b.emit("ret")

    def _chunks(self, window: str, heads: str) -> None:
        b, stream = self._b, self._stream
        first = b.new("r", "ld.global.nc.u32", f"[{address(b, 'first', self._block, DType.U32)}]")
        source = Input(b, self._layer, self._settings, self._tile, self._thread, stream.depth)
        source.start(self._image, first, self._top, self._left, self._shared)
        begins = address(b, "begins", b.new("r", "mul.lo.u32", self._block, stream.chunks), DType.U32)
        chunk = b.new("r", "mov.u32", 0)
        begin = b.label()
        b.place(begin)
        source.stage(chunk)
        stage_stream(b, self._settings.threads, self._thread, begins, self._area)
        b.emit("bar.sync 0")
        here = b.new("r", "ld.shared.u32", f"[{heads}]")
        for number, own in enumerate(self._sums):
            end = b.new("r", "ld.shared.u32", f"[{heads}+{4 * (number + 1)}]")
            self._list(own, window, here, end)
            here = end
        if stream.chunks > 1:
            b.emit("bar.sync 0")
            b.emit(f"add.s64 {begins}, {begins}, 4")
            b.emit(f"add.u32 {chunk}, {chunk}, 1")
            b.emit(f"@{b.new('p', 'setp.lt.u32', chunk, stream.chunks)} bra {begin}")

    def _list(self, own: list[str], window: str, here: str, end: str) -> None:
        """Multiply-adds of a filter: `here` and `end` say where its list is."""
        b = self._b
        step = 4 * self._layer.strides[0] * self._tile.pitch
        at, behind = b.new("r", "add.u32", here, self._area), b.new("r", "add.u32", end, self._area)
        begin, out = b.label(), b.label()
        b.place(begin)
        b.emit('.pragma "nounroll"')
        b.emit(f"@{b.new('p', 'setp.ge.u32', at, behind)} bra {out}")
        words = [b.register("r") for _ in range(2 * RUN)]
        for i in range(0, 2 * RUN, 4):
            b.emit(f"ld.shared.v4.u32 {{{', '.join(words[i : i + 4])}}}, [{at}+{4 * i}]")
        for value, offset in zip(words[::2], words[1::2], strict=True):
            place = b.new("r", "add.u32", window, offset)
            weight = b.new("f", "mov.b32", value)
            inputs = [b.new("f", "ld.shared.f32", f"[{place}+{j * step}]") for j in range(len(own))]
            for total, x in zip(own, inputs, strict=True):
                b.emit(f"fma.rn.f32 {total}, {x}, {weight}, {total}")
        b.emit(f"add.u32 {at}, {at}, {8 * RUN}")
        b.emit(f"bra {begin}")
        b.place(out)

    def _finish(self, slot: str, y: str, x: str, outside: str | None) -> None:
        """Bias, residual, activation, pooling and stores. Threads beside each other have a window's two columns."""
        b, layer, settings = self._b, self._layer, self._settings
        height, width = layer.extent
        each = 2 if layer.pool else 1  # rows of a result
        if outside is not None:
            b.emit(f"@{outside} ret")
        if width % settings.columns:
            b.emit(f"@{b.new('p', 'setp.ge.u32', x, width)} ret")
        stores = first_of(b, x, 2) if layer.pool else None
        to = tuple(b.new("r", "shr.u32", at, 1) for at in (y, x)) if layer.pool else (y, x)
        slot = b.new("r", "mad.lo.u32", self._block, settings.filters, slot)
        filters = address(b, "filters", slot, DType.U32)
        loaded = [b.new("r", "ld.global.nc.u32", f"[{filters}+{4 * i}]") for i in range(settings.channels)]
        for filter, own in zip(loaded, self._sums, strict=True):
            end = b.label()
            b.emit(f"@{b.new('p', 'setp.eq.u32', filter, _NONE)} bra {end}")
            if layer.bias is not None:
                bias = b.new("f", "ld.global.nc.f32", f"[{address(b, 'bias', filter, DType.F32)}]")
                own = [b.new("f", "add.rn.f32", total, bias) for total in own]
            target = self._pixel("y", layer.target, filter, *to)
            residual = "" if layer.added is None else self._pixel("residual", layer.added, filter, y, x)
            for j in range(0, settings.high, each):
                if height % settings.rows:
                    b.emit(f"@{b.new('p', 'setp.ge.u32', y, height - j)} bra {end}")
                values = [self._finished(total, residual, j + i) for i, total in enumerate(own[j : j + each])]
                value = pooled(b, layer.pool, values, layer.activation) if layer.pool else values[0]
                at = f"[{target}+{j // each * layer.target.pitch * layer.target.dtype.bytes}]"
                with b.only(stores):
                    store(b, layer.target.dtype, at, value)
            b.place(end)

    def _finished(self, total: str, residual: str, row: int) -> str:
        """A sum with the residual so many rows below the thread's first, and the activation."""
        b, added = self._b, self._layer.added
        if added is not None:
            at = f"[{residual}+{row * added.pitch * added.dtype.bytes}]"
            total = b.new("f", "add.rn.f32", total, widen(b, added.dtype, fetch(b, added.dtype, at, cache="")))
        return activate(b, total, self._layer.activation)

    def _pixel(self, name: str, planes: Planes, filter: str, y: str, x: str) -> str:
        """The address of the thread's first pixel in an output channel."""
        b = self._b
        at = b.new("r", "mad.lo.u32", filter, planes.plane, pixel(b, planes, self._image, y, x))
        return address(b, name, b.new("r", "add.u32", at, planes.origin), planes.dtype)
