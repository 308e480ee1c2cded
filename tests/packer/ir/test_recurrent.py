"""RNN, GRU and LSTM against onnxruntime: ONNX's reference knows neither sequence lengths, clip nor two directions."""

import itertools

import numpy as np
import pytest

from packer.ir.ops import Recurrent
from tests.packer.ir.oracle import check, onnx_run

GATES = {"rnn": 1, "gru": 3, "lstm": 4}
FUNCTIONS = {"rnn": ["Tanh"], "gru": ["Sigmoid", "Tanh"], "lstm": ["Sigmoid", "Tanh", "Tanh"]}
CASES = list(itertools.product(GATES, ("forward", "reverse", "bidirectional"), range(6)))


def numbers(rng: np.random.Generator, *shape: int) -> np.ndarray:
    return rng.normal(size=shape).astype(np.float32)


@pytest.mark.parametrize(("kind", "direction", "case"), CASES)
def test_recurrent(kind: str, direction: str, case: int) -> None:
    rng = np.random.default_rng(case)
    time, batch, width, hidden = (int(v) for v in rng.integers(1, 5, 4))
    d, rows, outputs = 1 + (direction == "bidirectional"), GATES[kind] * hidden, 3 if kind == "lstm" else 2
    x = numbers(rng, time, batch, width)
    w, r, b = numbers(rng, d, rows, width), numbers(rng, d, rows, hidden), numbers(rng, d, 2 * rows)
    lengths = rng.integers(1, time + 1, batch).astype(np.int32)
    h, c, p = numbers(rng, d, batch, hidden), numbers(rng, d, batch, hidden), numbers(rng, d, 3 * hidden)
    inputs: list[np.ndarray | None] = [x, w, r, b, lengths, h]
    if kind == "lstm":
        inputs += [c, p]
    if case == 0:
        inputs = [x, w, r]
    if case == 1:
        inputs[3] = inputs[5] = None
    if case == 2:
        inputs[4] = None
    functions, extra = FUNCTIONS[kind] * d, {}
    clip, linear, forget = 0.4 if case == 3 else 0.0, case == 4, False
    if clip:
        extra["clip"] = clip
    if kind == "gru":
        extra["linear_before_reset"] = int(linear)
    if case == 5:
        functions = ["HardSigmoid" if f == "Sigmoid" else "Relu" for f in functions]
        forget = kind == "lstm"
        if forget:
            extra["input_forget"] = 1
    expected = onnx_run(
        kind.upper(), inputs, outputs, "onnxruntime", hidden_size=hidden, direction=direction, activations=functions,
        **extra,
    )  # fmt: skip
    kinds = tuple("hard_sigmoid" if f == "HardSigmoid" else f.lower() for f in functions)
    alphas, betas = (tuple(v if f == "HardSigmoid" else 0.0 for f in functions) for v in (0.2, 0.5))
    op = Recurrent(kind, direction, hidden, kinds, alphas, betas, clip, linear and kind == "gru", forget)
    check(op, inputs, expected, 1e-4, 1e-5)


@pytest.mark.parametrize("kind", GATES)
def test_batch_major(kind: str) -> None:
    rng = np.random.default_rng(9)
    x, w, r = numbers(rng, 3, 4, 2), numbers(rng, 1, GATES[kind] * 5, 2), numbers(rng, 1, GATES[kind] * 5, 5)
    expected = onnx_run(kind.upper(), [x, w, r], 2, hidden_size=5, layout=1)
    kinds = tuple(f.lower() for f in FUNCTIONS[kind])
    zeros = (0.0,) * len(kinds)
    check(Recurrent(kind, "forward", 5, kinds, zeros, zeros, batch_major=True), [x, w, r], expected)


def test_batch_major_states_are_those_of_time_major() -> None:
    rng = np.random.default_rng(10)
    x, w, r = numbers(rng, 3, 2, 4), numbers(rng, 2, 20, 4), numbers(rng, 2, 20, 5)
    h, c, lengths = numbers(rng, 2, 2, 5), numbers(rng, 2, 2, 5), np.int32([3, 1])
    arguments = ("lstm", "bidirectional", 5, ("sigmoid", "tanh", "tanh") * 2, (0.0,) * 6, (0.0,) * 6)
    y, *states = Recurrent(*arguments).reference(x, w, r, None, lengths, h, c)
    swapped = [v.swapaxes(0, 1) for v in (x, h, c)]
    expected = [y.transpose(2, 0, 1, 3), *(s.swapaxes(0, 1) for s in states)]
    check(Recurrent(*arguments, batch_major=True), [swapped[0], w, r, None, lengths, *swapped[1:]], expected)
