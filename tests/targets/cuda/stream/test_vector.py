"""Few vectors times sparse constant matrices, executed: against float64."""

from __future__ import annotations

import numpy as np
import pytest

from packer.ir import DType
from packer.ir.ops import Activation, MatMul
from targets.cuda.array import Array
from targets.cuda.dense.problem import problem_of
from targets.cuda.matmul import matmul
from targets.cuda.stream import vector
from tests.targets.cuda.launch import run


def check(
    shape: tuple[int, int, int], density: float = 0.1, transposed: bool = False, dtype: DType = DType.F32, seed: int = 0
) -> None:
    """A product of rows x terms x columns with bias and ReLU, the constant on the left if `transposed`."""
    rows, terms, columns = shape
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((rows, terms)).astype(dtype.numpy)
    weights = rng.standard_normal((terms, columns)).astype(np.float32)
    weights[rng.random(weights.shape) >= density] = 0
    weights[0] = 0
    bias = rng.standard_normal(columns).astype(np.float32)
    operands = [x, weights, bias] if not transposed else [weights.T.copy(), x.T.copy(), bias[:, None]]
    arrays = [Array.dense(DType.F16 if a.dtype == np.float16 else DType.F32, a.shape) for a in operands]
    constants = [operands[i] if i == (0 if transposed else 1) or i == 2 else None for i in range(3)]
    op = MatMul(Activation("relu"))
    (want,) = op.reference(*(a.astype(np.float64) for a in operands))
    y = Array.dense(dtype, want.shape)
    code = matmul(op, arrays, [y], constants)
    assert code is not None
    assert code.kernels[0].name == "stream_vector"
    (found,) = run(code, list(zip(arrays, operands, strict=True)), [y])
    tolerance = 2e-3 if dtype is DType.F16 else 1e-5
    np.testing.assert_allclose(found, want, rtol=tolerance, atol=tolerance * max(1, np.abs(want).max()))


@pytest.mark.parametrize("rows", [1, 2, 3, 8])
@pytest.mark.parametrize("terms", [1, 84, 1100, 6144, 6145, 13000])
@pytest.mark.parametrize("columns", [1, 10, 33])
def test_shapes(rows: int, terms: int, columns: int) -> None:
    check((rows, terms, columns))


@pytest.mark.parametrize("density", [0, 0.001, 0.5])
def test_densities(density: float) -> None:
    check((2, 7000, 40), density)


def test_several_outputs_of_a_warp() -> None:
    check((1, 700, 2051))
    check((3, 300, 2200))


@pytest.mark.parametrize("dtype", [DType.F32, DType.F16])
@pytest.mark.parametrize("transposed", [False, True])
def test_either_side_is_constant(transposed: bool, dtype: DType) -> None:
    check((5, 400, 70), transposed=transposed, dtype=dtype)


def test_weights_that_are_zero_take_no_memory() -> None:
    weights = np.zeros((100, 5000), np.float32)
    weights[:, ::50] = 1
    arrays = [Array.dense(DType.F32, (1, 5000)), Array.dense(DType.F32, (5000, 100)), Array.dense(DType.F32, (1, 100))]
    code = vector(problem_of(arrays[0], arrays[1], arrays[2], None), weights, None, [0])
    assert sum(operand.nbytes for operand in code.operands if not isinstance(operand, int)) < 100 * (128 * 6 + 8) + 4
