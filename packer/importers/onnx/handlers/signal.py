"""Fourier transforms and their relatives: linear maps whose matrices are known at pack time."""

from __future__ import annotations

import math

import numpy as np

from packer.importers.onnx.builder import Tensor
from packer.importers.onnx.call import Call, Unsupported
from packer.importers.onnx.numeric import carried_type, is_native
from packer.importers.onnx.registry import handler
from packer.ir import DType
from packer.ir.ops import ConvTranspose, Gather, MatMul


@handler("DFT")
def dft(call: Call) -> Tensor:
    x = call.tensor(0)
    default = call.integer("axis", 1 if call.version < 20 else -2)
    axis = call.axis(int(call.scalar(2, "'axis'")) if call.has(2) else default, x.rank)
    inverse, onesided = bool(call.integer("inverse", 0)), bool(call.integer("onesided", 0))
    if call.has(1):
        length = int(call.scalar(1, "'dft_length'"))
    else:
        length = 2 * (x.shape[axis] - 1) if inverse and onesided else x.shape[axis]
    return _transformed(call, x, axis, length, inverse, onesided)


@handler("STFT")
def stft(call: Call) -> Tensor:
    """Frames of the signal, weighted by the window and transformed."""
    signal, step, window = call.tensor(0), int(call.scalar(1, "'frame_step'")), call.optional(2)
    length = signal.shape[1] if window is None else window.shape[0]
    if call.has(3):
        length = int(call.scalar(3, "'frame_length'"))
    frames = (signal.shape[1] - length) // max(step, 1) + 1
    if step < 1 or length < 1 or frames < 1:
        raise call.error("frames do not fit", got=f"length {length}, step {step}, signal {signal.type}")
    call.walker.builder.folder.reserve(frames * length * 8, call.name)
    positions = np.arange(frames)[:, None] * step + np.arange(length)
    framed = call.emit(Gather(1), signal, call.literal(positions))
    if window is not None:
        framed = call.binary("mul", framed, call.reshape(window, (length, 1)))
    return _transformed(call, framed, 2, length, False, bool(call.integer("onesided", 1)))


def _transformed(call: Call, x: Tensor, axis: int, length: int, inverse: bool, onesided: bool) -> Tensor:
    """The transform of `length` along an axis; the last dimension holds the real part, or real and imaginary parts."""
    if axis == x.rank - 1 or x.shape[-1] not in (1, 2) or length < 1:
        raise call.error("the transform does not fit", got=f"axis {axis}, length {length} of {x.type}")
    matrix = _matrix(call, x.shape[axis], x.shape[-1], length, inverse, onesided)
    perm = [a for a in range(x.rank) if a not in (axis, x.rank - 1)] + [axis, x.rank - 1]
    rows = call.transpose(x, perm)
    flat = call.reshape(rows, (*rows.shape[:-2], rows.shape[-2] * rows.shape[-1]))
    product = call.emit(MatMul(), flat, call.literal(matrix.reshape(matrix.shape[0], -1)))
    parts = call.reshape(product, (*rows.shape[:-2], *matrix.shape[1:]))
    return call.transpose(parts, [perm.index(a) for a in range(x.rank)])


def _matrix(call: Call, size: int, parts: int, length: int, inverse: bool, onesided: bool) -> np.ndarray:
    """The transform of each unit vector: float64 [size * parts, length out, parts out]."""
    call.walker.builder.folder.reserve(size * parts * length * 2 * np.dtype(np.float64).itemsize, call.name)
    units = np.eye(size * parts).reshape(size * parts, size, parts)
    vectors = units[..., 0] if parts == 1 else units[..., 0] + 1j * units[..., 1]
    if inverse and onesided:
        return np.fft.irfft(vectors, length, axis=1)[..., None]
    found = np.fft.ifft(vectors, length, axis=1) if inverse else np.fft.fft(vectors, length, axis=1)
    found = found[:, : length // 2 + 1] if onesided else found
    return np.stack([found.real, found.imag], axis=-1)


@handler("MelWeightMatrix")
def mel_weight_matrix(call: Call) -> Tensor:
    """Triangular filters spaced evenly on the mel scale. https://onnx.ai/onnx/operators/onnx__MelWeightMatrix.html"""
    bins, length, rate = (int(call.scalar(index, "a filter bank's size")) for index in range(3))
    low, high = (2595 * math.log10(1 + float(call.scalar(index, "a filter's edge")) / 700) for index in (3, 4))
    element = call.integer("output_datatype", 1)
    dtype = carried_type(element)
    if dtype is None or not is_native(element):
        raise Unsupported("this output type")
    if bins < 1 or length < 1 or rate < 1:
        raise call.error("the filter bank is empty", got=f"{bins} filters of length {length} at {rate} Hz")
    rows = length // 2 + 1
    call.walker.builder.folder.reserve(rows * bins * 8, call.name)
    hertz = 700 * (10 ** ((np.arange(bins + 2) * ((high - low) / (bins + 2)) + low) / 2595) - 1)
    edges = ((length + 1) * hertz // rate).astype(np.int64)
    weights = np.zeros((rows, bins))
    for index, (start, peak, end) in enumerate(zip(edges, edges[1:], edges[2:], strict=False)):
        if start == peak:
            weights[peak, index] = 1
        else:
            weights[start : peak + 1, index] = np.arange(peak - start + 1) / (peak - start)
        if peak < end:
            weights[peak:end, index] = (end - np.arange(peak, end)) / (end - peak)
    return call.literal(weights.astype(dtype.numpy))


@handler("Col2Im")
def col2im(call: Call) -> Tensor:
    """A transposed convolution whose kernels each put one entry of a column in its place."""
    x = call.tensor(0)
    image, kernel = call.ints(1, "'image_shape'"), call.ints(2, "'block_shape'")
    rank, size = len(image), math.prod(kernel)
    if x.rank != 3 or len(kernel) != rank or size < 1 or x.shape[1] % size or x.dtype is not DType.F32:
        raise call.error("columns and blocks do not fit", got=f"{x.type} for blocks {kernel} of an image {image}")
    strides, dilations = call.integers("strides") or (1,) * rank, call.integers("dilations") or (1,) * rank
    pads = call.integers("pads") or (0,) * 2 * rank
    spans = [(k - 1) * d + 1 for k, d in zip(kernel, dilations, strict=True)]
    padded = [n + begin + end for n, begin, end in zip(image, pads[:rank], pads[rank:], strict=True)]
    counts = [(n - span) // stride + 1 for n, span, stride in zip(padded, spans, strides, strict=True)]
    rest = tuple((n - span) % stride for n, span, stride in zip(padded, spans, strides, strict=True))
    if min(counts) < 1 or math.prod(counts) != x.shape[2]:
        raise call.error("columns and image do not fit", expected=f"{counts} blocks", got=f"{x.shape[2]} columns")
    channels = x.shape[1] // size
    units = np.tile(np.eye(size, dtype=np.float32).reshape(size, 1, *kernel), (channels, 1, *(1,) * rank))
    op = ConvTranspose(tuple(strides), tuple(pads), tuple(dilations), rest, channels)
    return call.emit(op, call.reshape(x, (x.shape[0], x.shape[1], *counts)), call.literal(units))
