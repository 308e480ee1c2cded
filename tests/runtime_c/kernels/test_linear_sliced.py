"""linear_sliced: against the reference, and what it says of steps that read elsewhere."""

from __future__ import annotations

import numpy as np
import pytest

from packer.ir.ops import Activation, MatMul
from packer.ir.types import DType, TensorType
from targets.base import attributes_of
from targets.cpu.sliced import sliced_matrix
from tests.runtime_c.kernels.harness import Box, Rejected, check_step, isas, pruned, random_array, run_step

CONSTANTS = (1, 2, 3, 4)  # values, places, windows and ends
ISAS = pytest.mark.parametrize("isa", isas())


def operands(x: np.ndarray, matrix: np.ndarray, bias: np.ndarray | None = None) -> list[np.ndarray | None]:
    sliced = sliced_matrix(matrix)
    return [x, sliced.values, sliced.places, sliced.windows, sliced.ends, bias]


def check(op: MatMul, x: np.ndarray, matrix: np.ndarray, bias: np.ndarray | None = None) -> None:
    exact = (None if a is None else a.astype(np.float64) for a in (x, matrix, bias))
    (want,) = op.reference(*exact)
    check_step(
        "linear_sliced", operands(x, matrix, bias), [want], [TensorType(DType.F32, want.shape)], attributes_of(op),
        1e-5, constants=CONSTANTS,
    )  # fmt: skip


@pytest.mark.parametrize("shape", [(16, 1), (40, 33), (300, 7), (4096, 6), (5000, 50), (16, 0)], ids=str)
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
    shape = int(rng.integers(16, 80)), int(rng.integers(1, 40))
    x = random_array(rng, (int(rng.integers(1, 10)), shape[0]), DType.F32)
    check(MatMul(Activation("relu")), x, pruned(rng, shape, float(rng.random())))


def test_every_place_in_every_column() -> None:
    x = 2.0 ** np.arange(16, dtype=np.float32)[None]
    for turn in range(16):
        check(MatMul(), x, np.roll(np.diag(np.arange(1, 17, dtype=np.float32)), turn, 1))


@ISAS
def test_columns_are_cut_between_slices(isa: str) -> None:
    rng = np.random.default_rng(3)
    x, bias = random_array(rng, (2, 500), DType.F32), np.ones(70, np.float32)
    whole, how = operands(x, pruned(rng, (500, 70), 0.5), bias), {"constants": CONSTANTS, "isa": isa}
    (want,) = run_step("linear_sliced", whole, [TensorType(DType.F32, (2, 70))], **how)
    for begin, end in ((0, 16), (16, 48), (32, 70), (64, 70)):
        part = [*whole[:4], whole[4][begin // 16 : -(-end // 16)], bias[begin:end]]
        boxes = [None, None, None, None, Box(whole[4].shape, (begin // 16, 0)), None, Box((2, 70), (0, begin))]
        (got,) = run_step("linear_sliced", part, [TensorType(DType.F32, (2, end - begin))], boxes=boxes, **how)
        assert got.tobytes() == want[:, begin:end].tobytes()


@pytest.mark.parametrize("rows", [1, 3])
@ISAS
def test_threads_give_the_same_bits(isa: str, rows: int) -> None:
    """Where they share columns."""
    rng = np.random.default_rng(4)
    matrix = pruned(rng, (500, 603), 0.3)
    matrix[200:, 100:] = 0
    inputs, y = operands(random_array(rng, (rows, 500), DType.F32), matrix), [TensorType(DType.F32, (rows, 603))]
    (want,) = run_step("linear_sliced", inputs, y, constants=CONSTANTS, isa=isa)
    for workers in (2, 3, 5):
        (got,) = run_step("linear_sliced", inputs, y, constants=CONSTANTS, isa=isa, workers=workers, piece=1)
        assert got.tobytes() == want.tobytes()


def test_windows_and_ends_are_proven() -> None:
    rng = np.random.default_rng(7)
    inputs = operands(random_array(rng, (1, 100), DType.F32), pruned(rng, (100, 40), 0.5))
    steps, y = len(inputs[3]), TensorType(DType.F32, (1, 40))

    def run(slot: int, at: int | tuple[int, int], value: int) -> None:
        wrong = inputs[slot].copy()
        wrong[at] = value
        run_step("linear_sliced", [wrong if i == slot else a for i, a in enumerate(inputs)], [y], constants=CONSTANTS)

    run(3, 0, 84)  # the last one
    for step in (0, steps - 1):
        for window in (85, 65535):
            with pytest.raises(Rejected, match="window of a step"):
                run(3, step, window)
    for at, value in (((0, 0), -1), ((1, 1), steps + 1), ((2, 1), int(inputs[4][2, 0]) - 1), ((1, 0), 2**31 - 1)):
        with pytest.raises(Rejected, match="steps of a slice"):
            run(4, at, value)


def test_operands_are_proven() -> None:
    rng = np.random.default_rng(4)
    x, matrix = random_array(rng, (1, 50), DType.F32), pruned(rng, (50, 40), 0.2)
    good, y = operands(x, matrix, np.ones(40, np.float32)), TensorType(DType.F32, (1, 40))

    def changed(slot: int, value: np.ndarray | None) -> list[np.ndarray | None]:
        return [value if i == slot else operand for i, operand in enumerate(good)]

    run_step("linear_sliced", good, [y], constants=CONSTANTS)
    bad = [
        changed(0, np.ones((1, 15), np.float32)),
        changed(0, np.float32(1)),
        changed(0, x.astype(np.int32)),
        changed(1, good[1][:-1]),
        changed(1, good[1].reshape(-1, 16)),
        changed(1, good[1].astype(np.int32)),
        changed(2, good[2][:-1]),
        changed(2, good[2].reshape(-1, 8)),
        changed(2, good[2].astype(np.int8)),
        changed(3, good[3][:-1]),
        changed(3, good[3][None]),
        changed(3, good[3].astype(np.int16)),
        changed(4, good[4][:-1]),
        changed(4, good[4][:, :1]),
        changed(4, good[4].astype(np.int64)),
        changed(5, good[5][:-1]),
        changed(5, good[5].astype(np.int32)),
        good[:4],
    ]
    for inputs in bad:
        with pytest.raises(Rejected):
            run_step("linear_sliced", inputs, [y], constants=[i for i in CONSTANTS if i < len(inputs)])
    with pytest.raises(Rejected):
        run_step("linear_sliced", good, [TensorType(DType.F32, (1, 41))], constants=CONSTANTS)
    for slot in CONSTANTS:
        with pytest.raises(Rejected):
            run_step("linear_sliced", good, [y], constants=[i for i in CONSTANTS if i != slot])
