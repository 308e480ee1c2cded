"""Convolution and its transpose."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from packer.ir.ops.base import Activation, Dependence, Op, Part
from packer.ir.ops.pointwise import activate, expect_activation
from packer.ir.ops.shape import expect, expect_dtype, expect_length, expect_shape, operands, with_shape
from packer.ir.ops.window import (
    expect_windows,
    extents,
    padded,
    positions,
    trailing,
    window_boxes,
    window_dependence,
)
from packer.ir.types import Box, DType, TensorType, whole

__all__ = ["Conv", "ConvTranspose"]

_CHUNK = 1 << 22  # elements of the largest temporary matrix


@dataclass(frozen=True, slots=True)
class Conv(Op):
    """Cross-correlation, 1 to 3 spatial dimensions: `y = activation(conv(x, w) + bias + residual)`.

    Inputs: x [N,C,spatial], w [K,C/group,kernel], optional bias [K], optional residual like y. All f32.
    `pads` holds the begins of all spatial dimensions, then the ends (ONNX order). Padding is with zeros.
    https://onnx.ai/onnx/operators/onnx__Conv.html
    """

    strides: tuple[int, ...]
    pads: tuple[int, ...]
    dilations: tuple[int, ...]
    group: int = 1
    activation: Activation | None = None
    inplace: ClassVar[tuple[int, ...]] = (3,)

    def infer(self, inputs: Sequence[TensorType | None]) -> tuple[TensorType, ...]:
        (x, w), (bias, residual) = operands(inputs, 2, 2)
        kernel = _expect_operands(x, w, bias, self.group)
        expect_windows(x.rank - 2, kernel, self.strides, self.pads, self.dilations)
        expect(w.shape[1] * self.group == x.shape[1], f"w of {x.shape[1]} / {self.group} input channels", w)
        expect(w.shape[0] % self.group == 0, f"output channels divisible by group {self.group}", w.shape[0])
        if bias is not None:
            expect_shape("bias", bias, w.shape[:1])
        out = extents(x.shape[2:], kernel, self.strides, self.pads, self.dilations)
        y = with_shape(x, (x.shape[0], w.shape[0], *out))
        if residual is not None:
            expect_dtype("residual", residual, DType.F32)
            expect_shape("residual", residual, y.shape)
        expect_activation(self.activation, y)
        return (y,)

    def dependence(self, inputs: Sequence[TensorType | None]) -> tuple[Dependence, ...]:
        (x, w), _ = operands(inputs, 2, 2)
        spatial = window_dependence(x.shape[2:], w.shape[2:], self.strides, self.pads, self.dilations)
        return (Dependence.POINTWISE, Dependence.POINTWISE, *spatial)

    def grain(self, inputs: Sequence[TensorType | None]) -> tuple[int, ...]:
        (x, w), _ = operands(inputs, 2, 2)
        return _group_grain(self.group, w.shape[0] // self.group, x.rank)

    def part(self, box: Box, inputs: Sequence[TensorType | None]) -> Part:
        (x, w), (bias, residual) = operands(inputs, 2, 2)
        group, groups = _groups_of(box[1], self.group, w.shape[0] // self.group)
        channels = (groups[0] * w.shape[1], groups[1] * w.shape[1])
        spatial, pads = window_boxes(box[2:], x.shape[2:], w.shape[2:], self.strides, self.pads, self.dilations)
        reads = (
            (box[0], channels, *spatial),
            (box[1], *whole(w)[1:]),
            None if bias is None else (box[1],),
            None if residual is None else box,
        )
        op = Conv(self.strides, pads, self.dilations, group, self.activation)
        return Part(op, reads[: len(inputs)], box)

    def terms(self, inputs: Sequence[TensorType | None]) -> int:
        (x, _), _ = operands(inputs, 2, 2)
        return x.shape[1] if self.group == 1 else 0

    def partial(self, begin: int, end: int, inputs: Sequence[TensorType | None]) -> Part:
        (x, w), (bias, _) = operands(inputs, 2, 2)
        reads = (
            ((0, x.shape[0]), (begin, end), *whole(x)[2:]),
            ((0, w.shape[0]), (begin, end), *whole(w)[2:]),
            None if bias is None or begin > 0 else whole(bias),
            None,
        )
        return Part(replace(self, activation=None), reads[: len(inputs)], whole(self.infer(inputs)[0]))

    @np.errstate(all="ignore")
    def reference(
        self, x: np.ndarray, w: np.ndarray, bias: np.ndarray | None = None, residual: np.ndarray | None = None
    ) -> tuple[np.ndarray, ...]:
        kernel, spatial = w.shape[2:], x.shape[2:]
        out = extents(spatial, kernel, self.strides, self.pads, self.dilations)
        begins, ends = self.pads[: len(spatial)], self.pads[len(spatial) :]
        x = padded(x, begins, [n + b + e for n, b, e in zip(spatial, begins, ends, strict=True)], 0)
        y = np.empty((x.shape[0], w.shape[0], *out), x.dtype)
        weights = w.reshape(self.group, w.shape[0] // self.group, math.prod(w.shape[1:]))
        rows = max(1, _CHUNK // max(1, x.shape[1] * math.prod(kernel) * math.prod(out[1:])))
        for image, result in zip(x, y, strict=True):
            windows = _windows(image, kernel, self.strides, self.dilations, out)
            for row in range(0, out[0], rows):
                part = windows[(slice(None),) * (1 + len(kernel)) + (slice(row, row + rows),)]
                shape = (w.shape[0], *part.shape[1 + len(kernel) :])
                columns = part.reshape(self.group, weights.shape[2], math.prod(shape[1:]))
                result[:, row : row + rows] = np.matmul(weights, columns).reshape(shape)
        if bias is not None:
            y += _per_channel(bias, y)
        if residual is not None:
            y += residual
        return (activate(self.activation, y),)


@dataclass(frozen=True, slots=True)
class ConvTranspose(Op):
    """Transposed convolution. Inputs: x [N,C,spatial], w [C,K/group,kernel], optional bias [K]. All f32.

    Output extent: `stride (in - 1) + output_padding + (kernel - 1) dilation + 1 - pad_begin - pad_end`;
    importers resolve auto_pad and output_shape into pads.
    https://onnx.ai/onnx/operators/onnx__ConvTranspose.html
    """

    strides: tuple[int, ...]
    pads: tuple[int, ...]
    dilations: tuple[int, ...]
    output_padding: tuple[int, ...]
    group: int = 1
    activation: Activation | None = None

    def infer(self, inputs: Sequence[TensorType | None]) -> tuple[TensorType, ...]:
        (x, w), (bias,) = operands(inputs, 2, 1)
        kernel = _expect_operands(x, w, bias, self.group)
        expect_windows(x.rank - 2, kernel, self.strides, self.pads, self.dilations)
        expect_length("output_padding", self.output_padding, x.rank - 2)
        expect(min(self.output_padding) >= 0, "output_padding of 0 or more", self.output_padding)
        expect(w.shape[0] == x.shape[1], f"w of {x.shape[1]} input channels", w)
        expect(x.shape[1] % self.group == 0, f"input channels divisible by group {self.group}", x.shape[1])
        if bias is not None:
            expect_shape("bias", bias, (w.shape[1] * self.group,))
        full = self._full(x.shape[2:], kernel)
        out = [n - b - e for n, b, e in zip(full, self.pads[: len(full)], self.pads[len(full) :], strict=True)]
        expect(min(out) >= 0, f"pads no larger than the full output {full}", self.pads)
        y = with_shape(x, (x.shape[0], w.shape[1] * self.group, *out))
        expect_activation(self.activation, y)
        return (y,)

    def dependence(self, inputs: Sequence[TensorType | None]) -> tuple[Dependence, ...]:
        (x, w), _ = operands(inputs, 2, 1)
        found = [Dependence.POINTWISE] * 2
        for i, extent in enumerate(x.shape[2:]):
            same = w.shape[2 + i] == self.strides[i] == 1 and self._ends(i) == (0, 0, 0)
            kind = Dependence.POINTWISE if same else Dependence.REGION
            found.append(kind if extent > 0 else Dependence.FULL)
        return tuple(found)

    def grain(self, inputs: Sequence[TensorType | None]) -> tuple[int, ...]:
        (x, w), _ = operands(inputs, 2, 1)
        return _group_grain(self.group, w.shape[1], x.rank)

    def part(self, box: Box, inputs: Sequence[TensorType | None]) -> Part:
        (x, w), (bias,) = operands(inputs, 2, 1)
        group, groups = _groups_of(box[1], self.group, w.shape[1])
        each = x.shape[1] // self.group
        channels = (groups[0] * each, groups[1] * each)
        spatial, ends = [], []
        for i, extent in enumerate(x.shape[2:]):
            span, own = self._span(i, box[2 + i], extent, w.shape[2 + i])
            spatial.append(span)
            ends.append(own)
        begins, cuts, padding = zip(*ends, strict=True)
        outputs = box[1] if self.group == 1 else (0, w.shape[1])
        reads = (
            (box[0], channels, *spatial),
            (channels, outputs, *whole(w)[2:]),
            None if bias is None else (box[1],),
        )
        op = ConvTranspose(self.strides, (*begins, *cuts), self.dilations, padding, group, self.activation)
        return Part(op, reads[: len(inputs)], box)

    def _ends(self, i: int) -> tuple[int, int, int]:
        """Begin pad, end pad and output padding of a spatial dimension."""
        return self.pads[i], self.pads[i + len(self.strides)], self.output_padding[i]

    def _span(
        self, i: int, span: tuple[int, int], extent: int, kernel: int
    ) -> tuple[tuple[int, int], tuple[int, int, int]]:
        """What outputs `span` of a spatial dimension need of its input, and their own begin pad, end pad and output
        padding. Besides the inputs whose taps reach them, that is the last one that lies before them, if any, as pads
        cannot be negative."""
        if extent == 0:
            return (0, 0), self._ends(i)
        stride, dilation, reach = self.strides[i], self.dilations[i], (kernel - 1) * self.dilations[i]
        begin, end = span[0] + self.pads[i], span[1] + self.pads[i]  # in the output before pads are cut off
        low, high = extent, 0
        for tap in range(0, reach + 1, dilation):
            lowest, highest = max(0, -((tap - begin) // stride)), min(extent - 1, (end - 1 - tap) // stride)
            if lowest <= highest:
                low, high = min(low, lowest), max(high, highest + 1)
        low = min(low, begin // stride, extent - 1)
        high = max(high, low + 1)
        full = stride * (high - 1 - low) + reach + 1
        own = begin - low * stride
        rest = full - own - (end - begin)
        return (low, high), (own, max(0, rest), max(0, -rest))

    @np.errstate(all="ignore")
    def reference(self, x: np.ndarray, w: np.ndarray, bias: np.ndarray | None = None) -> tuple[np.ndarray, ...]:
        spatial, kernel = x.shape[2:], w.shape[2:]
        full = self._full(spatial, kernel)
        channels = w.shape[1] * self.group
        y = np.zeros((x.shape[0], channels, *full), x.dtype)
        columns = x.reshape(x.shape[0], self.group, x.shape[1] // self.group, math.prod(spatial))
        weights = w.reshape(self.group, w.shape[0] // self.group, w.shape[1], *kernel)
        if math.prod(spatial):
            for position, where in positions(kernel, self.strides, self.dilations, spatial):
                taps = weights[(slice(None),) * 3 + position].swapaxes(1, 2)
                y[where] += np.matmul(taps, columns).reshape(x.shape[0], channels, *spatial)
        kept = zip(full, self.pads[: len(full)], self.pads[len(full) :], strict=True)
        y = y[trailing(slice(b, n - e) for n, b, e in kept)].copy()
        if bias is not None:
            y += _per_channel(bias, y)
        return (activate(self.activation, y),)

    def _full(self, spatial: Sequence[int], kernel: Sequence[int]) -> tuple[int, ...]:
        """Output extents before pads are cut off."""
        rows = zip(spatial, kernel, self.strides, self.dilations, self.output_padding, strict=True)
        return tuple(s * (n - 1) + p + (k - 1) * d + 1 for n, k, s, d, p in rows)


def _expect_operands(x: TensorType, w: TensorType, bias: TensorType | None, group: int) -> tuple[int, ...]:
    """Raise ShapeError unless the operands can be those of a convolution; returns the kernel extents."""
    for what, type in (("x", x), ("w", w), ("bias", bias)):
        if type is not None:
            expect_dtype(what, type, DType.F32)
    expect(3 <= x.rank <= 5, "x of rank 3 to 5", x)
    expect(w.rank == x.rank, f"w of rank {x.rank}", w)
    expect(group >= 1, "a group of 1 or more", group)
    return w.shape[2:]


def _group_grain(group: int, outputs: int, rank: int) -> tuple[int, ...]:
    """Cuts fall between groups of `outputs` channels."""
    return (1, 1 if group == 1 else max(1, outputs), *(1,) * (rank - 2))


def _groups_of(span: tuple[int, int], group: int, outputs: int) -> tuple[int, tuple[int, int]]:
    """How many groups of `outputs` channels the output channels `span` are, and which; one of one is never cut."""
    if group == 1:
        return 1, (0, 1)
    whole_groups = outputs > 0 and span[0] % outputs == 0 and span[1] % outputs == 0
    expect(whole_groups, f"output channels cut between groups of {outputs}", f"{span[0]} to {span[1]}")
    first, last = span[0] // outputs, span[1] // outputs
    return last - first, (first, last)


def _per_channel(v: np.ndarray, y: np.ndarray) -> np.ndarray:
    return v.reshape(-1, *(1,) * (y.ndim - 2))


def _windows(
    image: np.ndarray, kernel: Sequence[int], strides: Sequence[int], dilations: Sequence[int], out: Sequence[int]
) -> np.ndarray:
    """The view [C,kernel,out] of image [C,spatial]: element (c,k,o) is at position o * stride + k * dilation."""
    steps = image.strides[1:]
    return np.lib.stride_tricks.as_strided(
        image,
        (image.shape[0], *kernel, *out),
        (
            image.strides[0],
            *(step * d for step, d in zip(steps, dilations, strict=True)),
            *(step * s for step, s in zip(steps, strides, strict=True)),
        ),
        writeable=False,
    )
