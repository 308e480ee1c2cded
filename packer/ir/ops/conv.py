"""Convolution and its transpose."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from packer.ir.ops.base import Activation, Op
from packer.ir.ops.pointwise import activate, expect_activation
from packer.ir.ops.shape import expect, expect_dtype, expect_length, expect_shape, operands, with_shape
from packer.ir.ops.window import expect_windows, extents, padded, positions, trailing
from packer.ir.types import DType, TensorType

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
