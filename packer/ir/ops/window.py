"""Sliding windows, shared by convolution and pooling: extents, padding and one strided view a kernel position."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from types import EllipsisType

import numpy as np

from packer.ir.ops.base import Dependence
from packer.ir.ops.shape import expect, expect_length
from packer.ir.types import Box

__all__ = ["expect_windows", "extents", "padded", "positions", "trailing", "window_boxes", "window_dependence"]

Key = tuple[EllipsisType | slice, ...]


def expect_windows(
    spatial: int, kernel: Sequence[int], strides: Sequence[int], pads: Sequence[int], dilations: Sequence[int]
) -> None:
    """Raise ShapeError unless the attributes suit `spatial` dimensions: 1 to 3, positive, pads not negative."""
    expect(1 <= spatial <= 3, "1 to 3 spatial dimensions", spatial)
    for what, values, count, least in (
        ("kernel extents", kernel, spatial, 1),
        ("strides", strides, spatial, 1),
        ("dilations", dilations, spatial, 1),
        ("pads", pads, 2 * spatial, 0),
    ):
        expect_length(what, values, count)
        expect(min(values) >= least, f"{what} of {least} or more", tuple(values))


def extents(
    spatial: Sequence[int],
    kernel: Sequence[int],
    strides: Sequence[int],
    pads: Sequence[int],
    dilations: Sequence[int],
    ceil_mode: bool = False,
) -> tuple[int, ...]:
    """Output extents; with `ceil_mode` rounded up unless the last window would start in the end padding."""
    result = []
    for i, n in enumerate(spatial):
        window = (kernel[i] - 1) * dilations[i] + 1
        room = n + pads[i] + pads[i + len(spatial)] - window
        expect(room >= 0, f"a window ({window}) no larger than the padded input", room + window)
        count = room // strides[i] + 1
        if ceil_mode and room % strides[i] and count * strides[i] < n + pads[i]:
            count += 1
        result.append(count)
    return tuple(result)


def window_dependence(
    spatial: Sequence[int],
    kernel: Sequence[int],
    strides: Sequence[int],
    pads: Sequence[int],
    dilations: Sequence[int],
) -> tuple[Dependence, ...]:
    """Of the output along its spatial dimensions; FULL where a window can lie in the padding altogether."""
    found = []
    for i, extent in enumerate(spatial):
        window = (kernel[i] - 1) * dilations[i] + 1
        if extent == 0 or max(pads[i], pads[i + len(spatial)]) >= window:
            found.append(Dependence.FULL)
        else:
            found.append(Dependence.POINTWISE if window == strides[i] == 1 else Dependence.REGION)
    return tuple(found)


def window_boxes(
    box: Box,
    spatial: Sequence[int],
    kernel: Sequence[int],
    strides: Sequence[int],
    pads: Sequence[int],
    dilations: Sequence[int],
) -> tuple[Box, tuple[int, ...]]:
    """What the windows of `box`, a box of the spatial dimensions of the output, read of the input, and their own pads:
    how far the first window begins before what is read, and the last one ends after it.

    The box read is that of the elements under the windows' taps, without the padding: between those of a dilated
    window there are none. Along dimensions that are FULL (see window_dependence) it is everything.
    """
    reads, begins, ends = [], [], []
    for i, extent in enumerate(spatial):
        window, begin, end = (kernel[i] - 1) * dilations[i] + 1, pads[i], pads[i + len(spatial)]
        if extent == 0 or max(begin, end) >= window:
            reads.append((0, extent))
            begins.append(begin)
            ends.append(end)
            continue
        first, last = box[i][0] * strides[i] - begin, (box[i][1] - 1) * strides[i] - begin
        low, high = first, last + window
        if low < 0 or high > extent:
            low, high = _touched(first, last, extent, kernel[i], strides[i], dilations[i])
        reads.append((low, high))
        begins.append(low - first)
        ends.append(last + window - high)
    return tuple(reads), (*begins, *ends)


def _touched(first: int, last: int, extent: int, kernel: int, stride: int, dilation: int) -> tuple[int, int]:
    """The span of 0 to `extent` that holds all elements under taps of windows that start at first, first + stride, ...,
    last; one element that the windows reach over if there are none."""
    window = (kernel - 1) * dilation + 1
    if dilation == 1:
        return max(0, first), min(extent, last + window)
    low, high = extent, 0
    for tap in range(0, window, dilation):
        lowest, highest = first + tap, last + tap
        lowest -= min(0, lowest // stride * stride)
        highest -= max(0, -((extent - 1 - highest) // stride) * stride)
        if lowest <= highest:
            low, high = min(low, lowest), max(high, highest + 1)
    return (low, high) if low < high else (max(0, first), max(0, first) + 1)


def padded(x: np.ndarray, begins: Sequence[int], sizes: Sequence[int], value: float) -> np.ndarray:
    """x [.., spatial] inside a tensor of `sizes` spatial extents filled with `value`; what does not fit is cut off."""
    spatial = len(sizes)
    if not any(begins) and x.shape[x.ndim - spatial :] == tuple(sizes):
        return x
    y = np.full((*x.shape[: x.ndim - spatial], *sizes), value, x.dtype)
    spans = [(b, min(b + n, size)) for b, n, size in zip(begins, x.shape[x.ndim - spatial :], sizes, strict=True)]
    y[trailing(slice(*span) for span in spans)] = x[trailing(slice(max(0, end - begin)) for begin, end in spans)]
    return y


def trailing(slices: Iterable[slice]) -> Key:
    """The key that applies `slices` to the last dimensions."""
    return (..., *slices)


def positions(
    kernel: Sequence[int], strides: Sequence[int], dilations: Sequence[int], out: Sequence[int]
) -> Iterator[tuple[tuple[int, ...], Key]]:
    """Each kernel position in row-major order, with the key of the padded input's elements it meets, one per window."""
    for position in itertools.product(*map(range, kernel)):
        yield (
            position,
            trailing(
                slice(k * d, k * d + (n - 1) * s + 1 if n else k * d, s)
                for k, d, s, n in zip(position, dilations, strides, out, strict=True)
            ),
        )
