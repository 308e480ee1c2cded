"""Matrix products: of few vectors and a constant matrix with many zeros streamed, all else dense."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from packer.ir.ops import Activation, MatMul
from targets.cuda import dense, stream
from targets.cuda.array import Array
from targets.cuda.dense.problem import Problem
from targets.cuda.dense.vector import vector
from targets.cuda.generic.access import Constants, Inputs
from targets.cuda.kernel import Code

__all__ = ["SPARSE", "matmul"]

SPARSE = 0.5  # density up to which six bytes for each weight that is not zero are fewer than four for each


def matmul(op: MatMul, inputs: Inputs, outputs: Sequence[Array], constants: Constants) -> Code | None:
    """Kernels of a `MatMul` node; None for integers and sums of nothing."""
    return dense.matmul(op, inputs, outputs, constants, _few)


def _few(
    problem: Problem, weights: np.ndarray, activation: Activation | None, numbers: Sequence[int | np.ndarray]
) -> Code:
    sparse = np.count_nonzero(weights) <= SPARSE * weights.size
    return (stream.vector if sparse else vector)(problem, weights, activation, numbers)
