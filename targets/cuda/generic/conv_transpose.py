"""Transposed convolutions as gathers: a thread has a cell of outputs, those under one step of all strides, and finds
what reaches them.

Which taps reach which output of a cell is known: tap r is `r dilation = q stride + phase`, so that it takes the input q
before the cell's to the output `phase` of the cell. No tap is tested, no product is lost.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from packer.ir import DType
from packer.ir.ops import ConvTranspose
from targets.cuda.array import Array
from targets.cuda.emit.activation import activate
from targets.cuda.emit.address import divide
from targets.cuda.emit.ptx import Builder, f32
from targets.cuda.generic.access import Constants, Inputs, address, coordinates, kernel, load, operand, store
from targets.cuda.generic.window import Axis, both, rooms
from targets.cuda.kernel import Code, Kernel

__all__ = ["conv_transpose"]

_SUMS = 64  # of a thread
_TOGETHER = 8  # output channels of a thread
_THREADS = 128
_FEWEST = 1 << 11  # threads that keep a small GPU busy
_WORD = 1 << 32


def conv_transpose(op: ConvTranspose, inputs: Inputs, outputs: Sequence[Array], constants: Constants) -> Code | None:
    """Any strides, pads, dilations and groups with known weights. Sums are float32."""
    x, y, weights = inputs[0], outputs[0], constants[1]
    if x is None or weights is None or not x.elements:
        return None
    bias = inputs[2] if len(inputs) > 2 else None
    if any(array is not None and array.dtype not in (DType.F32, DType.F16) for array in (x, y, bias)):
        return None
    axes = [
        _Cells(x.shape[2 + i], y.shape[2 + i], weights.shape[2 + i], op.strides[i], op.dilations[i], op.pads[i], *room)
        for i, room in enumerate(rooms(x))
    ]
    phases = list(itertools.product(*(range(axis.stride) for axis in axes)))
    chunks = [phases[i : i + _SUMS] for i in range(0, len(phases), _SUMS)]
    threads = x.shape[0] * y.shape[1] * math.prod(axis.cells for axis in axes)
    each = weights.shape[1]
    most = max(1, min(_TOGETHER, _SUMS // len(chunks[0]), threads // _FEWEST))
    together = max(n for n in range(1, most + 1) if each % n == 0)
    parts = [_Part(op, x, y, bias, axes, chunk, together, each) for chunk in chunks]
    packed = [part.pack(weights) for part in parts]
    begins = np.cumsum([0, *(part.size for part in packed)])
    operands: list[int | np.ndarray] = [0, np.concatenate([part.reshape(-1) for part in packed])]
    if bias is not None:
        operands.append(operand(2, inputs, constants))
    kernels = tuple(part.kernel(i, int(begin)) for i, (part, begin) in enumerate(zip(parts, begins, strict=False)))
    return Code(kernels, tuple(operands))


@dataclass(frozen=True, slots=True)
class _Cells:
    """Cells along one dimension: output `(first + cell) stride + phase - pad`, input `first + cell - q`."""

    extent: int
    out: int
    kernel: int
    stride: int
    dilation: int
    pad: int
    before: int
    behind: int

    @property
    def first(self) -> int:
        return self.pad // self.stride

    @property
    def cells(self) -> int:
        return (self.pad + self.out - 1) // self.stride - self.first + 1

    @property
    def deepest(self) -> int:
        """The largest q."""
        return (self.kernel - 1) * self.dilation // self.stride

    def taps(self, phase: int) -> list[tuple[int, int]]:
        """The taps that reach a phase: number, and `deepest` - q."""
        places = ((tap, divmod(tap * self.dilation, self.stride)) for tap in range(self.kernel))
        return [(tap, self.deepest - q) for tap, (q, own) in places if own == phase]

    @property
    def inputs(self) -> Axis:
        """Inputs of a cell, by `deepest` - q."""
        begin = self.deepest - self.first
        return Axis(self.extent, self.cells, 0, 1, 1, begin, self.before, self.behind)

    @property
    def outputs(self) -> Axis:
        """Outputs of a cell, by phase."""
        return Axis(self.out, self.cells, 0, self.stride, 1, self.pad - self.first * self.stride)


@dataclass(frozen=True, slots=True)
class _Part:
    """What one kernel computes: some phases of all cells, `together` output channels a thread, of `each` in a group."""

    op: ConvTranspose
    x: Array
    y: Array
    bias: Array | None
    axes: Sequence[_Cells]
    phases: Sequence[tuple[int, ...]]
    together: int
    each: int

    def taps(self) -> list[tuple[int, tuple[int, ...], tuple[int, ...]]]:
        """Number of the phase, tap, and which input it takes, along all dimensions."""
        found = []
        for number, phase in enumerate(self.phases):
            for reaching in itertools.product(*(a.taps(own) for a, own in zip(self.axes, phase, strict=True))):
                found.append((number, tuple(tap for tap, _ in reaching), tuple(place for _, place in reaching)))
        return found

    def pack(self, weights: np.ndarray) -> np.ndarray:
        """The weights in the order in which a thread needs them, a multiple of 4 for an input channel: [blocks of
        output channels, input channels of a group, taps times channels of a block]."""
        group, depth = self.op.group, weights.shape[0] // self.op.group
        grouped = weights.reshape(group, depth, self.each // self.together, self.together, *weights.shape[2:])
        taps = [grouped[(slice(None),) * 4 + tap] for _, tap, _ in self.taps()]
        if not taps:
            return np.zeros((0,), np.float32)
        rows = np.stack(taps, -2).swapaxes(1, 2)  # group, block, depth, tap, channel
        rows = rows.reshape(group * self.each // self.together, depth, len(taps) * self.together)
        return np.pad(rows, ((0, 0), (0, 0), (0, -rows.shape[2] % 4))).astype(np.float32)

    def kernel(self, number: int, begin: int) -> Kernel:
        """The kernel; its weights are `begin` elements behind their pointer."""
        counts = (self.x.shape[0], self.y.shape[1] // self.together, *(axis.cells for axis in self.axes))
        names = ("x", "w", "y") if self.bias is None else ("x", "w", "bias", "y")

        def body(b: Builder, index: str) -> None:
            image, block, *cells = coordinates(b, index, counts)
            sums = self._start(b, block)
            if self.taps():
                self._sum(b, sums, begin, image, block, cells)
            self._store(b, sums, image, block, cells)

        return kernel(f"conv_transpose_{number}", names, math.prod(counts), body, _THREADS)

    def _start(self, b: Builder, block: str) -> list[list[str]]:
        """Registers for the sums of each phase and channel, which begin as the bias."""
        biases = [f32(0)] * self.together
        if self.bias is not None:
            at = address(b, "bias", b.new("r", "mul.lo.u32", block, self.together), self.bias.dtype)
            size = self.bias.dtype.bytes
            biases = [load(b, self.bias.dtype, at, k * size, constant=True) for k in range(self.together)]
        return [[b.new("f", "mov.f32", bias) for bias in biases] for _ in self.phases]

    def _sum(self, b: Builder, sums: list[list[str]], begin: int, image: str, block: str, cells: Sequence[str]) -> None:
        x, taps = self.x, self.taps()
        depth = x.shape[1] // self.op.group
        row = -(-len(taps) * self.together // 4) * 4  # weights of an input channel
        weights = address(b, "w", b.new("r", "mad.lo.u32", block, depth * row, begin), DType.F32)
        group, _ = divide(b, block, self.each // self.together, self.y.shape[1] // self.together)
        corner = x.origin - sum(a.inputs.begin * s for a, s in zip(self.axes, x.strides[2:], strict=True))
        place = b.new("r", "mad.lo.u32", image, x.strides[0], corner % _WORD)
        place = b.new("r", "mad.lo.u32", group, depth * x.strides[1], place)
        for cell, step in zip(cells, x.strides[2:], strict=True):
            place = b.new("r", "mad.lo.u32", cell, step, place)
        at = address(b, "x", place, x.dtype)
        inside = [
            [None if axis.inputs.readable(k) else axis.inputs.inside(b, cell, k) for k in range(axis.deepest + 1)]
            for axis, cell in zip(self.axes, cells, strict=True)
        ]
        used = sorted({inputs for *_, inputs in taps})
        tests = {key: both(b, [own[k] for own, k in zip(inside, key, strict=True)]) for key in used}
        again, number = b.label(), b.new("r", "mov.u32", 0)
        if depth > 1:
            b.place(again)
            b.emit('.pragma "nounroll"')  # assemblers would, and run out of registers
        values = {}
        for key in used:
            offset = sum(k * step for k, step in zip(key, x.strides[2:], strict=True)) * x.dtype.bytes
            values[key] = load(b, x.dtype, at, offset, True, tests[key])
        factors = [(sums[phase][k], values[key]) for phase, _, key in taps for k in range(self.together)]
        for first in range(0, len(factors), 4):
            own = [b.register("f") for _ in range(4)]
            b.emit(f"ld.global.nc.v4.f32 {{{', '.join(own)}}}, [{weights}+{4 * first}]")
            for (sum_, value), weight in zip(factors[first : first + 4], own, strict=False):
                b.emit(f"fma.rn.f32 {sum_}, {value}, {weight}, {sum_}")
        if depth > 1:
            b.emit(f"add.s64 {at}, {at}, {x.strides[1] * x.dtype.bytes}")
            b.emit(f"add.s64 {weights}, {weights}, {4 * row}")
            b.emit(f"add.u32 {number}, {number}, 1")
            b.emit(f"@{b.new('p', 'setp.lt.u32', number, depth)} bra {again}")

    def _store(self, b: Builder, sums: list[list[str]], image: str, block: str, cells: Sequence[str]) -> None:
        y = self.y
        corner = y.origin - sum(a.outputs.begin * s for a, s in zip(self.axes, y.strides[2:], strict=True))
        place = b.new("r", "mad.lo.u32", image, y.strides[0], corner % _WORD)
        place = b.new("r", "mad.lo.u32", block, self.together * y.strides[1], place)
        for axis, cell, step in zip(self.axes, cells, y.strides[2:], strict=True):
            place = b.new("r", "mad.lo.u32", cell, axis.stride * step, place)
        at = address(b, "y", place, y.dtype)
        inside = [
            [axis.outputs.inside(b, cell, phase) for phase in range(axis.stride)]
            for axis, cell in zip(self.axes, cells, strict=True)
        ]
        for phase, own in zip(self.phases, sums, strict=True):
            where = both(b, [tests[f] for tests, f in zip(inside, phase, strict=True)])
            offset = sum(f * step for f, step in zip(phase, y.strides[2:], strict=True))
            for k, value in enumerate(own):
                result = activate(b, value, self.op.activation)
                store(b, y.dtype, at, result, (offset + k * y.strides[1]) * y.dtype.bytes, where)
