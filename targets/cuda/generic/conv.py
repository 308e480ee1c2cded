"""Convolutions with few channels in a group, depthwise ones above all, in one or two dimensions, weights from memory.

What counts is how often activations pass through the caches. A warp has strips of output columns, and each lane goes
down some output rows: it loads its own columns of each input row once, and gets the others under its windows from the
lanes beside it. Lanes behind the end of a strip only load.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from packer.ir import DType
from packer.ir.ops import Conv
from targets.cuda.array import Array
from targets.cuda.emit.activation import activate
from targets.cuda.emit.address import divide
from targets.cuda.emit.ptx import Builder, f32, module
from targets.cuda.generic.access import Constants, Inputs, address, coordinates, load, operand, store
from targets.cuda.generic.window import Axis, both, rooms
from targets.cuda.kernel import Code, Kernel

__all__ = ["conv"]

_WARP, _THREADS = 32, 128
_BORROWED = 8  # lanes of a strip that only load
_ROWS = 8  # output rows that a lane goes down
_SUMS = 16  # of a lane
_WEIGHTS = 64  # that a lane keeps in registers
_FEWEST = 1 << 11  # threads that keep a small GPU busy
_WORD = 1 << 32


def conv(op: Conv, inputs: Inputs, outputs: Sequence[Array], constants: Constants) -> Code | None:
    """Any strides, pads, dilations and groups; weights may be known or not. Sums are float32."""
    given = [array for array in (*inputs, outputs[0]) if array is not None]
    if any(a.dtype not in (DType.F32, DType.F16) or len(a.shape) > 4 for a in given):
        return None
    x, w, bias, residual = (*inputs, None, None)[:4]
    if x is None or w is None or not x.elements:
        return None
    numbers = [number for number, array in enumerate(inputs) if array is not None]
    names = [("x", "w", "bias", "residual")[number] for number in numbers] + ["y"]
    lifted = len(x.shape) == 3
    y = outputs[0]
    if lifted:
        x, w, y = (_lifted(array) for array in (x, w, y))
        residual = None if residual is None else _lifted(residual)
        op = replace(op, strides=(1, *op.strides), dilations=(1, *op.dilations), pads=(0, op.pads[0], 0, op.pads[1]))
    around = [(0, 0), (0, 0)] if lifted else rooms(x)
    emitted = _Conv(op, x, w, bias, residual, y, around)
    kernel = emitted.kernel(names)
    return Code((kernel,), tuple(operand(number, inputs, constants) for number in numbers))


def _lifted(array: Array) -> Array:
    """A value of one spatial dimension as one of two, of one row."""
    n, c, step = array.strides
    return replace(array, shape=(*array.shape[:2], 1, array.shape[2]), strides=(n, c, c, step))


@dataclass(frozen=True, slots=True)
class _Strips:
    """How outputs are dealt: strips of `width` columns and bands of `rows` rows of `channels` channels. A strip takes
    `width` + `borrowed` lanes. The last strip and the last band begin early enough to be whole ones."""

    width: int
    borrowed: int
    rows: int
    channels: int

    @classmethod
    def of(cls, y: Array, each: int, taps: int, borrowed: int) -> _Strips:
        """`each` are the output channels of a group, `taps` the weights of a channel pair."""
        images, channels, height, width = y.shape
        together = max(n for n in range(1, 9) if each % n == 0 and (n == 1 or n * taps <= _WEIGHTS))
        across = -(-width // -(-width // (_WARP - borrowed)))
        most = min(_ROWS, _SUMS // together)
        while most > 1 and images * channels // together * -(-height // most) * width < _FEWEST:
            most //= 2
        return cls(across, borrowed, -(-height // -(-height // most)), together)

    @property
    def lanes(self) -> int:
        """Of a strip."""
        return self.width + self.borrowed

    @property
    def of_warp(self) -> int:
        """Strips of a warp."""
        return _WARP // self.lanes


class _Conv:
    def __init__(
        self,
        op: Conv,
        x: Array,
        w: Array,
        bias: Array | None,
        residual: Array | None,
        y: Array,
        around: Sequence[tuple[int, int]],
    ) -> None:
        self._op, self._x, self._w, self._bias, self._residual, self._y = op, x, w, bias, residual, y
        self._around = around
        self._filters, self._depth, *self._kernel = w.shape
        # Columns of a window by how far they are from its first one: strides, which are lanes, and what is left.
        reach = [divmod(tap * op.dilations[1], op.strides[1]) for tap in range(self._kernel[1])]
        self._passed = reach[-1][0] <= _BORROWED
        each = self._filters // op.group
        borrowed = reach[-1][0] if self._passed else 0
        self._taps = reach if self._passed else [(0, tap * op.dilations[1]) for tap in range(self._kernel[1])]
        self._strips = _Strips.of(y, each, self._kernel[0] * self._kernel[1], borrowed)
        self._b = Builder()

    def kernel(self, names: Sequence[str]) -> Kernel:
        b, strips, y = self._b, self._strips, self._y
        counts = (
            y.shape[0], self._filters // strips.channels, -(-y.shape[2] // strips.rows), -(-y.shape[3] // strips.width),
        )  # fmt: skip
        units = counts[0] * counts[1] * counts[2] * counts[3]
        thread = b.new("r", "mov.u32", "%tid.x")
        strip, lane = divide(b, b.new("r", "and.b32", thread, _WARP - 1), strips.lanes, _WARP)
        warp = b.new("r", "shr.u32", thread, 5)
        warp = b.new("r", "mad.lo.u32", b.new("r", "mov.u32", "%ctaid.x"), _THREADS // _WARP, warp)
        unit = b.new("r", "mad.lo.u32", warp, strips.of_warp, strip)
        stored = [
            b.new("p", "setp.lt.u32", strip, strips.of_warp) if strips.lanes * strips.of_warp < _WARP else None,
            b.new("p", "setp.lt.u32", lane, strips.width) if strips.borrowed else None,
            b.new("p", "setp.lt.u32", unit, units),
        ]
        image, channel, band, across = coordinates(b, b.new("r", "min.u32", unit, units - 1), counts)
        channel = b.new("r", "mul.lo.u32", channel, strips.channels)
        top, above = self._begin(band, strips.rows, y.shape[2])
        left, beside = self._begin(across, strips.width, y.shape[3])
        if beside is not None:
            stored.append(b.new("p", "setp.ge.u32", lane, beside))
        sums = self._sums(image, channel, top, left, lane)
        self._store(sums, image, channel, top, b.new("r", "add.u32", left, lane), stored, above)
        b.emit("ret")
        blocks = -(-units // (strips.of_warp * _THREADS // _WARP))
        return Kernel("conv", module(b.entry("conv", names, _THREADS)), (blocks, 1, 1), _THREADS)

    def _begin(self, part: str, size: int, extent: int) -> tuple[str, str | None]:
        """Where a strip or band begins, and, where not all are whole, how many of its outputs another one has too."""
        begin = self._b.new("r", "mul.lo.u32", part, size)
        if extent % size == 0:
            return begin, None
        early = self._b.new("r", "min.u32", begin, extent - size)
        return early, self._b.new("r", "sub.u32", begin, early)

    def _sums(self, image: str, channel: str, top: str, left: str, lane: str) -> list[list[str]]:
        """Registers with the sums, for each of the channels those of the rows."""
        b, op, x, w, strips = self._b, self._op, self._x, self._w, self._strips
        group, _ = divide(b, channel, self._filters // op.group, self._filters)
        sums = self._start(channel)
        weights = address(b, "w", b.new("r", "mad.lo.u32", channel, w.strides[0], w.origin), w.dtype)
        first = b.new("r", "mad.lo.u32", image, x.strides[0], self._corner())
        first = b.new("r", "mad.lo.u32", group, self._depth * x.strides[1], first)
        first = b.new("r", "mad.lo.u32", top, op.strides[0] * x.strides[2], first)
        rests = list(dict.fromkeys(rest for _, rest in self._taps))
        columns = [self._column(first, left, lane, rest) for rest in rests]
        count = (strips.rows - 1) * op.strides[0] + (self._kernel[0] - 1) * op.dilations[0] + 1
        axis = Axis(
            x.shape[2], self._y.shape[2] - strips.rows + 1, count, op.strides[0], 1, op.pads[0], *self._around[0]
        )
        rows: dict[int, list[tuple[int, int]]] = {}  # row of the input -> rows of the output, of the window
        for p in range(strips.rows):
            for r in range(self._kernel[0]):
                rows.setdefault(p * op.strides[0] + r * op.dilations[0], []).append((p, r))
        inside = {row: None if axis.readable(row) else axis.inside(b, top, row) for row in sorted(rows)}
        again, number = b.label(), b.new("r", "mov.u32", 0)
        if self._depth > 1:
            b.place(again)
        kept = strips.channels * self._kernel[0] * self._kernel[1] <= _WEIGHTS
        cache: dict[tuple[int, int, int], str] = {}
        for row in sorted(rows):
            found = [
                load(b, x.dtype, at, row * x.strides[2] * x.dtype.bytes, True, both(b, [inside[row], within]))
                for at, within in columns
            ]
            for s, (lanes, rest) in enumerate(self._taps):
                value = found[rests.index(rest)]
                if lanes:
                    value = b.new("f", "shfl.down.b32", value, lanes, _WARP - 1)
                for p, r in rows[row]:
                    for k in range(strips.channels):
                        if not kept or (k, r, s) not in cache:
                            offset = k * w.strides[0] + r * w.strides[2] + s * w.strides[3]
                            cache[k, r, s] = load(b, w.dtype, weights, offset * w.dtype.bytes, True)
                        b.emit(f"fma.rn.f32 {sums[k][p]}, {value}, {cache[k, r, s]}, {sums[k][p]}")
        if self._depth > 1:
            for at, _ in columns:
                b.emit(f"add.s64 {at}, {at}, {x.strides[1] * x.dtype.bytes}")
            b.emit(f"add.s64 {weights}, {weights}, {w.strides[1] * w.dtype.bytes}")
            b.emit(f"add.u32 {number}, {number}, 1")
            b.emit(f"@{b.new('p', 'setp.lt.u32', number, self._depth)} bra {again}")
        return sums

    def _start(self, channel: str) -> list[list[str]]:
        b, strips = self._b, self._strips
        biases = [f32(0)] * strips.channels
        if self._bias is not None:
            at = address(b, "bias", channel, self._bias.dtype)
            biases = [load(b, self._bias.dtype, at, k * self._bias.dtype.bytes, True) for k in range(strips.channels)]
        return [[b.new("f", "mov.f32", bias) for _ in range(strips.rows)] for bias in biases]

    def _corner(self) -> int:
        """The element under the first tap of the first window."""
        x, pads = self._x, self._op.pads
        return (x.origin - pads[0] * x.strides[2] - pads[1] * x.strides[3]) % _WORD

    def _column(self, first: str, left: str, lane: str, rest: int) -> tuple[str, str | None]:
        """Address of a lane's column, `rest` behind a multiple of the stride, and a predicate if it may be outside."""
        b, op, x, strips = self._b, self._op, self._x, self._strips
        most = max(lanes for lanes, own in self._taps if own == rest)
        if most < strips.borrowed:  # the last lanes have nothing there to load
            lane = b.new("r", "min.u32", lane, strips.width - 1 + most)
        place = b.new("r", "add.u32", left, lane)
        offset = b.new("r", "mad.lo.u32", place, op.strides[1] * x.strides[3], first)
        if rest:
            offset = b.new("r", "add.u32", offset, rest * x.strides[3])
        axis = Axis(x.shape[3], self._y.shape[3] + most, rest + 1, op.strides[1], 1, op.pads[1], *self._around[1])
        within = None if axis.readable(rest) else axis.inside(b, place, rest)
        return address(b, "x", offset, x.dtype), within

    def _store(
        self,
        sums: list[list[str]],
        image: str,
        channel: str,
        top: str,
        column: str,
        stored: list[str | None],
        above: str | None,
    ) -> None:
        """Residual, activation and stores, where `stored` holds, of rows from `above` on."""
        b, op = self._b, self._op
        every = both(b, stored)
        targets = {
            name: (array, address(b, name, self._place(array, image, channel, top, column), array.dtype))
            for name, array in (("y", self._y), ("residual", self._residual))
            if array is not None
        }
        for p in range(self._strips.rows):
            where = every
            if above is not None and p < self._strips.rows - 1:
                where = both(b, [every, b.new("p", "setp.ge.u32", p, above)])
            for k, own in enumerate(sums):
                value = own[p]
                if "residual" in targets:
                    array, at = targets["residual"]
                    offset = (k * array.strides[1] + p * array.strides[2]) * array.dtype.bytes
                    value = b.new("f", "add.rn.f32", value, load(b, array.dtype, at, offset, where=where))
                array, at = targets["y"]
                offset = (k * array.strides[1] + p * array.strides[2]) * array.dtype.bytes
                store(b, array.dtype, at, activate(b, value, op.activation), offset, where)

    def _place(self, array: Array, image: str, channel: str, top: str, column: str) -> str:
        place = self._b.new("r", "mad.lo.u32", image, array.strides[0], array.origin)
        for coordinate, step in zip((channel, top, column), array.strides[1:], strict=True):
            place = self._b.new("r", "mad.lo.u32", coordinate, step, place)
        return place
