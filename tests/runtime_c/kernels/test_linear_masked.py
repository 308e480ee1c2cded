"""linear_masked: against the reference, and what it says of starts that leave too few values."""

from __future__ import annotations

import numpy as np
import pytest

from packer.ir.ops import Activation, MatMul
from packer.ir.rounding import nearest
from packer.ir.types import DType, TensorType
from targets.base import attributes_of
from targets.cpu.masked import masked_matrix
from tests.runtime_c.kernels.harness import Box, Rejected, check_step, isas, pruned, random_array, run_step

CONSTANTS = (1, 2, 3)  # values, masks and starts
STORED = pytest.mark.parametrize("stored", [DType.F32, DType.F16, DType.BF16])
ISAS = pytest.mark.parametrize("isa", isas())


def operands(x: np.ndarray, matrix: np.ndarray, bias: np.ndarray | None = None) -> list[np.ndarray | None]:
    masked = masked_matrix(matrix)
    return [x, masked.values, masked.masks, masked.starts, bias]


def check(
    op: MatMul, x: np.ndarray, matrix: np.ndarray, bias: np.ndarray | None = None, stored: DType = DType.F32
) -> None:
    exact = (None if a is None else a.astype(np.float64) for a in (x, nearest(matrix, stored), bias))
    (want,) = op.reference(*exact)
    check_step(
        "linear_masked", operands(x, matrix, bias), [want], [TensorType(DType.F32, want.shape)], attributes_of(op),
        1e-5, constants=CONSTANTS, weights=stored,
    )  # fmt: skip


@pytest.mark.parametrize("shape", [(1, 1), (40, 33), (300, 7), (4096, 6), (5000, 50), (9000, 17), (0, 3), (3, 0)])
@pytest.mark.parametrize("density", [0.0, 0.003, 0.5, 1.0])
def test_matrices(shape: tuple[int, int], density: float) -> None:
    rng = np.random.default_rng(shape[0])
    bias = random_array(rng, shape[1:], DType.F32) if density else None
    for rows in ((1,), (5,), (2, 3), (), (0,)):
        activation = Activation("clip", -300.0, 10.0) if len(rows) == 2 else None
        check(MatMul(activation), random_array(rng, (*rows, shape[0]), DType.F32), pruned(rng, shape, density), bias)
    check(MatMul(Activation("sigmoid")), random_array(rng, (1, shape[0]), DType.F32), pruned(rng, shape, density), bias)


@pytest.mark.parametrize("seed", range(12))
def test_any_shape(seed: int) -> None:
    rng = np.random.default_rng(seed)
    shape = int(rng.integers(1, 80)), int(rng.integers(1, 40))
    x = random_array(rng, (int(rng.integers(1, 10)), shape[0]), DType.F32)
    check(MatMul(Activation("relu")), x, pruned(rng, shape, float(rng.random())))


def test_every_mask() -> None:
    """Each byte of bits, low and high, in each column of a block."""
    bits = np.unpackbits(np.arange(256, dtype=np.uint8)[:, None], axis=1, bitorder="little")
    masks = np.concatenate([np.concatenate([bits, bits[::-1]], 1), np.concatenate([bits, bits], 1)])
    matrix = np.where(masks.T == 1, np.arange(1, 17, dtype=np.float32)[:, None], np.float32(0))
    for column in range(4):
        x = 2.0 ** np.arange(16, dtype=np.float32)[None]
        check(MatMul(), x, np.roll(matrix, column, 1))


@pytest.mark.parametrize("stored", [DType.F16, DType.BF16])
@pytest.mark.parametrize("shape", [(40, 36), (5000, 51), (9000, 20)])
def test_values_of_16_bits(stored: DType, shape: tuple[int, int]) -> None:
    rng = np.random.default_rng(6)
    for rows in (1, 5):
        for density in (0.003, 0.5, 1.0):
            matrix = pruned(rng, shape, density)
            matrix[:3, 0] = 2.0**-24  # the least f16
            x, bias = random_array(rng, (rows, shape[0]), DType.F32), np.ones(shape[1:], np.float32)
            check(MatMul(), x, matrix, bias, stored)


@STORED
@ISAS
def test_rows_give_the_same_bits_alone_and_together(stored: DType, isa: str) -> None:
    rng = np.random.default_rng(2)
    how = {"constants": CONSTANTS, "weights": stored, "isa": isa}
    x, matrix = random_array(rng, (7, 4510), DType.F32), pruned(rng, (4510, 23), 0.5)
    (every,) = run_step("linear_masked", operands(x, matrix), [TensorType(DType.F32, (7, 23))], **how)
    for row, want in zip(x, every, strict=True):
        (alone,) = run_step("linear_masked", operands(row[None], matrix), [TensorType(DType.F32, (1, 23))], **how)
        assert alone.tobytes() == want.tobytes()


