"""attention on every instruction set against its reference, and what its proof refuses."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from packer.ir.ops import Attention
from packer.ir.types import DType, TensorType
from targets.base import attributes_of
from tests.runtime_c.kernels.harness import Rejected, check_op, run_step, types_of
from tests.runtime_c.kernels.test_pieces import check_pieces

Shape = tuple[int, ...]


def stored(rng: np.random.Generator, shape: Shape, axes: Shape) -> np.ndarray:
    """Random values that are seen as `shape` in the order `axes`."""
    return np.ascontiguousarray(rng.standard_normal(shape).astype(np.float32).transpose(np.argsort(axes)))


def case(
    rng: np.random.Generator, sizes: Sequence[int], batches: Sequence[Shape], orders: Sequence[Shape], mask: Shape = ()
) -> tuple[Attention, list[np.ndarray]]:
    """The operator for batches of q, k and v, and its operands; without a mask if `mask` is empty."""
    rows, keys, depth, columns = sizes
    matrices = (rows, depth), (keys, depth), (keys, columns)
    operands = [stored(rng, (*b, *m), axes) for b, m, axes in zip(batches, matrices, orders, strict=False)]
    masks = [rng.standard_normal(mask).astype(np.float32)] if mask else []
    return Attention(0.4, *orders), [*operands, *masks]


@pytest.mark.parametrize("keys", [1, 15, 16, 49, 64, 65, 200, 1000])
def test_sizes(keys: int) -> None:
    """Rows that are several bands, and columns that are no whole block."""
    rng = np.random.default_rng(keys)
    for rows, depth, columns in ((1, 8, 16), (14, 32, 32), (49, 1, 5), (83, 20, 36), (2, 0, 3)):
        orders = [(0, 1, 2)] * 4
        op, inputs = case(rng, (rows, keys, depth, columns), [(2,)] * 3, orders)
        check_op(op, inputs, "attention", 2e-6)


def test_many_rows() -> None:
    rng = np.random.default_rng(1)
    for rows, keys in ((600, 300), (30, 70000), (5000, 17)):
        op, inputs = case(rng, (rows, keys, 3, 4), [(1,)] * 3, [(0, 1, 2)] * 4)
        check_op(op, inputs, "attention", 3e-6)


def test_orders() -> None:
    """Any order of dimensions of any operand, masks of every shape, and batches that are broadcast."""
    rng = np.random.default_rng(2)
    batches = (((2, 3),) * 3, ((2, 3), (1, 3), (2, 1)), ((1, 1), (2, 1), (1, 3)), ((0, 2),) * 3)
    masks = ((), (9, 20), (20,), (1,), (2, 1, 9, 1), (1, 3, 1, 20))
    for number in range(60):
        chosen = batches[number % 4]
        mask = masks[number % len(masks)]
        if 0 in chosen[0] and len(mask) == 4:
            continue
        orders = [tuple(rng.permutation(4).tolist()) for _ in range(4)]
        if number % 5 == 0:
            orders = [(0, 2, 1, 3)] * 4
        op, inputs = case(rng, (9, 20, 7, 18), chosen, orders, mask)
        check_op(op, inputs, "attention", 2e-6)


def test_no_batch() -> None:
    rng = np.random.default_rng(3)
    op, inputs = case(rng, (40, 33, 16, 16), [()] * 3, [(0, 1), (1, 0), (0, 1), (1, 0)], (40, 33))
    check_op(op, inputs, "attention", 2e-6)


def test_masked_rows() -> None:
    """Keys that a mask forbids weigh nothing; a row without any key is NaN, as by softmax, or zero."""
    rng = np.random.default_rng(4)
    op, (q, k, v) = case(rng, (20, 24, 8, 8), [(1,)] * 3, [(0, 1, 2)] * 4)
    mask = np.where(np.tri(20, 24, dtype=bool), np.float32(0), np.float32(-np.inf))
    check_op(op, [q, k, v, mask], "attention", 2e-6)
    mask[7] = mask[12] = -np.inf
    check_op(op, [q, k, v, mask], "attention", 2e-6)
    check_op(replace(op, zeroed=True), [q, k, v, mask], "attention", 2e-6)
    q[0, 2, 3] = k[0, 23, 1] = np.nan
    check_op(replace(op, zeroed=True), [q, k, v, mask], "attention", 2e-6)


def test_pieces() -> None:
    rng = np.random.default_rng(5)
    for orders in ([(0, 1, 2, 3)] * 4, [(0, 2, 1, 3)] * 4, [(0, 1, 3, 2), (0, 2, 1, 3), (3, 1, 2, 0), (2, 0, 1, 3)]):
        op, inputs = case(rng, (50, 40, 24, 20), [(2, 3)] * 3, orders, (50, 1))
        check_pieces("attention", op, inputs)


def refused(op: Attention, inputs: Sequence[np.ndarray | None], y: TensorType, message: str) -> None:
    with pytest.raises(Rejected, match=message):
        run_step("attention", inputs, [y], attributes_of(op))


def test_proof() -> None:
    rng = np.random.default_rng(6)
    op, (q, k, v) = case(rng, (9, 20, 7, 18), [(2,)] * 3, [(0, 1, 2)] * 4)
    (y,) = op.infer(types_of([q, k, v]))
    refused(replace(op, k_axes=(0, 1, 1)), [q, k, v], y, "every dimension once")
    refused(replace(op, y_axes=(0, 1)), [q, k, v], y, "y_axes")
    refused(op, [q, k[:, :, :6].copy(), v], y, "shape")
    refused(op, [q, k, v[:, :19].copy()], y, "shape")
    refused(op, [q, k[0], v], y, "rank of an operand")
    refused(op, [q, k, np.concatenate([v, v])], y, "broadcast")
    refused(op, [q, k, v], TensorType(DType.F32, (2, 9, 17)), "shape")
    refused(op, [q, k, v, np.ones((8, 20), np.float32)], y, "shape of the mask")
    refused(op, [q, k, v, np.ones((1, 2, 9, 20), np.float32)], y, "rank of the mask")
    refused(op, [q, k[:, :0].copy(), v[:, :0].copy()], y, "rows of the keys")
    refused(op, [q, k, v.astype(np.int32)], y, "type")
    refused(op, [q[0, 0], k, v], y, "rank")
