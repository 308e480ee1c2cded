"""Sparse convolutions executed on the emulator, and the same in float64."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from packer.ir import DType
from packer.ir.ops import Conv, Pool
from targets.cuda.array import Array
from targets.cuda.geometry import RESIDUAL
from targets.cuda.kernel import Code, Kernel
from targets.cuda.layer import ConvLayer
from tests.targets.cuda.launch import run

__all__ = ["check", "data_of", "execute", "expected", "pool_of"]

Data = tuple[np.ndarray, np.ndarray | None]  # input, residual


def data_of(layer: ConvLayer, seed: int) -> Data:
    """A random input and, where the layer has one, a random residual, both of the layer's element types."""
    rng = np.random.default_rng(seed)
    x, added = (_values(rng, planes.array(layer.images)) if planes else None for planes in (layer.source, layer.added))
    assert x is not None
    return x, added


def _values(rng: np.random.Generator, array: Array) -> np.ndarray:
    return rng.standard_normal(array.shape).astype(array.dtype.numpy)


def execute(layer: ConvLayer, kernels: Sequence[Kernel], data: Data) -> np.ndarray:
    """What the kernels make of the data; the emulator and the halos that stay as they are check the rest."""
    x, added = data
    inputs = [(layer.source.array(layer.images), x)]
    if added is not None and layer.added is not None:
        inputs.append((layer.added.array(layer.images), added))
    code = Code(tuple(kernels), tuple(range(len(inputs))))
    (found,) = run(code, inputs, [layer.target.array(layer.images)])
    return found


def expected(layer: ConvLayer, data: Data) -> np.ndarray:
    """The layer in float64, by the references of its operators."""
    op = Conv(layer.strides, layer.pads, layer.dilations, layer.group, layer.activation)
    x, added = data
    operands = (x, layer.weights, layer.bias, added)
    (found,) = op.reference(*(None if operand is None else operand.astype(np.float64) for operand in operands))
    return np.asarray(pool_of(layer).reference(found)[0]) if layer.pool else found


def pool_of(layer: ConvLayer) -> Pool:
    """The pool behind a layer, as an operator."""
    return Pool(layer.pool, (2, 2), (2, 2), (0, 0, 0, 0), (1, 1))


def check(layer: ConvLayer, code: Code, seed: int, tolerance: float) -> None:
    """The outputs of a layer's step are those of float64, within 2e-3 where they are stored as f16; nothing else is
    written."""
    x, added = data_of(layer, seed)
    inputs = [(layer.source.array(layer.images), x), None, None, None]
    if added is not None and layer.added is not None:
        inputs[RESIDUAL] = (layer.added.array(layer.images), added)
    (found,) = run(code, inputs, [layer.target.array(layer.images)])
    tolerance = 2e-3 if layer.target.dtype is DType.F16 else tolerance
    want = expected(layer, (x, added))
    np.testing.assert_allclose(found, want, rtol=tolerance, atol=tolerance * max(1, np.abs(want).max()))
