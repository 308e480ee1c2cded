"""Matrix products, executed: against float64, all ways in which operands broadcast."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np
import pytest

from packer.ir import DType
from packer.ir.ops import Activation, MatMul
from targets.cuda.array import Array
from targets.cuda.dense import TILES, Tile, matmul
from targets.cuda.dense.matmul import products
from targets.cuda.dense.problem import problem_of
from targets.cuda.dense.vector import Settings, vector
from targets.cuda.kernel import Code
from targets.cuda.layer import Planes
from tests.targets.cuda.launch import run

Shape = tuple[int, ...]


class Case:
    """Operands of a product, of which `constants` are known when packing; y may be an array with gaps."""

    def __init__(
        self,
        a: Shape,
        b: Shape,
        bias: Shape | None = None,
        constants: Sequence[int] = (),
        dtype: DType = DType.F32,
        activation: Activation | None = None,
        seed: int = 0,
    ) -> None:
        rng = np.random.default_rng(seed)
        kinds = [DType.F32 if i in constants else dtype for i in range(3)]
        shapes = [a, b] if bias is None else [a, b, bias]
        self.values = [rng.standard_normal(s).astype(k.numpy) for s, k in zip(shapes, kinds, strict=False)]
        self.arrays = [Array.dense(k, s) for s, k in zip(shapes, kinds, strict=False)]
        self.constants = [self.values[i] if i in constants else None for i in range(len(shapes))]
        self.op = MatMul(activation)
        (self.want,) = self.op.reference(*(value.astype(np.float64) for value in self.values))
        self.y = Array.dense(dtype, self.want.shape)

    def code(self) -> Code:
        code = matmul(self.op, self.arrays, [self.y], self.constants)
        assert code is not None
        return code

    def check(self, code: Code | None = None) -> None:
        (found,) = run(code or self.code(), list(zip(self.arrays, self.values, strict=True)), [self.y])
        tolerance = 2e-3 if self.y.dtype is DType.F16 else 1e-5
        np.testing.assert_allclose(found, self.want, rtol=tolerance, atol=tolerance * max(1, np.abs(self.want).max()))


@pytest.mark.parametrize("rows", [1, 2, 3, 8])
@pytest.mark.parametrize("terms", [1, 84, 128, 300, 1100])
@pytest.mark.parametrize("columns", [1, 10, 33])
def test_vectors(rows: int, terms: int, columns: int) -> None:
    case = Case((rows, terms), (terms, columns), (columns,), [1, 2], activation=Activation("relu"))
    assert case.code().kernels[0].name == "dense_vector"
    case.check()


@pytest.mark.parametrize("dtype", [DType.F32, DType.F16])
@pytest.mark.parametrize(
    ("a", "b", "bias", "constants"),
    [
        ((84,), (84, 10), (10,), [1]),
        ((40, 64), (64,), (40,), [0]),
        ((8, 64), (64,), (1,), [1]),
        ((12, 70), (70, 5), (12, 1), [0]),
        ((5, 1, 30), (30, 4), (5, 1, 4), [1, 2]),
        ((2, 2, 2, 30), (30, 4), (2, 2, 2, 4), [1]),
        ((7, 40), (40, 4), (), [1]),
    ],
)
def test_vectors_of_any_rank(a: Shape, b: Shape, bias: Shape, constants: Sequence[int], dtype: DType) -> None:
    case = Case(a, b, bias, constants, dtype, Activation("silu", 1.0))
    assert case.code().kernels[0].name == "dense_vector"
    case.check()


@pytest.mark.parametrize("settings", list(itertools.product((1, 2, 4), (1, 3), (1, 2, 4))), ids=str)
def test_settings_of_vectors(settings: tuple[int, int, int]) -> None:
    outputs, unroll, parts = settings
    for terms in (200, 1000):
        case = Case((5, terms), (terms, 19), constants=[1])
        problem = problem_of(*case.arrays, case.y, None)
        case.check(vector(problem, case.values[1].T, None, [0], Settings(outputs, unroll, parts, 4)))


@pytest.mark.parametrize("dtype", [DType.F32, DType.F16])
@pytest.mark.parametrize(
    ("a", "b", "bias"),
    [
        ((40, 30), (30, 50), (50,)),
        ((64, 64), (64,), None),
        ((9,), (9,), None),
        ((9,), (3, 9, 4), (3, 4)),
        ((200, 64), (64, 130), (200, 1)),
        ((2, 3, 17, 30), (2, 3, 30, 50), None),
        ((2, 3, 17, 30), (30, 50), (17, 1)),
        ((3, 17, 8), (5, 1, 8, 12), (12,)),
        ((2, 1, 4, 8), (3, 8, 4), (2, 3, 4, 4)),
    ],
)
def test_products(a: Shape, b: Shape, bias: Shape | None, dtype: DType) -> None:
    case = Case(a, b, bias, dtype=dtype, activation=Activation("clip", -2.0, 3.0))
    assert case.code().kernels[0].name == "dense_product"
    case.check()


@pytest.mark.parametrize("tile", TILES, ids=str)
def test_tiles(tile: Tile) -> None:
    """Rows and columns that fill tiles, and some beyond; terms that fill chunks, and not."""
    for rows, columns, terms in ((128, 128, 24), (131, 37, 13)):
        case = Case((rows, terms), (terms, columns), (columns,), constants=[1, 2])
        problem = problem_of(*case.arrays[:2], case.y, case.arrays[2])
        case.check(products(problem, None, [0, case.values[1], case.values[2]], tile))


def test_halos() -> None:
    """Operands and outputs of rank 4 in planes."""
    case = Case((1, 3, 20, 9), (1, 3, 9, 14))
    for i, (height, width) in enumerate(((20, 9), (9, 14))):
        case.arrays[i] = Planes.of(3, height, width, (1, 2, 0, 3)).array(1)
    case.y = Planes.of(3, 20, 14, (2, 1, 1, 1)).array(1)
    case.check()


def test_what_lies_behind_the_last_term_does_not_matter() -> None:
    """Infinities and NaN of the next row of a, and behind b, stay out of sums."""
    case = Case((20, 13), (13, 20))
    case.arrays[0] = Array(DType.F32, (20, 13), (16, 1))
    wide = Array(DType.F32, (20, 16), (16, 1))
    x = np.full((20, 16), np.nan, np.float32)
    x[:, :13] = case.values[0]
    (found,) = run(case.code(), [(wide, x), (case.arrays[1], case.values[1])], [case.y])
    np.testing.assert_allclose(found, case.want, rtol=1e-5, atol=1e-5)


def test_integers_and_empty_sums_are_left_to_the_processor() -> None:
    case = Case((3, 0), (0, 4))
    assert matmul(case.op, case.arrays, [case.y], case.constants) is None
    arrays = [Array.dense(DType.I32, (2, 2))] * 3
    assert matmul(MatMul(), arrays[:2], arrays[2:], [None, None]) is None
