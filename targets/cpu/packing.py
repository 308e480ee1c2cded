"""Constants in the layouts the kernels read: pure numpy, exact bytes."""

from __future__ import annotations

import numpy as np

__all__ = ["LANES", "block16", "depth16", "lines", "quads", "weight16"]

LANES = 16


def _padded(data: np.ndarray, axis: int) -> np.ndarray:
    extra = -data.shape[axis] % LANES
    return np.pad(data, [(0, extra if i == axis else 0) for i in range(data.ndim)]) if extra else data


def block16(data: np.ndarray) -> np.ndarray:
    """BLOCK16: [C] -> [C/16,16]; [N,C,...] -> [N,C/16,...,16]; missing lanes zero."""
    axis = 0 if data.ndim == 1 else 1
    data = _padded(data, axis)
    split = data.reshape(*data.shape[:axis], data.shape[axis] // LANES, LANES, *data.shape[axis + 1 :])
    return np.ascontiguousarray(np.moveaxis(split, axis + 1, -1))


def depth16(data: np.ndarray) -> np.ndarray:
    """DEPTH16: [C,kernel...] -> [C/16,kernel...,16]; missing lanes zero."""
    data = _padded(data, 0)
    return np.ascontiguousarray(np.moveaxis(data.reshape(data.shape[0] // LANES, LANES, *data.shape[1:]), 1, -1))


def weight16(data: np.ndarray) -> np.ndarray:
    """WEIGHT16: [g,K,C,kernel...] -> flat; per group and block of 16 K: blocks of <= 16 C, kernel, c in block, 16
    lanes of K."""
    data = _padded(data, 1)
    groups, outputs, channels = data.shape[:3]
    taps = int(np.prod(data.shape[3:], dtype=np.int64))
    lanes_last = data.reshape(groups, outputs // LANES, LANES, channels, taps).transpose(0, 1, 3, 4, 2)
    full = channels // LANES * LANES
    head = (
        lanes_last[:, :, :full]
        .reshape(groups, outputs // LANES, full // LANES, LANES, taps, LANES)
        .transpose(0, 1, 2, 4, 3, 5)
    )
    tail = lanes_last[:, :, full:].transpose(0, 1, 3, 2, 4)
    sizes = (full * taps * LANES, (channels - full) * taps * LANES)
    rows = [part.reshape(groups, outputs // LANES, n) for part, n in zip((head, tail), sizes, strict=True)]
    return np.ascontiguousarray(np.concatenate(rows, axis=2)).reshape(-1)


def lines(data: np.ndarray, dilation: int) -> np.ndarray:
    """Weights [g,K,C,kernel...] of planar inputs, a line of the kernel as channels: [g,K,L,kernel but its last extent],
    L being the C inputs of each column, zeros between the taps, and one more if that makes it even."""
    groups, filters, channels, *rest, taps = data.shape
    columns = (taps - 1) * dilation + 1
    spread = np.zeros((groups, filters, columns, channels, *rest), data.dtype)
    spread[:, :, ::dilation] = np.moveaxis(data, -1, 2)
    line = spread.reshape(groups, filters, columns * channels, *rest)
    return np.pad(line, [(0, columns * channels % 2 if i == 2 else 0) for i in range(line.ndim)])


def quads(data: np.ndarray) -> np.ndarray:
    """Signed bytes [g,K,C,kernel...] as int32 [g,K,ceil(C/4) T], each the weights of four neighbouring channels, zero
    beyond C, in the order of blocks of 16 channels, kernel positions, and quads in the block."""
    data = np.pad(data, [(0, -data.shape[2] % 4 if i == 2 else 0) for i in range(data.ndim)])
    groups, outputs, channels = data.shape[:3]
    taps = int(np.prod(data.shape[3:], dtype=np.int64))
    full = channels // LANES * LANES
    split = data.reshape(groups, outputs, channels // 4, 4, taps)
    head = split[:, :, : full // 4].reshape(groups, outputs, full // LANES, 4, 4, taps).transpose(0, 1, 2, 5, 3, 4)
    tail = split[:, :, full // 4 :].transpose(0, 1, 4, 2, 3)
    rows = [part.reshape(groups, outputs, -1, 4) for part in (head, tail) if part.size]
    if not rows:
        return np.zeros((groups, outputs, channels // 4 * taps), np.int32)
    return np.ascontiguousarray(np.concatenate(rows, axis=2)).view(np.int32)[..., 0]