@ISAS
def test_columns_are_cut_between_blocks(isa: str) -> None:
    rng = np.random.default_rng(3)
    x, bias = random_array(rng, (2, 5000), DType.F32), np.ones(70, np.float32)
    whole, how = operands(x, pruned(rng, (5000, 70), 0.5), bias), {"constants": CONSTANTS, "isa": isa}
    (want,) = run_step("linear_masked", whole, [TensorType(DType.F32, (2, 70))], **how)
    for begin, end in ((0, 16), (16, 48), (32, 70), (64, 70)):
        blocks = slice(begin // 4, -(-end // 4))
        part = [*whole[:2], whole[2][blocks], whole[3][blocks], bias[begin:end]]
        boxes = [None, None, Box(whole[2].shape, (begin // 4, 0, 0)), Box(whole[3].shape, (begin // 4,))]
        types = [TensorType(DType.F32, (2, end - begin))]
        (got,) = run_step("linear_masked", part, types, boxes=[*boxes, None, Box((2, 70), (0, begin))], **how)
        assert got.tobytes() == want[:, begin:end].tobytes()


@pytest.mark.parametrize("rows", [1, 3])
@ISAS
def test_threads_give_the_same_bits(isa: str, rows: int) -> None:
    """Where they share columns."""
    rng = np.random.default_rng(4)
    matrix = pruned(rng, (5000, 603), 0.3)
    matrix[200:, 100:] = 0
    inputs, y = operands(random_array(rng, (rows, 5000), DType.F32), matrix), [TensorType(DType.F32, (rows, 603))]
    (want,) = run_step("linear_masked", inputs, y, constants=CONSTANTS, isa=isa)
    for workers in (2, 3, 5):
        (got,) = run_step("linear_masked", inputs, y, constants=CONSTANTS, isa=isa, workers=workers, piece=1)
        assert got.tobytes() == want.tobytes()


@pytest.mark.parametrize("depth", [40, 5000])
@ISAS
@STORED
def test_masks_lead_nowhere_else(stored: DType, isa: str, depth: int) -> None:
    """Bits of inputs that there are not, and more than there are values of: what results is some number, and nothing is
    written but the output."""
    rng = np.random.default_rng(5)
    for rows in (1, 6):
        inputs = operands(random_array(rng, (rows, depth), DType.F32), pruned(rng, (depth, 10), 0.5))
        for masks in (np.full_like(inputs[2], 0xFFFF), rng.integers(0, 1 << 16, inputs[2].shape, np.uint16)):
            wrong = [*inputs[:2], masks, *inputs[3:]]
            for start in (0, len(inputs[1]) - 64 * -(-depth // 16)):  # the first one, and the last
                wrong[3] = np.full_like(inputs[3], start)
                y = [TensorType(DType.F32, (rows, 10))]
                run_step("linear_masked", wrong, y, constants=CONSTANTS, isa=isa, weights=stored)


def test_starts_are_proven() -> None:
    rng = np.random.default_rng(7)
    inputs = operands(random_array(rng, (1, 1000), DType.F32), pruned(rng, (1000, 10), 0.5))
    last = len(inputs[1]) - 64 * 63
    assert inputs[3][-1] == last, "no more values than must be"
    for block in range(3):
        for start in (-1, last + 1, -(2**31), 2**31 - 1):
            starts = inputs[3].copy()
            starts[block] = start
            with pytest.raises(Rejected, match="start of a block of columns"):
                run_step(
                    "linear_masked", [*inputs[:3], starts, None], [TensorType(DType.F32, (1, 10))], constants=CONSTANTS
                )


def test_operands_are_proven() -> None:
    rng = np.random.default_rng(4)
    x, matrix = random_array(rng, (1, 5000), DType.F32), pruned(rng, (5000, 40), 0.2)
    good, y = operands(x, matrix, np.ones(40, np.float32)), TensorType(DType.F32, (1, 40))

    def changed(slot: int, value: np.ndarray | None) -> list[np.ndarray | None]:
        return [value if i == slot else operand for i, operand in enumerate(good)]

    run_step("linear_masked", good, [y], constants=CONSTANTS)
    bad = [
        changed(0, np.ones((1, 9000), np.float32)),
        changed(0, np.float32(1)),
        changed(0, x.astype(np.int32)),
        changed(1, good[1][:-1]),
        changed(1, good[1][None]),
        changed(1, good[1].astype(np.int32)),
        changed(2, good[2][:-1]),
        changed(2, good[2][:, :-1]),
        changed(2, good[2][..., :-1]),
        changed(2, good[2].reshape(10, -1)),
        changed(2, good[2].astype(np.int16)),
        changed(3, good[3][:-1]),
        changed(3, good[3][None]),
        changed(3, good[3].astype(np.int64)),
        changed(4, good[4][:-1]),
        changed(4, good[4].astype(np.int32)),
        good[:3],
    ]
    for inputs in bad:
        with pytest.raises(Rejected):
            run_step("linear_masked", inputs, [y], constants=[i for i in CONSTANTS if i < len(inputs)])
    with pytest.raises(Rejected):
        run_step("linear_masked", good, [TensorType(DType.F32, (1, 41))], constants=CONSTANTS)
    for constants in ((1, 2), (1, 3), (2, 3)):
        with pytest.raises(Rejected):
            run_step("linear_masked", good, [y], constants=constants)
