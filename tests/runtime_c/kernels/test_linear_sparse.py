"""linear_sparse: against the reference, and what it says of streams that do not hold together."""

from __future__ import annotations

import numpy as np
import pytest

from packer.ir.ops import Activation, MatMul
from packer.ir.rounding import nearest
from packer.ir.types import SINGLE, Block, DType, TensorType
from targets.base import Attribute, attributes_of
from targets.cpu.sparse import matrix_stream
from tests.runtime_c.kernels.harness import Box, Rejected, check_step, isas, random_array, run_step

STREAM = (1, 2, 3, 4)  # the operands that are constants
COLUMNS, INPUTS = Block(4, 1), Block(1, 4)  # what an entry is of: four columns, or four inputs
BLOCKS = pytest.mark.parametrize("block", [SINGLE, COLUMNS, INPUTS], ids=str)


def pruned(rng: np.random.Generator, shape: tuple[int, int], density: float, block: Block = SINGLE) -> np.ndarray:
    """A matrix [inputs, columns] in such blocks, of which some elements are zero nevertheless."""
    present = rng.random((shape[0] // block.channels, shape[1] // block.filters)) < density
    present = present.repeat(block.channels, 0).repeat(block.filters, 1)
    if block.size > 1:
        present &= rng.random(shape) < 0.9
    return np.where(present, random_array(rng, shape, DType.F32), np.float32(0))


def together(block: Block) -> Attribute:
    return Attribute("together", ints=tuple(block) if block.channels > 1 else block[:1])


def operands(
    x: np.ndarray, matrix: np.ndarray, bias: np.ndarray | None = None, block: Block = SINGLE
) -> list[np.ndarray | None]:
    stream = matrix_stream(matrix, block)
    return [x, stream.values, stream.indices, stream.counts, stream.starts, bias]


def check(
    op: MatMul,
    x: np.ndarray,
    matrix: np.ndarray,
    bias: np.ndarray | None = None,
    stored: DType = DType.F32,
    block: Block = SINGLE,
) -> None:
    exact = (None if a is None else a.astype(np.float64) for a in (x, nearest(matrix, stored), bias))
    (want,) = op.reference(*exact)
    check_step(
        "linear_sparse", operands(x, matrix, bias, block), [want], [TensorType(DType.F32, want.shape)],
        (*attributes_of(op), together(block)), 1e-5, constants=STREAM, weights=stored,
    )  # fmt: skip


@pytest.mark.parametrize("shape", [(1, 1), (40, 33), (300, 7), (5000, 50), (9000, 17), (0, 3), (3, 0)])
@pytest.mark.parametrize("density", [0.0, 0.003, 0.1, 1.0])
def test_matrices(shape: tuple[int, int], density: float) -> None:
    rng = np.random.default_rng(shape[0])
    bias = random_array(rng, shape[1:], DType.F32) if density else None
    for rows in ((1,), (5,), (2, 3), (11,), (17,), ()):
        activation = Activation("clip", -300.0, 10.0) if len(rows) == 2 else None
        check(MatMul(activation), random_array(rng, (*rows, shape[0]), DType.F32), pruned(rng, shape, density), bias)
    check(MatMul(Activation("sigmoid")), random_array(rng, (1, shape[0]), DType.F32), pruned(rng, shape, density), bias)


@pytest.mark.parametrize("shape", [(4, 4), (40, 36), (300, 8), (5000, 52), (9000, 20), (0, 4), (4, 0)])
@pytest.mark.parametrize("block", [COLUMNS, INPUTS], ids=str)
def test_blocks(shape: tuple[int, int], block: Block) -> None:
    rng = np.random.default_rng(shape[1])
    for density in (0.0, 0.003, 0.1, 1.0):
        for rows in ((1,), (4,), (2, 3), ()):
            matrix, bias = pruned(rng, shape, density, block), random_array(rng, shape[1:], DType.F32)
            check(
                MatMul(Activation("relu")), random_array(rng, (*rows, shape[0]), DType.F32), matrix, bias, block=block
            )


@pytest.mark.parametrize("seed", range(12))
def test_blocks_of_any_length(seed: int) -> None:
    """Every number of entries that is left behind those of vectors."""
    rng = np.random.default_rng(seed)
    for block in (COLUMNS, INPUTS):
        shape = int(rng.integers(1, 40)) * 4, int(rng.integers(1, 12)) * 4
        x = random_array(rng, (int(rng.integers(1, 10)), shape[0]), DType.F32)
        check(MatMul(), x, pruned(rng, shape, float(rng.random()), block), block=block)


@BLOCKS
@pytest.mark.parametrize("stored", [DType.F16, DType.BF16])
@pytest.mark.parametrize("shape", [(40, 36), (5000, 52), (9000, 20)])
def test_values_of_16_bits(stored: DType, shape: tuple[int, int], block: Block) -> None:
    rng = np.random.default_rng(6)
    for rows in (1, 5, 12):
        for density in (0.003, 0.1, 1.0):
            matrix = pruned(rng, shape, density, block)
            matrix[:3, 0] = 2.0**-24  # the least f16
            x, bias = random_array(rng, (rows, shape[0]), DType.F32), np.ones(shape[1:], np.float32)
            check(MatMul(), x, matrix, bias, stored, block)


@BLOCKS
@pytest.mark.parametrize("stored", [DType.F32, DType.F16, DType.BF16])
@pytest.mark.parametrize("isa", isas())
@pytest.mark.parametrize("rows", [4, 7, 19])
def test_rows_give_the_same_bits_alone_and_together(rows: int, stored: DType, isa: str, block: Block) -> None:
    rng = np.random.default_rng(2)
    how = {"constants": STREAM, "weights": stored, "isa": isa, "attributes": (together(block),)}
    x, matrix = random_array(rng, (rows, 4500), DType.F32), pruned(rng, (4500, 24), 0.1, block)
    (every,) = run_step("linear_sparse", operands(x, matrix, None, block), [TensorType(DType.F32, (rows, 24))], **how)
    for row, want in zip(x, every, strict=True):
        one = operands(row[None], matrix, None, block)
        (alone,) = run_step("linear_sparse", one, [TensorType(DType.F32, (1, 24))], **how)
        assert alone.tobytes() == want.tobytes()


@BLOCKS
def test_rows_that_lie_apart(block: Block) -> None:
    """Three times four rows of larger tensors."""
    rng = np.random.default_rng(5)
    matrix, how = pruned(rng, (300, 24), 0.1, block), {"constants": STREAM, "attributes": (together(block),)}
    x = random_array(rng, (3, 4, 300), DType.F32)
    inside = [Box((3, 6, 300), (0, 1, 0)), None, None, None, None, None, Box((4, 5, 24), (1, 0, 0))]
    types = [TensorType(DType.F32, (3, 4, 24))]
    (got,) = run_step("linear_sparse", operands(x, matrix, None, block), types, boxes=inside, **how)
    for plane, want in zip(x, got, strict=True):
        part = operands(plane, matrix, None, block)
        (alone,) = run_step("linear_sparse", part, [TensorType(DType.F32, (4, 24))], **how)
        assert alone.tobytes() == want.tobytes()


@BLOCKS
def test_columns_are_cut_between_blocks(block: Block) -> None:
    rng = np.random.default_rng(3)
    x, bias = random_array(rng, (2, 5000), DType.F32), np.ones(72, np.float32)
    whole = operands(x, pruned(rng, (5000, 72), 0.2, block), bias, block)
    how = {"constants": STREAM, "attributes": (together(block),)}
    (want,) = run_step("linear_sparse", whole, [TensorType(DType.F32, (2, 72))], **how)
    for begin, end in ((0, 16), (16, 48), (32, 72), (64, 72)):
        first, last = begin // block.filters, end // block.filters
        counts, starts = whole[3][:, first:last], whole[4][:, begin // 16 : -(-end // 16)]
        boxes = [None] * 3 + [Box(whole[3].shape, (0, first)), Box((2, 5), (0, begin // 16))]
        types = [TensorType(DType.F32, (2, end - begin))]
        part = [*whole[:3], counts, starts, bias[begin:end]]
        (got,) = run_step("linear_sparse", part, types, boxes=[*boxes, None, Box((2, 72), (0, begin))], **how)
        assert got.tobytes() == want[:, begin:end].tobytes()


@BLOCKS
@pytest.mark.parametrize("rows", [1, 3])
def test_columns_of_different_numbers_of_weights(rows: int, block: Block) -> None:
    rng = np.random.default_rng(4)
    matrix = pruned(rng, (5000, 600), 0.3, block)
    matrix[200:, 100:] = 0
    check(MatMul(), random_array(rng, (rows, 5000), DType.F32), matrix, block=block)


@BLOCKS
def test_operands_are_proven(block: Block) -> None:
    rng = np.random.default_rng(4)
    x, matrix = random_array(rng, (1, 5000), DType.F32), pruned(rng, (5000, 40), 0.2, block)
    good = operands(x, matrix, np.ones(40, np.float32), block)
    y, how = TensorType(DType.F32, (1, 40)), {"attributes": (together(block),), "constants": STREAM}
    last = good[3].shape[1] - 1

    def changed(slot: int, value: np.ndarray | None) -> list[np.ndarray | None]:
        return [value if i == slot else operand for i, operand in enumerate(good)]

    def moved(slot: int, at: tuple[int, int], by: int) -> list[np.ndarray | None]:
        value = good[slot].copy()
        value[at] += by
        return changed(slot, value)

    run_step("linear_sparse", good, [y], **how)
    bad = [
        changed(0, np.ones((1, 9000), np.float32)),
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
        moved(3, (1, last), 1),
        moved(3, (0, 0), 1),  # one more than the next block begins behind
        moved(4, (0, 1), -1),  # blocks overlap
        moved(4, (0, 2), 1),
        moved(4, (0, 0), -1),
        moved(4, (1, 0), -1),  # tiles overlap
        moved(4, (0, 1), 2**31 - 1 - int(good[4][0, 1])),
        good[:4],
    ]
    for inputs in bad:
        with pytest.raises(Rejected):
            run_step("linear_sparse", inputs, [y], **how | {"constants": [i for i in STREAM if i < len(inputs)]})
    with pytest.raises(Rejected):
        run_step("linear_sparse", good, [TensorType(DType.F32, (1, 41))], **how)
    with pytest.raises(Rejected):
        run_step("linear_sparse", good, [y], **how | {"constants": (1, 2, 3)})
    for ints in {(0,), (1,), (2,), (4,), (8,), (1, 1), (1, 2), (1, 4), (4, 1), (4, 4), (1, 4, 1)} - {
        together(block).ints
    }:
        with pytest.raises(Rejected):
            run_step("linear_sparse", good, [y], **how | {"attributes": (Attribute("together", ints=ints),)})


def test_entries_are_single_unless_told_otherwise() -> None:
    rng = np.random.default_rng(8)
    inputs = operands(random_array(rng, (1, 60), DType.F32), pruned(rng, (60, 20), 0.3))
    how = {"outputs": [TensorType(DType.F32, (1, 20))], "constants": STREAM}
    (want,) = run_step("linear_sparse", inputs, attributes=(together(SINGLE),), **how)
    (got,) = run_step("linear_sparse", inputs, **how)
    assert got.tobytes() == want.tobytes()


@pytest.mark.parametrize("block", [COLUMNS, INPUTS], ids=str)
def test_blocks_must_fill_the_matrix(block: Block) -> None:
    """A matrix of 42 inputs and columns has none."""
    matrix = np.ones((40, 40), np.float32)
    inputs = operands(np.ones((1, 42), np.float32), matrix, None, block)
    for depth, columns in ((42, 40), (40, 42)):
        inputs[0] = np.ones((1, depth), np.float32)
        how = {"attributes": (together(block),), "constants": STREAM}
        y = [TensorType(DType.F32, (1, columns))]
        if (depth if block is INPUTS else columns) % 4 == 0 and columns == 40:
            run_step("linear_sparse", inputs, y, **how)
        else:
            with pytest.raises(Rejected):
                run_step("linear_sparse", inputs, y, **how)


@BLOCKS
@pytest.mark.parametrize("depth", [48, 4100])
def test_every_index_is_proven(block: Block, depth: int) -> None:
    """A column may end with the last place of its tile, and no further on."""
    for tile, size in enumerate([48] if depth == 48 else [4096, 4]):
        matrix = np.zeros((depth, 40), np.float32)
        matrix[tile * 4096 + size - block.channels, 36] = 1
        inputs = operands(np.ones((1, depth), np.float32), matrix, None, block)
        how = {"attributes": (together(block),), "constants": STREAM}
        run_step("linear_sparse", inputs, [TensorType(DType.F32, (1, 40))], **how)
        for at in np.flatnonzero(inputs[2] < 255):
            for worse in (inputs[2][at] + 1, 255):
                indices = inputs[2].copy()
                indices[at] = worse
                further = [*inputs[:2], indices, *inputs[3:]]
                with pytest.raises(Rejected, match="place of the last entry of a column"):
                    run_step("linear_sparse", further, [TensorType(DType.F32, (1, 40))], **how)
