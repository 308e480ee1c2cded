"""Costs of operators other than convolutions with tiers, against the model."""

from __future__ import annotations

import numpy as np
import pytest

from packer.ir import DType, TensorType
from packer.ir.ops import Binary, Conv, Lrn, Pool, Reduce, Resize, Softmax, Transpose, Unary
from packer.ir.ops.base import Op
from targets.base import Work
from targets.cuda.board import BOARDS
from targets.cuda.cost import bound, seconds
from targets.cuda.demand import BOUNDS
from targets.cuda.model import count, predict
from tests.targets.cuda.generic.check import code

BOARD = BOARDS["jetson"]
ONE, NONE = (1, 1, 1, 1), (0, 0, 0, 0)
Shape = tuple[int, ...]
OPERATORS: list[tuple[Op, list[Shape]]] = [
    (Conv((1, 1), ONE, (1, 1), 32), [(1, 32, 112, 112), (32, 1, 3, 3)]),
    (Conv((2, 2), ONE, (1, 1), 64), [(1, 64, 112, 112), (64, 1, 3, 3)]),
    (Conv((1, 1), ONE, (1, 1), 512), [(1, 512, 14, 14), (512, 1, 3, 3)]),
    (Pool("max", (3, 3), (2, 2), ONE, (1, 1)), [(1, 64, 112, 112)]),
    (Pool("max", (3, 3), (2, 2), NONE, (1, 1)), [(1, 128, 55, 55)]),
    (Pool("average", (3, 3), (1, 1), ONE, (1, 1)), [(1, 192, 28, 28)]),
    (Reduce("mean", (2, 3)), [(1, 1024, 7, 7)]),
    (Lrn(5, 1e-4, 0.75, 1.0), [(1, 64, 56, 56)]),
    (Binary("add"), [(1, 256, 56, 56), (1, 256, 56, 56)]),
    (Unary("relu"), [(1, 256, 56, 56)]),
    (Softmax("softmax", (1,)), [(1, 1000)]),
    (Transpose((0, 2, 3, 1)), [(1, 32, 56, 56)]),
    (Resize((1, 32, 56, 56), (1.0, 1.0, 2.0, 2.0)), [(1, 32, 28, 28)]),
]


@pytest.mark.parametrize(("op", "shapes"), OPERATORS, ids=lambda part: type(part).__name__)
def test_costs_are_near_the_model(op: Op, shapes: list[Shape]) -> None:
    values = [np.random.default_rng(0).standard_normal(shape).astype(np.float32) for shape in shapes]
    constant = (1,) if isinstance(op, Conv) else ()
    made, _, (y,) = code(op, values, constant, isinstance(op, Conv | Pool | Binary | Unary), count=1)
    assert made is not None
    known = [operand if isinstance(operand, np.ndarray) else None for operand in made.operands]
    sizes = [o.nbytes if isinstance(o, np.ndarray) else values[o].nbytes for o in made.operands]
    sizes.append(y.elements * 4)
    want = sum(predict(kernel, count(kernel, known), BOARD, sizes).seconds for kernel in made.kernels)
    types = tuple(TensorType(DType.F32, shape) for shape in shapes)
    outputs = (TensorType(DType.F32, y.shape),)
    work = Work(op, types, outputs, tuple(i in constant for i in range(len(shapes))))
    assert 0.7 < seconds(BOARD, work, "cuda", DType.F32) / want < 1.4
    assert bound(BOARD, work, "cuda", DType.F32) in BOUNDS
