"""RNN, GRU and LSTM against the operator's numpy reference."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from packer.ir.ops import Recurrent
from packer.ir.types import DType, TensorType
from targets.base import Layout, attributes_of
from targets.cpu.sliced import joined, sliced_matrix
from tests.runtime_c.kernels.harness import Rejected, check_op, check_step, run_step

GATES = {"rnn": 1, "gru": 3, "lstm": 4}
FUNCTIONS = {"rnn": ("tanh",), "gru": ("sigmoid", "tanh"), "lstm": ("sigmoid", "tanh", "tanh")}


def layer(kind: str, direction: str, hidden: int, **fields: object) -> Recurrent:
    directions = 2 if direction == "bidirectional" else 1
    names = fields.pop("functions", FUNCTIONS[kind]) * directions
    return Recurrent(kind, direction, hidden, names, (0.3,) * len(names), (0.6,) * len(names), **fields)  # type: ignore[arg-type]


def operands(rng: np.random.Generator, op: Recurrent, time: int, batch: int, features: int) -> list[np.ndarray | None]:
    directions, rows = (2 if op.direction == "bidirectional" else 1), GATES[op.kind] * op.hidden
    state = (batch, directions, op.hidden) if op.batch_major else (directions, batch, op.hidden)
    shapes = [(batch, time, features) if op.batch_major else (time, batch, features), (directions, rows, features)]
    shapes += [(directions, rows, op.hidden), (directions, 2 * rows), (), state, state, (directions, 3 * op.hidden)]
    found: list[np.ndarray | None] = [(rng.standard_normal(s) * 0.3).astype(np.float32) for s in shapes]
    found[4] = rng.integers(-1, time + 3, batch).astype(np.int32)
    return found if op.kind == "lstm" else found[:6]


def packed(op: Recurrent, given: list[np.ndarray | None]) -> list[Layout]:
    """The layouts of inputs and outputs, weights in blocks of 16 rows."""
    count = len(given) + (3 if op.kind == "lstm" else 2)
    return [Layout.WEIGHT16 if i in (1, 2) else Layout.PLANAR for i in range(count)]


@pytest.mark.parametrize("kind", ["rnn", "gru", "lstm"])
@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
def test_layers(kind: str, direction: str) -> None:
    rng = np.random.default_rng(1)
    for batch_major, option, (time, batch, features, hidden) in itertools.product(
        (False, True), (False, True), ((5, 3, 4, 7), (1, 1, 1, 1), (37, 2, 35, 20))
    ):
        op = layer(
            kind,
            direction,
            hidden,
            batch_major=batch_major,
            linear_before_reset=option,
            input_forget=option,
            clip=0.7 * option,
        )
        given = operands(rng, op, time, batch, features)
        check_op(op, given, "recurrent", 1e-5, layouts=packed(op, given))
        check_op(op, given[:3], "recurrent", 1e-5, layouts=packed(op, given[:3]))
        check_op(op, [x if i < 3 or i % 2 == option else None for i, x in enumerate(given)], "recurrent", 1e-5)


@pytest.mark.parametrize(("kind", "hidden"), [("rnn", 256), ("gru", 160), ("lstm", 128)])
@pytest.mark.parametrize("direction", ["forward", "reverse"])
def test_workers_share_the_units_of_a_sequence(kind: str, hidden: int, direction: str) -> None:
    rng = np.random.default_rng(4)
    for option in (False, True):
        op = layer(kind, direction, hidden, batch_major=option, linear_before_reset=option, clip=0.7 * option)
        for length in (0, 4, 99):
            given = operands(rng, op, 58 if length == 99 else 3, 1, 20)
            given[1], given[2] = (weights / np.float32(4) for weights in given[1:3] if weights is not None)
            given[4] = np.int32([length])
            for some in (given, [x if i < 3 else None for i, x in enumerate(given)]):
                check_op(op, some, "recurrent", 1e-5, layouts=packed(op, some))
                check_slices(op, some)


def sliced(given: list[np.ndarray | None]) -> list[np.ndarray | None]:
    """Operands with their weights as slices."""
    x, w, r, *others = given
    assert w is not None
    assert r is not None
    found = joined([sliced_matrix(matrix.T) for weights in (w, r) for matrix in weights])
    return [x, found.values, found.places, found.windows, found.ends, *others]


SLICES = (1, 2, 3, 4)


def check_slices(op: Recurrent, given: list[np.ndarray | None]) -> None:
    """The same layer with its weights as slices gives the same."""
    exact = [x.astype(np.float64) if x is not None and x.dtype == np.float32 else x for x in given]
    types = op.infer([None if x is None else TensorType(DType.of(x.dtype), x.shape) for x in given])
    expected = op.reference(*exact)
    check_step("recurrent_sliced", sliced(given), expected, types, attributes_of(op), 1e-5, constants=SLICES)


@pytest.mark.parametrize("kind", ["rnn", "gru", "lstm"])
@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
def test_layers_of_sparse_weights(kind: str, direction: str) -> None:
    rng = np.random.default_rng(1)
    for batch_major, option, (time, batch, features, hidden) in itertools.product(
        (False, True), (False, True), ((5, 3, 16, 17), (1, 1, 20, 16), (37, 2, 35, 20))
    ):
        op = layer(kind, direction, hidden, batch_major=batch_major, linear_before_reset=option, input_forget=option)
        given = operands(rng, op, time, batch, features)
        for weights in given[1:3]:
            assert weights is not None
            weights[rng.random(weights.shape) < 0.8] = 0
        for some in (given, given[:3], [x if i < 3 or i % 2 == option else None for i, x in enumerate(given)]):
            check_slices(op, some)


def test_slices_are_proven() -> None:
    rng = np.random.default_rng(3)
    op = layer("gru", "bidirectional", 20)
    given = sliced(operands(rng, op, 3, 2, 40)[:3])
    outputs = [TensorType(DType.F32, (3, 2, 2, 20)), TensorType(DType.F32, (2, 2, 20))]
    run_step("recurrent_sliced", given, outputs, attributes_of(op), constants=SLICES)
    *_, windows, ends = given
    assert windows is not None
    assert ends is not None
    assert ends.shape == (16, 2)  # of W for two directions, then of R
    for slot, at, value in (
        (3, 0, 25),
        (3, ends[8, 0], 5),
        (3, -1, 5),
        (4, (9, 0), ends[8, 0]),
        (4, (15, 1), len(windows) + 1),
    ):
        wrong = [None if x is None else x.copy() for x in given]
        wrong[slot][at] = value  # type: ignore[index]
        with pytest.raises(Rejected):
            run_step("recurrent_sliced", wrong, outputs, attributes_of(op), constants=SLICES)
    for wrong in (given[:4], [*given[:4], ends[:-1]], [*given, *[None] * 4]):
        with pytest.raises(Rejected):
            run_step(
                "recurrent_sliced", wrong, outputs, attributes_of(op), constants=[i for i in SLICES if i < len(wrong)]
            )


def test_other_functions() -> None:
    rng = np.random.default_rng(2)
    for functions in (
        ("relu", "softsign", "hard_sigmoid"),
        ("leaky_relu", "elu", "thresholded_relu"),
        ("softplus", "relu", "identity"),
    ):
        op = layer("lstm", "bidirectional", 6, functions=functions)
        check_op(op, operands(rng, op, 4, 2, 3), "recurrent", 1e-5)


def test_empty_and_malformed() -> None:
    op = layer("gru", "forward", 4)
    check_op(op, operands(np.random.default_rng(3), op, 0, 2, 3), "recurrent", 1e-5)
    given = operands(np.random.default_rng(3), op, 3, 2, 5)
    outputs = [TensorType(DType.F32, (3, 1, 2, 4)), TensorType(DType.F32, (1, 2, 4))]
    for other in (
        layer("gru", "forward", 5), layer("gru", "bidirectional", 4), layer("lstm", "forward", 4),
        layer("gru", "forward", 4, clip=-1.0),
        layer("gru", "forward", 4, functions=("sigmoid", "tanh,tanh")),
        layer("gru", "forward", 4, functions=("is_nan", "tanh")),
        layer("gru", "forward", 4, functions=("sigmoid", "tanhh")),
    ):  # fmt: skip
        with pytest.raises(Rejected):
            run_step("recurrent", given, outputs, attributes_of(other))
