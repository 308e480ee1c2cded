"""linear_sparse: against the reference, and what it says of streams that do not hold together."""

from __future__ import annotations

import numpy as np
import pytest

from packer.ir.ops import Activation, MatMul
from packer.ir.rounding import nearest
from packer.ir.types import DType, TensorType
from targets.base import attributes_of
from targets.cpu.sparse import matrix_stream
from tests.runtime_c.kernels.harness import Box, Rejected, check_step, isas, random_array, run_step

STREAM = (1, 2, 3, 4)  # the operands that are constants


def pruned(rng: np.random.Generator, shape: tuple[int, int], density: float) -> np.ndarray:
    return np.where(rng.random(shape) < density, random_array(rng, shape, DType.F32), np.float32(0))


def operands(x: np.ndarray, matrix: np.ndarray, bias: np.ndarray | None = None) -> list[np.ndarray | None]:
    stream = matrix_stream(matrix)
    return [x, stream.values, stream.indices, stream.counts, stream.starts, bias]


def check(
    op: MatMul, x: np.ndarray, matrix: np.ndarray, bias: np.ndarray | None = None, stored: DType = DType.F32
) -> None:
    exact = (None if a is None else a.astype(np.float64) for a in (x, nearest(matrix, stored), bias))
    (want,) = op.reference(*exact)
    check_step(
        "linear_sparse", operands(x, matrix, bias), [want], [TensorType(DType.F32, want.shape)], attributes_of(op),
        1e-5, constants=STREAM, weights=stored,
    )  # fmt: skip


@pytest.mark.parametrize("shape", [(1, 1), (40, 33), (300, 7), (5000, 50), (9000, 17), (0, 3), (3, 0)])
@pytest.mark.parametrize("density", [0.0, 0.003, 0.1, 1.0])
def test_matrices(shape: tuple[int, int], density: float) -> None:
    rng = np.random.default_rng(shape[0])
    bias = random_array(rng, shape[1:], DType.F32) if density else None
    for rows in ((1,), (5,), (2, 3), ()):
        activation = Activation("clip", -300.0, 10.0) if len(rows) == 2 else None
        check(MatMul(activation), random_array(rng, (*rows, shape[0]), DType.F32), pruned(rng, shape, density), bias)
    check(MatMul(Activation("sigmoid")), random_array(rng, (1, shape[0]), DType.F32), pruned(rng, shape, density), bias)


@pytest.mark.parametrize("stored", [DType.F16, DType.BF16])
@pytest.mark.parametrize("shape", [(40, 33), (5000, 50), (9000, 17)])
def test_values_of_16_bits(stored: DType, shape: tuple[int, int]) -> None:
    rng = np.random.default_rng(6)
    for rows in (1, 5):
        for density in (0.003, 0.1, 1.0):
            matrix = pruned(rng, shape, density)
            matrix[:3, 0] = 2.0**-24  # the least f16
            x, bias = random_array(rng, (rows, shape[0]), DType.F32), np.ones(shape[1:], np.float32)
            check(MatMul(), x, matrix, bias, stored)


@pytest.mark.parametrize("stored", [DType.F32, DType.F16, DType.BF16])
@pytest.mark.parametrize("isa", isas())
def test_rows_give_the_same_bits_alone_and_together(stored: DType, isa: str) -> None:
    rng = np.random.default_rng(2)
    how = {"constants": STREAM, "weights": stored, "isa": isa}
    x, matrix = random_array(rng, (7, 4500), DType.F32), pruned(rng, (4500, 21), 0.1)
    (together,) = run_step("linear_sparse", operands(x, matrix), [TensorType(DType.F32, (7, 21))], **how)
    for row, want in zip(x, together, strict=True):
        (alone,) = run_step("linear_sparse", operands(row[None], matrix), [TensorType(DType.F32, (1, 21))], **how)
        assert alone.tobytes() == want.tobytes()


