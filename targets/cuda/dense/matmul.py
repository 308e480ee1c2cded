"""Matrix products: b constant and few rows by vectors of weights, all else by blocks of sums."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from packer.ir import DType
from packer.ir.ops import Activation, MatMul
from targets.cuda.array import Array
from targets.cuda.dense.epilogue import Matrix, finish, own_column
from targets.cuda.dense.operands import Gathered, Strided
from targets.cuda.dense.problem import Problem, problem_of
from targets.cuda.dense.product import Place, product, shared_bytes
from targets.cuda.dense.tile import Tile, choose
from targets.cuda.dense.vector import MOST_ROWS, vector
from targets.cuda.emit.ptx import Builder, module
from targets.cuda.kernel import Code, Kernel

__all__ = ["matmul", "products"]

Few = Callable[[Problem, np.ndarray, Activation | None, Sequence[int | np.ndarray]], Code]
_FLOATS = (DType.F32, DType.F16)
_MOST_BLOCKS = 65_535  # of the grid's second and third dimension
_WORD = 1 << 32


def matmul(
    op: MatMul,
    inputs: Sequence[Array | None],
    outputs: Sequence[Array],
    constants: Sequence[np.ndarray | None],
    few: Few = vector,
) -> Code | None:
    """Kernels of a `MatMul` node; None for integers and sums of nothing. Those of few vectors times a constant matrix
    are made by `few`."""
    a, b, bias, *_ = (*inputs, None)
    assert a is not None
    assert b is not None
    if a.shape[-1] == 0 or any(array is not None and array.dtype not in _FLOATS for array in (a, b, bias)):
        return None
    problem = problem_of(a, b, outputs[0], bias)
    numbers: list[int | np.ndarray] = []
    for i, (array, value) in enumerate(zip(inputs, constants, strict=True)):
        if array is not None:
            numbers.append(i if value is None else value)
    if problem.count == 1:
        if isinstance(numbers[1], np.ndarray) and problem.rows <= MOST_ROWS:
            return few(problem, numbers[1].reshape(problem.terms, -1).T, op.activation, [numbers[0], *numbers[2:]])
        if isinstance(numbers[0], np.ndarray) and problem.columns <= MOST_ROWS:
            weights = numbers[0].reshape(-1, problem.terms)
            return few(problem.transposed, weights, op.activation, numbers[1:])
    return products(problem, op.activation, numbers)


def products(
    problem: Problem, activation: Activation | None, numbers: Sequence[int | np.ndarray], tile: Tile | None = None
) -> Code | None:
    """All products in one kernel; `numbers` are those of the inputs a, b and perhaps bias, or their values. None where
    a grid or 32 bits do not reach."""
    tile = tile or choose(problem.rows, problem.columns, problem.terms, problem.count)
    grid = (-(-problem.columns // tile.columns), -(-problem.rows // tile.rows), problem.count)
    if max(grid[1:]) > _MOST_BLOCKS or problem.rows * problem.a.row * problem.a.dtype.bytes >= _WORD:
        return None
    operands: dict[str, int | np.ndarray] = dict(zip(("a", "b", "bias"), numbers, strict=False))
    b = Builder()
    shared = _body(b, problem, activation, tile)
    text = b.entry("dense_product", (*operands, "y"), tile.threads, shared, tile.registers)
    return Code((Kernel("dense_product", module(text), grid, tile.threads),), tuple(operands.values()))


def _body(b: Builder, problem: Problem, activation: Activation | None, tile: Tile) -> int:
    """Emits the kernel; the bytes of shared memory that it needs."""
    place = Place(b, tile)
    own, part = own_column(b, tile, place.thread)
    column = b.new("r", "mad.lo.u32", b.new("r", "mov.u32", "%ctaid.x"), tile.columns, own)
    inside = None
    if problem.columns % tile.columns:
        inside = b.new("p", "setp.lt.u32", column, problem.columns)
        column = b.new("r", "min.u32", column, problem.columns - 1)
    number = b.new("r", "mov.u32", "%ctaid.z")
    first = b.new("r", "mul.lo.u32", b.new("r", "mov.u32", "%ctaid.y"), tile.rows)

    at = problem.place(b, "a", problem.a, number, None, None)
    rows = Strided(b, tile, place.thread, at, first, problem.rows, problem.terms, problem.a.row, problem.a.dtype)
    at = problem.place(b, "b", problem.b, number, None, column)
    stride = problem.b.row * problem.b.dtype.bytes
    columns = Gathered(
        b, tile, place.thread, part, at, problem.b.dtype, stride, tile.depth * stride, terms=problem.terms
    )
    sums = product(b, tile, place, rows, columns, -(-problem.terms // tile.depth))

    row = b.new("r", "mad.lo.u32", part, 4, first)
    limit = None
    if problem.rows % tile.rows:
        limit = b.new("r", "sub.u32", problem.rows, b.new("r", "min.u32", row, problem.rows))
    at = problem.place(b, "y", problem.y, number, row, column)
    target, bias = Matrix(at, problem.y.row, problem.y.dtype), None
    if problem.bias is not None:
        at = problem.place(b, "bias", problem.bias, number, row, column)
        bias = Matrix(at, problem.bias.row, problem.bias.dtype)
    finish(b, tile, place, sums, target, bias, None, activation, limit, inside)
    b.emit("ret")
    return shared_bytes(tile, rows, columns)
