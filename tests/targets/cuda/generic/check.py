"""Runs operators on the emulator as the packer would have them run, and compares with their references in float64."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from packer.ir import DType, TensorType
from packer.ir.ops import Op
from targets.cuda.array import Array
from targets.cuda.kernel import Code
from targets.cuda.layer import Planes
from targets.cuda.operators import code_of
from tests.targets.cuda.launch import run

__all__ = ["check", "code", "laid"]

HALO = (1, 2, 1, 3)


def laid(dtype: DType, shape: tuple[int, ...], halo: bool = False) -> Array:
    """Dense, or of rank 4 in planes with a halo."""
    if not halo or len(shape) != 4:
        return Array.dense(dtype, shape)
    return Planes.of(*shape[1:], HALO, dtype).array(shape[0])


def _storage(dtype: DType, half: bool) -> DType:
    return DType.F16 if half and dtype is DType.F32 else dtype


def code(
    op: Op,
    inputs: Sequence[np.ndarray | None],
    constant: Sequence[int] = (),
    halo: bool = False,
    half: bool = False,
    count: int | None = None,
) -> tuple[Code | None, list[Array | None], list[Array]]:
    """The operator's code for inputs of these values, of which those numbered in `constant` are known; and the arrays
    of inputs and outputs: with halos, or as halves where that is asked for, only the first `count` outputs."""
    types = [None if x is None else TensorType(DType.of(x.dtype), x.shape) for x in inputs]
    arrays: list[Array | None] = []
    for number, t in enumerate(types):
        if t is None:
            arrays.append(None)
        elif number in constant:
            arrays.append(Array.dense(t.dtype, t.shape))
        else:
            arrays.append(laid(_storage(t.dtype, half), t.shape, halo))
    outputs = [laid(_storage(t.dtype, half), t.shape, halo) for t in op.infer(types)[:count]]
    constants = [x if number in constant else None for number, x in enumerate(inputs)]
    return code_of(op, arrays, outputs, constants), arrays, outputs


def check(
    op: Op,
    *inputs: np.ndarray | None,
    constant: Sequence[int] = (),
    halo: bool = False,
    half: bool = False,
    rtol: float = 0.0,
    atol: float = 0.0,
    count: int | None = None,
) -> list[np.ndarray]:
    """The outputs are those of the reference in float64; what is stored in halves is compared after rounding."""
    if half:
        rounded = [
            x if x is None or x.dtype != np.float32 or i in constant else x.astype(np.float16).astype(np.float32)
            for i, x in enumerate(inputs)
        ]
        inputs = tuple(rounded)
        rtol = max(rtol, 2.0**-10)
    made, arrays, outputs = code(op, inputs, constant, halo, half, count)
    assert made is not None
    given = [
        None if a is None or x is None else (a, x.astype(a.dtype.numpy)) for a, x in zip(arrays, inputs, strict=True)
    ]
    found = run(made, given, outputs)
    wide = [x.astype(np.float64) if x is not None and x.dtype == np.float32 else x for x in inputs]
    for y, want in zip(found, op.reference(*wide)[:count], strict=True):
        assert y.shape == want.shape
        if y.dtype.kind == "f":
            np.testing.assert_allclose(y.astype(np.float64), want, rtol, atol)
        else:
            np.testing.assert_array_equal(y, want)
    return found