def test_columns_are_cut_between_blocks() -> None:
    rng = np.random.default_rng(3)
    x, matrix, bias = random_array(rng, (2, 5000), DType.F32), pruned(rng, (5000, 70), 0.2), np.ones(70, np.float32)
    whole = operands(x, matrix, bias)
    (want,) = run_step("linear_sparse", whole, [TensorType(DType.F32, (2, 70))], constants=STREAM)
    for begin, end in ((0, 16), (16, 48), (32, 70), (64, 70)):
        counts, starts = whole[3][:, begin:end], whole[4][:, begin // 16 : -(-end // 16)]
        boxes = [None] * 3 + [Box((2, 70), (0, begin)), Box((2, 5), (0, begin // 16)), None, Box((2, 70), (0, begin))]
        types = [TensorType(DType.F32, (2, end - begin))]
        part = [*whole[:3], counts, starts, bias[begin:end]]
        (got,) = run_step("linear_sparse", part, types, boxes=boxes, constants=STREAM)
        assert got.tobytes() == want[:, begin:end].tobytes()


@pytest.mark.parametrize("rows", [1, 3])
def test_columns_of_different_numbers_of_weights(rows: int) -> None:
    rng = np.random.default_rng(4)
    matrix = pruned(rng, (5000, 600), 0.3)
    matrix[200:, 100:] = 0
    check(MatMul(), random_array(rng, (rows, 5000), DType.F32), matrix)


def test_operands_are_proven() -> None:
    rng = np.random.default_rng(4)
    good = operands(random_array(rng, (1, 100), DType.F32), pruned(rng, (100, 40), 0.2), np.ones(40, np.float32))
    y = TensorType(DType.F32, (1, 40))

    def changed(slot: int, value: np.ndarray | None) -> list[np.ndarray | None]:
        return [value if i == slot else operand for i, operand in enumerate(good)]

    def moved(slot: int, at: tuple[int, int], by: int) -> list[np.ndarray | None]:
        value = good[slot].copy()
        value[at] += by
        return changed(slot, value)

    run_step("linear_sparse", good, [y], constants=STREAM)
    run_step("linear_sparse", moved(4, (0, 1), -1), [y], constants=STREAM)
    bad = [
        changed(0, np.ones((1, 5000), np.float32)),
        changed(0, np.float32(1)),
        changed(1, good[1][:-1]),
        changed(1, good[1].astype(np.int32)),
        changed(2, good[2][:-1]),
        changed(2, good[2].astype(np.int32)),
        changed(3, good[3][:, :-1]),
        changed(3, good[3].astype(np.int32)),
        changed(4, good[4][:, :-1]),
        changed(4, good[4].astype(np.int64)),
        changed(5, good[5][:-1]),
        moved(3, (0, 39), 1),
        moved(4, (0, 2), 1),
        moved(4, (0, 0), -1),
        moved(4, (0, 1), 2**31 - 1 - int(good[4][0, 1])),
        good[:4],
    ]
    for inputs in bad:
        with pytest.raises(Rejected):
            run_step("linear_sparse", inputs, [y], constants=[i for i in STREAM if i < len(inputs)])
    with pytest.raises(Rejected):
        run_step("linear_sparse", good, [TensorType(DType.F32, (1, 41))], constants=STREAM)
    with pytest.raises(Rejected):
        run_step("linear_sparse", good, [y], constants=(1, 2, 3))


def test_any_index_is_safe() -> None:
    """Whatever indices say, nothing but the tile and the zeros behind it is read: the same bits every time."""
    rng = np.random.default_rng(5)
    for rows, depth in ((1, 50), (3, 50), (1, 4100), (4, 4100)):
        inputs = operands(random_array(rng, (rows, depth), DType.F32), pruned(rng, (depth, 30), 0.9))
        inputs[2] = np.full_like(inputs[2], 255)
        runs = [
            run_step("linear_sparse", inputs, [TensorType(DType.F32, (rows, 30))], constants=STREAM, workers=n)
            for n in (1, 1, 3)
        ]
        assert np.isfinite(runs[0][0]).all()
        assert len({found.tobytes() for (found,) in runs}) == 1
