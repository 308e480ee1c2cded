"""Products of bytes in random networks."""

from __future__ import annotations

import numpy as np
from onnx import TensorProto

from tests.e2e.random_builder import Builder

__all__ = ["dynamic_quantized", "quantized"]


def _levels(b: Builder, x: str, scale: float) -> list[str]:
    """x in steps of `scale`, a power of two."""
    parameters = b.constant(np.float32(scale)), b.constant(np.uint8(b.integer(60, 200)))
    return [
        y
        for q in b.op("QuantizeLinear", x, *parameters, exact=True)
        for y in b.op("DequantizeLinear", q, *parameters, exact=True)
    ]


def _bytes(b: Builder, *shape: int, axis: int) -> list[str]:
    """Weights in bytes, one step for each index of `axis`."""
    data = b.constant(b.random.integers(-9, 10, shape).astype(np.int8))
    scale = b.constant((2.0 ** b.random.integers(-4, -1, shape[axis])).astype(np.float32))
    return b.op("DequantizeLinear", data, scale, axis=axis, exact=True)


def quantized(b: Builder) -> None:
    """A product of bytes, and what lies between those. Steps are powers of two: nothing else rounds."""
    x = b.pick(least=2, most=5, exact=True)
    if x is None or 0 in b.shape(x):
        return
    for a in _levels(b, x, 0.125):
        channels, *spatial = b.shape(a)[1:]
        if not spatial:
            products = [y for w in _bytes(b, channels, b.one(3, 20), axis=1) for y in b.op("MatMul", a, w, exact=True)]
        else:
            group = int(b.one(1, channels))  # type: ignore[call-overload]
            kernel = [b.integer(1, min(3, n)) for n in spatial]
            attributes = {"group": group, "pads": [k // 2 for k in kernel] + [(k - 1) // 2 for k in kernel]}
            weights = _bytes(b, channels, channels // group, *kernel, axis=0)
            products = [y for w in weights for y in b.op("Conv", a, w, exact=True, **attributes)]
        if b.chance(0.5):
            products = [z for y in products for z in b.op("Relu", y, exact=True)]
        for y in products:
            for z in _levels(b, y, 0.5):
                kind = b.text("Add", "Concat", "MaxPool", "AveragePool", "Transpose") if spatial else "Concat"
                if kind == "Add":
                    joined = b.op("Add", z, a, exact=True)
                elif kind == "Concat":
                    joined = b.op("Concat", z, a, axis=1, exact=True)
                elif kind == "Transpose":
                    joined = b.op("Transpose", z, perm=[0, 1, *reversed(range(2, len(spatial) + 2))], exact=True)
                else:
                    joined = b.op(kind, z, kernel_shape=[min(2, n) for n in spatial], exact=True)
                for result in joined:
                    _levels(b, result, 1.0)
                if spatial:
                    _gated(b, z)


def _gated(b: Builder, x: str) -> None:
    """x times the largest of each of its channels, at most one."""
    limits = b.constant(np.float32(0)), b.constant(np.float32(1))
    for peak in b.op("ReduceMax", x, axes=list(range(2, len(b.shape(x)))), exact=True):
        for gate in (y for clipped in b.op("Clip", peak, *limits, exact=True) for y in _levels(b, clipped, 0.25)):
            for y in b.op("Mul", *b.random.permutation([x, gate]), exact=True):
                _levels(b, y, 1.0)


def dynamic_quantized(b: Builder) -> None:
    """A product of bytes whose levels the network finds itself, scaled to floats."""
    x = b.pick(least=2, most=5, exact=True)
    if x is None or 0 in b.shape(x):
        return
    made = b.op("DynamicQuantizeLinear", x, outputs=3)
    if not made:
        return
    levels, scale, zero = made
    channels, *spatial = b.shape(x)[1:]
    shape = (b.integer(1, 20), channels, *(b.integer(1, min(3, n)) for n in spatial))
    weights = b.random.integers(-9, 10, shape).astype(np.int8)
    kind, stored = ("ConvInteger", weights) if spatial else ("MatMulInteger", weights.T)
    for sums in b.op(kind, levels, b.constant(stored), zero):
        for y in b.op("Cast", sums, to=TensorProto.FLOAT):
            for factor in b.op("Mul", scale, b.constant(np.float32(0.125))):
                b.op("Mul", y, factor)
